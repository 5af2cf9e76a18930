"""APScheduler as the daemon uses it: one thread a job, never two of one name, begun at once when asked.

What is due is decided in `timetable`. APScheduler would wait for the wall clock: set back by an hour it does nothing for an
hour, and set forward by a year it counts every slot of that year before it goes on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.schedulers import SchedulerNotRunningError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from monitor.ports import Clock

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
