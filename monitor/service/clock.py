"""The clocks of the service. `JumpFinder` detects jumps of the wall clock."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.model.instants import utc_now

MAX_CLOCK_SKEW = timedelta(seconds=30)
"""The largest accepted difference between the clocks of two machines."""
LEAST_JUMP = timedelta(seconds=5)
"""A smaller jump is ignored. Leap seconds, small corrections or a slow loop can cause it."""


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the time of the wall clock, in aware UTC."""
        return utc_now()

    def monotonic(self) -> float:
        """Return a number of seconds that never decreases."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class SlotClock(SystemClock):
    """The clock of a replay. Its time is always the slot, but it measures real durations."""

    slot: datetime

    def now(self) -> datetime:
        """Return the slot."""
        return self.slot


class JumpFinder:
    """Finds jumps of the wall clock by comparing it with the steady clock at each look.

    Slow corrections never add up to a jump, because each look compares only with the last one.
    """

    def __init__(self) -> None:
        self._before: tuple[datetime, float] | None = None

    def look(self, now: datetime, steady_s: float) -> timedelta | None:
        """Return the jump of the wall clock since the last look, if any.

        It is negative if the clock was set back.
        """
        before = self._before
        self._before = (now, steady_s)
        if before is None:
            return None
        now_before, steady_before_s = before
        jump = (now - now_before) - timedelta(seconds=steady_s - steady_before_s)
        if abs(jump) <= LEAST_JUMP:
            return None
        return jump
