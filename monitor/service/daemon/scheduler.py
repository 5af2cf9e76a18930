"""The schedule of the daemon: APScheduler runs plans of jobs.

Each job has its own daemon thread. Two jobs of one name never run at once.
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
"""Some housekeeping is due more often, so APScheduler hangs if it submits nothing for longer."""
_CLOCKS_DIFFER_S = 1.0
"""The accepted difference between wall clock and steady clock for housekeeping."""
_NOTED = (
    events.EVENT_JOB_SUBMITTED
    | events.EVENT_JOB_MAX_INSTANCES
    | events.EVENT_JOB_EXECUTED
    | events.EVENT_JOB_ERROR
)
log = structlog.get_logger(__name__)


@immutable
class JobPlan:
    """The function that a job calls at each slot of a schedule, or at an interval."""

    call: Callable[[], object]
    when: Schedule | timedelta
    limit: timedelta  # after this time at work it counts as hung
    is_run: bool = False  # the number of runs at work is limited
    # Whether the last run hung. Others go before this one then.
    has_hung: Callable[[], bool] = lambda: False
    slow_after: timedelta = timedelta.max  # after this time at work others may begin
    first: timedelta | None = None  # the delay of the first housekeeping, else the interval


class SlotTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Fires at once, then at each slot of a schedule.

    Of several missed slots it fires only for the newest.
    """

    __slots__ = ("schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """Return the slot after ``previous``, or the newest slot until ``now`` if later."""
        if previous is None:
            return now
        following = self.schedule.next(previous)
        # APScheduler visits all missed times. A clock set forward by a year must not cost the time
        # of all slots in a year.
        return max(following, self.schedule.latest(now))


class HousekeepingTrigger(IntervalTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Fires at an interval, once for several missed times."""

    __slots__ = ()

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """Return an interval after the ``previous`` time, or ``now`` if that has passed."""
        following: datetime = super().get_next_fire_time(previous, now)
        return max(following, now)


def time_after_jump(schedule: Schedule, planned: datetime, now: datetime) -> datetime:
    """Return when a job is due after the clock has jumped to ``now``.

    It is due as ``planned`` if the clock is still in the same slot, else at once.
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
    """The jobs of the daemon by name. Safe to share between threads.

    ``most_runs`` is as in `next_runs`. ``on_overlap`` gets slots that fell due during a run,
    ``on_due`` the time when a run began to wait for a place. Call `begin_repeated` every second,
    and after ``on_end``: it starts jobs that fell due while they were at work.
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
        # One executor for all schedulers, because it counts jobs at work, which survive a restart.
        self._executor = ThreadPerJob()
        self._scheduler = self._make_scheduler()

    def start(self) -> None:
        """Start to submit due jobs."""
        self._scheduler.start()

    def stop(self, timeout_s: float) -> None:
        """Submit no more jobs, and wait for jobs at work for at most this time."""
        deadline = Deadline.after(timeout_s)
        # In a thread, because the thread of APScheduler may hang.
        shutdown = BackgroundCall(partial(_shut_down, self._scheduler), name="end-scheduler")
        with suppress(OverdueError):
            shutdown.wait(deadline)
        with self._ended:
            self._is_stopped = True
            self._ended.wait_for(lambda: not self._at_work, deadline.remaining_s)

    def follow(self, plans: Mapping[str, JobPlan]) -> None:
        """Schedule these jobs and no others.

        Runs are due at once, new housekeeping after its interval.
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
        """Make a planned job due at once, or after its end if it is at work."""
        if name in self._due_s:
            self._due_s[name] = self._clock.monotonic()
        # For a job at work APScheduler reports an overlap, and it starts again after its end.
        self._modify(name, next_run_time=self._clock.now())

    def follow_clock(self) -> None:
        """Reschedule after a jump of the wall clock.

        Runs are due at once if the clock is in another slot, housekeeping after its interval.
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
        """Start jobs again that fell due while they were at work, and have ended."""
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
        """Return when each run is due next, and how long a present one has taken."""
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
        """Return the names of the jobs at work for longer than their limit."""
        now = self._clock.monotonic()
        with self._ended:
            return tuple(name for name, each in self._at_work.items() if each.is_overdue(now))

    def abandon(self, name: str) -> None:
        """Abandon the overdue job of this name. Its place is free, and the job may start again."""
        with self._ended:
            instance = self._at_work.get(name)
            # The overdue job may have ended meanwhile, and a new one of its name may have started.
            if instance is None or not instance.is_overdue(self._clock.monotonic()):
                return
            del self._at_work[name]
            instance.is_abandoned = True
            self._abandoned[name] += 1
        # APScheduler counts the abandoned job until it ends, so allow one more.
        self._modify(name, max_instances=1 + self._abandoned[name])
        if instance.plan.is_run:
            # The thread may hang forever, so free its place now.
            self._places.give_back(instance)

    def wake_up(self) -> None:
        """Let APScheduler check the time, and waiting runs their places."""
        # It waits with a clock that may stop while the machine sleeps.
        self._scheduler.wakeup()
        self._places.look_again()

    def is_stuck(self) -> bool:
        """Return whether APScheduler has stopped to submit jobs.

        Call it every second.
        """
        now = self._clock.monotonic()
        if now - self._submitted_s < STUCK_S:
            self._asked_s = None
        elif self._asked_s is None:
            # After a sleep of the machine the long pause is normal, so give it more time.
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
            # Late jobs run too, once for all missed times.
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
            # It is due only because the wall clock jumped.
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
            # Do not start jobs here: a short job ends while APScheduler has its locks, and sets the
            # next time of the job.
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
        # A reload may have removed the job since APScheduler submitted it.
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
