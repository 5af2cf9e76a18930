"""Schedules the daemon's jobs: when each is due, in a thread of its own, never two of one name."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import structlog
from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.schedulers import SchedulerNotRunningError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from monitor.ports import Clock
from monitor.settings import Schedule

STUCK_S = 30.0
"""How long a job may wait for its thread before the scheduler counts as hung."""
_LONG_AGO, _NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)

log = structlog.get_logger(__name__)


class ThreadPerJob(BaseExecutor):  # type: ignore[misc]  # APScheduler ships no types
    """Runs each job in a daemon thread of its own.

    APScheduler's pools are joined when the process ends, so one hung pull would keep a stopped daemon alive until its deadline.
    """

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:  # noqa: ANN401 - APScheduler ships no types
        threading.Thread(target=self._run, args=(job, run_times), name=f"job-{job.id}", daemon=True).start()

    def _run(self, job: Any, run_times: list[datetime]) -> None:  # noqa: ANN401 - APScheduler ships no types
        try:
            events = run_job(job, job._jobstore_alias, run_times, self._logger.name)  # noqa: SLF001 - as its own executors do
        except BaseException as error:  # noqa: BLE001 - reported, as its own executors do
            self._run_job_error(job.id, error, sys.exc_info()[2])
        else:
            self._run_job_success(job.id, events)


class _OnDemand(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Fires by nobody's clock. A trigger that ended would have the job removed, which fails in a scheduler being shut down."""

    __slots__ = ()

    def get_next_fire_time(self, _previous: datetime | None, _now: datetime) -> datetime:
        return _NEVER


@dataclass(slots=True, kw_only=True, eq=False)
class _Work:
    name: str
    call: Callable[[], object]
    limit_s: float
    asked_s: float
    begun_s: float | None = None


class Jobs:
    """Named work. Safe to share between threads; ``on_end`` is called in the thread of each job that ends."""

    def __init__(self, clock: Clock, *, on_end: Callable[[], None]) -> None:
        self._clock, self._on_end = clock, on_end
        self._lock = threading.Lock()
        self._works: dict[str, _Work] = {}
        self._scheduler = _make_scheduler()

    def start(self) -> None:
        """Begin what is asked from now on."""
        self._scheduler.start()

    def begin(self, name: str, call: Callable[[], object], *, limit_s: float) -> bool:
        """Run it at once in its thread; False while one of that name is at work. What it raises is logged."""
        work = _Work(name=name, call=call, limit_s=limit_s, asked_s=self._clock.monotonic())
        with self._lock:
            if name in self._works:
                return False
            self._works[name] = work
        self._submit(work)
        return True

    @property
    def names(self) -> frozenset[str]:
        """What is at work."""
        with self._lock:
            return frozenset(self._works)

    def overdue(self) -> tuple[str, ...]:
        """What has been at work for longer than its limit."""
        now = self._clock.monotonic()
        with self._lock:
            works = list(self._works.values())
        return tuple(work.name for work in works if work.begun_s is not None and now - work.begun_s > work.limit_s)

    def forsake(self, name: str) -> None:
        """Wait no longer for this one: another of its name may begin beside it."""
        with self._lock:
            self._works.pop(name, None)

    @property
    def is_stuck(self) -> bool:
        """Whether something that was asked for got no thread for STUCK_S seconds."""
        now = self._clock.monotonic()
        with self._lock:
            return any(work.begun_s is None and now - work.asked_s > STUCK_S for work in self._works.values())

    def restart(self) -> None:
        """Begin with a new scheduler. What is at work goes on, what got no thread is asked for anew."""
        old, self._scheduler = self._scheduler, _make_scheduler()
        threading.Thread(target=_shut_down, args=(old,), name="end-scheduler", daemon=True).start()
        self._scheduler.start()
        with self._lock:
            waiting = [work for work in self._works.values() if work.begun_s is None]
        for work in waiting:
            work.asked_s = self._clock.monotonic()
            self._submit(work)

    def stop(self) -> None:
        """Begin nothing any more; what is at work is not waited for."""
        _shut_down(self._scheduler)

    def _submit(self, work: _Work) -> None:
        # Due since long ago, so that it is due whatever the wall clock says now or next.
        self._scheduler.add_job(
            self._do, _OnDemand(), args=(work,), id=work.name, next_run_time=_LONG_AGO, replace_existing=True
        )

    def _do(self, work: _Work) -> None:
        with self._lock:
            if self._works.get(work.name) is not work or work.begun_s is not None:
                return
            work.begun_s = self._clock.monotonic()
        try:
            work.call()
        except Exception:
            log.exception("job failed", job=work.name)
        finally:
            with self._lock:
                if self._works.get(work.name) is work:
                    del self._works[work.name]
            self._on_end()


def _make_scheduler() -> BackgroundScheduler:
    return BackgroundScheduler(
        timezone="UTC",
        executors={"default": ThreadPerJob()},
        # A forsaken job still runs when its successor begins: that there is one of a name at a time is seen to by Jobs.
        job_defaults={"coalesce": True, "max_instances": 1000, "misfire_grace_time": None},
    )


def _shut_down(scheduler: BackgroundScheduler) -> None:
    with suppress(SchedulerNotRunningError):
        scheduler.shutdown(wait=False)


LEAST_JUMP = timedelta(seconds=5)
"""What is not called a jump: leap seconds, small corrections, a loop that was held up between reading two clocks."""


class JumpFinder:
    """Compares the clocks from look to look, so that a slow correction never adds up to a jump."""

    def __init__(self) -> None:
        self._before: tuple[datetime, float] | None = None

    def look(self, now: datetime, steady_s: float) -> timedelta | None:
        """By how much the wall clock went ahead (below zero: back) since the last look, None when it went along."""
        before, self._before = self._before, (now, steady_s)
        if before is None:
            return None
        jump = (now - before[0]) - timedelta(seconds=steady_s - before[1])
        return jump if abs(jump) > LEAST_JUMP else None


class Timetable:
    """Remembers for each name what was begun last; times come from outside: ``now`` wall clock, ``steady_s`` monotonic.

    A comparison is due when its newest slot is another than the one it was last begun for: once, however many slots went by,
    and also when the clock was set back to earlier ones.
    """

    def __init__(self) -> None:
        self._schedules: Mapping[str, Schedule] = {}
        self._periods_s: Mapping[str, float] = {}
        self._slots: dict[str, tuple[datetime, datetime]] = {}
        self._begun_s: dict[str, float] = {}
        self._due_s: dict[str, float] = {}

    def replace(
        self,
        schedules: Mapping[str, Schedule],
        periods: Mapping[str, timedelta],
        steady_s: float,
        firsts: Mapping[str, timedelta] = MappingProxyType({}),
    ) -> None:
        """From now on these: every comparison is due at once, other names a period from now unless they were begun before.

        ``firsts``: names that come so long from now the first time, in place of a period.
        """
        self._schedules = dict(schedules)
        self._periods_s = {name: period.total_seconds() for name, period in periods.items()}
        self._slots = {}
        waited_s = {name: (periods[name] - first).total_seconds() for name, first in firsts.items()}
        self._begun_s = {name: self._begun_s.get(name, steady_s - waited_s.get(name, 0.0)) for name in periods}
        self._due_s = {name: due for name, due in self._due_s.items() if name in self._schedules or name in self._periods_s}

    def due(self, now: datetime, steady_s: float) -> tuple[str, ...]:
        """Names that are due, those that have been for longest first."""
        for name in self._schedules:
            if name not in self._due_s and not self._is_begun(name, now):
                self._due_s[name] = steady_s
        for name, period_s in self._periods_s.items():
            if steady_s - self._begun_s[name] >= period_s:
                self._due_s.setdefault(name, steady_s)
        return tuple(sorted(self._due_s, key=lambda name: self._due_s[name]))

    def begin(self, name: str, now: datetime, steady_s: float) -> None:
        """Note that it was begun."""
        self._due_s.pop(name, None)
        if name in self._schedules:
            slot = self._schedules[name].latest(now)
            self._slots[name] = (slot, self._schedules[name].next(slot))
        else:
            self._begun_s[name] = steady_s

    def hasten(self, name: str, steady_s: float) -> None:
        """Let it be due at once, where it is known."""
        if name in self._schedules or name in self._periods_s:
            self._due_s.setdefault(name, steady_s)

    def put_off(self, name: str, steady_s: float) -> None:
        """Let a whole period pass before it is due."""
        if name in self._periods_s:
            self._due_s.pop(name, None)
            self._begun_s[name] = steady_s

    def _is_begun(self, name: str, now: datetime) -> bool:
        slot, following = self._slots.get(name, (None, None))
        return slot is not None and following is not None and slot <= now < following


BEAT_S = 0.5
SILENT_S = 30.0
"""Without a beat for so long the process ought to be restarted: nobody inside is left to do it."""


class Heart:
    """Calls ``beat`` twice a second, and at once when woken, until stopped. A beat that raises is logged and does not count."""

    def __init__(self, clock: Clock, beat: Callable[[], None]) -> None:
        self._clock, self._beat = clock, beat
        self._beaten_s = clock.monotonic()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._beaten_s = self._clock.monotonic()
        self._thread = threading.Thread(target=self._loop, name="heart", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Beat at once."""
        self._wake.set()

    def stop(self) -> None:
        """End after the beat under way."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(SILENT_S)

    @property
    def is_beating(self) -> bool:
        """Whether the last good beat was less than SILENT_S ago."""
        return self._clock.monotonic() - self._beaten_s < SILENT_S

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                self._beat()
                self._beaten_s = self._clock.monotonic()
            except Exception:
                log.exception("heart failed; it goes on")
            self._wake.wait(BEAT_S)
            self._wake.clear()
