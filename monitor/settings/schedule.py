"""When a comparison runs: slots as aware UTC instants, computed from the configuration alone and never from the past."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Schedule(ABC):
    """A series of slots without begin or end. Every instant that goes in is aware, every one that comes out is UTC."""

    __slots__ = ()

    @property
    @abstractmethod
    def interval(self) -> timedelta:
        """The shortest time from one slot to the next, clock changes left aside."""

    @property
    @abstractmethod
    def longest(self) -> timedelta:
        """The longest time from one slot to the next, clock changes left aside."""

    @abstractmethod
    def latest(self, now: datetime) -> datetime:
        """The newest slot at or before ``now``."""

    @abstractmethod
    def next(self, after: datetime) -> datetime:
        """The first slot strictly after ``after``."""

    def between(self, start: datetime, end: datetime) -> list[datetime]:
        """All slots from ``start`` to ``end`` in order, both ends included; none when ``end`` lies before ``start``."""
        slots = []
        slot = self.next(start - timedelta(microseconds=1))
        while slot <= end:
            slots.append(slot)
            slot = self.next(slot)
        return slots


@dataclass(frozen=True, slots=True)
class Every(Schedule):
    """A slot each ``period``, counted from 1970-01-01 00:00 UTC: ``15m`` runs at :00, :15, :30 and :45 of each hour."""

    period: timedelta

    @property
    def interval(self) -> timedelta:
        """The period itself."""
        return self.period

    @property
    def longest(self) -> timedelta:
        """The period itself."""
        return self.period

    def latest(self, now: datetime) -> datetime:
        """The newest slot at or before ``now``."""
        return EPOCH + (now - EPOCH) // self.period * self.period

    def next(self, after: datetime) -> datetime:
        """The first slot strictly after ``after``."""
        return self.latest(after) + self.period
