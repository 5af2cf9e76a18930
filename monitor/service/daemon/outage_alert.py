"""The alert DatabaseAway: notifies receivers of an outage of the database without asking the database."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from monitor.errors import DeliveryError
from monitor.model import Direction, Message, Severity, State, Transition
from monitor.ports import Clock, Publisher, Receiver
from monitor.service.daemon.outage import Outage, OutageMonitor

ALERT, WATCHED = "DatabaseAway", "rankwatch"
"""What stands for the names of alert and comparison."""
REPEAT_S = 4 * 3600.0
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 120.0
REFUSED_PAUSE_S = 600.0
"""How long after a permanent rejection the receiver is tried again: an outage is worth another attempt."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastNotice:
    """The firing that a receiver was sent last, and when. ``is_sure``: False when it is unknown whether it arrived."""

    start: Transition
    at_s: float
    is_sure: bool = True


@dataclass(slots=True, kw_only=True)
class _ReceiverState:
    sent: LastNotice | None = None
    failures: int = 0
    rests_until_s: float = float("-inf")


@dataclass(slots=True, kw_only=True)
class OutageAlert:
    """Notifies each receiver by itself; call ``notify`` for each every few seconds, from one thread a receiver.

    ``place`` names the database, ``alert_after`` is how long an outage lasts before anybody is notified. What was sent is kept
    in memory.
    """

    database: OutageMonitor
    clock: Clock
    publisher: Publisher
    place: str
    alert_after: Callable[[], timedelta]
    _states: dict[str, _ReceiverState] = field(default_factory=dict)

    def notify(self, receiver: Receiver) -> None:
        """Send the start, repetition or end that is due to this receiver, if any. A failure is logged and tried again."""
        state, steady_s = self._states.setdefault(receiver.name, _ReceiverState()), self.clock.monotonic()
        message = self._due_message(state, receiver)
        if message is None:
            return
        try:
            receiver.send(message, now=self.clock.now())
        except DeliveryError as error:
            self._note_failure(state, message, error)
            self.publisher.delivery_failed(receiver.name, error.trouble)
            self.publisher.notified(receiver.name, "retry")
            log.error("receiver not notified of the outage", receiver=receiver.name, reason=str(error))  # noqa: TRY400 - says all
            return
        state.failures = 0
        self.publisher.notified(receiver.name, "sent")
        state.sent = LastNotice(start=message.firing[0], at_s=steady_s) if message.firing else None
        log.warning("receiver notified of the outage", receiver=receiver.name, status=message.status)

    def _due_message(self, state: _ReceiverState, receiver: Receiver) -> Message | None:
        sent, outage, steady_s = state.sent, self.database.lasting, self.clock.monotonic()
        if steady_s < state.rests_until_s:
            return None
        if outage is None:
            return None if sent is None else _outage_message(end_of(sent.start, self.clock.now(), self.place))
        if sent is None:
            is_long = steady_s - outage.since_s >= self.alert_after().total_seconds()
            is_due = is_long and self.database.outage is not None
            return _outage_message(start_of(outage, self.clock.now(), self.place)) if is_due else None
        every_s = min(REPEAT_S, receiver.treatment.resend_every_s or REPEAT_S)
        if sent.is_sure and steady_s - sent.at_s < every_s:
            return None
        return _outage_message(sent.start, is_repetition=sent.is_sure)

    def _note_failure(self, state: _ReceiverState, message: Message, error: DeliveryError) -> None:
        steady_s = self.clock.monotonic()
        pause_s = REFUSED_PAUSE_S if error.permanent else min(FIRST_PAUSE_S * 2.0**state.failures, LONGEST_PAUSE_S)
        state.failures = min(state.failures + 1, 16)
        state.rests_until_s = steady_s + max(pause_s, error.retry_after_s or 0.0)
        if message.firing and error.may_be_known and state.sent is None:
            state.sent = LastNotice(start=message.firing[0], at_s=steady_s, is_sure=False)
        if not message.firing and error.permanent:
            state.sent = None  # the receiver will not take the end: the next outage starts a new incident for it


def start_of(outage: Outage, now: datetime, place: str) -> Transition:
    """The outage as a firing."""
    # One key a database, in every outage and from every daemon: several daemons, or one that was restarted, page once.
    key = hashlib.sha256(f"{ALERT} {place}".encode()).hexdigest()[:32]
    return Transition(
        comparison=WATCHED,
        alert=ALERT,
        segment="all",
        slot=outage.since,
        at=now,
        from_state=State.QUIET,
        to_state=State.FIRING,
        reason=f"{outage.reason}; until it is back nothing is compared, stored or alerted on",
        value=None,
        direction=Direction.ABOVE,
        threshold=0.0,
        users=0,
        metric="database",
        statistic="away",
        severity=Severity.CRITICAL,
        since=min(outage.since, now),
        dedup_key=key,
        incident=key,
    )


def end_of(start: Transition, now: datetime, place: str) -> Transition:
    """The end of that firing."""
    return replace(
        start,
        from_state=State.FIRING,
        to_state=State.QUIET,
        at=max(now, start.at),
        reason=f"{place} is back: what fell due meanwhile is run once, and pending notifications are delivered",
    )


def _outage_message(change: Transition, *, is_repetition: bool = False) -> Message:
    return Message(
        incident=change.incident or ALERT,
        comparison=WATCHED,
        severity=Severity.CRITICAL,
        changes=() if is_repetition else (change,),
        firing=(change,) if change.is_start else (),
        is_repetition=is_repetition,
    )
