"""Delivery loops: one thread a receiver, so that a slow receiver holds up no other."""

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
"""Without progress for so long a loop counts as hung: no message and no statement may take that long."""
POLL_S = 2.0
"""How often a loop looks for due deliveries unless woken."""
LONGEST_REST_S = 30.0
"""How long a loop rests at most while its receiver rejects."""
FAILED_POLL_S = 10.0
"""How long a loop rests after an error of the database."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class DeliveryLoop:
    """Delivers to one receiver in its own thread until stopped."""

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
        """Begin; the loop itself."""
        self._progressed_s = self.sender.clock.monotonic()
        self.thread.start()
        return self

    @property
    def is_stalled(self) -> bool:
        """Whether it has ended, or made no progress for STALLED_S seconds."""
        return (
            not self.thread.is_alive
            or self.sender.clock.monotonic() - self._progressed_s > STALLED_S
        )

    def _must_stop(self) -> bool:
        # Asked before each message, so that being asked is progress.
        self._progressed_s = self.sender.clock.monotonic()
        return self.thread.must_stop

    def _step(self) -> float:
        self._progressed_s = self.sender.clock.monotonic()
        try:
            return self.take_turn()
        except MonitorError as error:
            log.warning(
                "receiver not notified", receiver=self.sender.receiver.name, reason=str(error)
            )
            self._pause(
                asked_pause_s(error.retry_after_s) if isinstance(error, DeliveryError) else 0.0
            )
            return FAILED_POLL_S

    def take_turn(self) -> float:
        """Deliver, repeat and resend what is due, unless the receiver asked for a pause.

        Seconds until the next look.
        """
        pause_s = self._paused_until_s - self.sender.clock.monotonic()
        if pause_s > 0:
            return min(pause_s, LONGEST_REST_S)
        rest = self._deliver()
        if self._paused_until_s > self.sender.clock.monotonic():
            return rest
        # In one thread with deliveries: a repetition must not overtake an end that has just been
        # sent.
        self.sender.repeat_due()
        every_s = self.sender.receiver.treatment.resend_every_s
        if every_s is not None and self.sender.clock.monotonic() >= self._next_resend_s:
            self._next_resend_s = self.sender.clock.monotonic() + every_s
            self.sender.resend_firing()
        return rest

    def _deliver(self) -> float:
        """Deliver what is due; seconds until the next look."""
        if (pause := self.sender.deliver_due(should_stop=self._must_stop)) is None:
            return POLL_S
        self._pause(pause.asked_s)
        return min(
            max((pause.until - self.sender.clock.now()).total_seconds(), 0.1), LONGEST_REST_S
        )

    def _pause(self, asked_s: float) -> None:
        if asked_s > 0:
            self._paused_until_s = self.sender.clock.monotonic() + asked_s


@dataclass(slots=True, kw_only=True)
class DeliveryLoops:
    """The delivery loops of one wiring, one a receiver, each over its ``sender_of`` it.

    Safe to share between threads.
    """

    sender_of: Callable[[Receiver], OutboxSender]
    _loops: tuple[DeliveryLoop, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, receivers: Iterable[Receiver]) -> None:
        """Begin with these receivers."""
        with self._lock:
            self._loops = tuple(
                DeliveryLoop(sender=self.sender_of(receiver)).start() for receiver in receivers
            )

    def wake(self) -> None:
        """Let all look for due deliveries at once."""
        for loop in self._loops:
            loop.thread.wake()

    def stop(self, timeout_s: float) -> None:
        """Ask all, and wait at most so long for the end of all."""
        with self._lock:
            loops, self._loops = self._loops, ()
        for loop in loops:
            loop.thread.ask_to_stop()
        ends_at = time.monotonic() + timeout_s
        for loop in loops:
            loop.thread.stop(timeout_s=ends_at - time.monotonic())

    def renew_stalled(self) -> None:
        """Put a new loop in the place of each that hangs or has died."""
        with self._lock:
            self._loops = tuple(_renewed(loop) if loop.is_stalled else loop for loop in self._loops)


def _renewed(hung: DeliveryLoop) -> DeliveryLoop:
    log.error("delivery hung; restarted", receiver=hung.sender.receiver.name)
    hung.sender.publisher.count("watchdog_restarts_total", "delivery")
    hung.thread.ask_to_stop()
    return DeliveryLoop(sender=hung.sender).start()
