"""A thread that repeats one step until it is stopped: what the watchdog, the lease and the delivery loops run in."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


class LoopThread:
    """Calls ``step`` again and again in a daemon thread; ``step`` returns the seconds to rest.

    A step that raises is logged, and repeated after ``again_s``.
    """

    def __init__(self, name: str, step: Callable[[], float], *, again_s: float) -> None:
        self._name, self._step, self._again_s = name, step, again_s
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """End the rest at once."""
        self._wake.set()

    def ask_to_stop(self) -> None:
        """End after the step under way."""
        self._stop.set()
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Ask, and wait at most so long for the end."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(max(timeout_s, 0.0))

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def must_stop(self) -> bool:
        """Whether it was asked to stop; for steps that take long."""
        return self._stop.is_set()

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                rest_s = self._step()
            except Exception:  # a defect must not end what the daemon lives by
                log.exception("loop failed; it goes on", loop=self._name, again_in_s=self._again_s)
                rest_s = self._again_s
            self._wake.wait(rest_s)
            self._wake.clear()
