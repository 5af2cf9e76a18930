"""The clocks that the service hands out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

SKEW = timedelta(seconds=30)
"""By how much the clocks of two machines may differ before one of them counts as wrong."""


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Wall clock, aware UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some moment, never going back."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class SlotClock:
    """Replay's clock: it is always the slot's time, while durations stay real."""

    slot: datetime

    def now(self) -> datetime:
        """The slot."""
        return self.slot

    def monotonic(self) -> float:
        """Real seconds."""
        return time.monotonic()
