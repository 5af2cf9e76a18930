"""When jobs are due: triggers of APScheduler over slots and over intervals, and what a jump of the wall clock changes."""

from __future__ import annotations

from datetime import datetime

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.interval import IntervalTrigger

from monitor.settings.schedule import Schedule


class SlotTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Fires at once, then at each slot of a schedule; of the slots that passed together at the newest alone."""

    __slots__ = ("schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """The next slot after the ``previous`` one, later than all but the newest before ``now``."""
        if previous is None:
            return now
        following = self.schedule.next(previous)
        # APScheduler walks through all times that passed: a clock set forward by a year must not cost a year's slots.
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
