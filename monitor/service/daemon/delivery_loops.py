"""Delivery loops: one thread a receiver, so that a slow receiver holds up no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from monitor.alerts import NotificationPolicy, asked_pause_s
from monitor.errors import DeliveryError, MonitorError
from monitor.pipeline.delivery import OutboxSender
from monitor.ports import Clock, Outbox, Publisher, Receiver

STALLED_S = 300.0
"""Without progress for so long a loop counts as hung: no message and no statement may take that long."""
POLL_S = 2.0
"""How often a loop looks for what is due when nobody wakes it."""
LONGEST_REST_S = 30.0
"""How long a loop rests at most while its receiver refuses."""
FAILED_POLL_S = 10.0
"""How long a loop rests after the database refused it."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class DeliveryLoop:
    """Delivers to one receiver in its own thread until stopped."""

    outlet: OutboxSender
    _stop: threading.Event = field(default_factory=threading.Event)
    _wake: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _progressed_s: float = 0.0
    _paused_until_s: float = float("-inf")
    _next_resend_s: float = float("-inf")

    @property
    def receiver(self) -> Receiver:
        """Who is told."""
        return self.outlet.receiver

    def start(self) -> None:
        """Begin."""
        self._progressed_s = self.outlet.clock.monotonic()
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

    @property
    def is_stalled(self) -> bool:
        """Whether it has died, or made no progress for STALLED_S seconds."""
        return not self.is_alive or self.outlet.clock.monotonic() - self._progressed_s > STALLED_S

    def _must_stop(self) -> bool:
        """Asked before each message, so that being asked is progress."""
        self._progressed_s = self.outlet.clock.monotonic()
        return self._stop.is_set()

    def _loop(self) -> None:
        while not self._must_stop():
            try:
                rest = self.take_turn()
            except MonitorError as error:
                log.warning("receiver not told", receiver=self.receiver.name, reason=str(error))
                self._pause(asked_pause_s(error.retry_after_s) if isinstance(error, DeliveryError) else 0.0)
                rest = FAILED_POLL_S
            except Exception:
                log.exception("delivery loop failed; it goes on", receiver=self.receiver.name, again_in_s=FAILED_POLL_S)
                rest = FAILED_POLL_S
            self._wake.wait(rest)
            self._wake.clear()

    def take_turn(self) -> float:
        """Tell what there is to tell, unless the receiver asked to be left alone; seconds until it is worth looking again."""
        pause_s = self._paused_until_s - self.outlet.clock.monotonic()
        if pause_s > 0:
            return min(pause_s, LONGEST_REST_S)
        rest = self._deliver()
        if self._paused_until_s > self.outlet.clock.monotonic():
            return rest
        self.outlet.repeat_due()
        every_s = self.receiver.resend_every_s
        if every_s is not None and self.outlet.clock.monotonic() >= self._next_resend_s:
            self._next_resend_s = self.outlet.clock.monotonic() + every_s
            self.outlet.resend_told()
        return rest

    def _deliver(self) -> float:
        """Deliver what is due; seconds until it is worth looking again."""
        counts = self.outlet.deliver_due(should_stop=self._must_stop)
        self._pause(counts.asked_s)
        if counts.retry_at is None:
            return POLL_S
        return min(max((counts.retry_at - self.outlet.clock.now()).total_seconds(), 0.1), LONGEST_REST_S)

    def _pause(self, asked_s: float) -> None:
        if asked_s > 0:
            self._paused_until_s = self.outlet.clock.monotonic() + asked_s


@dataclass(slots=True, kw_only=True)
class DeliveryLoops:
    """One loop a receiver. Safe to share between threads.

    ``is_sure``: whether nobody else can be sending by now.
    """

    outbox: Outbox
    clock: Clock
    publisher: Publisher
    owner: str
    is_sure: Callable[[], bool] = lambda: True
    _loops: tuple[DeliveryLoop, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, receivers: Iterable[Receiver], policy: NotificationPolicy) -> None:
        """Begin with these receivers, and what the configuration says of who hears what."""
        outlets = [
            OutboxSender(
                outbox=self.outbox,
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
            self._loops = tuple(map(_begin_loop, outlets))

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
        return _begin_loop(hung.outlet)


def _begin_loop(outlet: OutboxSender) -> DeliveryLoop:
    loop = DeliveryLoop(outlet=outlet)
    loop.start()
    return loop
