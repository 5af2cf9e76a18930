"""What hangs is noticed by the steady clock and begun anew, and what it does later changes nothing."""

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from factories import HOUR
from logs import captured
from monitor.model.runs import RunStatus
from monitor.service.daemon import daemon as daemon_module
from monitor.service.daemon import scheduler
from monitor.service.daemon.scheduler import STUCK_S, JobPlan
from monitor.service.daemon.watchdog import SILENT_S, Watchdog
from monitor.settings.schedule import Every
from servers.daemon import wait_for
from service.stepped_daemon import SteppedClock, scheduling, watching
from service.test_clock import NOON, world

LONG = timedelta(minutes=20)
"""Longer than the deadline of 10 minutes with all that is granted beside it."""


def test_a_hung_run_is_given_up_and_run_again_with_new_sources_and_its_late_result_is_refused(tmp_path: Path) -> None:
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        hung = watched.daemon._wiring.watched["feed"]
        hung.in_use.acquire()
        watched.let_pass(HOUR)
        wait_for(lambda: watched.daemon._runner.claims, "the hung run's claim")
        assert watched.runs()[NOON + HOUR].status is RunStatus.RUNNING
        watched.let_pass(LONG)
        again = watched.await_run(NOON + HOUR, attempt=3)
        assert watched.daemon._wiring.watched["feed"] is not hung
        assert watched.value('runs_total{comparison="feed",status="abandoned"}') == 1
        assert watched.value('watchdog_restarts_total{part="run"}') == 1
        wait_for(lambda: watched.status_of("/-/healthy") == 200, "the watchdog's next look")
        hung.in_use.release()
        wait_for(lambda: not [each for each in threading.enumerate() if each.name == "job-feed"], "the end of the hung run")
        assert watched.runs()[NOON + HOUR] == again
        watched.let_pass(HOUR - LONG)
        watched.await_run(NOON + 2 * HOUR)


def test_a_hung_run_keeps_no_other_comparison_from_running(tmp_path: Path) -> None:
    config = world(tmp_path, names=("feed", "other"))
    config.write_text(f"concurrent_runs: 1\n{config.read_text()}")
    with watching(config) as watched:
        wait_for(lambda: len(watched.daemon.store.history.runs(comparison=None, limit=9)) == 2, "both first runs")
        wait_for(lambda: not watched.daemon._runner.claims, "their end")
        hung = watched.daemon._wiring.watched["feed"]
        with hung.in_use:
            watched.let_pass(HOUR)
            wait_for(lambda: watched.daemon._runner.claims, "a run")
            watched.let_pass(LONG)
            wait_for(lambda: runs_of(watched.daemon.store, "other") == 2, "the other's run")


def runs_of(store: object, name: str) -> int:
    return sum(run.status is RunStatus.OK for run in store.history.runs(comparison=name, limit=9))  # type: ignore[attr-defined]


def test_a_scheduler_that_begins_nothing_any_more_is_begun_anew(tmp_path: Path) -> None:
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        watched.daemon._scheduler._scheduler.pause()
        watched.let_pass(HOUR)
        wait_for(lambda: watched.daemon._scheduler._asked_s, "that it is asked")
        assert NOON + HOUR not in watched.runs()
        watched.let_pass(timedelta(seconds=STUCK_S + 1))
        watched.await_run(NOON + HOUR)
        assert watched.value('watchdog_restarts_total{part="scheduler"}') == 1


def daily(call: Callable[[], object]) -> JobPlan:
    return JobPlan(call=call, when=Every(timedelta(days=1)), limit=timedelta(seconds=60), is_run=True)


def test_one_of_a_name_is_at_work_at_a_time_until_it_is_abandoned() -> None:
    clock, ended, count = SteppedClock(), threading.Event(), []

    def work() -> None:
        count.append(1)
        ended.wait(20)

    with scheduling(clock) as jobs:
        jobs.follow({"one": daily(work)})
        wait_for(lambda: count, "its begin")
        jobs.run_now("one")
        wait_for(lambda: jobs._repeated, "that it is still at work")
        assert jobs.overdue() == ()
        clock.let_pass(timedelta(seconds=61))
        assert jobs.overdue() == ("one",)
        assert count == [1]
        jobs.abandon("one")
        jobs.begin_repeated()
        wait_for(lambda: len(count) == 2, "the begin of its successor")
        jobs.run_now("one")
        wait_for(lambda: jobs._repeated, "that its successor is at work")
        ended.set()

        def is_begun_again() -> bool:
            jobs.begin_repeated()
            return len(count) == 3

        wait_for(is_begun_again, "one more as it fell due meanwhile")
        wait_for(lambda: not jobs._at_work, "the end of all")


def test_a_job_that_raises_is_logged_and_can_be_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, count = captured(monkeypatch, scheduler), []

    def fail() -> None:
        count.append(1)
        raise ZeroDivisionError

    with scheduling(SteppedClock()) as jobs:
        jobs.follow({"bad": daily(fail)})
        wait_for(lambda: lines.entries, "its end")
        jobs.run_now("bad")
        wait_for(lambda: len(count) == 2, "its second begin")
    assert [(line["event"], line["job"]) for line in lines.entries][:1] == [("job failed", "bad")]


class HeldUp:
    """Jobs whose looks take as long as a test wants, or fail."""

    def __init__(self, look: Callable[[], object]) -> None:
        self.begin_repeated = look

    def wake_up(self) -> None:
        return

    def overdue(self) -> tuple[str, ...]:
        return ()

    def is_stuck(self) -> bool:
        return False


def watchdog(clock: SteppedClock, look: Callable[[], object]) -> Watchdog:
    rest: Any = None
    jobs: Any = HeldUp(look)
    return Watchdog(
        jobs=jobs,
        runs=rest,
        clock=clock,
        publisher=rest,
        database=rest,
        runner=rest,
        renew_sources=rest,
        renew_store=rest,
    )


def test_a_watchdog_that_is_held_up_no_longer_counts_as_looking() -> None:
    clock, held, looks = SteppedClock(), threading.Event(), []

    def look() -> None:
        looks.append(1)
        if len(looks) > 1:
            held.wait(20)

    dog = watchdog(clock, look)
    dog.loop.start()
    wait_for(lambda: len(looks) == 2, "the look that hangs")
    clock.let_pass(timedelta(seconds=SILENT_S))
    assert not dog.is_looking
    held.set()
    wait_for(lambda: dog.is_looking, "the next look")
    dog.loop.stop(20)


def test_a_watchdog_whose_looks_fail_goes_on_and_does_not_count_as_looking() -> None:
    clock, looks = SteppedClock(), []

    def look() -> None:
        looks.append(1)
        raise ZeroDivisionError

    dog = watchdog(clock, look)
    dog.loop.start()
    clock.let_pass(timedelta(seconds=SILENT_S))
    wait_for(lambda: len(looks) >= 2, "the next look")
    assert not dog.is_looking
    dog.loop.stop(20)


def test_a_reload_that_fails_for_a_reason_nobody_thought_of_ends_no_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise TypeError

    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        with monkeypatch.context() as patched:
            patched.setattr(daemon_module, "load_settings", fail)
            assert not watched.daemon.reload()
        assert watched.value("config_last_reload_successful") == 0
        assert watched.daemon.reload()
        watched.let_pass(HOUR)
        watched.await_run(NOON + HOUR)
