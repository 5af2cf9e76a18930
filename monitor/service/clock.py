"""The clocks that the service hands out, and jumps of the wall clock."""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.model.instants import utc_now

SKEW = timedelta(seconds=30)
"""By how much the clocks of two machines may differ before one of them counts as wrong."""
LEAST_JUMP = timedelta(seconds=5)
"""Less is no jump: leap seconds, small corrections, a loop that was held up between reading two clocks."""


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Wall clock, aware UTC."""
        return utc_now()

    def monotonic(self) -> float:
        """Seconds since some moment, never going back."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class SlotClock(SystemClock):
    """Replay's clock: it is always the slot's time, while durations stay real."""

    slot: datetime

    def now(self) -> datetime:
        """The slot."""
        return self.slot


class JumpFinder:
    """Compares wall clock and steady clock from look to look, so that a slow correction never adds up to a jump."""

    def __init__(self) -> None:
        self._before: tuple[datetime, float] | None = None

    def look(self, now: datetime, steady_s: float) -> timedelta | None:
        """By how much the wall clock went ahead (below zero: back) since the last look, None when it went along."""
        before, self._before = self._before, (now, steady_s)
        if before is None:
            return None
        jump = (now - before[0]) - timedelta(seconds=steady_s - before[1])
        return jump if abs(jump) > LEAST_JUMP else None
