"""A daemon in this process under a clock that a test sets, and what it shows."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from time import monotonic

import pytest
import requests

from clocks import set_scheduler_clock
from monitor.model.runs import KEPT_MARK, Run, RunStatus
from monitor.service.daemon.daemon import Daemon
from monitor.service.daemon.scheduler import JobScheduler
from servers.daemon import wait_for

START = datetime(2026, 3, 10, 12, 0, 10, tzinfo=UTC)


@dataclass
class SteppedClock:
    """Both clocks go on by themselves; a test may set the wall clock, or let time pass at once."""

    start: datetime = START
    begun: float = field(default_factory=monotonic)
    set_by: timedelta = timedelta(0)
    passed: timedelta = timedelta(0)
    lock: Lock = field(default_factory=Lock)

    def now(self) -> datetime:
        with self.lock:
            return (
                self.start + timedelta(seconds=monotonic() - self.begun) + self.passed + self.set_by
            )

    def monotonic(self) -> float:
        with self.lock:
            return monotonic() + self.passed.total_seconds()

    def set(self, by: timedelta) -> None:
        """Set the wall clock, or sleep: the steady clock does not see it."""
        with self.lock:
            self.set_by += by

    def let_pass(self, time: timedelta) -> None:
        with self.lock:
            self.passed += time


@dataclass
class Watched:
    """The daemon under test, its clock, and its pages."""

    daemon: Daemon
    clock: SteppedClock

    def status_of(self, path: str) -> int:
        return requests.get(self.daemon.url + path, timeout=60).status_code

    def value(self, series: str) -> float | None:
        page = requests.get(f"{self.daemon.url}/metrics", timeout=60).text
        found = re.search(rf"^rankwatch_{re.escape(series)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else None

    def runs(self) -> dict[datetime, Run]:
        found = self.daemon.store.history.runs(comparison=None, limit=1000)
        return {run.slot: run for run in found if KEPT_MARK not in run.comparison}

    def await_run(self, slot: datetime, *, attempt: int = 1) -> Run:
        """Wait until it is stored, and then counted and published: its job has ended."""

        def look() -> Run | None:
            run = self.runs().get(slot)
            if run is None or run.status is not RunStatus.OK or run.attempt < attempt:
                return None
            return None if run.comparison in self.daemon._scheduler._at_work else run

        run = wait_for(look, f"run of {slot}")
        assert run is not None
        return run

    def let_pass(self, time: timedelta) -> None:
        """Let time pass at once, as soon as no housekeeping is at work: what is would look as if it hung."""
        wait_for(lambda: self._has_passed(time), "housekeeping at rest")

    def pass_until(
        self,
        look: Callable[[], object],
        what: str,
        step: timedelta = timedelta(seconds=10),
        *,
        may_hang: bool = False,
    ) -> None:
        """Let time pass by steps until it is seen.

        While housekeeping is at work only where that ``may_hang``.
        """

        def seen() -> bool:
            if look():
                return True
            if may_hang:
                self.clock.let_pass(step)
            else:
                self._has_passed(step)
            return False

        wait_for(seen, what)

    def _has_passed(self, time: timedelta) -> bool:
        jobs = self.daemon._scheduler
        with jobs._ended:  # none begins meanwhile
            is_at_rest = not any(name.startswith("-") for name in jobs._at_work)
            if is_at_rest:
                self.clock.let_pass(time)
        return is_at_rest


@contextmanager
def apscheduler_on(clock: SteppedClock) -> Iterator[None]:
    """APScheduler reads this clock in place of the machine's."""
    with pytest.MonkeyPatch.context() as patch:
        set_scheduler_clock(patch, clock.now)
        yield


@contextmanager
def scheduling(clock: SteppedClock) -> Iterator[JobScheduler]:
    """A scheduler without a daemon, which begins nothing that it is not told."""
    jobs = JobScheduler(
        clock,
        most_runs=lambda: 1,
        on_overlap=lambda *_: None,
        on_due=lambda *_: None,
        on_end=lambda: None,
    )
    with apscheduler_on(clock):
        jobs.start()
        try:
            yield jobs
        finally:
            jobs.stop(5)


@contextmanager
def watching(config: Path) -> Iterator[Watched]:
    clock = SteppedClock()
    with apscheduler_on(clock), Daemon(config, clock=clock) as daemon:
        daemon.start()
        yield Watched(daemon, clock)
