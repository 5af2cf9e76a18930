"""Clocks that are set and machines that sleep, through the real daemon.

The schedule's days of changing clocks.
"""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from factories import HOUR, MINUTE, SECOND, utc
from monitor.model.alerts import State
from monitor.service.clock import JumpFinder
from monitor.service.daemon.scheduler import JobPlan, SlotTrigger
from monitor.settings.schedule import Every
from servers.daemon import wait_for
from service.lists_world import APART, SIMILAR, write_lists, write_world
from service.stepped_daemon import SteppedClock, scheduling, watching
from storage.worked import transitions

pytestmark = pytest.mark.usefixtures("url")
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def world(folder, more=""):
    """A comparison that runs every hour. ``more`` is another line of its settings."""
    url = f"sqlite:///{folder}/rankwatch.db"
    return write_world(folder, url, every=f"1h\n    {more}", streak=1)


def states(watched):
    return [
        (each.state, each.dedup_key)
        for each in watched.daemon.store.alerts.states("feed")
        if each.alert == "SimilarityLow"
    ]


DELETED_AT = "prune_last_success_timestamp_seconds"


@pytest.mark.integration
def test_outside_of_its_hours_a_comparison_is_not_due_and_not_missed_and_not_stale(tmp_path):
    with watching(world(tmp_path, "only_between: 13:00-15:00")) as watched:
        assert next_slot(watched) == NOON + HOUR  # at noon, as it starts, it begins none
        assert watched.value(DELETED_AT) is None
        watched.let_pass(6 * MINUTE)
        wait_for(
            lambda: watched.value(DELETED_AT),
            "old rows deleted, although the daemon has not run for long",
        )
        watched.let_pass(54 * MINUTE)
        watched.await_run(NOON + HOUR)
        watched.let_pass(HOUR)
        watched.await_run(NOON + 2 * HOUR)
        watched.let_pass(HOUR)
        assert next_slot(watched) == NOON + 25 * HOUR
        watched.let_pass(22 * HOUR)
        watched.await_run(NOON + 25 * HOUR)
        assert set(watched.runs()) == {NOON + HOUR, NOON + 2 * HOUR, NOON + 25 * HOUR}
        assert watched.value('slots_skipped_total{comparison="feed",reason="missed"}') == 0
        assert not transitions(watched.daemon.store)


def next_slot(watched):
    def look():
        (run,) = watched.daemon._schedule()
        return (
            run.next_at
            if run.next_at and run.next_at > watched.clock.now() and run.running_s is None
            else None
        )

    return wait_for(look, "a slot that is to come")


def test_after_a_clock_was_set_back_the_slot_runs_at_once_and_alerts_can_end(tmp_path):
    write_lists(tmp_path / "candidate.jsonl", APART)
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        before = states(watched)
        write_lists(tmp_path / "candidate.jsonl", SIMILAR)
        watched.clock.set(-HOUR)
        watched.await_run(NOON - HOUR)
        wait_for(lambda: states(watched) == [(State.QUIET, None)], "the end of the alert")
        started, ended = transitions(watched.daemon.store)
        assert started.is_start
        assert ended.is_end
        assert len(before) == 1
        assert watched.value("clock_jumps_total") == 1


# ------ when jobs are due


def test_a_leap_second_is_no_jump_of_the_clock():
    finder = JumpFinder()
    times = ("2016-12-31 23:59:59", "2017-01-01", "2016-12-31 23:59:59.500", "2017-01-01")
    assert not any(finder.look(utc(time), float(steady)) for steady, time in enumerate(times))


@given(st.integers(1, 10**9), st.integers(1, 7200))
def test_only_the_newest_missed_slot_is_due_and_then_the_next_slot(late_s, period):
    schedule = Every(period * SECOND)
    now = NOON + late_s * SECOND
    trigger = SlotTrigger(schedule)
    newest = trigger.get_next_fire_time(schedule.latest(NOON), now)
    assert newest in {schedule.latest(now), schedule.next(now)}
    assert trigger.get_next_fire_time(schedule.latest(now), now) == schedule.next(now)


def test_a_reload_does_not_delay_housekeeping_and_housekeeping_follows_a_set_clock():
    clock = SteppedClock()
    done = list[int]()
    plan = JobPlan(call=lambda: done.append(1), when=Every(HOUR), limit=HOUR, first=5 * MINUTE)
    with scheduling(clock) as jobs:
        jobs.follow({"-prune": plan})
        due = jobs.next_at("-prune")
        clock.let_pass(4 * MINUTE)
        jobs.follow({"-prune": plan})
        assert jobs.next_at("-prune") == due
        clock.let_pass(timedelta(minutes=1, seconds=1))
        wait_for(lambda: done == [1], "its work")
        wait_for(lambda: jobs.next_at("-prune") == NOON + HOUR, "its next time")
        clock.set(-200 * HOUR)
        wait_for(
            lambda: (jobs.next_at("-prune") or NOON) < NOON - 199 * HOUR, "its time by the clock"
        )
