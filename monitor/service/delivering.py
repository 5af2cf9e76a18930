"""One loop a receiver, so that a slow one holds nobody up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from monitor.errors import MonitorError
from monitor.pipeline.deliver import deliver_due, resend_firing
from monitor.ports import Clock, Publisher, Receiver, Store

POLL_S = 2.0
"""How often a loop looks for what is due when nobody wakes it."""
LONGEST_REST_S = 30.0
"""How long a loop rests at most while its receiver refuses."""
FAILED_POLL_S = 10.0
"""How long a loop rests after the database refused it."""

log = structlog.get_logger(__name__)


def stop_loops(loops: Sequence[DeliveryLoop], timeout_s: float) -> None:
    """Stop all of them, waiting at most so long for all together."""
    for loop in loops:
        loop.ask_to_stop()
    ends_at = time.monotonic() + timeout_s
    for loop in loops:
        loop.stop(timeout_s=ends_at - time.monotonic())


@dataclass(slots=True, kw_only=True)
class DeliveryLoop:
    """Delivers to one receiver in its own thread until stopped, while it ``is_sure`` that nobody else does."""

    store: Store
    receiver: Receiver
    clock: Clock
    publisher: Publisher
    owner: str
    is_sure: Callable[[], bool] = lambda: True
    _stop: threading.Event = field(default_factory=threading.Event)
    _wake: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._loop, name=f"deliver-{self.receiver.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look for due deliveries at once."""
        self._wake.set()

    def ask_to_stop(self) -> None:
        """End after the delivery under way."""
        self._stop.set()
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Ask, wait at most so long for the end, and close the receiver."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(max(timeout_s, 0.0))
        self.receiver.close()

    @property
    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    def _loop(self) -> None:
        next_resend = self.clock.monotonic()
        while not self._stop.is_set():
            rest = POLL_S
            try:
                rest = self._deliver()
                if self.receiver.resend_every_s is not None and self.clock.monotonic() >= next_resend and self.is_sure():
                    next_resend = self.clock.monotonic() + self.receiver.resend_every_s
                    resend_firing(self.store, self.receiver, self.clock)
            except MonitorError as error:
                log.warning("receiver not told", receiver=self.receiver.name, reason=str(error))
                rest = FAILED_POLL_S
            except Exception:
                log.exception("delivery loop failed; it goes on", receiver=self.receiver.name, again_in_s=FAILED_POLL_S)
                rest = FAILED_POLL_S
            self._wake.wait(rest)
            self._wake.clear()

    def _deliver(self) -> float:
        """Deliver what is due; seconds until it is worth looking again."""
        counts = deliver_due(
            self.store,
            self.receiver,
            self.clock,
            owner=self.owner,
            publisher=self.publisher,
            should_stop=lambda: self._stop.is_set() or not self.is_sure(),
        )
        if counts.retry_at is None:
            return POLL_S
        return min(max((counts.retry_at - self.clock.now()).total_seconds(), 0.1), LONGEST_REST_S)
