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
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from monitor.boundary.deadline import Deadline, OverdueError, call_in_time
from monitor.export.publisher import PrometheusPublisher
from monitor.model.immutable import immutable
from monitor.model.ports import Clock
from monitor.service.clock import JumpFinder
from monitor.service.daemon.threads import LoopThread
from monitor.settings.schedule import Schedule

LOOK_S = 0.5
"""The time between two looks at the clocks."""
SILENT_S = 30.0
"""If nothing was looked at or submitted for so long, the process must be restarted."""
AGAIN = timedelta(seconds=1)
"""The time after which a job is submitted again that was still at work."""

log = structlog.get_logger(__name__)


class Part(StrEnum):
    """What a job belongs to: a label of the metric of hung jobs."""

    RUN = "run"
    DELIVERY = "delivery"
    HOUSEKEEPING = "housekeeping"


@immutable
class JobPlan:
    """A job's function and its schedule."""

    call: Callable[[], object]
    when: Schedule
    # The delay of the first start. If it is None, the job is due at once, also after each reload.
    first: timedelta | None = None
    # After this time the call is left behind. If it is None, the call limits itself.
    limit: timedelta | None = None
    part: Part = Part.HOUSEKEEPING


class SlotTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Fires at each slot of a schedule. If several slots were missed, only the newest counts."""

    __slots__ = ("schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """Return the slot after ``previous``, or the newest slot up to ``now`` if that is later."""
        # APScheduler visits all missed times. If a clock is set forward by a year, it must not
        # visit all slots of the year.
        return max(self.schedule.next(previous or now), self.schedule.latest(now))


class ThreadPerJob(DebugExecutor):  # type: ignore[misc]  # APScheduler ships no types
    """An executor of APScheduler that starts each job at once in a new daemon thread."""

    # At its end a process waits for the threads of standard pools. So one hung pull would keep a
    # stopped daemon alive.
    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def _do_submit_job(self, job: Any, times: Any) -> None:  # noqa: ANN401 - as its base has it
        thread = threading.Thread(
            target=partial(super()._do_submit_job, job, times), name=f"job-{job.id}", daemon=True
        )
        self.threads = [*filter(threading.Thread.is_alive, self.threads), thread]
        thread.start()


class JobScheduler:
    """The jobs of the daemon by name. Threads may share it.

    A job never runs twice at once. If it falls due while it is at work, it starts again after its
    end. ``on_hung`` gets the name and the plan of a job whose call was left behind. ``on_look`` is called twice
    a second.
    """

    def __init__(
        self,
        clock: Clock,
        publisher: PrometheusPublisher,
        *,
        on_hung: Callable[[str, JobPlan], object],
        on_look: Callable[[], object],
    ) -> None:
        self._clock = clock
        self._publisher = publisher
        self._on_hung = on_hung
        self._on_look = on_look
        self._planning = threading.Lock()
        self._plans: dict[str, JobPlan] = {}
        self._jumps = JumpFinder()
        self._loop = LoopThread("clock", self._look, again_s=LOOK_S)
        self._looked_s = self._submitted_s = clock.monotonic()
        self._executor = ThreadPerJob()
        self._scheduler = BackgroundScheduler(
            timezone="UTC",
            executors={"default": self._executor},
            # Late jobs run once for all missed times.
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1},
        )
        self._scheduler.add_listener(
            self._note, events.EVENT_JOB_SUBMITTED | events.EVENT_JOB_MAX_INSTANCES
        )

    def start(self) -> None:
        """Begin to submit due jobs."""
        self._scheduler.start()
        self._loop.start()

    def stop(self, timeout_s: float) -> None:
        """Stop submitting jobs, and wait for jobs at work, but at most ``timeout_s``."""
        deadline = Deadline.after(timeout_s)
        self._loop.stop(deadline.remaining_s)
        self._scheduler.shutdown(wait=False)
        for thread in self._executor.threads:
            thread.join(deadline.remaining_s)

    def follow(self, plans: Mapping[str, JobPlan]) -> None:
        """Schedule these jobs, and remove all other jobs."""
        with self._planning:
            known = self._plans
            for name in known.keys() - plans.keys():
                with suppress(JobLookupError):
                    self._scheduler.remove_job(name)
            self._plans = dict(plans)
            for name, plan in plans.items():
                if name not in known or plan.first is None:
                    self._add(name, plan)

    def _add(self, name: str, plan: JobPlan) -> None:
        self._scheduler.add_job(
            self._perform,
            SlotTrigger(plan.when),
            args=(name,),
            id=name,
            next_run_time=self._clock.now() + (plan.first or timedelta(0)),
            replace_existing=True,
        )

    def run_now(self, name: str, delay: timedelta = timedelta(0)) -> None:
        """Make a planned job due at once, or after the delay."""
        with suppress(JobLookupError):
            self._scheduler.modify_job(name, next_run_time=self._clock.now() + delay)

    def next_at(self, name: str) -> datetime | None:
        """Return when a job is due next. None if it is not planned."""
        job = self._scheduler.get_job(name)
        return None if job is None else job.next_run_time

    @property
    def is_alive(self) -> bool:
        """Whether the clocks are looked at and jobs are submitted."""
        return self._clock.monotonic() - min(self._looked_s, self._submitted_s) < SILENT_S

    def _look(self) -> float:
        """Plan all jobs again after a jump of the wall clock, and wake APScheduler.

        APScheduler waits by a clock that may stop while the machine sleeps.
        """
        jump = self._jumps.look(self._clock.now(), self._clock.monotonic())
        if jump is not None:
            log.warning("clock jumped, or the machine slept", by_s=round(jump.total_seconds(), 1))
            self._publisher.count("clock_jumps_total")
            with self._planning:
                for name, plan in self._plans.items():
                    self._add(name, plan)
        self._scheduler.wakeup()
        self._on_look()
        self._looked_s = self._clock.monotonic()
        return LOOK_S

    def _note(self, event: events.JobSubmissionEvent) -> None:
        self._submitted_s = self._clock.monotonic()
        if event.code == events.EVENT_JOB_MAX_INSTANCES:
            self.run_now(event.job_id, AGAIN)

    def _perform(self, name: str) -> None:
        plan = self._plans.get(name)
        if plan is None:  # a reload has removed the job
            return
        try:
            if plan.limit is None:
                plan.call()
            else:
                call_in_time(plan.call, plan.limit, name=f"call-{name}")
        except OverdueError:
            self._on_hung(name, plan)
            self.run_now(name)
        except Exception:  # a bug must not end the daemon
            log.exception("job failed", job=name)
