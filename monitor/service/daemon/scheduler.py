"""The schedule of the daemon. APScheduler starts each job in its own daemon thread."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

import structlog
from apscheduler import events
from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.triggers.base import BaseTrigger

from monitor.boundary.deadline import Deadline, OverdueError, call_in_time
from monitor.export.publisher import PrometheusPublisher
from monitor.model.immutable import immutable
from monitor.model.ports import Clock, do_nothing
from monitor.service.clock import JumpFinder
from monitor.service.daemon.threads import LoopThread
from monitor.settings.schedule import Schedule

SCHEDULER_STEP_S = 0.5
"""The scheduler checks the clocks and looks for due jobs at least this often."""
SILENT_S = 30.0
"""If the scheduler has not looked for due jobs for this time, the process must be restarted."""
BUSY_RETRY_AFTER = timedelta(seconds=1)
"""If a job is due but still at work, it becomes due again after this time."""

log = structlog.get_logger(__name__)


class JobKind(StrEnum):
    """The kind of a job. It is a label of the metric that counts hung jobs."""

    RUN = "run"
    DELIVERY = "delivery"
    HOUSEKEEPING = "housekeeping"


@immutable
class JobPlan:
    """A job's function and its schedule."""

    call: Callable[[], object]
    when: Schedule
    # The delay before the first start. With None the job starts at once, and again after each
    # reload.
    first: timedelta | None = None
    # The scheduler gives up waiting for the call after this time. With None the call has its own
    # limit.
    limit: timedelta | None = None
    kind: JobKind = JobKind.HOUSEKEEPING


class SlotTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Fires at each slot of a schedule. If slots were missed, it fires for the newest only."""

    __slots__ = ("schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """Return the slot after ``previous``, or the newest slot up to ``now`` if that is later."""
        # APScheduler asks for each missed time in turn. If a clock is set forward by a year, these
        # would be all slots of the year.
        return max(self.schedule.next(previous or now), self.schedule.latest(now))


class ThreadPerJob(DebugExecutor):  # type: ignore[misc]  # APScheduler ships no types
    """An executor of APScheduler that starts each job at once in a new daemon thread."""

    # When a process ends, Python waits for the threads of its standard pools. So one hung pull
    # would keep a stopped daemon alive.
    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def _do_submit_job(self, job: Any, times: Any) -> None:  # noqa: ANN401 - as its base has it
        thread = threading.Thread(
            target=partial(super()._do_submit_job, job, times), name=f"job-{job.id}", daemon=True
        )
        self.threads = [running for running in self.threads if running.is_alive()]
        self.threads.append(thread)
        thread.start()


class JobScheduler(BaseScheduler):  # type: ignore[misc]  # APScheduler ships no types
    """The jobs of the daemon by name. Threads may share it.

    A job never runs twice at the same time. If it becomes due while it is at work, it starts again
    after its end. If a call hangs, ``on_hung`` gets the job's name and plan. ``on_look`` is called
    at least twice a second.
    """

    def __init__(
        self,
        clock: Clock,
        publisher: PrometheusPublisher,
        *,
        on_look: Callable[[], object],
        on_hung: Callable[[str, JobPlan], object] = do_nothing,
    ) -> None:
        self._clock = clock
        self._publisher = publisher
        self._on_look = on_look
        self.on_hung = on_hung
        self._jumps = JumpFinder()
        self._loop = LoopThread("scheduler", self._look, retry_s=SCHEDULER_STEP_S)
        self._looked_s = clock.monotonic()
        self.executor = ThreadPerJob()
        super().__init__(
            timezone="UTC",
            executors={"default": self.executor},
            # If a job has missed several of its times, it runs only once.
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1},
        )
        self.add_listener(self._try_again, events.EVENT_JOB_MAX_INSTANCES)

    def start(self) -> None:
        """Begin to submit due jobs."""
        super().start()
        self._loop.start()

    def wakeup(self) -> None:
        """Look for due jobs at once. APScheduler calls this method when jobs change."""
        self._loop.wake()

    def shutdown(self, wait: bool = True) -> None:  # noqa: FBT001, FBT002 - APScheduler's
        """Stop submitting jobs. APScheduler needs this method; this program calls `stop`."""
        super().shutdown(wait)

    def stop(self, timeout_s: float) -> None:
        """Stop submitting jobs, and wait for jobs at work, but at most ``timeout_s``."""
        deadline = Deadline.after(timeout_s)
        self._loop.stop(deadline.remaining_s)
        self.shutdown(wait=False)
        for thread in self.executor.threads:
            thread.join(deadline.remaining_s)

    def follow(self, plans: Mapping[str, JobPlan]) -> None:
        """Schedule these jobs, and remove all other jobs. Call it from one thread at a time."""
        jobs = {job.id: job for job in self.get_jobs()}
        for name in jobs.keys() - plans.keys():
            jobs[name].remove()
        for name, plan in plans.items():
            if name in jobs and plan.first is not None:
                jobs[name].modify(args=(name, plan))  # its next start does not change
                continue
            self.add_job(
                self._perform,
                SlotTrigger(plan.when),
                args=(name, plan),
                id=name,
                next_run_time=self._clock.now() + (plan.first or timedelta(0)),
                replace_existing=True,
            )

    def run_now(self, name: str, delay: timedelta = timedelta(0)) -> None:
        """Make a planned job due at once, or after the delay."""
        with suppress(JobLookupError):
            self.modify_job(name, next_run_time=self._clock.now() + delay)

    def next_at(self, name: str) -> datetime | None:
        """Return when a job is due next, or None for a job that is not planned."""
        job = self.get_job(name)
        return None if job is None else job.next_run_time

    @property
    def is_alive(self) -> bool:
        """Whether the scheduler still looks for due jobs."""
        return self._clock.monotonic() - self._looked_s < SILENT_S

    def _look(self) -> float:
        """Submit due jobs. After a jump of the wall clock, first plan all jobs again.

        The next look comes soon, because the steady clock may stop while the machine sleeps.
        """
        jump = self._jumps.look(self._clock.now(), self._clock.monotonic())
        if jump is not None:
            log.warning("clock jumped, or the machine slept", by_s=round(jump.total_seconds(), 1))
            self._publisher.count("clock_jumps_total")
            for job in self.get_jobs():
                _, plan = job.args
                self.run_now(job.id, plan.first or timedelta(0))
        due_in_s: float | None = self._process_jobs()
        self._on_look()
        self._looked_s = self._clock.monotonic()
        return SCHEDULER_STEP_S if due_in_s is None else min(due_in_s, SCHEDULER_STEP_S)

    def _try_again(self, event: events.JobSubmissionEvent) -> None:
        self.run_now(event.job_id, BUSY_RETRY_AFTER)

    def _perform(self, name: str, plan: JobPlan) -> None:
        try:
            if plan.limit is None:
                plan.call()
            else:
                call_in_time(plan.call, plan.limit, name=f"call-{name}")
        except OverdueError:
            self.on_hung(name, plan)
            self.run_now(name)
        except Exception:  # a bug must not end the daemon
            log.exception("job failed", job=name)
