"""The one loop that everything else hangs on: it beats by the steady clock, and does nothing that could wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from monitor.ports import Clock

BEAT_S = 0.5
SILENT_S = 30.0
"""Without a beat for so long the process ought to be restarted: nobody inside is left to do it."""

log = structlog.get_logger(__name__)


class Heart:
    """Calls ``beat`` twice a second, and at once when woken, until stopped. A beat that raises is logged and does not count."""

    def __init__(self, clock: Clock, beat: Callable[[], None]) -> None:
        self._clock, self._beat = clock, beat
        self._beaten_s = clock.monotonic()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._beaten_s = self._clock.monotonic()
        self._thread = threading.Thread(target=self._loop, name="heart", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Beat at once."""
        self._wake.set()

    def stop(self) -> None:
        """End after the beat under way."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(SILENT_S)

    @property
    def is_beating(self) -> bool:
        """Whether the last good beat was less than SILENT_S ago."""
        return self._clock.monotonic() - self._beaten_s < SILENT_S

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                self._beat()
                self._beaten_s = self._clock.monotonic()
            except Exception:
                log.exception("heart failed; it goes on")
            self._wake.wait(BEAT_S)
            self._wake.clear()
