"""What hangs is noticed by the steady clock and begun anew, and what it does later changes nothing."""

import queue
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.cli.serve import _obey
from monitor.model import RunStatus
from monitor.service.daemon import daemon as daemon_module
from monitor.service.daemon.scheduler import SILENT_S, STUCK_S, Heart, Jobs
from servers.daemon import wait_for
from service.stepped_daemon import SteppedClock, watching
from service.test_clock import HOUR, NOON, world

LONG = timedelta(minutes=20)
"""Longer than the deadline of 10 minutes with all that is granted beside it."""


def test_a_hung_run_is_given_up_and_run_again_with_new_sources_and_its_late_result_is_refused(tmp_path: Path) -> None:
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        hung = watched.daemon._wiring.watched["feed"]
        hung.in_use.acquire()
        watched.clock.let_pass(HOUR)
        wait_for(lambda: watched.daemon._runner.claims, "the hung run's claim")
        assert watched.runs()[NOON + HOUR].status is RunStatus.RUNNING
        watched.clock.let_pass(LONG)
        again = watched.await_run(NOON + HOUR, attempt=3)
        assert watched.daemon._wiring.watched["feed"] is not hung
        assert watched.value('runs_total{comparison="feed",status="abandoned"}') == 1
        assert watched.value('watchdog_restarts_total{part="run"}') == 1
        assert watched.status_of("/-/healthy") == 200
        hung.in_use.release()
        wait_for(lambda: not [each for each in threading.enumerate() if each.name == "job-feed"], "the end of the hung run")
        assert watched.runs()[NOON + HOUR] == again
        watched.clock.let_pass(HOUR - LONG)
        watched.await_run(NOON + 2 * HOUR)


def test_a_hung_run_keeps_no_other_comparison_from_running(tmp_path: Path) -> None:
    config = world(tmp_path, names=("feed", "other"))
    config.write_text(f"concurrent_runs: 1\n{config.read_text()}")
    with watching(config) as watched:
        wait_for(lambda: len(watched.daemon.store.history.runs(comparison=None, limit=9)) == 2, "both first runs")
        wait_for(lambda: not watched.daemon._runner.claims, "their end")
        hung = watched.daemon._wiring.watched["feed"]
        with hung.in_use:
            watched.clock.let_pass(HOUR)
            wait_for(lambda: watched.daemon._runner.claims, "a run")
            watched.clock.let_pass(LONG)
            wait_for(lambda: runs_of(watched.daemon.store, "other") == 2, "the other's run", timeout_s=30)


def runs_of(store: object, name: str) -> int:
    return sum(run.status is RunStatus.OK for run in store.history.runs(comparison=name, limit=9))  # type: ignore[attr-defined]


def test_a_scheduler_that_begins_nothing_any_more_is_begun_anew(tmp_path: Path) -> None:
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        wait_for(lambda: "feed" not in watched.daemon._jobs.names, "the end of the first run")
        watched.daemon._jobs._scheduler.pause()
        watched.clock.let_pass(HOUR)
        wait_for(lambda: "feed" in watched.daemon._jobs.names, "the run that gets no thread")
        watched.clock.let_pass(timedelta(seconds=STUCK_S + 1))
        watched.await_run(NOON + HOUR)
        assert watched.value('watchdog_restarts_total{part="scheduler"}') == 1


@contextmanager
def working(clock: SteppedClock) -> Iterator[Jobs]:
    jobs = Jobs(clock, on_end=lambda: None)
    jobs.start()
    try:
        yield jobs
    finally:
        jobs.stop()


def test_one_of_a_name_is_at_work_at_a_time_until_it_is_forsaken() -> None:
    clock, ended, count = SteppedClock(), threading.Event(), []

    def work() -> None:
        count.append(1)
        ended.wait(20)

    with working(clock) as jobs:
        assert jobs.begin("one", work, limit_s=60)
        wait_for(lambda: count, "its begin")
        assert not jobs.begin("one", work, limit_s=60)
        assert jobs.overdue() == ()
        clock.let_pass(timedelta(seconds=61))
        assert jobs.overdue() == ("one",)
        jobs.forsake("one")
        assert jobs.begin("one", work, limit_s=60)
        wait_for(lambda: len(count) == 2, "the begin of its successor")
        ended.set()
        wait_for(lambda: not jobs.names, "the end of both")


def test_a_job_that_raises_is_logged_and_can_be_begun_again() -> None:
    with working(SteppedClock()) as jobs:
        jobs.begin("bad", lambda: 1 / 0, limit_s=60)
        wait_for(lambda: not jobs.names, "its end")
        assert jobs.begin("bad", lambda: None, limit_s=60)


def test_a_heart_that_is_held_up_no_longer_counts_as_beating() -> None:
    clock, held, beats = SteppedClock(), threading.Event(), []

    def beat() -> None:
        beats.append(1)
        if len(beats) > 1:
            held.wait(20)

    heart = Heart(clock, beat)
    heart.start()
    wait_for(lambda: len(beats) == 2, "the beat that hangs")
    clock.let_pass(timedelta(seconds=SILENT_S))
    assert not heart.is_beating
    held.set()
    wait_for(lambda: heart.is_beating, "the next beat")
    heart.stop()


def test_a_heart_whose_beats_fail_goes_on_and_does_not_count_as_beating() -> None:
    clock, beats = SteppedClock(), []

    def beat() -> None:
        beats.append(1)
        raise ZeroDivisionError

    heart = Heart(clock, beat)
    heart.start()
    clock.let_pass(timedelta(seconds=SILENT_S))
    wait_for(lambda: len(beats) >= 2, "the next beat")
    assert not heart.is_beating
    heart.stop()


class Ailing:
    """A daemon that is unwell twice, and well after that, until it is told to end."""

    def __init__(self, signals: "queue.SimpleQueue[int]") -> None:
        self.asked = 0
        self.signals = signals

    def unhealthy(self) -> str | None:
        self.asked += 1
        if self.asked == 5:
            self.signals.put(signal.SIGTERM)
        return "the scheduler has stopped" if self.asked <= 2 else None


def test_systemd_is_fed_only_while_the_daemon_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(0.1)
        ailing = Ailing(signals)
        _obey(ailing, signals)  # type: ignore[arg-type]
        assert ailing.asked == 5
        assert [listener.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        with pytest.raises(TimeoutError):
            listener.recv(100)


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
        watched.clock.let_pass(HOUR)
        watched.await_run(NOON + HOUR)
