"""A token bucket."""

from __future__ import annotations

import time
from collections.abc import Callable


class Bucket:
    """Lets ``burst`` through at once, and one more each ``interval_s``."""

    def __init__(self, interval_s: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s, self._burst, self._clock = interval_s, burst, clock
        self._tokens, self._counted_at = float(burst), clock()

    def take(self) -> bool:
        """Whether there was a token left."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) / self._interval_s)
        self._counted_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
