"""The watchdog: finds jobs that hang by the steady clock and restarts them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import DatabaseError, DatabaseTrouble
from monitor.model import Claim
from monitor.ports import Clock, Publisher, RunStore
from monitor.service.daemon.jobs import PRUNING, Task
from monitor.service.daemon.outage import OutageMonitor
from monitor.service.daemon.scheduler import Jobs, JumpFinder, Timetable
from monitor.service.runner import Runner
from monitor.settings import Schedule

MARKING_S = 30.0
"""How long the database has to take note of a run that was given up."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Watchdog:
    """Looks at the jobs. ``look`` waits for nobody: what may take time happens in a thread of its own.

    ``renew_sources`` opens a comparison's sources anew, as the hung run holds the old ones.
    ``renew_store`` lets go of connections that somebody hangs on. ``hasten`` lets a name be due at once.
    """

    jobs: Jobs
    runs: RunStore
    clock: Clock
    publisher: Publisher
    database: OutageMonitor
    runner: Runner
    renew_sources: Callable[[str], None]
    renew_store: Callable[[], None]
    hasten: Callable[[str], None]
    _rescued: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Begin anew what hangs."""
        for name in set(self.jobs.overdue()) - self._rescued:
            self._rescued.add(name)
            threading.Thread(target=self._rescue, args=(name,), name=f"rescue-{name}", daemon=True).start()
        if self.jobs.is_stuck:
            log.error("scheduler hung; begun anew")
            self.publisher.restarted("scheduler")
            self.jobs.restart()

    def _rescue(self, name: str) -> None:
        """Only at the end may another of this name begin: it would be taken for the hung one."""
        try:
            self.renew_store()
            if name.startswith("-"):
                self._rescue_housekeeping(name)
            else:
                self._rescue_run(name)
        except Exception:
            log.exception("what hung was not put in order", job=name)
        finally:
            self.jobs.forsake(name)
            self._rescued.discard(name)
            self.hasten(name)

    def _rescue_housekeeping(self, name: str) -> None:
        log.error("housekeeping hung; begun anew", job=name)
        self.publisher.restarted("housekeeping")
        if not name.startswith("-tell-"):  # those ask no database
            self.database.failed(DatabaseError("the database does not answer", permanent=False, trouble=DatabaseTrouble.HUNG))

    def _rescue_run(self, name: str) -> None:
        """Free the slot first, so that the hung run can store nothing when it comes back, then the sources."""
        log.error("run hung; given up and begun anew", comparison=name)
        self.publisher.restarted("run")
        for claim in [claim for claim in list(self.runner.claims.values()) if claim.comparison == name]:
            self._abandon(claim)
            self.runner.claims.pop(claim.run_id, None)
        self.renew_sources(name)

    def _abandon(self, claim: Claim) -> None:
        """Mark the run, unless the database is what hangs."""
        reason = "it hung: it had not ended long after its deadline, and was given up"
        marking = BackgroundCall(partial(self.runs.abandon, claim, reason=reason, at=self.clock.now()), name="abandon-run")
        try:
            if marking.wait(Deadline.after(MARKING_S)):
                self.publisher.run_abandoned(claim.comparison)
        except (DatabaseError, OverdueError) as error:
            log.warning("hung run not marked; its claim runs out by itself", comparison=claim.comparison, reason=str(error))


@dataclass(slots=True, kw_only=True)
class Rhythm:
    """Beats. ``most`` is how many bounded tasks may be at work at once. `follow` comes first."""

    clock: Clock
    publisher: Publisher
    jobs: Jobs
    watchdog: Watchdog
    most: Callable[[], int]
    _tasks: Mapping[str, Task] = field(default_factory=dict)
    _timetable: Timetable = field(default_factory=Timetable)
    _jumps: JumpFinder = field(default_factory=JumpFinder)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def follow(self, tasks: Mapping[str, Task]) -> None:
        """From now on do these: those with a schedule at once, others that are new after the time they come round in."""
        schedules = {name: task.when for name, task in tasks.items() if isinstance(task.when, Schedule)}
        periods = {name: task.when for name, task in tasks.items() if isinstance(task.when, timedelta)}
        firsts = {name: task.first for name, task in tasks.items() if task.first is not None}
        with self._lock:
            self._tasks = dict(tasks)
            self._timetable.replace(schedules, periods, self.clock.monotonic(), firsts)

    def hasten(self, name: str) -> None:
        """Let it be due now, if it is still to be done at all."""
        with self._lock:
            self._timetable.hasten(name, self.clock.monotonic())

    def beat(self) -> None:
        """One beat."""
        now, steady_s = self.clock.now(), self.clock.monotonic()
        jump = self._jumps.look(now, steady_s)
        if jump is not None:
            log.warning("clock jumped, or the machine slept", by_s=round(jump.total_seconds(), 1))
            self.publisher.clock_jumped()
            with self._lock:  # what is old is not to be told by a clock that may be wrong
                self._timetable.put_off(PRUNING, steady_s)
        self.watchdog.look()
        with self._lock:
            self._begin_due(now, steady_s)

    def _begin_due(self, now: datetime, steady_s: float) -> None:
        at_work = self.jobs.names
        places = self.most() - sum(self._tasks[name].is_bounded for name in at_work if name in self._tasks)
        for name in self._timetable.due(now, steady_s):
            task = self._tasks[name]
            if name in at_work or (task.is_bounded and places <= 0):
                continue
            self._timetable.begin(name, now, steady_s)
            if task.is_wanted():
                self.jobs.begin(name, task.call, limit_s=task.limit.total_seconds())
                places -= task.is_bounded
