"""What a job of the daemon calls, how long it may take, how it shares places with others; APScheduler's triggers for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.interval import IntervalTrigger

from monitor.settings.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What a job calls, at each slot of a schedule or at an interval.

    ``limit``: at work for longer it counts as hung. ``is_run``: few of these are at work at a time, and one whose last run
    ``has_hung`` stands back for others; ``slow_after``: so long at work one no longer keeps others waiting. ``first``: how soon
    housekeeping comes the first time, where that is not after its interval.
    """

    call: Callable[[], object]
    when: Schedule | timedelta
    limit: timedelta
    is_run: bool = False
    has_hung: Callable[[], bool] = lambda: False
    slow_after: timedelta = timedelta.max
    first: timedelta | None = None


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
