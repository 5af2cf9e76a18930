"""The daemon's schedule: APScheduler over plans of jobs, slots as a trigger, one daemon thread a job, never two of one name."""

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
from monitor.ports import Clock
from monitor.service.daemon.threads import Places, ThreadPerJob, Ticket
from monitor.settings.schedule import Schedule
from monitor.web.pages.site import ScheduledRun

STUCK_S = 30.0
"""For so long APScheduler may submit nothing, and again after it was asked: some housekeeping is due more often."""
_CLOCKS_DIFFER_S = 1.0
"""By how much housekeeping may be due earlier by the wall clock than by the steady clock."""
_NOTED = (
    events.EVENT_JOB_SUBMITTED
    | events.EVENT_JOB_MAX_INSTANCES
    | events.EVENT_JOB_EXECUTED
    | events.EVENT_JOB_ERROR
)
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What a job calls, at each slot of a schedule or at an interval."""

    call: Callable[[], object]
    when: Schedule | timedelta
    limit: timedelta  # at work for longer it counts as hung
    is_run: bool = False  # few of these are at work at a time
    has_hung: Callable[[], bool] = lambda: (
        False
    )  # whether its last run did: it stands back for others
    slow_after: timedelta = timedelta.max  # so long at work it no longer keeps others waiting
    first: timedelta | None = (
        None  # how soon housekeeping comes the first time, else after its interval
    )


class SlotTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Fires at once, then at each slot of a schedule.

    Of the slots that passed together at the newest alone.
    """

    __slots__ = ("schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """The next slot after the ``previous`` one, later than all but the newest before ``now``."""
        if previous is None:
            return now
        following = self.schedule.next(previous)
        # APScheduler walks through all times that passed: a clock set forward by a year must not
        # cost a year's slots.
        return max(following, self.schedule.latest(now))


class HousekeepingTrigger(IntervalTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Fires at an interval; of the times that passed together at one alone."""

    __slots__ = ()

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """An interval after the ``previous`` time, or ``now`` where that has passed."""
        following: datetime = super().get_next_fire_time(previous, now)
        return max(following, now)


def time_after_jump(schedule: Schedule, planned: datetime, now: datetime) -> datetime:
    """When a job is due once the clock shows ``now``: as ``planned`` within the slot it was planned in, else at once."""
    return planned if planned == schedule.next(now) else now


@dataclass(slots=True, kw_only=True, eq=False)
class _Instance(Ticket):
    plan: JobPlan
    is_abandoned: bool = False

    def is_overdue(self, now_s: float) -> bool:
        return self.begun_s is not None and now_s - self.begun_s > self.plan.limit.total_seconds()


class JobScheduler:
    """The jobs of the daemon by name. Safe to share between threads.

    ``most_runs`` as in `next_runs`; ``on_overlap`` gets slots at which a comparison was still at
    work, ``on_due`` since when it may wait for a place. Call `begin_repeated` every second or so,
    and after ``on_end``: it begins what fell due while at work."""

    def __init__(
        self,
        clock: Clock,
        *,
        most_runs: Callable[[], int],
        on_overlap: Callable[[str, Iterable[datetime]], object],
        on_due: Callable[[str, datetime], object],
        on_end: Callable[[], object],
    ) -> None:
        self._clock, self._on_overlap, self._on_due, self._on_end = (
            clock,
            on_overlap,
            on_due,
            on_end,
        )
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
        # One executor for all schedulers: it counts the instances at work, which outlive a restart.
        self._executor = ThreadPerJob()
        self._scheduler = self._make_scheduler()

    def start(self) -> None:
        """Begin to submit due jobs."""
        self._scheduler.start()

    def stop(self, timeout_s: float) -> None:
        """Submit no more jobs, and wait at most so long for those at work."""
        deadline = Deadline.after(timeout_s)
        # In a thread, as it waits for APScheduler's, which may hang. Threads of jobs keep no
        # process alive.
        with suppress(OverdueError):
            BackgroundCall(partial(_shut_down, self._scheduler), name="end-scheduler").wait(
                deadline
            )
        with self._ended:
            self._is_stopped = True
            self._ended.wait_for(lambda: not self._at_work, deadline.remaining_s)

    def follow(self, plans: Mapping[str, JobPlan]) -> None:
        """Schedule these jobs and no others: runs are due at once, new housekeeping after its interval."""
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
        """Let it be due at once, if it is planned; if it is at work, once it has ended."""
        if name in self._due_s:
            self._due_s[name] = self._clock.monotonic()
        # A job at work is begun again once it has ended: APScheduler reports that it was due.
        self._modify(name, next_run_time=self._clock.now())

    def follow_clock(self) -> None:
        """Reschedule after the wall clock jumped: at once where it is another slot now, housekeeping after its interval."""
        with self._planning:
            for name, plan in self._plans.items():
                if isinstance(plan.when, timedelta):
                    self._due_s[name] = self._clock.monotonic() + plan.when.total_seconds()
                    self._modify(name, next_run_time=self._next_by_steady_clock(name))
                elif job := self._scheduler.get_job(name):
                    at = time_after_jump(plan.when, job.next_run_time, self._clock.now())
                    self._modify(name, next_run_time=at)

    def begin_repeated(self) -> None:
        """Begin again what fell due while it was at work and has ended since."""
        with self._ended:
            names = [name for name in self._repeated if name not in self._at_work]
            self._repeated.difference_update(names)
        for name in names:
            self.run_now(name)

    @property
    def waiting(self) -> int:
        """How many runs wait for a place."""
        return self._places.waiting

    def runs(self) -> tuple[ScheduledRun, ...]:
        """When each run is due next, and for how long one has been under way."""
        now_s = self._clock.monotonic()
        names = [name for name, plan in self._plans.items() if plan.is_run]
        jobs = {name: self._scheduler.get_job(name) for name in names}
        with self._ended:
            begun = {
                name: each.begun_s
                for name, each in self._at_work.items()
                if each.begun_s is not None
            }
        ages = {name: now_s - begun_s for name, begun_s in begun.items()}
        return tuple(
            ScheduledRun(name=name, next_at=job and job.next_run_time, running_s=ages.get(name))
            for name, job in jobs.items()
        )

    def overdue(self) -> tuple[str, ...]:
        """Names of the jobs that have been at work for longer than their limit."""
        now = self._clock.monotonic()
        with self._ended:
            return tuple(name for name, each in self._at_work.items() if each.is_overdue(now))

    def abandon(self, name: str) -> None:
        """Abandon the overdue job of this name: its place is free, and another of its name may begin beside it."""
        with self._ended:
            instance = self._at_work.get(name)
            # It may have ended since it was found overdue, and another of its name may have begun.
            if instance is None or not instance.is_overdue(self._clock.monotonic()):
                return
            del self._at_work[name]
            instance.is_abandoned = True
            self._abandoned[name] += 1
        # APScheduler still counts the abandoned one: it may have one more until that ends.
        self._modify(name, max_instances=1 + self._abandoned[name])
        if instance.plan.is_run:
            # Its thread may hang for ever; the place is free at once.
            self._places.give_back(instance)

    def wake_up(self) -> None:
        """Let APScheduler look at its clock, and waiting runs at their places."""
        # It waits by a clock that may stand still while the machine sleeps.
        self._scheduler.wakeup()
        self._places.look_again()

    def is_stuck(self) -> bool:
        """Whether APScheduler submits nothing any more, although it was asked to.

        To be called every second or so.
        """
        now = self._clock.monotonic()
        if now - self._submitted_s < STUCK_S:
            self._asked_s = None
        elif self._asked_s is None:
            # After a sleep it has submitted nothing for long, and nothing is wrong with it.
            self._asked_s = now
        return self._asked_s is not None and now - self._asked_s >= STUCK_S

    def restart(self) -> None:
        """Go on with a new scheduler, whatever the old one hangs on; jobs at work go on."""
        old, self._scheduler = self._scheduler, self._make_scheduler()
        BackgroundCall(partial(_shut_down, old), name="end-scheduler")
        self._submitted_s, self._asked_s = self._clock.monotonic(), None
        self._scheduler.start()
        with self._planning:
            for name, plan in self._plans.items():
                self._add(name, plan)

    def _make_scheduler(self) -> BackgroundScheduler:
        scheduler = BackgroundScheduler(
            timezone="UTC",
            executors={"default": self._executor},
            # However late, the newest slot is run, and once for all that passed.
            job_defaults={"coalesce": True, "misfire_grace_time": None},
        )
        scheduler.add_listener(self._note, _NOTED)
        return scheduler

    def _add(self, name: str, plan: JobPlan) -> None:
        if isinstance(plan.when, timedelta):
            first = plan.when if plan.first is None else plan.first
            self._due_s.setdefault(name, self._clock.monotonic() + first.total_seconds())
            trigger, at = (
                HousekeepingTrigger(seconds=plan.when.total_seconds(), timezone=UTC),
                self._next_by_steady_clock(name),
            )
        else:
            trigger, at = SlotTrigger(plan.when), self._clock.now()
        instances = 1 + self._abandoned[name]
        self._scheduler.add_job(
            self._perform,
            trigger,
            args=(name,),
            id=name,
            next_run_time=at,
            max_instances=instances,
            replace_existing=True,
        )

    def _next_by_steady_clock(self, name: str) -> datetime:
        return self._clock.now() + timedelta(
            seconds=max(self._due_s[name] - self._clock.monotonic(), 0.0)
        )

    def _is_due_by_steady_clock(self, name: str, plan: JobPlan) -> bool:
        if not isinstance(plan.when, timedelta):
            return True
        now_s = self._clock.monotonic()
        if now_s < self._due_s.get(name, now_s) - _CLOCKS_DIFFER_S:
            # Only a wall clock that jumped has it due.
            return False
        self._due_s[name] = now_s + plan.when.total_seconds()
        return True

    def _modify(self, name: str, **changes: Any) -> None:  # noqa: ANN401 - as APScheduler has them
        with suppress(JobLookupError):
            self._scheduler.modify_job(name, **changes)

    def _note(self, event: events.JobSubmissionEvent | events.JobExecutionEvent) -> None:
        if event.code == events.EVENT_JOB_ERROR and not self._is_stopped:
            log.error("job failed", job=event.job_id, exc_info=event.exception)
        if event.code in {events.EVENT_JOB_EXECUTED, events.EVENT_JOB_ERROR}:
            # Not begun from here: a short job ends while APScheduler, under its locks, is still
            # setting its next time.
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
