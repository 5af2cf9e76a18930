"""Delivers in turns. Each receiver has its own job, so a slow receiver does not delay others."""

from collections.abc import Callable, Container
from dataclasses import dataclass

import structlog

from monitor.model.errors import DeliveryError, MonitorError
from monitor.pipeline.delivery import OutboxSender
from monitor.pipeline.retry_times import requested_pause_s

TURN_S = 60.0
"""After this time a turn ends. It starts no further delivery."""
LONGEST_REST_S = 30.0
"""The longest pause after a failed delivery, unless the receiver asks for a longer pause."""
FAILED_REST_S = 10.0
"""The pause after an error of the database."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class DeliveryTurns:
    """Delivers messages to one receiver. Call ``take`` when ``is_due``."""

    sender: OutboxSender
    should_stop: Callable[[], bool] = bool
    _rests_until_s: float = float("-inf")
    _next_resend_s: float = float("-inf")

    def is_due(self, due_receivers: Container[str]) -> bool:
        """Whether a turn may have something to send. ``due_receivers`` comes from the outbox."""
        receiver = self.sender.receiver
        now_s = self.sender.clock.monotonic()
        if now_s < self._rests_until_s:
            return False
        is_resent = receiver.treatment.resend_every_s is not None
        return receiver.name in due_receivers or (is_resent and now_s >= self._next_resend_s)

    def take(self) -> None:
        """Send due deliveries and due repetitions, but nothing during a pause.

        Errors are logged.
        """
        if self.sender.clock.monotonic() < self._rests_until_s:
            return
        try:
            self._deliver()
        except MonitorError as error:
            name = self.sender.receiver.name
            log.warning("receiver not notified", receiver=name, reason=str(error))
            pause_s = FAILED_REST_S
            if isinstance(error, DeliveryError):
                pause_s = max(pause_s, requested_pause_s(error.retry_after_s))
            self._rest(pause_s)

    def _deliver(self) -> None:
        """Send due deliveries, then repetitions, then alerts that the receiver forgets.

        Raises MonitorError if the receiver or the database fails.
        """
        clock = self.sender.clock
        ends_at_s = clock.monotonic() + TURN_S

        def is_over() -> bool:
            return self.should_stop() or clock.monotonic() > ends_at_s

        stop = self.sender.deliver_due(should_stop=is_over)
        if stop is not None and stop.requested_s > 0:
            # The receiver asked for a pause, so it gets no repetitions either.
            self._rest(stop.requested_s)
            return
        if stop is not None:
            self._rest(min((stop.until - clock.now()).total_seconds(), LONGEST_REST_S))
        # The same job sends deliveries and repetitions. So no repetition arrives after the end of
        # its alert.
        self.sender.repeat_due()
        every_s = self.sender.receiver.treatment.resend_every_s
        if every_s is not None and clock.monotonic() >= self._next_resend_s:
            self._next_resend_s = clock.monotonic() + every_s
            self.sender.resend_alerts()

    def _rest(self, pause_s: float) -> None:
        self._rests_until_s = self.sender.clock.monotonic() + pause_s
