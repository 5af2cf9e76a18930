"""Delivery loops: one thread for each receiver, so that a slow receiver delays no other."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

import structlog

from monitor.errors import DeliveryError, MonitorError
from monitor.pipeline.delivery import OutboxSender, asked_pause_s
from monitor.ports import Receiver
from monitor.service.daemon.threads import LoopThread

STALLED_S = 300.0
"""A loop is considered hung after this time without progress. No message takes so long."""
POLL_S = 2.0
"""The time between two looks for due deliveries. A wake-up makes it shorter."""
LONGEST_REST_S = 30.0
"""How long a loop rests at most while its receiver rejects messages."""
FAILED_POLL_S = 10.0
"""How long a loop rests after an error of the database."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class DeliveryLoop:
    """Delivers to one receiver in its own thread, until it is stopped."""

    sender: OutboxSender
    thread: LoopThread = field(init=False)
    _progressed_s: float = 0.0
    _paused_until_s: float = float("-inf")
    _next_resend_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.thread = LoopThread(
            f"deliver-{self.sender.receiver.name}", self._step, again_s=FAILED_POLL_S
        )

    def start(self) -> Self:
        """Start the thread, and return the loop."""
        self._progressed_s = self.sender.clock.monotonic()
        self.thread.start()
        return self

    @property
    def is_stalled(self) -> bool:
        """Whether the loop has ended, or made no progress for STALLED_S seconds."""
        return (
            not self.thread.is_alive
            or self.sender.clock.monotonic() - self._progressed_s > STALLED_S
        )

    def _must_stop(self) -> bool:
        # This is called before each message, so each call is progress.
        self._progressed_s = self.sender.clock.monotonic()
        return self.thread.must_stop

    def _step(self) -> float:
        self._progressed_s = self.sender.clock.monotonic()
        try:
            return self.take_turn()
        except MonitorError as error:
            log.warning(
                "receiver not notified",
                receiver=self.sender.receiver.name,
                reason=str(error),
            )
            if isinstance(error, DeliveryError):
                self._pause(asked_pause_s(error.retry_after_s))
            return FAILED_POLL_S

    def take_turn(self) -> float:
        """Send due deliveries and due repetitions, unless the receiver asked for a pause.

        Returns the seconds until the next look.
        """
        pause_s = self._paused_until_s - self.sender.clock.monotonic()
        if pause_s > 0:
            return min(pause_s, LONGEST_REST_S)
        rest = self._deliver()
        if self._paused_until_s > self.sender.clock.monotonic():
            return rest
        # This uses the thread of the deliveries, so that a repetition cannot arrive after the
        # alert's end.
        self.sender.repeat_due()
        every_s = self.sender.receiver.treatment.resend_every_s
        if every_s is not None and self.sender.clock.monotonic() >= self._next_resend_s:
            self._next_resend_s = self.sender.clock.monotonic() + every_s
            self.sender.resend_firing()
        return rest

    def _deliver(self) -> float:
        """Send due deliveries. Returns the seconds until the next look."""
        pause = self.sender.deliver_due(should_stop=self._must_stop)
        if pause is None:
            return POLL_S
        self._pause(pause.asked_s)
        rest_s = (pause.until - self.sender.clock.now()).total_seconds()
        return min(max(rest_s, 0.1), LONGEST_REST_S)

    def _pause(self, pause_s: float) -> None:
        if pause_s > 0:
            self._paused_until_s = self.sender.clock.monotonic() + pause_s


@dataclass(slots=True, kw_only=True)
class DeliveryLoops:
    """The delivery loops of one wiring, one for each receiver.

    Threads may share it.
    """

    sender_of: Callable[[Receiver], OutboxSender]
    _loops: tuple[DeliveryLoop, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, receivers: Iterable[Receiver]) -> None:
        """Start a loop for each of these receivers."""
        with self._lock:
            senders = map(self.sender_of, receivers)
            self._loops = tuple(DeliveryLoop(sender=sender).start() for sender in senders)

    def wake(self) -> None:
        """Make all loops look for due deliveries now."""
        for loop in self._loops:
            loop.thread.wake()

    def stop(self, timeout_s: float) -> None:
        """Ask all loops to stop, and wait until they end, but at most ``timeout_s``."""
        with self._lock:
            loops = self._loops
            self._loops = ()
        for loop in loops:
            loop.thread.ask_to_stop()
        ends_at = time.monotonic() + timeout_s
        for loop in loops:
            loop.thread.stop(timeout_s=ends_at - time.monotonic())

    def renew_stalled(self) -> None:
        """Replace each loop that hangs or has ended unexpectedly."""
        with self._lock:
            self._loops = tuple(map(_renewed_if_stalled, self._loops))


def _renewed_if_stalled(loop: DeliveryLoop) -> DeliveryLoop:
    if not loop.is_stalled:
        return loop
    log.error("delivery hung; restarted", receiver=loop.sender.receiver.name)
    loop.sender.publisher.count("watchdog_restarts_total", "delivery")
    loop.thread.ask_to_stop()
    return DeliveryLoop(sender=loop.sender).start()
