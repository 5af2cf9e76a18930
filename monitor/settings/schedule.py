"""When a comparison runs: slots as aware UTC instants, computed from the configuration alone and never from the past."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.triggers.base import BaseTrigger

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

    def trigger(self) -> SlotTrigger:
        """The same slots for APScheduler."""
        return SlotTrigger(self)


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


class SlotTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """APScheduler's view of a schedule: fires at the slots and at nothing else."""

    __slots__ = ("schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """The slot after the previous one; at first the slot that ``now`` is, or the next."""
        if previous_fire_time is not None:
            return self.schedule.next(previous_fire_time)
        return self.schedule.next(now - timedelta(microseconds=1))

    def __repr__(self) -> str:
        return f"SlotTrigger({self.schedule!r})"
