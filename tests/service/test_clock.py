"""Clocks that are set and machines that sleep, through the real daemon.

The schedule's days of changing clocks.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import HOUR
from monitor.model.alerts import State
from monitor.service.clock import JumpFinder
from monitor.service.daemon.scheduler import JobPlan, JobScheduler, SlotTrigger, time_after_jump
from monitor.settings.schedule import Every, Schedule
from servers.daemon import wait_for
from service.lists_world import APART, SIMILAR, write_lists, write_world
from service.stepped_daemon import SteppedClock, Watched, scheduling, watching

pytestmark = pytest.mark.usefixtures("url")
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def world(folder: Path) -> Path:
    config = write_world(folder, f"sqlite:///{folder}/rankwatch.db", every="1h")
    config.write_text(config.read_text().replace("for: 2", "for: 1"))
    return config


def states(watched: Watched) -> list[tuple[State, str | None]]:
    return [
        (each.state, each.dedup_key)
        for each in watched.daemon.store.alerts.states("feed")
        if each.alert == "SimilarityLow"
    ]


DELETED_AT = "prune_last_success_timestamp_seconds"


@pytest.mark.integration
def test_outside_of_its_hours_a_comparison_is_not_due_and_what_was_not_due_is_neither_missed_nor_stale(
    tmp_path,
):
    config = world(tmp_path)
    config.write_text(
        config.read_text().replace("every: 1h", "every: 1h\n    only_between: 13:00-15:00")
    )
    with watching(config) as watched:
        assert next_slot(watched) == NOON + HOUR  # at noon, as it starts, it begins none
        assert watched.value(DELETED_AT) is None
        watched.let_pass(timedelta(minutes=6))
        wait_for(
            lambda: watched.value(DELETED_AT),
            "old rows deleted, although the daemon has not run for long",
        )
        watched.let_pass(timedelta(minutes=54))
        watched.await_run(NOON + HOUR)
        watched.let_pass(HOUR)
        watched.await_run(NOON + 2 * HOUR)
        watched.let_pass(HOUR)
        assert next_slot(watched) == NOON + 25 * HOUR
        watched.let_pass(22 * HOUR)
        watched.await_run(NOON + 25 * HOUR)
        assert set(watched.runs()) == {NOON + HOUR, NOON + 2 * HOUR, NOON + 25 * HOUR}
        assert watched.value('slots_skipped_total{comparison="feed",reason="missed"}') == 0
        assert watched.daemon.store.alerts.transitions(comparison=None, limit=None) == ()


def next_slot(watched: Watched) -> datetime | None:
    def look() -> datetime | None:
        (run,) = watched.daemon._scheduler.runs()
        return (
            run.next_at
            if run.next_at and run.next_at > watched.clock.now() and run.running_s is None
            else None
        )

    return wait_for(look, "a slot that is to come")


def test_a_clock_set_back_by_an_hour_runs_at_once_and_what_was_judged_ahead_of_time_is_judged_again(
    tmp_path,
):
    write_lists(tmp_path / "candidate.jsonl", APART)
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        before = states(watched)
        watched.clock.set(-HOUR)
        watched.await_run(NOON - HOUR)
        assert states(watched) == before
        write_lists(tmp_path / "candidate.jsonl", SIMILAR)
        watched.let_pass(HOUR)
        wait_for(lambda: states(watched) == [(State.QUIET, None)], "the end of the alert")
        assert watched.runs()[NOON].attempt == 2
        started, ended = watched.daemon.store.alerts.transitions(comparison=None, limit=None)
        assert (started.is_start, ended.is_end) == (True, True)
        assert watched.value("clock_jumps_total") == 1


# ------ when jobs are due


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Planned:
    """One comparison's trigger as APScheduler and the watchdog use it: fires when due, is planned anew after a jump."""

    def __init__(self, schedule: Schedule, now: datetime) -> None:
        self.trigger = SlotTrigger(schedule)
        self.next = self.trigger.get_next_fire_time(None, now)

    def look(self, now: datetime, *, jumped: bool) -> bool:
        if jumped:
            self.next = time_after_jump(self.trigger.schedule, self.next, now)
        is_due = fired = self.next <= now
        while is_due:
            self.next = self.trigger.get_next_fire_time(self.next, now)
            is_due = self.next <= now
        return fired


def test_a_leap_second_is_no_jump_and_gives_no_second_run():
    minutely, finder = Every(timedelta(minutes=1)), JumpFinder()
    moments = [
        utc("2016-12-31 23:59:59"),
        utc("2017-01-01 00:00:00"),
        utc("2016-12-31 23:59:59.500"),
        utc("2017-01-01"),
    ]
    assert not any(finder.look(now, float(steady)) for steady, now in enumerate(moments))
    planned = Planned(minutely, moments[0])
    begun = [minutely.latest(now) for now in moments if planned.look(now, jumped=False)]
    assert begun == [utc("2016-12-31 23:59"), utc("2017-01-01")]


@given(st.lists(st.integers(-7 * 3600, 7 * 3600), min_size=1, max_size=30), st.integers(1, 7200))
def test_however_the_clock_is_set_the_newest_slot_is_begun_at_the_next_look_and_never_twice_in_a_row(
    steps, period
):
    schedule, now = Every(timedelta(seconds=period)), NOON
    planned, last = Planned(schedule, now), schedule.latest(now)
    assert planned.look(now, jumped=False)
    for step in steps:
        now += timedelta(seconds=step)
        slot = schedule.latest(now)
        assert planned.look(now, jumped=True) is (slot != last)
        last = slot


def test_housekeeping_goes_by_the_steady_clock_alone_comes_soon_after_a_start_and_is_put_off_by_no_reload():
    clock, done = SteppedClock(), list[int]()
    with scheduling(clock) as jobs:
        plan = JobPlan(
            call=lambda: done.append(1), when=HOUR, limit=HOUR, first=timedelta(minutes=5)
        )
        jobs.follow({"-prune": plan})
        clock.let_pass(timedelta(minutes=4))
        idle(jobs)
        assert done == []
        jobs.follow(jobs._plans)
        clock.let_pass(timedelta(minutes=1, seconds=1))
        jobs.wake_up()
        wait_for(lambda: done == [1], "its work")
        clock.set(-200 * HOUR)
        jobs.follow_clock()
        jobs.follow(jobs._plans)
        clock.let_pass(timedelta(minutes=59))
        idle(jobs)
        assert done == [1]
        clock.let_pass(timedelta(minutes=1, seconds=1))
        jobs.wake_up()
        wait_for(lambda: done == [1, 1], "its work again")
        clock.set(100 * HOUR)
        idle(jobs)
        assert done == [1, 1]


def idle(jobs: JobScheduler) -> None:
    """Let APScheduler look, and wait until what it found due has ended."""
    seen = Event()
    jobs.follow(
        {
            **jobs._plans,
            "-seen": JobPlan(call=seen.set, when=timedelta(days=9), limit=HOUR, first=timedelta(0)),
        }
    )

    def has_looked() -> bool:
        # As the daemon does: APScheduler counts the one before for a moment after its end
        jobs.begin_repeated()
        return seen.is_set()

    wait_for(has_looked, "its look")
    wait_for(lambda: not jobs._at_work, "the end of all jobs")
    jobs.follow({name: plan for name, plan in jobs._plans.items() if name != "-seen"})
