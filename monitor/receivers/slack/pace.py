"""Slack takes about one message a second from a webhook, and a few at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

EVERY_S = 1.0


class Pace:
    """Lets one pass a second. Safe to share between threads."""

    def __init__(
        self, *, monotonic: Callable[[], float] = time.monotonic, pause: Callable[[float], object] = time.sleep
    ) -> None:
        self._monotonic, self._pause = monotonic, pause
        self._next, self._lock = float("-inf"), threading.Lock()

    def wait(self) -> None:
        """Return as soon as the next may be sent."""
        with self._lock:
            now = self._monotonic()
            turn = max(self._next, now)
            self._next = turn + EVERY_S
        if turn > now:
            self._pause(turn - now)
