"""Notices that the wall clock was set, or that the machine slept: the two clocks then disagree on how much time went by."""

from __future__ import annotations

from datetime import datetime, timedelta

LEAST_JUMP = timedelta(seconds=5)
"""What is not called a jump: leap seconds, small corrections, a loop that was held up between reading two clocks."""


class JumpFinder:
    """Compares the clocks from look to look, so that a slow correction never adds up to a jump."""

    def __init__(self) -> None:
        self._before: tuple[datetime, float] | None = None

    def look(self, now: datetime, steady_s: float) -> timedelta | None:
        """By how much the wall clock went ahead (below zero: back) since the last look, None when it went along."""
        before, self._before = self._before, (now, steady_s)
        if before is None:
            return None
        jump = (now - before[0]) - timedelta(seconds=steady_s - before[1])
        return jump if abs(jump) > LEAST_JUMP else None
