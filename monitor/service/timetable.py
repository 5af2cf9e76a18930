"""What is due: slots by the wall clock, whichever way it was set, housekeeping by the steady clock. Pure, no threads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from monitor.settings import Schedule


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
