"""Counters and histograms of the daemon itself, and the series and the file that a process leaves behind when it ends."""

import json
import os

import published
from export.page import scraped
from factories import DAY, HOUR, MINUTE
from monitor.export import exposition
from monitor.export.publisher import PrometheusPublisher
from monitor.export.series import SERIES, SeriesKind
from monitor.model.errors import DatabaseErrorKind, DeliveryError, DeliveryErrorKind
from monitor.model.retention import DataKind
from monitor.model.runs import RunStatus
from tables import cells


def test_a_clock_set_back_during_a_run_is_observed_as_no_time(publisher):
    ended_before = published.SLOT - HOUR
    publisher.run_finished(published.result(finished_at=ended_before, stage_seconds={"pull": -1.0}))
    assert not scraped(publisher).lacks("""
        run_duration_seconds_sum{comparison="home-feed"} 0
        stage_duration_seconds_sum{comparison="home-feed",stage="pull"} 0
    """)


def test_who_leads_is_asked_at_each_scrape(publisher):
    assert scraped(publisher).value("leader") is None
    epochs = [None, 7]
    publisher.show("leader", lambda: bool(epochs[0]))
    publisher.show("lease_epoch", lambda: epochs.pop(0))
    for standing in ((0, None), (1, 7)):
        page = scraped(publisher)
        assert (page.value("leader"), page.value("lease_epoch")) == standing


def test_the_outbox_shows_what_waits_also_for_a_receiver_that_went(publisher):
    publisher.register([], ["pager"])
    publisher.show_deliveries({"chat": (2, 90.5)}, {"chat": (1, 0.0)}, {"chat": 3})
    assert not scraped(publisher).lacks("""
        outbox_pending{receiver="chat"} 2
        outbox_held{receiver="chat"} 1
        outbox_given_up{receiver="chat"} 3
        outbox_oldest_age_seconds{receiver="chat"} 90.5
        outbox_pending{receiver="pager"} 0
    """)


def test_troubles_jumps_restarts_deliveries_and_pings_are_counted_by_kind(publisher):
    publisher.register([], ["pager"], pings=["ping"])
    publisher.database_failed(DatabaseErrorKind.DISK)
    publisher.count("clock_jumps_total")
    publisher.count("watchdog_restarts_total", "run")
    for receiver, ping in (("pager", "ping"), ("gone", "gone")):
        publisher.count("delivery_errors_total", receiver, DeliveryErrorKind.RATE_LIMITED)
        publisher.count("pings_total", ping, "sent")
    assert "gone" not in scraped(publisher).text
    assert not scraped(publisher).lacks("""
        database_errors_total{reason="disk"} 1
        database_errors_total{reason="locked"} 0
        clock_jumps_total 1
        watchdog_restarts_total{part="run"} 1
        delivery_errors_total{receiver="pager",reason="rate_limited"} 1
        pings_total{ping="ping",outcome="sent"} 1
    """)


KINDS = """
refused       {"permanent": true}
refused       {"permanent": true, "may_be_known": true}
rate_limited  {"permanent": false, "retry_after_s": 0.0}
no_answer     {"permanent": false, "may_be_known": true}
unreachable   {"permanent": false}
"""


def test_every_delivery_error_is_of_one_kind():
    for kind, fields in cells(KINDS):
        assert DeliveryError("no", **json.loads(fields)).kind == kind


def test_since_when_there_is_a_comparison_outlives_reloads_and_ends_with_it(clock):
    publisher = PrometheusPublisher(version="1", clock=clock)

    def since():
        return scraped(publisher).value(
            "comparison_since_timestamp_seconds", comparison="home-feed"
        )

    publisher.register(["home-feed"], [])
    clock.pass_by(3600)
    publisher.register(["home-feed", "search"], [])
    assert since() == published.SLOT.timestamp()
    publisher.register(["search"], [])
    assert since() is None
    publisher.register(["home-feed"], [])
    assert since() == clock.now().timestamp()
    publisher.publish([published.latest()])
    assert since() == (published.SLOT - DAY).timestamp()


def test_a_daemon_that_leads_no_longer_shows_no_sizes_from_then(publisher):
    publisher.show_database_sizes({DataKind.SCORES: 4096})
    for leads, shown in ((1, 4096), (0, None)):
        publisher.show("leader", leads)
        assert scraped(publisher).value("database_size_bytes", kind="scores") == shown


def test_watching_again_keeps_what_stays_drops_what_is_gone_and_nothing_of_it_comes_back(publisher):
    names, result = ["home-feed", "search"], published.result(coverage=published.coverage())
    hours = dict.fromkeys(names, HOUR)
    publisher.register(names, ["pager", "chat"], intervals=hours, pings=["ping", "other"])
    publisher.run_finished(result)
    publisher.count("notifications_total", "pager", "sent")

    quarter = {"home-feed": 15 * MINUTE}
    publisher.register(["home-feed"], ["pager"], intervals=quarter, pings=["other"])
    page = scraped(publisher)
    assert not page.lacks("""
        runs_total{comparison="home-feed",status="ok"} 1
        notifications_total{receiver="pager",outcome="sent"} 1
        schedule_interval_seconds{comparison="home-feed"} 900
    """)
    for gone in ('comparison="search"', 'receiver="chat"', 'ping="ping"'):
        assert gone not in page.text

    publisher.register(["search"], ["chat"])
    publisher.run_finished(result)
    publisher.count("slots_skipped_total", "home-feed", "overlap")
    publisher.count("notifications_total", "pager", "sent")
    for gone in ("home-feed", "pager"):
        assert gone not in scraped(publisher).text


def test_a_reload_that_failed_keeps_the_time_of_the_last_good_one_if_there_was_one(publisher):
    for at, shown in ((None, None), (published.SLOT, published.SLOT.timestamp())):
        if at is not None:
            publisher.reloaded(ok=True, at=at)
        publisher.reloaded(ok=False, at=published.SLOT + HOUR)
        assert scraped(publisher).value("config_last_reload_successful") == 0
        assert scraped(publisher).value("config_last_reload_success_timestamp_seconds") == shown


def test_failed_runs_skipped_slots_and_missing_lists_add_up_and_no_pull_is_observed(publisher):
    publisher.register(["home-feed"], [])
    failed = published.result(
        coverage=published.coverage(), status=RunStatus.FAILED, pull_seconds={}
    )
    for count in (3, 1):
        publisher.run_finished(failed)
        publisher.count("slots_skipped_total", "home-feed", "missed", value=count)

    assert not scraped(publisher).lacks("""
        runs_total{comparison="home-feed",status="ok"} 0
        runs_total{comparison="home-feed",status="insufficient"} 0
        runs_total{comparison="home-feed",status="failed"} 2
        runs_total{comparison="home-feed",status="abandoned"} 0
        slots_skipped_total{comparison="home-feed",reason="missed"} 4
        source_errors_total{comparison="home-feed",arm="candidate",reason="missing"} 20
        source_errors_total{comparison="home-feed",arm="baseline",reason="short"} 6
        pull_duration_seconds_count{comparison="home-feed",arm="baseline"} 0
    """)


def test_what_is_left_is_every_gauge_that_a_daemon_alone_does_not_have_of_one_comparison_or_of_none():
    families = published.filled().final()

    def names_of(comparison):
        return {each.name for each in exposition.families_of_comparison(families, comparison)}

    outbox = {
        f"rankwatch_outbox_{part}" for part in ("pending", "held", "given_up", "oldest_age_seconds")
    }
    gauges = {
        series.name
        for name, series in SERIES.items()
        if series.kind not in (SeriesKind.COUNTER, SeriesKind.HISTOGRAM)
        and name not in exposition.DAEMON_GAUGES
    }
    assert names_of("home-feed") == gauges - {"rankwatch_build_info"} - outbox
    assert names_of(None) == {"rankwatch_build"} | outbox
    assert not names_of("other")


def test_a_distribution_is_whole_for_those_who_take_it_for_a_histogram():
    left = exposition.write_families(published.filled().final()).decode()
    labels = '{comparison="home-feed",metric="rbo(p=0.9)"}'
    for part, value in (("sum", 117.5), ("gsum", 117.5), ("count", 188.0), ("gcount", 188.0)):
        assert f"rankwatch_similarity_distribution_{part}{labels} {value}\n" in left


def test_writing_what_is_left_changes_nothing_on_the_page():
    before = published.filled().final()
    shown = [list(family.samples) for family in before]

    exposition.write_families(exposition.families_of_comparison(before, "home-feed"))

    assert [list(family.samples) for family in before] == shown


def test_a_textfile_may_be_read_by_everybody(tmp_path):
    path = tmp_path / "rankwatch.prom"
    before = os.umask(0o077)
    try:
        for page in (b"old 1\n", b"new 2\n"):
            exposition.write_textfile(path, page)
    finally:
        os.umask(before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new 2\n", 0o644)
