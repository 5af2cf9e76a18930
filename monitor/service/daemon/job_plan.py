"""What a job of the daemon calls and when, how long it may take, and how it shares places with others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from monitor.settings.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What a job calls, at each slot of a schedule or at an interval.

    ``limit``: at work for longer it counts as hung. ``is_run``: few of these are at work at a time, and one whose last run
    ``has_hung`` stands back for others; ``slow_after``: so long at work one no longer keeps others waiting. ``first``: how soon
    housekeeping comes the first time, where that is not after its interval; ``is_put_off_by_jump``: a jump of the wall clock
    makes it wait for a whole interval.
    """

    call: Callable[[], object]
    when: Schedule | timedelta
    limit: timedelta
    is_run: bool = False
    has_hung: Callable[[], bool] = lambda: False
    slow_after: timedelta = timedelta.max
    first: timedelta | None = None
    is_put_off_by_jump: bool = False
