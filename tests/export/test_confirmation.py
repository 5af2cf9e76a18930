"""What was read from a database that is away is not shown for the present."""

from typing import Any

import pytest

import published
from export.page import scraped
from monitor.errors import DatabaseTrouble
from monitor.export import SERIES, Kind, PrometheusPublisher
from monitor.export.publisher import CONFIRMED, SHOWN_UNCONFIRMED_S

ALERT = {"comparison": "home-feed", "alert": "SimilarityLow", "segment": "all", "severity": "critical"}
STAY = {
    "build_info",
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
"""What a process knows by itself, and what happened."""


@pytest.fixture
def publisher(clock: Any) -> PrometheusPublisher:
    publisher = published.fill(PrometheusPublisher(version="1.2.3", clock=clock))
    publisher.database(is_up=True)
    return publisher


def lose(publisher: PrometheusPublisher, trouble: DatabaseTrouble = DatabaseTrouble.UNREACHABLE) -> None:
    publisher.database_failed(trouble)
    publisher.database(is_up=False)


def test_of_two_daemons_the_one_without_a_database_shows_after_a_minute_only_what_stays_true(
    publisher: PrometheusPublisher, clock: Any
) -> None:
    other = published.filled()
    before = scraped(publisher).names()
    lose(publisher)
    clock.seconds = SHOWN_UNCONFIRMED_S
    page = scraped(publisher)

    gone = {name.removeprefix("rankwatch_") for name in before - page.names()}
    gauges = {name for name, one in SERIES.items() if one.kind in (Kind.GAUGE, Kind.INFO)}
    assert gone & STAY == set()
    assert gauges - STAY <= gone
    assert page.value("database_up") == 0
    assert page.value("alert_state", **ALERT) is None
    assert page.value("outbox_oldest_age_seconds", receiver="pager") is None
    assert page.value("run_last_ok_timestamp_seconds", comparison="home-feed") is not None
    assert page.value("runs_total", comparison="home-feed", status="ok") == 1
    assert scraped(other).value("alert_state", **ALERT) == 2


def test_failures_of_less_than_a_minute_leave_no_gap(publisher: PrometheusPublisher, clock: Any) -> None:
    lose(publisher)
    clock.seconds = SHOWN_UNCONFIRMED_S - 1
    assert scraped(publisher).value("alert_state", **ALERT) == 2
    publisher.publish([published.latest()])
    clock.seconds += SHOWN_UNCONFIRMED_S
    lose(publisher)
    clock.seconds += SHOWN_UNCONFIRMED_S - 1
    assert scraped(publisher).value("alert_state", **ALERT) == 2


def test_more_failures_do_not_begin_the_minute_anew(publisher: PrometheusPublisher, clock: Any) -> None:
    for second in range(0, 61, 10):
        clock.seconds = second
        publisher.database_failed(DatabaseTrouble.UNREACHABLE)
    assert scraped(publisher).value("alert_state", **ALERT) is None


def test_a_conflict_among_writers_puts_nothing_in_doubt(publisher: PrometheusPublisher, clock: Any) -> None:
    publisher.database_failed(DatabaseTrouble.CONFLICT)
    clock.seconds = 10 * SHOWN_UNCONFIRMED_S
    assert scraped(publisher).value("alert_state", **ALERT) == 2


def test_what_is_read_again_is_shown_again_and_a_reload_reads_nothing(publisher: PrometheusPublisher, clock: Any) -> None:
    lose(publisher)
    clock.seconds = SHOWN_UNCONFIRMED_S
    publisher.watch(["home-feed"], ["pager"])
    assert scraped(publisher).value("alert_state", **ALERT) is None
    publisher.publish([published.latest()])
    assert scraped(publisher).value("alert_state", **ALERT) == 2


def test_every_gauge_is_confirmed_but_those_that_stay() -> None:
    gauges = {one.name for one in SERIES.values() if one.kind in (Kind.GAUGE, Kind.GAUGE_HISTOGRAM)}
    assert gauges - CONFIRMED == {f"rankwatch_{name}" for name in STAY} - {"rankwatch_build_info"}
