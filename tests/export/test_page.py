"""The page as a whole: the table, the formats, the linter, and that nothing old is shown for the present."""

import platform
import re
import subprocess
import threading

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import published
from export.page import ALERT, scraped
from monitor.export.exposition import write_families
from monitor.export.publisher import SHOWN_UNCONFIRMED_S, PrometheusPublisher
from monitor.export.series import SERIES, SeriesKind
from monitor.model.errors import DatabaseErrorKind
from servers import require

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@pytest.mark.integration
def test_promtool_finds_nothing_to_say_about_a_filled_page_and_what_is_left_of_it():
    filled = published.filled()
    for page in (filled.render()[0], write_families(filled.final())):
        checked = subprocess.run(
            [require("promtool"), "check", "metrics"], input=page, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_the_build_is_named_with_its_revision_and_its_python(monkeypatch):
    monkeypatch.setenv("RANKWATCH_REVISION", "4f2a9c1")
    publisher = PrometheusPublisher(version="1.2.3")
    labels = {
        "version": "1.2.3",
        "revision": "4f2a9c1",
        "python_version": platform.python_version(),
    }
    assert scraped(publisher).value("build_info", **labels) == 1


OPEN_METRICS = (PROMETHEUS_2, "application/openmetrics-text")


def test_whatever_is_accepted_gets_a_page_that_parses_openmetrics_where_it_can_be():
    for accept in [*OPEN_METRICS, "application/openmetrics-text;version=1.x", "*/*", ";;,,="]:
        body, headers = published.filled().render(accept)
        is_open_metrics = accept in OPEN_METRICS
        parse = parse_openmetrics if is_open_metrics else parse_text

        families = {family.name: family for family in parse(body.decode())}

        assert (
            headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            is is_open_metrics
        )
        assert (
            families["rankwatch_runs"].type,
            families["rankwatch_run_duration_seconds"].type,
        ) == ("counter", "histogram")
        if is_open_metrics:
            assert families["rankwatch_run_duration_seconds"].unit == "seconds"
            assert families["rankwatch_similarity_share_below_ratio"].unit == "ratio"


def test_a_scrape_during_publications_never_sees_two_mixed(publisher):
    publications = [
        [published.named("a"), published.named("b")],
        [published.named("c"), published.named("d")],
    ]
    publisher.publish(publications[0])
    stop = threading.Event()

    def keep_publishing():
        while not stop.is_set():
            for one in publications:
                publisher.publish(one)

    writer = threading.Thread(target=keep_publishing)
    writer.start()
    try:
        for _ in range(10):
            seen = {
                labels["comparison"] for labels in scraped(publisher).labelled("similarity_mean")
            }
            assert seen in ({"a", "b"}, {"c", "d"})
    finally:
        stop.set()
        writer.join()


def test_a_part_of_the_page_that_fails_is_counted_and_takes_no_other_with_it(publisher):
    def fail():
        raise ZeroDivisionError

    publisher.publish([published.latest()])
    assert scraped(publisher).value("collector_errors_total", collector="daemon") == 0

    publisher.show("leader", fail)
    pages = [scraped(publisher) for _ in range(2)]

    assert [page.value("collector_errors_total", collector="daemon") for page in pages] == [1, 2]
    assert "rankwatch_similarity_mean" in pages[-1].names()
    assert pages[-1].value("leader") is None
    assert "\nprocess_resident_memory_bytes " in pages[-1].text

    publisher.show("leader", 1)
    assert scraped(publisher).value("leader") == 1


def test_a_filled_page_shows_each_series_of_the_table_with_its_labels_and_no_others():
    text = published.filled().render()[0].decode()
    by_name = {series.name: set(series.labels) for series in SERIES.values()}
    shown = set()
    for family in parse_text(text):
        for sample in family.samples:
            if sample.name.startswith("rankwatch_"):
                stem = re.sub(r"_(bucket|g?sum|g?count)$", "", sample.name)
                stem = stem if stem in by_name else sample.name
                assert set(sample.labels) - {"le"} == by_name[stem], sample.name
                shown.add(stem)

    assert shown == by_name.keys()
    assert "\nprocess_resident_memory_bytes " in text
    assert "\npython_info{" in text


STAY = {
    "arm_gap_seconds",
    "build_info",
    "certificate_expiry_timestamp_seconds",
    "comparison_since_timestamp_seconds",
    "config_last_reload_success_timestamp_seconds",
    "config_last_reload_successful",
    "database_up",
    "leader",
    "lease_epoch",
    "prune_last_success_timestamp_seconds",
    "run_last_finished_timestamp_seconds",
    "run_last_ok_timestamp_seconds",
    "run_last_slot_timestamp_seconds",
    "runs_waiting",
    "schedule_interval_seconds",
    "stale_after_seconds",
}
"""What a process knows without a database, and what has happened."""


@pytest.fixture
def publisher(clock):
    return published.fill(PrometheusPublisher(version="1.2.3", clock=clock))


def lose(publisher):
    publisher.database_failed(DatabaseErrorKind.UNREACHABLE)
    publisher.show("database_up", 0)


def is_state_shown(publisher):
    return scraped(publisher).value("alert_state", **ALERT) == 2


def test_a_daemon_without_a_database_shows_after_a_minute_only_what_stays_true(publisher, clock):
    before = scraped(publisher).names()
    lose(publisher)
    clock.seconds = SHOWN_UNCONFIRMED_S
    page = scraped(publisher)

    gone = {
        re.sub("^rankwatch_|_(bucket|gsum|gcount)$", "", name) for name in before - page.names()
    }
    gauges = {
        name
        for name, one in SERIES.items()
        if one.kind in (SeriesKind.GAUGE, SeriesKind.GAUGE_HISTOGRAM, SeriesKind.INFO)
    }
    assert gone & STAY == set()
    assert gauges - STAY <= gone
    assert page.value("database_up") == 0
    assert page.value("run_last_ok_timestamp_seconds", comparison="home-feed") is not None
    assert page.value("runs_total", comparison="home-feed", status="ok") == 1


def test_failures_of_less_than_a_minute_leave_no_gap(publisher, clock):
    lose(publisher)
    clock.seconds = SHOWN_UNCONFIRMED_S - 1
    assert is_state_shown(publisher)
    publisher.publish([published.latest()])
    clock.seconds += SHOWN_UNCONFIRMED_S
    lose(publisher)
    clock.seconds += SHOWN_UNCONFIRMED_S - 1
    assert is_state_shown(publisher)


def test_more_failures_do_not_restart_the_minute_and_a_conflict_among_writers_hides_nothing(
    publisher, clock
):
    publisher.database_failed(DatabaseErrorKind.CONFLICT)
    clock.seconds = SHOWN_UNCONFIRMED_S
    assert is_state_shown(publisher)
    for _ in range(7):
        publisher.database_failed(DatabaseErrorKind.UNREACHABLE)
        clock.seconds += 10
    assert not is_state_shown(publisher)


def test_what_is_read_again_is_shown_again_and_a_reload_reads_nothing(publisher, clock):
    lose(publisher)
    clock.seconds = SHOWN_UNCONFIRMED_S
    publisher.register(["home-feed"], ["pager"])
    assert not is_state_shown(publisher)
    publisher.publish([published.latest()])
    assert is_state_shown(publisher)
