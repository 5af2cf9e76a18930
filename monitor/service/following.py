"""The thread in which a daemon follows its lease: begins to lead when it was won, stands down when it was lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from monitor.errors import MonitorError

AGAIN_S = 2.0
"""How long after a failure it is tried again."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Follower:
    """Calls ``act`` each time ``changed`` is set, and again until it succeeds. Apart, so that renewing never waits for it."""

    changed: threading.Event
    act: Callable[[], None]
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._loop, name="follow-lease", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End, waiting at most so long for what is under way."""
        self._stop.set()
        self.changed.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    def _loop(self) -> None:
        while True:
            self.changed.wait()
            self.changed.clear()
            if self._stop.is_set():
                return
            try:
                self.act()
            except MonitorError as error:
                log.warning("change of leader not followed yet", reason=str(error), again_in_s=AGAIN_S)
                self._again()
            except Exception:
                log.exception("change of leader not followed yet", again_in_s=AGAIN_S)
                self._again()

    def _again(self) -> None:
        self._stop.wait(AGAIN_S)
        self.changed.set()
