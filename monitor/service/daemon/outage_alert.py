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
"""Names that stand for alert and comparison."""
REPEAT_S = 4 * 3600.0
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 120.0
REFUSED_PAUSE_S = 600.0
"""How long a receiver is left alone that has refused for good: an emergency is worth another try."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastNotice:
    """What a receiver was told last: the start of a firing, and when. ``is_sure``: False when it may not have heard of it."""

    start: Transition
    at_s: float
    is_sure: bool = True


@dataclass(slots=True, kw_only=True)
class _Account:
    told: LastNotice | None = None
    failures: int = 0
    rests_until_s: float = float("-inf")


@dataclass(slots=True, kw_only=True)
class OutageAlert:
    """Tells each receiver by itself; call ``tell`` for each every few seconds, from one thread a receiver.

    ``place`` names the database, ``alert_after`` is how long an outage lasts before anybody hears of it.
    """

    database: OutageMonitor
    clock: Clock
    publisher: Publisher
    place: str
    alert_after: Callable[[], timedelta]
    _accounts: dict[str, _Account] = field(default_factory=dict)

    def has_news(self, receiver: Receiver) -> bool:
        """Whether there is anything to tell this receiver now; answered at once."""
        return self._wanted(self._account(receiver), receiver) is not None

    def tell(self, receiver: Receiver) -> None:
        """Send what this receiver has to hear now, if anything. What goes wrong is logged, counted and tried again."""
        account, steady_s = self._account(receiver), self.clock.monotonic()
        message = self._wanted(account, receiver)
        if message is None:
            return
        try:
            receiver.send(message, now=self.clock.now())
        except DeliveryError as error:
            self._note_failure(account, message, error)
            self.publisher.delivery_failed(receiver.name, error.trouble)
            self.publisher.notified(receiver.name, "retry")
            log.error("receiver not told of the database", receiver=receiver.name, reason=str(error))  # noqa: TRY400 - says all
            return
        account.failures = 0
        self.publisher.notified(receiver.name, "sent")
        account.told = LastNotice(start=message.firing[0], at_s=steady_s) if message.firing else None
        log.warning("receiver told of the database", receiver=receiver.name, status=message.status)

    def _account(self, receiver: Receiver) -> _Account:
        return self._accounts.setdefault(receiver.name, _Account())

    def _wanted(self, account: _Account, receiver: Receiver) -> Message | None:
        told, outage, steady_s = account.told, self.database.lasting, self.clock.monotonic()
        if steady_s < account.rests_until_s:
            return None
        if outage is None:
            return None if told is None else _outage_message(end_of(told.start, self.clock.now(), self.place))
        if told is None:
            is_long = steady_s - outage.since_s >= self.alert_after().total_seconds()
            is_to_be_told = is_long and self.database.outage is not None
            return _outage_message(start_of(outage, self.clock.now(), self.place)) if is_to_be_told else None
        every_s = min(REPEAT_S, receiver.treatment.resend_every_s or REPEAT_S)
        if told.is_sure and steady_s - told.at_s < every_s:
            return None
        return _outage_message(told.start, is_repetition=told.is_sure)

    def _note_failure(self, account: _Account, message: Message, error: DeliveryError) -> None:
        steady_s = self.clock.monotonic()
        pause_s = REFUSED_PAUSE_S if error.permanent else min(FIRST_PAUSE_S * 2.0**account.failures, LONGEST_PAUSE_S)
        account.failures = min(account.failures + 1, 16)
        account.rests_until_s = steady_s + max(pause_s, error.retry_after_s or 0.0)
        if message.firing and error.may_be_known and account.told is None:
            account.told = LastNotice(start=message.firing[0], at_s=steady_s, is_sure=False)
        if not message.firing and error.permanent:
            account.told = None  # it will not take the end: the next outage is told as one


def start_of(outage: Outage, now: datetime, place: str) -> Transition:
    """The outage as a firing."""
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
        reason=f"{place} is back: what fell due meanwhile is run once, and what is owed is delivered",
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
