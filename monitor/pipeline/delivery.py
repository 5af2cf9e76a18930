"""Delivery from the outbox to receivers: claim, decide, send, record, at least once.

Deliveries are leased and marked with the key of their message before they are sent.
If a process dies on the way, another one sends them again once the lease has run out.
A message that may have arrived is repeated with the same changes and the same key.
What joined its incident meanwhile goes into the next message.
For one receiver, call these from one thread: a repetition must not overtake an end.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from monitor.alerts.notification_policy import (
    Decision,
    Dispatch,
    NotificationPolicy,
    compose_messages,
)
from monitor.errors import DeliveryError
from monitor.model.alerts import Transition
from monitor.model.notifications import (
    Delivery,
    DeliveryStatus,
    FiringSnapshot,
    Message,
    Notification,
    Updates,
    message_key,
)
from monitor.ports import Clock, DeliveryCounter, Outbox, Receiver

LEASE = timedelta(seconds=60)
"""Longer than any receiver may take for one message."""
RECHECK_AFTER = timedelta(seconds=30)
"""How soon a held delivery is decided on again."""
RESEND_ENDS_FOR = timedelta(minutes=5)
"""How long ends are sent again to receivers that want alerts resent."""
_REPETITIONS_SLOWED = 4
"""A repetition that fails backs off as if so many attempts had failed before: it is not urgent."""
_BASE_S, _CAP_S = 2.0, 300.0
_LONGEST_ASKED_S = 3600.0
_CLAIMED = 2000
_BATCH = 250
_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Until when a receiver that failed is left alone, and the pause that it asked for, whatever else waits for it."""

    until: datetime
    asked_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSender:
    """Sends what the outbox holds for one receiver."""

    outbox: Outbox
    receiver: Receiver
    clock: Clock
    publisher: DeliveryCounter
    owner: str
    policy: NotificationPolicy = field(default_factory=NotificationPolicy)
    is_sure: Callable[[], bool] = lambda: (
        True
    )  # no other process can be sending by now; asked before each message
    draw: Callable[[], float] = random.random  # uniform in [0, 1)
    picture_of: Callable[[Message], bytes | None] = lambda _: (
        None
    )  # never raises, takes seconds at most

    def deliver_due(self, *, should_stop: Callable[[], bool] = lambda: False) -> Pause | None:
        """Send what is due, longest wait first, one message an incident.

        A pause at the first failure that may pass.

        Any error but DeliveryError is a defect: the deliveries are put off and it is raised.
        """
        pause = None
        # A receiver that is down is not tried with everything that waits for it.
        while pause is None and not should_stop():
            now = self.clock.now()
            claimed = self.outbox.claim_deliveries(
                self.receiver.name, owner=self.owner, now=now, until=now + LEASE, limit=_CLAIMED
            )
            # What was claimed and is not sent is free again when its lease runs out.
            if not claimed or not self.is_sure():
                break
            pause = self._deliver(claimed, now, should_stop)
        return pause

    def repeat_due(self) -> int:
        """Repeat firings that last and are not acknowledged.

        How many. DeliveryError when they were not accepted.
        """
        every_s = self.receiver.treatment.repeat_every_s
        if every_s is None:
            return 0
        now, every = self.clock.now(), timedelta(seconds=every_s)
        due = self.outbox.due_repetitions(self.receiver.name, now=now, limit=_CLAIMED)
        named = {(each.transition.comparison, each.transition.incident) for each in due}
        # What joined an incident later is repeated with it.
        soon = (
            self.outbox.due_repetitions(self.receiver.name, now=now + every, limit=_CLAIMED)
            if due
            else ()
        )
        by_comparison: dict[str, list[Delivery]] = {}
        for each in soon:
            if (each.transition.comparison, each.transition.incident) in named:
                by_comparison.setdefault(each.transition.comparison, []).append(each)
        return sum(self._repeat(of_it, every) for of_it in by_comparison.values())

    def resend_firing(self) -> int:
        """Send again what the receiver has and still fires, and what ended lately, if it wants that; how many.

        DeliveryError when they were not accepted. Nothing is recorded: the next call sends them again.
        """
        if self.receiver.treatment.resend_every_s is None or not self.is_sure():
            return 0
        now = self.clock.now()
        delivered = self.outbox.delivered(self.receiver.name, ended_since=now - RESEND_ENDS_FOR)
        for batch in _batches_of_incidents(delivered):
            first = batch[0]
            message = Message(
                incident=first.incident or "",
                comparison=first.comparison,
                severity=first.severity,
                changes=batch,
                is_repetition=True,
            )
            self.receiver.send(message, now=now)
        return len(delivered)

    def _deliver(
        self, claimed: Sequence[Delivery], now: datetime, should_stop: Callable[[], bool]
    ) -> Pause | None:
        comparison = claimed[0].transition.comparison
        dispatch = self._dispatch(comparison, [each.transition for each in claimed], now)
        by_outcome: dict[tuple[DeliveryStatus, str | None], list[Delivery]] = {}
        for delivery, status, reason in _decide_together(dispatch.decide(claimed)):
            by_outcome.setdefault((status, reason), []).append(delivery)
        sending = {
            _change_key(each.transition): each
            for each in by_outcome.pop((DeliveryStatus.PENDING, None), ())
        }
        for (status, reason), of_it in by_outcome.items():
            again = self.clock.now() + RECHECK_AFTER if status is DeliveryStatus.HELD else None
            self._record(of_it, status, reason=reason, again=again)
        for message in _compose(sending.values(), dispatch.snapshot):
            if should_stop():
                self._record(list(sending.values()), DeliveryStatus.PENDING, again=now)
                break
            of_it = [sending.pop(_change_key(change)) for change in message.changes]
            if (
                pause := self._send(brief_message(message, self.outbox, self.policy), of_it)
            ) is not None:
                # What was not tried waits as long as what failed.
                self._record(list(sending.values()), DeliveryStatus.PENDING, again=pause.until)
                return pause
        return None

    def _dispatch(self, comparison: str, changes: Sequence[Transition], now: datetime) -> Dispatch:
        receiver = self.receiver
        snapshot = self.outbox.firing_snapshot(comparison, receiver.name, changes, now=now)
        return Dispatch(
            snapshot=snapshot,
            policy=self.policy,
            receiver=receiver.name,
            treatment=receiver.treatment,
            now=now,
        )

    def _send(self, message: Message, deliveries: Sequence[Delivery]) -> Pause | None:
        if not self.is_sure():
            return Pause(until=self.clock.now())
        if message.is_update and self.receiver.treatment.updates is Updates.NONE:
            self._record(
                deliveries,
                DeliveryStatus.SENT,
                reason="joined an incident that was sent before: no message of its own",
            )
            return None
        # Marked first: if the process dies while it sends, the message may have arrived.
        now = self.clock.now()
        key = message_key(message, now)
        message = replace(message, key=key)
        deliveries = [replace(each, message_key=key) for each in deliveries]
        self.outbox.mark_sending(deliveries, message_key=key, owner=self.owner, until=now + LEASE)
        try:
            self._hand_over(message)
        except DeliveryError as error:
            return self._failed(message, deliveries, error)
        except Exception as error:
            what = f"{self.receiver.name} failed with {type(error).__name__}, a defect: see the log"
            self._failed(
                message, deliveries, DeliveryError(what, permanent=False, may_be_known=True)
            )
            raise
        self._record(deliveries, DeliveryStatus.SENT)
        return None

    def _hand_over(self, message: Message) -> None:
        """Have the receiver send it: with its picture, unless the receiver shows none, or rejects the message for it."""
        picture = self.picture_of(message) if self.receiver.treatment.shows_pictures else None
        try:
            self.receiver.send(replace(message, picture=picture), now=self.clock.now())
        except DeliveryError as error:
            if picture is None or not error.of_message:
                raise
            self.receiver.send(message, now=self.clock.now())

    def _failed(
        self, message: Message, deliveries: Sequence[Delivery], error: DeliveryError
    ) -> Pause | None:
        # One change that is rejected must not keep the others from arriving.
        if error.permanent and error.of_message and len(deliveries) > 1:
            middle = len(deliveries) // 2
            halves = slice(None, middle), slice(middle, None)
            pauses = [
                self._send(
                    replace(message, changes=message.changes[half], key=None), deliveries[half]
                )
                for half in halves
            ]
            return next(filter(None, reversed(pauses)), None)
        self.publisher.count("delivery_errors_total", self.receiver.name, error.trouble)
        if error.permanent:
            self._record(
                deliveries, DeliveryStatus.DEAD, reason=str(error), may_be_known=error.may_be_known
            )
            return None
        # The delivery with most attempts sets the pace, so that new ones do not restart the
        # backoff.
        attempts = max(each.attempts for each in deliveries)
        again = next_attempt(
            attempts, now=self.clock.now(), draw=self.draw(), retry_after_s=error.retry_after_s
        )
        self._record(
            deliveries,
            DeliveryStatus.PENDING,
            reason=str(error),
            may_be_known=error.may_be_known,
            again=again,
        )
        return Pause(until=again, asked_s=asked_pause_s(error.retry_after_s))

    def _repeat(self, due: Sequence[Delivery], every: timedelta) -> int:
        now = self.clock.now()
        dispatch = self._dispatch(due[0].transition.comparison, (), now)
        repeated = {
            _change_key(each.transition): each
            for each in due
            if dispatch.why_not_again(each.transition) is None
        }
        held = [each for each in due if _change_key(each.transition) not in repeated]
        # Those that are held back now are decided on again soon.
        for key, of_it in _by_message(held).items():
            self.outbox.schedule_repetition(
                of_it, at=now + min(every, RECHECK_AFTER), message_key=key
            )
        for message in _compose(repeated.values(), dispatch.snapshot):
            if self.is_sure():
                again = replace(message, changes=(), firing=message.changes, is_repetition=True)
                again = replace(again, key=message_key(again, now))
                self._send_again(
                    again, [repeated[_change_key(start)] for start in again.firing], every
                )
        return len(repeated)

    def _send_again(
        self, message: Message, deliveries: Sequence[Delivery], every: timedelta
    ) -> None:
        now = self.clock.now()
        self.outbox.schedule_repetition(deliveries, at=now, message_key=message.key)
        try:
            self._hand_over(message)
        except DeliveryError as error:
            self.publisher.count("delivery_errors_total", self.receiver.name, error.trouble)
            soon = next_attempt(
                _REPETITIONS_SLOWED, now=now, draw=self.draw(), retry_after_s=error.retry_after_s
            )
            may_be_known = error.may_be_known or deliveries[0].message_key is not None
            self.outbox.schedule_repetition(
                deliveries,
                at=now + every if error.permanent else soon,
                message_key=message.key if may_be_known and not error.permanent else None,
            )
            raise
        self.outbox.schedule_repetition(deliveries, at=now + every, message_key=None)

    def _record(
        self,
        deliveries: Sequence[Delivery],
        status: DeliveryStatus,
        *,
        reason: str | None = None,
        again: datetime | None = None,
        may_be_known: bool = False,
    ) -> None:
        """Record what came of these deliveries, and count them but for what is held or, without a reason, was not tried."""
        if not deliveries:
            return
        now, every_s = self.clock.now(), self.receiver.treatment.repeat_every_s
        repeat_at = (
            None
            if every_s is None or status is not DeliveryStatus.SENT
            else now + timedelta(seconds=every_s)
        )
        fallback = (
            self.policy.fallbacks.get(self.receiver.name) if status is DeliveryStatus.DEAD else None
        )
        self.outbox.record(
            *(
                Notification(
                    delivery_id=each.id,
                    at=now,
                    status=status,
                    reason=reason,
                    next_attempt_at=again,
                    may_be_known=each.may_be_known or may_be_known,
                    message_key=each.message_key if each.may_be_known or may_be_known else None,
                    fallback=None if each.transition.is_end else fallback,
                    repeat_at=repeat_at if each.transition.is_start else None,
                )
                for each in deliveries
            )
        )
        outcome = "retry" if status is DeliveryStatus.PENDING and reason else status.value
        for _ in deliveries if outcome not in (DeliveryStatus.HELD, DeliveryStatus.PENDING) else ():
            self.publisher.count("notifications_total", self.receiver.name, outcome)


def brief_message(message: Message, outbox: Outbox, policy: NotificationPolicy) -> Message:
    """The message with what is known of the newest run in which something began, so far as messages may show it."""
    newest = max((start.slot for start in message.starts), default=None)
    if newest is None:
        return message
    briefing = outbox.briefing(message.comparison, newest)
    if not policy.shows_items:
        explanation = briefing.explanation and briefing.explanation.without_items
        briefing = replace(briefing, explanation=explanation, examples=())
    return replace(message, briefing=briefing)


def next_attempt(
    attempts: int, *, now: datetime, draw: float, retry_after_s: float | None = None
) -> datetime:
    """Time of the next attempt after one more failure, with ``attempts`` made before it.

    Exponential backoff with full jitter: ``draw``, uniform in [0, 1), of min(300 s, 2 s *
    2^attempts). A receiver that asks for a pause gets it, up to an hour, and the jitter on top.
    """
    ceiling = min(_CAP_S, _BASE_S * 2.0 ** min(attempts, 32))
    # Jitter, so that many waiting senders spread out.
    return now + timedelta(seconds=asked_pause_s(retry_after_s) + draw * ceiling)


def asked_pause_s(retry_after_s: float | None) -> float:
    """The pause in seconds that a receiver asked for and gets, in [0, 3600]."""
    return min(max(retry_after_s or 0.0, 0.0), _LONGEST_ASKED_S)


def drain(
    senders: Sequence[OutboxSender],
    *,
    budget_s: float = 15.0,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Deliver in turns until nothing waits or the time is over.

    The last attempt may outlast it by the receiver's time-out.
    """
    if not senders:
        return
    clock, outbox = senders[0].clock, senders[0].outbox
    ends_at = clock.monotonic() + budget_s
    while True:
        for sender in senders:
            sender.deliver_due(should_stop=lambda: clock.monotonic() >= ends_at)
        # Retries that come due within the time are waited for: the process ends afterwards.
        waiting = outbox.waiting(clock.now())
        left = ends_at - clock.monotonic()
        if left <= 0 or not any(
            waiting.get(sender.receiver.name, (0, 0.0))[0] for sender in senders
        ):
            return
        pause(min(_PAUSE_S, left))


def _by_message(deliveries: Iterable[Delivery]) -> dict[str | None, list[Delivery]]:
    """Deliveries by the message that may have arrived, None for what never left."""
    by_key: dict[str | None, list[Delivery]] = {}
    for each in deliveries:
        by_key.setdefault(each.message_key, []).append(each)
    return by_key


def _decide_together(decisions: Sequence[Decision]) -> Iterator[Decision]:
    """The decisions, but all of a message that may have arrived is sent or held if a part is."""
    by_status: dict[str | None, dict[DeliveryStatus, Decision]] = {}
    for each in decisions:
        by_status.setdefault(each.delivery.message_key, {}).setdefault(each.status, each)
    for each in decisions:
        found = by_status[each.delivery.message_key] if each.delivery.message_key else {}
        strongest = found.get(DeliveryStatus.PENDING) or found.get(DeliveryStatus.HELD) or each
        yield strongest._replace(delivery=each.delivery)


def _compose(deliveries: Iterable[Delivery], snapshot: FiringSnapshot) -> list[Message]:
    """Messages that may have arrived as they were, with their keys, then those of everything else."""
    by_key = _by_message(deliveries)
    fresh = [each.transition for each in by_key.pop(None, ())]
    messages = []
    for key, of_it in by_key.items():
        changes = [each.transition for each in of_it]
        messages += [replace(each, key=key) for each in compose_messages(changes, snapshot)]
        starts = tuple(change for change in changes if change.is_start)
        known = snapshot.delivered.union(str(start.dedup_key) for start in starts)
        snapshot = replace(snapshot, told=(*snapshot.told, *starts), delivered=known)
    return [*messages, *compose_messages(fresh, snapshot)]


def _batches_of_incidents(changes: Iterable[Transition]) -> Iterator[tuple[Transition, ...]]:
    """Batches that part no incident, so that each says of an alert whether anything of it still fires."""
    by_incident: dict[tuple[str, str | None], list[Transition]] = {}
    for change in changes:
        by_incident.setdefault((change.comparison, change.incident or change.dedup_key), []).append(
            change
        )
    batch = list[Transition]()
    for of_it in by_incident.values():
        if batch and len(batch) + len(of_it) > _BATCH:
            yield tuple(batch)
            batch = []
        batch += of_it
    if batch:
        yield tuple(batch)


def _change_key(change: Transition) -> tuple[object, ...]:
    """What no two announced changes of a comparison share."""
    return change.dedup_key, change.from_state, change.to_state, change.slot
