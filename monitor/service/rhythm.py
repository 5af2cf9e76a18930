"""One beat of the daemon's heart: look at the clocks, begin what is due, see what hangs. Waits for nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from monitor.ports import Clock, Publisher
from monitor.service.jumps import JumpFinder
from monitor.service.scheduling import Jobs
from monitor.service.tasks import PRUNING, Task
from monitor.service.timetable import Timetable
from monitor.service.watchdog import Watchdog
from monitor.settings import Schedule

log = structlog.get_logger(__name__)


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
