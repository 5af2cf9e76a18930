"""The schedule of the daemon. APScheduler starts the jobs by their plans.

Each job has its own daemon thread. Two jobs with the same name never run at once.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import structlog
from apscheduler import events
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers import SchedulerNotRunningError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.interval import IntervalTrigger

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.immutable import immutable
from monitor.ports import Clock
from monitor.service.daemon.threads import Places, ThreadPerJob, Ticket
from monitor.settings.schedule import Schedule
from monitor.web.pages.site import ScheduledRun

STUCK_S = 30.0
"""If APScheduler submits nothing for so long, it hangs. Some housekeeping is due more often."""
_CLOCKS_DIFFER_S = 1.0
"""How far wall clock and steady clock may differ for housekeeping."""
_NOTED = (
    events.EVENT_JOB_SUBMITTED
    | events.EVENT_JOB_MAX_INSTANCES
    | events.EVENT_JOB_EXECUTED
    | events.EVENT_JOB_ERROR
)
log = structlog.get_logger(__name__)


@immutable
class JobPlan:
    """A job's function, and its schedule or interval."""

    call: Callable[[], object]
    when: Schedule | timedelta
    limit: timedelta  # after this time at work the job is considered hung
    is_run: bool = False  # whether the job is a run; few runs may be at work at once
    # Returns whether the last run hung. If so, other runs go first.
    has_hung: Callable[[], bool] = lambda: False
    slow_after: timedelta = timedelta.max  # after this time at work other runs may begin
    first: timedelta | None = None  # the delay of the first housekeeping, if not the interval


class SlotTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Fires at once, then at each slot of a schedule.

    If several slots were missed, it fires only for the newest.
    """

    __slots__ = ("schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """Return the slot after ``previous``, or the newest slot up to ``now`` if that is later."""
        if previous is None:
            return now
        following = self.schedule.next(previous)
        # APScheduler visits all missed times. If a clock is set forward by a year, it must not
        # visit all slots of the year.
        return max(following, self.schedule.latest(now))


class HousekeepingTrigger(IntervalTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Fires at an interval. If several times were missed, it fires once."""

    __slots__ = ()

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """Return the time one interval after ``previous``, or ``now`` if that time has passed."""
        following: datetime = super().get_next_fire_time(previous, now)
        return max(following, now)


def time_after_jump(schedule: Schedule, planned: datetime, now: datetime) -> datetime:
    """Return when a job is due if the clock has jumped to ``now``.

    It is due as ``planned`` if the clock is still in the same slot. Otherwise it is due at once.
    """
    if planned == schedule.next(now):
        return planned
    return now


@dataclass(slots=True, kw_only=True, eq=False)
class _Instance(Ticket):
    plan: JobPlan
    is_abandoned: bool = False

    def is_overdue(self, now_s: float) -> bool:
        return self.begun_s is not None and now_s - self.begun_s > self.plan.limit.total_seconds()


class JobScheduler:
    """The jobs of the daemon by name. Threads may share it.

    ``most_runs`` returns the parameter ``most`` of `next_runs`. ``on_overlap`` gets the slots that
    fell due during a run. ``on_due`` gets the time when a run began to wait for a place.

    Call `begin_repeated` every second, and after each call of ``on_end``. It starts jobs that fell
    due while they were at work.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        most_runs: Callable[[], int],
        on_overlap: Callable[[str, Iterable[datetime]], object],
        on_due: Callable[[str, datetime], object],
        on_end: Callable[[], object],
    ) -> None:
        self._clock = clock
        self._on_overlap = on_overlap
        self._on_due = on_due
        self._on_end = on_end
        self._places = Places(most_runs, clock.monotonic)
        self._planning = threading.RLock()
        self._plans: dict[str, JobPlan] = {}
        self._due_s: dict[str, float] = {}
        self._ended = threading.Condition()
        self._at_work: dict[str, _Instance] = {}
        self._abandoned: Counter[str] = Counter()
        self._repeated: set[str] = set()
        self._is_stopped = False
        self._submitted_s = clock.monotonic()
        self._asked_s: float | None = None
        # All schedulers share one executor. It counts jobs at work, and these survive a restart.
        self._executor = ThreadPerJob()
        self._scheduler = self._make_scheduler()

    def start(self) -> None:
        """Begin to submit due jobs."""
        self._scheduler.start()

    def stop(self, timeout_s: float) -> None:
        """Stop submitting jobs, and wait for jobs at work, but at most ``timeout_s``."""
        deadline = Deadline.after(timeout_s)
        # Shut down in a thread, because the thread of APScheduler may hang.
        shutdown = BackgroundCall(partial(_shut_down, self._scheduler), name="end-scheduler")
        with suppress(OverdueError):
            shutdown.wait(deadline)
        with self._ended:
            self._is_stopped = True
            self._ended.wait_for(lambda: not self._at_work, deadline.remaining_s)

    def follow(self, plans: Mapping[str, JobPlan]) -> None:
        """Schedule these jobs, and remove all other jobs.

        Runs are due at once. New housekeeping is due after its interval.
        """
        with self._planning:
            for name in self._plans.keys() - plans.keys():
                self._due_s.pop(name, None)
                with suppress(JobLookupError):
                    self._scheduler.remove_job(name)
            self._plans = dict(plans)
            for name, plan in plans.items():
                self._add(name, plan)
        self._places.look_again()

    def run_now(self, name: str) -> None:
        """Make a planned job due at once. If it is at work, it is due again after its end."""
        if name in self._due_s:
            self._due_s[name] = self._clock.monotonic()
        # If the job is at work, APScheduler reports an overlap. The job then starts again after its
        # end.
        self._modify(name, next_run_time=self._clock.now())

    def follow_clock(self) -> None:
        """Reschedule after a jump of the wall clock.

        A run is due at once if the clock is in another slot. Housekeeping is due after its
        interval.
        """
        with self._planning:
            for name, plan in self._plans.items():
                if isinstance(plan.when, timedelta):
                    self._due_s[name] = self._clock.monotonic() + plan.when.total_seconds()
                    self._modify(name, next_run_time=self._next_by_steady_clock(name))
                elif job := self._scheduler.get_job(name):
                    at = time_after_jump(plan.when, job.next_run_time, self._clock.now())
                    self._modify(name, next_run_time=at)

    def begin_repeated(self) -> None:
        """Start jobs again if they fell due while they were at work. They must have ended."""
        with self._ended:
            names = [name for name in self._repeated if name not in self._at_work]
            self._repeated.difference_update(names)
        for name in names:
            self.run_now(name)

    @property
    def waiting(self) -> int:
        """The number of runs that wait for a place."""
        return self._places.waiting

    def runs(self) -> tuple[ScheduledRun, ...]:
        """Return when each run is due next, and how long ago a present run began."""
        now_s = self._clock.monotonic()
        with self._ended:
            begun_s = {name: each.begun_s for name, each in self._at_work.items()}
        runs = []
        for name, plan in self._plans.items():
            if plan.is_run:
                job = self._scheduler.get_job(name)
                start_s = begun_s.get(name)
                running_s = None if start_s is None else now_s - start_s
                next_at = job and job.next_run_time
                runs.append(ScheduledRun(comparison=name, next_at=next_at, running_s=running_s))
        return tuple(runs)

    def overdue(self) -> tuple[str, ...]:
        """Return the names of the jobs that are at work for longer than their limit."""
        now = self._clock.monotonic()
        with self._ended:
            return tuple(name for name, each in self._at_work.items() if each.is_overdue(now))

    def abandon(self, name: str) -> None:
        """Abandon the overdue job of this name. This frees its place, and it may start again."""
        with self._ended:
            instance = self._at_work.get(name)
            # Meanwhile the overdue job may have ended, and a new job of its name may have started.
            if instance is None or not instance.is_overdue(self._clock.monotonic()):
                return
            del self._at_work[name]
            instance.is_abandoned = True
            self._abandoned[name] += 1
        # APScheduler counts the abandoned job until it ends, so allow one more job.
        self._modify(name, max_instances=1 + self._abandoned[name])
        if instance.plan.is_run:
            # The thread may hang forever, so free its place now.
            self._places.give_back(instance)

    def wake_up(self) -> None:
        """Make APScheduler check the time, and start waiting runs that have a place now."""
        # APScheduler waits by a clock that may stop while the machine sleeps.
        self._scheduler.wakeup()
        self._places.look_again()

    def is_stuck(self) -> bool:
        """Return whether APScheduler no longer submits jobs.

        Call it every second.
        """
        now = self._clock.monotonic()
        if now - self._submitted_s < STUCK_S:
            self._asked_s = None
        elif self._asked_s is None:
            # If the machine slept, the long pause is normal. So give APScheduler more time.
            self._asked_s = now
        return self._asked_s is not None and now - self._asked_s >= STUCK_S

    def restart(self) -> None:
        """Replace a hung scheduler. Jobs at work continue."""
        old = self._scheduler
        self._scheduler = self._make_scheduler()
        BackgroundCall(partial(_shut_down, old), name="end-scheduler")
        self._submitted_s = self._clock.monotonic()
        self._asked_s = None
        self._scheduler.start()
        with self._planning:
            for name, plan in self._plans.items():
                self._add(name, plan)

    def _make_scheduler(self) -> BackgroundScheduler:
        scheduler = BackgroundScheduler(
            timezone="UTC",
            executors={"default": self._executor},
            # Late jobs run once for all missed times.
            job_defaults={"coalesce": True, "misfire_grace_time": None},
        )
        scheduler.add_listener(self._note, _NOTED)
        return scheduler

    def _add(self, name: str, plan: JobPlan) -> None:
        if isinstance(plan.when, timedelta):
            first = plan.when if plan.first is None else plan.first
            self._due_s.setdefault(name, self._clock.monotonic() + first.total_seconds())
            trigger = HousekeepingTrigger(seconds=plan.when.total_seconds(), timezone=UTC)
            at = self._next_by_steady_clock(name)
        else:
            trigger = SlotTrigger(plan.when)
            at = self._clock.now()
        self._scheduler.add_job(
            self._perform,
            trigger,
            args=(name,),
            id=name,
            next_run_time=at,
            max_instances=1 + self._abandoned[name],
            replace_existing=True,
        )

    def _next_by_steady_clock(self, name: str) -> datetime:
        rest_s = max(self._due_s[name] - self._clock.monotonic(), 0.0)
        return self._clock.now() + timedelta(seconds=rest_s)

    def _is_due_by_steady_clock(self, name: str, plan: JobPlan) -> bool:
        if not isinstance(plan.when, timedelta):
            return True
        now_s = self._clock.monotonic()
        if now_s < self._due_s.get(name, now_s) - _CLOCKS_DIFFER_S:
            # The job is due only because the wall clock jumped.
            return False
        self._due_s[name] = now_s + plan.when.total_seconds()
        return True

    def _modify(self, name: str, **changes: Any) -> None:  # noqa: ANN401 - see APScheduler
        with suppress(JobLookupError):
            self._scheduler.modify_job(name, **changes)

    def _note(self, event: events.JobSubmissionEvent | events.JobExecutionEvent) -> None:
        if event.code == events.EVENT_JOB_ERROR and not self._is_stopped:
            log.error("job failed", job=event.job_id, exc_info=event.exception)
        if event.code in {events.EVENT_JOB_EXECUTED, events.EVENT_JOB_ERROR}:
            # Do not start jobs here. A short job may end while APScheduler holds its locks and sets
            # the next time of the job.
            self._on_end()
        else:
            self._submitted_s = self._clock.monotonic()
        if event.code == events.EVENT_JOB_MAX_INSTANCES:
            self._note_overlap(event.job_id, event.scheduled_run_times)

    def _note_overlap(self, name: str, times: Iterable[datetime]) -> None:
        with self._ended:
            self._repeated.add(name)
            instance = self._at_work.get(name)
        if instance is not None and instance.plan.is_run and instance.begun_s is not None:
            self._on_overlap(name, times)

    def _perform(self, name: str) -> None:
        plan = self._plans.get(name)
        # A reload may have removed the job after APScheduler submitted it.
        if plan is None or not self._is_due_by_steady_clock(name, plan):
            return
        threading.current_thread().name = f"job-{name}"
        instance = _Instance(
            name=name,
            slow_after_s=plan.slow_after.total_seconds(),
            is_suspect=plan.has_hung(),
            plan=plan,
        )
        with self._ended:
            self._at_work[name] = instance
        try:
            if plan.is_run:
                self._on_due(name, self._clock.now())
                self._places.take(instance)
            instance.begun_s = self._clock.monotonic()
            if not self._is_stopped:
                plan.call()
        finally:
            self._end(name, instance)

    def _end(self, name: str, instance: _Instance) -> None:
        with self._ended:
            if instance.is_abandoned:
                self._abandoned[name] -= 1
            else:
                del self._at_work[name]
            self._ended.notify_all()
        if instance.is_abandoned:
            self._modify(name, max_instances=1 + self._abandoned[name])
        elif instance.plan.is_run:
            self._places.give_back(instance)


def _shut_down(scheduler: BackgroundScheduler) -> None:
    with suppress(SchedulerNotRunningError):
        scheduler.shutdown(wait=False)
