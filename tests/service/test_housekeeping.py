"""The daemon's housekeeping: comparisons of which no run succeeds, slots without a run by reason, and what is deleted."""

import threading
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest

import published
from alerts.test_conditions import condition
from export.page import scraped
from factories import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    SLOT,
    HeldClock,
    comparison,
    lost_lists,
    pull,
    rule,
    state,
)
from logs import captured
from monitor.export.publisher import PrometheusPublisher
from monitor.model.errors import DatabaseError, DatabaseErrorKind
from monitor.model.rules import Condition
from monitor.model.runs import RunStatus
from monitor.pipeline.pull import ComparisonSources
from monitor.receivers.message.safe_text import cause_of, commands_of
from monitor.service.daemon import jobs
from monitor.service.daemon.outage import OutageMonitor, look_again, measure_away_s
from monitor.service.daemon.slots import StalenessMonitor, count_skipped
from monitor.service.runner import WatchedComparison
from monitor.service.silence_check import SilenceCheck
from monitor.settings.configuration import RetentionOptions
from monitor.settings.schedule import Every
from pipeline.canned import Canned
from storage.worked import run, silence, transitions
from tables import rows

LOOK = MINUTE
STALE = condition(Condition.STALE, alert="Stale")


class World:
    """One comparison, run every hour and watched every minute."""

    def __init__(self, store):
        self.store = store
        self.clock = HeldClock(seconds=5000.0)
        self.database = OutageMonitor(clock=self.clock, publisher=PrometheusPublisher(version="1"))
        source = Canned(pull({}))
        sources = ComparisonSources(baseline=source, candidate=source, users=source, dimensions=())
        what = comparison(rules=(STALE, rule()), deadline=10 * MINUTE)
        self.watched = WatchedComparison(
            comparison=what, sources=sources, schedule=Every(HOUR), in_use=threading.Lock()
        )
        self.restart()

    def restart(self):
        self.staleness = StalenessMonitor(
            alerts=self.store.alerts,
            clock=self.clock,
            away_s_since=partial(measure_away_s, self.store, self.database),
        )

    def look(self):
        return bool(self.staleness.look([self.watched], self.latest, ("hook",)))

    def watch(self, time):
        """Look for so long; when it was found stale."""
        ends_at = self.clock.at + time
        while self.clock.at < ends_at:
            self.clock.pass_by(LOOK.total_seconds())
            if self.look():
                return self.clock.at
        return None

    def run(self, slot, status=RunStatus.OK, **changes):
        run(self.store, slot, status=status, **changes)
        self.latest = self.store.history.latest(("home-feed",))

    def changes(self):
        return transitions(self.store)


@pytest.fixture
def world(store):
    made = World(store)
    made.run(SLOT)
    made.look()
    return made


def test_a_comparison_is_stale_once_after_three_due_runs_also_over_restarts(world):
    assert world.watch(5 * HOUR) == SLOT + 3 * HOUR + 10 * MINUTE
    assert [(change.alert, change.is_start) for change in world.changes()] == [("Stale", True)]
    assert world.store.outbox.waiting(world.clock.at).keys() == {"hook"}
    world.restart()
    assert world.watch(5 * HOUR) is None
    assert len(world.changes()) == 1


def test_failed_runs_do_not_count_and_an_ok_run_restarts_the_wait(world):
    world.watch(2 * HOUR)
    world.run(SLOT + HOUR)
    world.run(SLOT + 2 * HOUR, RunStatus.FAILED)
    assert world.watch(9 * HOUR) == SLOT + 4 * HOUR + 10 * MINUTE


AWAY = DatabaseError("away", permanent=False, kind=DatabaseErrorKind.UNREACHABLE)


def test_staleness_names_why_the_newest_run_failed_and_that_the_database_was_away(world):
    reasons = (lost_lists("recs:80 answered with an HTML page", 5, 5),)
    world.run(SLOT + HOUR, RunStatus.FAILED, reasons=reasons)
    world.database.failed(AWAY)
    world.watch(HOUR + 16 * SECOND)
    look_again(world.store, world.database)
    world.restart()
    world.watch(5 * HOUR)
    (stale,) = world.changes()
    cause = (
        "rankwatch's database was away for 3,660 s, and candidate recs:80 answered with an "
        "HTML page (5 of 5 users)"
    )
    assert stale.reason == (
        f"no run has succeeded since the run of 2024-01-08 00:00 UTC: {cause}; 3 later runs "
        "failed or did not begin"
    )
    assert cause_of(stale) == stale.headline == stale.reason.partition(";")[0]
    assert commands_of(stale)[::3] == ("rankwatch runs home-feed", "rankwatch show home-feed")


def test_staleness_names_an_outage_whose_end_was_not_noticed_yet(world):
    world.database.failed(AWAY)
    world.watch(5 * HOUR)
    (stale,) = world.changes()
    assert stale.headline.endswith("00:00 UTC: rankwatch's database was away for 11,400 s")


@pytest.mark.parametrize(
    "jump, slept_s",
    # Six hours set or slept; six hours slept, the monotonic clock goes on; a year back.
    [(HOUR * 6, 0.0), (HOUR * 6, 6 * 3600.0), (-HOUR * 24 * 365, 0.0)],
)
def test_a_set_clock_or_a_sleep_makes_nothing_stale_before_the_next_run_was_due(
    world, jump, slept_s
):
    world.watch(HOUR / 2)
    world.clock.at += jump
    world.clock.seconds += slept_s
    assert not world.look()
    assert (
        world.watch(39 * MINUTE) is None
    )  # 00:30 and so on: the next run is due at the hour, and has 10 minutes
    if jump == 6 * HOUR:
        assert world.watch(2 * MINUTE) == SLOT + 7 * HOUR + 10 * MINUTE


def test_the_wait_restarts_after_a_pause(world):
    world.clock.pass_by((10 * HOUR - LOOK).total_seconds())
    assert not world.look()
    assert world.watch(10 * MINUTE) is None
    assert world.watch(2 * MINUTE) is not None


def test_a_comparison_that_never_ran_or_was_added_again_is_stale_after_its_wait(world):
    home_feed = world.watched
    world.watched = replace(home_feed, comparison=replace(home_feed.comparison, name="search"))
    assert world.watch(9 * HOUR) == SLOT + 3 * HOUR + 10 * MINUTE
    world.watched = home_feed
    assert world.watch(9 * HOUR) == SLOT + 4 * HOUR + 10 * MINUTE


def test_the_wait_restarts_with_a_new_schedule(world):
    world.watch(HOUR / 2)
    world.watched = replace(world.watched, schedule=Every(5 * MINUTE))
    assert world.watch(HOUR) == SLOT + 45 * MINUTE


NOW = SLOT + 50 * DAY


def test_deleted_rows_are_counted_by_kind_and_logged(store, monkeypatch):
    logs = captured(monkeypatch, jobs)
    publisher = PrometheusPublisher(version="1")
    for days in (0, 1, 48):  # the last one confirms the clock
        run(store, SLOT + days * DAY)
    jobs.prune_old(store, publisher, NOW, RetentionOptions(scores=49 * DAY))

    shown = scraped(publisher)
    assert shown.value("pruned_rows_total", kind="scores") == 3
    assert shown.value("prune_last_success_timestamp_seconds") == (SLOT + 50 * DAY).timestamp()
    assert (shown.value("database_size_bytes", kind="evidence") or 0) > 0
    assert [line["log_level"] for line in logs.entries] == ["info"]


SKIPPED = """
-   | 0   | missed=3
-   | 130 | missed=1 overlap=2
-   | 241 | overlap=3
179 | 0   | busy=2 missed=1
60  | 0   | busy=3
150 | 130 | busy=1 overlap=2
"""
"""Seconds after which it was due, seconds after which the newest run ended, and what was skipped."""


def test_skipped_slots_are_counted_as_overlap_busy_or_missed():
    slot = SLOT + 4 * MINUTE
    for due_s, ended_s, counts in rows(SKIPPED):
        newest = published.run(finished_at=SLOT + int(ended_s) * SECOND)
        due = slot if due_s == "-" else SLOT + int(due_s) * SECOND
        skipped = count_skipped(Every(MINUTE), newest, slot, due)
        assert " ".join(f"{reason}={count}" for reason, count in sorted(skipped.items())) == counts
        for earlier in (SLOT + MINUTE, SLOT):
            assert count_skipped(Every(MINUTE), newest, earlier, due) == {}


def test_few_runs_compare_silences_with_the_alerts_of_all_comparisons():
    clock, store = HeldClock(), Mock()
    store.alerts.silences.return_value = [
        silence(SLOT, SLOT, f"alert={alert}") for alert in ("SimilarityLow", "x")
    ]
    store.alerts.names.return_value = [state()]
    check = SilenceCheck(store, clock)
    for seconds in (0, 599, 1):
        clock.pass_by(seconds)
        (unmatched,) = check.unmatched(comparison(), [state()], {})
        assert unmatched.name == "alert=x"
    assert store.alerts.names.call_count == 2
