"""A daemon in this process under a clock that a test sets, and what it shows."""

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from time import monotonic

import pytest
import requests

from clocks import set_scheduler_clock
from factories import SECOND
from monitor.export.publisher import PrometheusPublisher
from monitor.model.runs import KEPT_MARK, RunStatus
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

    def now(self):
        with self.lock:
            return self.start + (monotonic() - self.begun) * SECOND + self.passed + self.set_by

    def monotonic(self):
        with self.lock:
            return monotonic() + self.passed.total_seconds()

    def set(self, by):
        """Set the wall clock, or sleep: the steady clock does not see it."""
        with self.lock:
            self.set_by += by

    def let_pass(self, time):
        with self.lock:
            self.passed += time


@dataclass
class Watched:
    """The daemon under test, its clock, and its pages."""

    daemon: Daemon
    clock: SteppedClock

    def status_of(self, path):
        return requests.get(self.daemon.url + path, timeout=60).status_code

    def text_of(self, path):
        return re.sub("<[^>]*>", "", requests.get(self.daemon.url + path, timeout=60).text)

    def value(self, series):
        page = requests.get(f"{self.daemon.url}/metrics", timeout=60).text
        found = re.search(rf"^rankwatch_{re.escape(series)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else None

    def runs(self):
        found = self.daemon.store.history.runs(comparison=None, limit=1000)
        return {run.slot: run for run in found if KEPT_MARK not in run.comparison}

    def await_run(self, slot, *, attempt=1):
        """Wait until it is stored, and then counted and published: its job has ended."""

        def look():
            run = self.runs().get(slot)
            if run is None or run.status is not RunStatus.OK or run.attempt < attempt:
                return None
            return None if self.is_at_work(run.comparison) else run

        return wait_for(look, f"run of {slot}")

    def is_at_work(self, job):
        threads = self.daemon._scheduler.executor.threads
        return any(thread.is_alive() and thread.name == f"job-{job}" for thread in threads)

    def let_pass(self, time):
        self.clock.let_pass(time)

    def pass_until(self, look, what, step=10 * SECOND):
        """Let time pass by steps until it is seen."""

        def seen():
            if look():
                return True
            self.clock.let_pass(step)
            return False

        wait_for(seen, what)


@contextmanager
def apscheduler_on(clock):
    """APScheduler reads this clock in place of the machine's."""
    with pytest.MonkeyPatch.context() as patch:
        set_scheduler_clock(patch, clock.now)
        yield


@contextmanager
def scheduling(clock, on_hung=lambda *_: None):
    """A scheduler without a daemon, which begins nothing that it is not told."""
    publisher = PrometheusPublisher(version="1")
    jobs = JobScheduler(clock, publisher, on_hung=on_hung, on_look=lambda: None)
    with apscheduler_on(clock):
        jobs.start()
        try:
            yield jobs
        finally:
            jobs.stop(5)


@contextmanager
def watching(config):
    clock = SteppedClock()
    with apscheduler_on(clock), Daemon(config, clock=clock) as daemon:
        daemon.start()
        yield Watched(daemon, clock)
