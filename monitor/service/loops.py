"""The delivery loops of one wiring: begun, woken, put in each other's place, stopped together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from monitor.alerts import Policy
from monitor.pipeline.deliver import Outlet
from monitor.ports import Clock, Publisher, Receiver, Store
from monitor.service.delivering import DeliveryLoop

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class DeliveryLoops:
    """One loop a receiver. Safe to share between threads.

    ``is_sure``: whether nobody else can be sending by now.
    """

    store: Store
    clock: Clock
    publisher: Publisher
    owner: str
    is_sure: Callable[[], bool] = lambda: True
    _loops: tuple[DeliveryLoop, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, receivers: Iterable[Receiver], policy: Policy) -> None:
        """Begin with these receivers, and what the configuration says of who hears what."""
        outlets = [
            Outlet(
                store=self.store,
                receiver=receiver,
                clock=self.clock,
                publisher=self.publisher,
                owner=self.owner,
                policy=policy,
                is_sure=self.is_sure,
            )
            for receiver in receivers
        ]
        with self._lock:
            self._loops = tuple(map(_begin, outlets))

    def wake(self) -> None:
        """Let all look for due deliveries at once."""
        for loop in self._loops:
            loop.wake()

    def stop(self, timeout_s: float) -> None:
        """Ask all, wait at most so long for the end of all, and close their receivers."""
        with self._lock:
            loops, self._loops = self._loops, ()
        for loop in loops:
            loop.ask_to_stop()
        ends_at = time.monotonic() + timeout_s
        for loop in loops:
            loop.stop(timeout_s=ends_at - time.monotonic())

    def renew_stalled(self) -> None:
        """Put a new loop in the place of each that hangs or has died."""
        with self._lock:
            self._loops = tuple(self._renewed(loop) if loop.is_stalled else loop for loop in self._loops)

    def _renewed(self, hung: DeliveryLoop) -> DeliveryLoop:
        log.error("delivery hung; begun anew", receiver=hung.receiver.name)
        self.publisher.restarted("delivery")
        hung.ask_to_stop()
        return _begin(hung.outlet)


def _begin(outlet: Outlet) -> DeliveryLoop:
    loop = DeliveryLoop(outlet=outlet)
    loop.start()
    return loop
