"""The outbox's way out: claim, decide, send, record, at least once.

Deliveries are leased before they are looked at, marked before they are sent, and recorded after; a process that dies on the way
leaves them to whoever comes once the lease has run out, and they go out again under the same keys. For one receiver, call these
from one thread: what is told again must not overtake an end that has just been sent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from monitor.alerts import (
    Addressee,
    Dispatch,
    NotificationPolicy,
    asked_pause_s,
    compose_messages,
    compose_repetitions,
    next_attempt,
)
from monitor.errors import DeliveryError
from monitor.model import Delivery, DeliveryStatus, FiringSnapshot, Message, Notification, Transition
from monitor.ports import Clock, Outbox, Publisher, Receiver

LEASE = timedelta(seconds=60)
"""Longer than any receiver may take for one message."""
RECHECK_AFTER = timedelta(seconds=30)
"""When what is held back is looked at again."""
RESEND_ENDS_FOR = timedelta(minutes=5)
"""How long ends are told again to who has to be told again and again."""
_REPETITIONS_SLOWED = 4
"""A repetition that fails waits as if so many attempts had failed before: nobody waits for it."""
_CLAIMED = 2000
_BATCH = 250
_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryCounts:
    """Deliveries by what came of them. ``retry_at``: when the receiver that failed may be tried again.

    ``asked_s``: for how long it asked to be left alone, whatever else there is to tell it.
    """

    sent: int = 0
    retry: int = 0
    dead: int = 0
    held: int = 0
    dropped: int = 0
    retry_at: datetime | None = None
    asked_s: float = 0.0

    def __add__(self, other: DeliveryCounts) -> DeliveryCounts:
        return DeliveryCounts(
            sent=self.sent + other.sent,
            retry=self.retry + other.retry,
            dead=self.dead + other.dead,
            held=self.held + other.held,
            dropped=self.dropped + other.dropped,
            retry_at=other.retry_at or self.retry_at,
            asked_s=max(self.asked_s, other.asked_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSender:
    """One receiver's way out of the outbox.

    ``is_sure``: whether nobody else can be sending by now; asked right before each message. ``draw``: uniform in [0, 1).
    """

    outbox: Outbox
    receiver: Receiver
    clock: Clock
    publisher: Publisher
    owner: str
    policy: NotificationPolicy = field(default_factory=NotificationPolicy)
    is_sure: Callable[[], bool] = lambda: True
    draw: Callable[[], float] = random.random

    def deliver_due(self, *, should_stop: Callable[[], bool] = lambda: False) -> DeliveryCounts:
        """Send what is due, the comparison that has waited longest first; what fires in one run goes in one message.

        Ends early when ``should_stop`` says so, and at the first failure that may pass: a receiver that is down is not tried
        with everything that waits for it. Any error but DeliveryError is a defect: the deliveries are put off and it is raised.
        """
        counts = DeliveryCounts()
        while not (counts.retry or should_stop()):
            now = self.clock.now()
            claimed = self.outbox.claim_deliveries(
                self.receiver.name, owner=self.owner, now=now, until=now + LEASE, limit=_CLAIMED
            )
            if not claimed or not self.is_sure():
                break
            counts += self._deliver(claimed, now, should_stop)
        return counts

    def repeat_due(self) -> int:
        """Tell again what lasts for long and nobody looks after; how many firings. DeliveryError when it was not taken."""
        every_s = self.receiver.treatment.repeat_every_s
        due = () if every_s is None else self.outbox.due_repetitions(self.receiver.name, now=self.clock.now(), limit=_CLAIMED)
        by_comparison: dict[str, list[Delivery]] = {}
        for each in due:
            by_comparison.setdefault(each.transition.comparison, []).append(each)
        return sum(self._repeat(of_it, timedelta(seconds=every_s or 0.0)) for of_it in by_comparison.values())

    def resend_told(self) -> int:
        """Tell a receiver that wants it all that it was told and that fires still, and what ended lately; how many.

        DeliveryError when it did not take them. Nothing is recorded: the next call tells them again.
        """
        if self.receiver.treatment.resend_every_s is None or not self.is_sure():
            return 0
        now = self.clock.now()
        told = self.outbox.delivered(self.receiver.name, ended_since=now - RESEND_ENDS_FOR)
        for start in range(0, len(told), _BATCH):
            batch = told[start : start + _BATCH]
            first = batch[0]
            message = Message(
                incident=first.incident or "",
                comparison=first.comparison,
                severity=first.severity,
                changes=batch,
                is_repetition=True,
            )
            self.receiver.send(message, now=now)
        return len(told)

    def _deliver(self, claimed: Sequence[Delivery], now: datetime, should_stop: Callable[[], bool]) -> DeliveryCounts:
        comparison = claimed[0].transition.comparison
        keys = [each.transition.dedup_key for each in claimed]
        situation = self.outbox.firing_snapshot(comparison, self.receiver.name, keys, now=now)
        decisions = self._telling(situation, now).decide(claimed)
        counts = self._put_aside([_note(each.delivery, now, each.status, reason=each.reason) for each in decisions])
        sending = {_name(each.delivery): each.delivery for each in decisions if each.status is DeliveryStatus.PENDING}
        messages = compose_messages([each.transition for each in sending.values()], situation)
        for message in messages:
            if should_stop():
                self._put_off(list(sending.values()), now)
                break
            of_it = [sending.pop(_change(change)) for change in message.changes]
            counts += self._send(self._brief(message), of_it)
            if counts.retry:
                self._put_off(list(sending.values()), counts.retry_at)
                break
        return counts

    def _telling(self, situation: FiringSnapshot, now: datetime) -> Dispatch:
        to = Addressee(name=self.receiver.name, is_ungrouped=self.receiver.treatment.is_ungrouped)
        return Dispatch(situation=situation, policy=self.policy, to=to, now=now)

    def _put_aside(self, notes: Iterable[Notification]) -> DeliveryCounts:
        """Record what is held back or dropped."""
        held = [replace(each, next_attempt_at=each.at + RECHECK_AFTER) for each in notes if each.status is DeliveryStatus.HELD]
        dropped = [each for each in notes if each.status is DeliveryStatus.DROPPED]
        if held or dropped:
            self.outbox.record(*held, *dropped)
        self._count("dropped", len(dropped))
        return DeliveryCounts(held=len(held), dropped=len(dropped))

    def _put_off(self, deliveries: Sequence[Delivery], until: datetime | None) -> None:
        """Let what was not tried wait as long as what was refused."""
        notes = [_note(each, self.clock.now(), DeliveryStatus.PENDING, again=until) for each in deliveries]
        if notes:
            self.outbox.record(*notes)

    def _brief(self, message: Message) -> Message:
        starts = message.starts
        if not starts:
            return message
        newest = max(start.slot for start in starts)
        return replace(message, briefing=self.outbox.briefing(message.comparison, newest))

    def _send(self, message: Message, deliveries: Sequence[Delivery]) -> DeliveryCounts:
        if not self.is_sure():
            return DeliveryCounts(retry=len(deliveries), retry_at=self.clock.now())
        self.outbox.mark_sending(deliveries, owner=self.owner, until=self.clock.now() + LEASE)
        try:
            self.receiver.send(message, now=self.clock.now())
        except DeliveryError as error:
            return self._failed(message, deliveries, error)
        except Exception as error:
            name = self.receiver.name
            defect = DeliveryError(
                f"{name} failed with {type(error).__name__}, a defect: see the log", permanent=False, may_be_known=True
            )
            self._failed(message, deliveries, defect)
            raise
        now, every_s = self.clock.now(), self.receiver.treatment.repeat_every_s
        repeat_at = None if every_s is None else now + timedelta(seconds=every_s)
        self.outbox.record(*(_sent(each, now, repeat_at) for each in deliveries))
        self._count("sent", len(deliveries))
        return DeliveryCounts(sent=len(deliveries))

    def _failed(self, message: Message, deliveries: Sequence[Delivery], error: DeliveryError) -> DeliveryCounts:
        """Put off, give up, or send by halves what was refused for what a part of it says."""
        if error.permanent and error.of_message and len(deliveries) > 1:
            return sum((self._send(*half) for half in _halves(message, deliveries)), DeliveryCounts())
        self.publisher.delivery_failed(self.receiver.name, error.trouble)
        now = self.clock.now()
        if error.permanent:
            fallback = self.policy.fallbacks.get(self.receiver.name)
            self.outbox.record(*(_dead(each, now, error, fallback) for each in deliveries))
            self._count("dead", len(deliveries))
            return DeliveryCounts(dead=len(deliveries))
        attempts = max(each.attempts for each in deliveries)
        again = next_attempt(attempts, now=now, draw=self.draw(), retry_after_s=error.retry_after_s)
        self.outbox.record(
            *(
                _note(each, now, DeliveryStatus.PENDING, reason=str(error), again=again, may_be_known=error.may_be_known)
                for each in deliveries
            )
        )
        self._count("retry", len(deliveries))
        return DeliveryCounts(retry=len(deliveries), retry_at=again, asked_s=asked_pause_s(error.retry_after_s))

    def _repeat(self, due: Sequence[Delivery], every: timedelta) -> int:
        """Repeat the firings of one comparison; those that are held back now are looked at again soon."""
        now = self.clock.now()
        situation = self.outbox.firing_snapshot(due[0].transition.comparison, self.receiver.name, (), now=now)
        telling = self._telling(situation, now)
        is_held = {_name(each): telling.why_not_again(each.transition) is not None for each in due}
        self.outbox.schedule_repetition([each for each in due if is_held[_name(each)]], at=now + min(every, RECHECK_AFTER))
        telling_again = {_name(each): each for each in due if not is_held[_name(each)]}
        for message in compose_repetitions([each.transition for each in telling_again.values()]):
            if self.is_sure():
                self._send_again(message, [telling_again[_change(start)] for start in message.firing], every)
        return len(telling_again)

    def _send_again(self, message: Message, deliveries: Sequence[Delivery], every: timedelta) -> None:
        now = self.clock.now()
        try:
            self.receiver.send(message, now=now)
        except DeliveryError as error:
            self.publisher.delivery_failed(self.receiver.name, error.trouble)
            soon = next_attempt(_REPETITIONS_SLOWED, now=now, draw=self.draw(), retry_after_s=error.retry_after_s)
            self.outbox.schedule_repetition(deliveries, at=now + every if error.permanent else soon)
            raise
        self.outbox.schedule_repetition(deliveries, at=now + every)

    def _count(self, outcome: str, deliveries: int) -> None:
        for _ in range(deliveries):
            self.publisher.notified(self.receiver.name, outcome)


def drain(
    outlets: Sequence[OutboxSender],
    *,
    budget_s: float = 15.0,
    pause: Callable[[float], None] = time.sleep,
) -> DeliveryCounts:
    """Deliver until nobody is owed anything or the time is over; what is left stays in the outbox.

    For a process that ends afterwards, so retries that come due within the time are waited for. Receivers take turns; the last
    attempt may outlast the time by the receiver's own timeout.
    """
    if not outlets:
        return DeliveryCounts()
    clock, outbox = outlets[0].clock, outlets[0].outbox
    ends_at = clock.monotonic() + budget_s
    counts = DeliveryCounts()
    while True:
        for outlet in outlets:
            counts += outlet.deliver_due(should_stop=lambda: clock.monotonic() >= ends_at)
        owed = outbox.pending(clock.now())
        left = ends_at - clock.monotonic()
        if left <= 0 or not any(owed.get(outlet.receiver.name, (0, 0.0))[0] for outlet in outlets):
            return counts
        pause(min(_PAUSE_S, left))


def _name(delivery: Delivery) -> tuple[object, ...]:
    return _change(delivery.transition)


def _change(change: Transition) -> tuple[object, ...]:
    """What no two announced changes of a comparison have in common."""
    return change.dedup_key, change.from_state, change.to_state, change.slot


def _halves(message: Message, deliveries: Sequence[Delivery]) -> Iterator[tuple[Message, Sequence[Delivery]]]:
    middle = len(deliveries) // 2
    for part in (slice(None, middle), slice(middle, None)):
        yield replace(message, changes=message.changes[part]), deliveries[part]


def _sent(delivery: Delivery, now: datetime, repeat_at: datetime | None) -> Notification:
    again = repeat_at if delivery.transition.is_start else None
    return replace(_note(delivery, now, DeliveryStatus.SENT), repeat_at=again)


def _dead(delivery: Delivery, now: datetime, error: DeliveryError, fallback: str | None) -> Notification:
    note = _note(delivery, now, DeliveryStatus.DEAD, reason=str(error), may_be_known=error.may_be_known)
    return note if delivery.transition.is_end else replace(note, fallback=fallback)


def _note(
    delivery: Delivery,
    at: datetime,
    status: DeliveryStatus,
    *,
    reason: str | None = None,
    again: datetime | None = None,
    may_be_known: bool = False,
) -> Notification:
    return Notification(
        delivery_id=delivery.id,
        at=at,
        status=status,
        reason=reason,
        next_attempt_at=again,
        may_be_known=delivery.may_be_known or may_be_known,
    )
