"""Delivers changes from the outbox to receivers, at least once: claim, decide, send, record.

Before deliveries are sent, they are leased and marked with the key of their message. If a process
dies while it sends, another process sends the deliveries again after the lease has expired.

A message that may have arrived is repeated with the same changes and the same key. If other changes
have joined the incident since then, they go into the next message.

Use one thread for each receiver. Otherwise a repetition could arrive after the end of its alert.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta

from monitor.alerts.notification_policy import (
    Decision,
    Dispatch,
    NotificationPolicy,
    compose_messages,
)
from monitor.model.alerts import Transition
from monitor.model.errors import DeliveryError
from monitor.model.immutable import immutable
from monitor.model.notifications import (
    Delivery,
    DeliveryStatus,
    FiringSnapshot,
    KnownCause,
    Message,
    Notification,
    Updates,
    message_key,
)
from monitor.model.ports import Clock, DeliveryCounter, Outbox, Receiver

LEASE = timedelta(seconds=60)
"""How long a delivery is leased. This is longer than any receiver may take for one message."""
RECHECK_AFTER = timedelta(seconds=30)
"""How long after a decision a held delivery is decided again."""
RESEND_ENDS_FOR = timedelta(minutes=5)
"""How long ends are sent again to receivers that want alerts resent."""
_REPETITION_BACKOFF = 4
"""A failed repetition backs off as after so many earlier attempts: it is not urgent."""
_BASE_S = 2.0
_CAP_S = 300.0
_LONGEST_RETRY_AFTER_S = 3600.0
_CLAIMED = 2000
_LARGEST_GROUP = 250
_PAUSE_S = 0.25


def _always() -> bool:
    return True


def _never() -> bool:
    return False


def _no_picture(_: Message) -> bytes | None:
    return None


@immutable
class Pause:
    """When a failed receiver is tried again, and the pause in seconds that it requested."""

    until: datetime
    asked_s: float = 0.0


@immutable
class OutboxSender:
    """Sends the deliveries of the outbox to one receiver.

    - ``is_sole_sender``: returns whether no other process can be sending now. Called before each
      message.
    - ``draw``: returns a random number, uniform in [0, 1).
    - ``picture_of``: returns the picture of a message. It never raises, and takes a few seconds at
      most.
    """

    outbox: Outbox
    receiver: Receiver
    clock: Clock
    publisher: DeliveryCounter
    owner: str
    policy: NotificationPolicy = field(default_factory=NotificationPolicy)
    is_sole_sender: Callable[[], bool] = _always
    draw: Callable[[], float] = random.random
    picture_of: Callable[[Message], bytes | None] = _no_picture

    def deliver_due(self, *, should_stop: Callable[[], bool] = _never) -> Pause | None:
        """Send the deliveries that are due, one message per incident.

        Deliveries that have waited longest are sent first. Sending stops with a pause at the first
        temporary failure. An error that is not a DeliveryError is a defect. Then the deliveries are
        postponed and the error is raised.

        Returns the pause. None if no delivery is due, if ``should_stop`` ended the sending, or if
        another process may be sending the claimed deliveries.
        """
        pause = None
        # If the receiver is down, its other deliveries are not tried.
        while pause is None and not should_stop():
            now = self.clock.now()
            claimed = self.outbox.claim_deliveries(
                self.receiver.name,
                owner=self.owner,
                now=now,
                until=now + LEASE,
                limit=_CLAIMED,
            )
            # Claimed deliveries that are not sent become free when their lease expires.
            if not claimed or not self.is_sole_sender():
                break
            pause = self._deliver(claimed, now, should_stop)
        return pause

    def repeat_due(self) -> int:
        """Repeat alerts that still fire and are not acknowledged. Returns the number of alerts.

        Raises DeliveryError if the receiver did not accept them.
        """
        every_s = self.receiver.treatment.repeat_every_s
        if every_s is None:
            return 0
        now = self.clock.now()
        every = timedelta(seconds=every_s)
        due = self.outbox.due_repetitions(self.receiver.name, now=now, limit=_CLAIMED)
        if not due:
            return 0
        incidents = {(each.transition.comparison, each.transition.incident) for each in due}
        # Alerts that joined an incident later are repeated together with the incident.
        soon = self.outbox.due_repetitions(self.receiver.name, now=now + every, limit=_CLAIMED)
        by_comparison: dict[str, list[Delivery]] = {}
        for delivery in soon:
            change = delivery.transition
            if (change.comparison, change.incident) in incidents:
                by_comparison.setdefault(change.comparison, []).append(delivery)
        return sum(self._repeat(deliveries, every) for deliveries in by_comparison.values())

    def resend_alerts(self) -> int:
        """Resend delivered alerts that still fire or ended lately, if the receiver wants this.

        Returns the number of alerts that were resent. Stops if another process may be sending.
        Raises DeliveryError if the receiver did not accept a message. Nothing is recorded, so the
        next call sends the same alerts again.
        """
        if self.receiver.treatment.resend_every_s is None:
            return 0
        now = self.clock.now()
        delivered = self.outbox.delivered(self.receiver.name, ended_since=now - RESEND_ENDS_FOR)
        resent = 0
        for group in _group_incidents(delivered):
            if not self.is_sole_sender():
                break
            # A group may have several incidents of its comparison. Receivers that want resends read
            # each change, so the message is named after the first incident.
            first = group[0]
            message = Message(
                incident=first.incident or "",
                comparison=first.comparison,
                severity=first.severity,
                changes=group,
                is_repetition=True,
            )
            self.receiver.send(message, now=now)
            resent += len(group)
        return resent

    def _deliver(
        self,
        claimed: Sequence[Delivery],
        now: datetime,
        should_stop: Callable[[], bool],
    ) -> Pause | None:
        comparison = claimed[0].transition.comparison
        dispatch = self._dispatch(comparison, [each.transition for each in claimed], now)
        by_outcome: dict[tuple[DeliveryStatus, str | None], list[Delivery]] = {}
        for delivery, status, reason in _decide_together(dispatch.decide(claimed)):
            by_outcome.setdefault((status, reason), []).append(delivery)
        to_send = by_outcome.pop((DeliveryStatus.PENDING, None), [])
        for (status, reason), deliveries in by_outcome.items():
            again = None
            if status is DeliveryStatus.HELD:
                again = self.clock.now() + RECHECK_AFTER
            self._record(deliveries, status, reason=reason, again=again)
        waiting = {_change_key(delivery.transition): delivery for delivery in to_send}
        for message in _compose(waiting.values(), dispatch.snapshot):
            if should_stop():
                self._record(list(waiting.values()), DeliveryStatus.PENDING, again=now)
                break
            deliveries = [waiting.pop(_change_key(change)) for change in message.changes]
            pause = self._send(brief_message(message, self.outbox, self.policy), deliveries)
            if pause is not None:
                # Deliveries that were not tried wait as long as the failed deliveries.
                self._record(list(waiting.values()), DeliveryStatus.PENDING, again=pause.until)
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
        if not self.is_sole_sender():
            return Pause(until=self.clock.now())
        if message.is_update and self.receiver.treatment.updates is Updates.NONE:
            self._record(
                deliveries,
                DeliveryStatus.SENT,
                reason="the incident was already sent, so this change got no message",
            )
            return None
        # The deliveries are marked first. If the process dies while it sends, the message may have
        # arrived.
        now = self.clock.now()
        key = message_key(message, now)
        message = replace(message, key=key)
        deliveries = [replace(each, message_key=key) for each in deliveries]
        self.outbox.mark_sending(deliveries, message_key=key, owner=self.owner, until=now + LEASE)
        try:
            self._send_with_picture(message)
        except DeliveryError as error:
            return self._failed(message, deliveries, error)
        except Exception as error:
            what = f"{self.receiver.name} failed with {type(error).__name__}, a defect: see the log"
            defect = DeliveryError(what, permanent=False, may_be_known=True)
            self._failed(message, deliveries, defect)
            raise
        self._record(deliveries, DeliveryStatus.SENT)
        return None

    def _send_with_picture(self, message: Message) -> None:
        """Send the message. Add its picture if the receiver shows pictures.

        If the receiver rejects the message with its picture, send it without the picture.
        """
        picture = None
        if self.receiver.treatment.shows_pictures:
            picture = self.picture_of(message)
        try:
            self.receiver.send(replace(message, picture=picture), now=self.clock.now())
        except DeliveryError as error:
            if picture is None or not error.of_message:
                raise
            self.receiver.send(message, now=self.clock.now())

    def _failed(
        self,
        message: Message,
        deliveries: Sequence[Delivery],
        error: DeliveryError,
    ) -> Pause | None:
        # One rejected change must not block the other changes, so each half is sent separately.
        if error.permanent and error.of_message and len(deliveries) > 1:
            middle = len(deliveries) // 2
            last_pause = None
            for half in (slice(None, middle), slice(middle, None)):
                part = replace(message, changes=message.changes[half], key=None)
                last_pause = self._send(part, deliveries[half]) or last_pause
            return last_pause
        self.publisher.count("delivery_errors_total", self.receiver.name, error.trouble)
        if error.permanent:
            self._record(
                deliveries,
                DeliveryStatus.DEAD,
                reason=str(error),
                may_be_known=error.may_be_known,
            )
            return None
        # The largest number of attempts is used, so that new deliveries do not restart the backoff.
        attempts = max(delivery.attempts for delivery in deliveries)
        again = next_attempt(
            attempts,
            now=self.clock.now(),
            draw=self.draw(),
            retry_after_s=error.retry_after_s,
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
        """Repeat the due reminders of one comparison. Returns the number of alerts to repeat.

        Reminders that are held now are not counted. They are decided again later.
        """
        now = self.clock.now()
        dispatch = self._dispatch(due[0].transition.comparison, (), now)
        repeated: dict[tuple[object, ...], Delivery] = {}
        held: list[Delivery] = []
        for delivery in due:
            if dispatch.why_not_again(delivery.transition) is None:
                repeated[_change_key(delivery.transition)] = delivery
            else:
                held.append(delivery)
        # Held repetitions are decided again after a short time.
        recheck_at = now + min(every, RECHECK_AFTER)
        for key, deliveries in _by_message(held).items():
            self.outbox.schedule_repetition(deliveries, at=recheck_at, message_key=key)
        for message in _compose(repeated.values(), dispatch.snapshot):
            if self.is_sole_sender():
                again = replace(message, changes=(), firing=message.changes, is_repetition=True)
                # A reminder that may have arrived keeps its key. Any other one gets a new key.
                again = replace(again, key=message_key(again, now))
                deliveries = [repeated[_change_key(change)] for change in again.firing]
                self._send_again(again, deliveries, every)
        return len(repeated)

    def _send_again(
        self,
        message: Message,
        deliveries: Sequence[Delivery],
        every: timedelta,
    ) -> None:
        """Send a repetition, and store when its deliveries are repeated next.

        A temporary failure is retried sooner than ``every``. Any failure is raised.
        """
        now = self.clock.now()
        # Stored before sending: if this process is killed meanwhile, the next one sends the message
        # with the same key, so that the receiver can discard the second one.
        self.outbox.schedule_repetition(deliveries, at=now, message_key=message.key)
        try:
            self._send_with_picture(message)
        except DeliveryError as error:
            self.publisher.count("delivery_errors_total", self.receiver.name, error.trouble)
            if error.permanent:
                self.outbox.schedule_repetition(deliveries, at=now + every, message_key=None)
                raise
            at = next_attempt(
                _REPETITION_BACKOFF,
                now=now,
                draw=self.draw(),
                retry_after_s=error.retry_after_s,
            )
            # All deliveries of a message have the same key, or none if none may have arrived.
            may_be_known = error.may_be_known or deliveries[0].message_key is not None
            key = message.key if may_be_known else None
            self.outbox.schedule_repetition(deliveries, at=at, message_key=key)
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
        """Record the status of these deliveries, and count the attempts.

        A held delivery was not attempted. A pending delivery without a reason was not attempted
        either.
        """
        if not deliveries:
            return
        now = self.clock.now()
        repeat_at = None
        fallback = None
        every_s = self.receiver.treatment.repeat_every_s
        if status is DeliveryStatus.SENT and every_s is not None:
            repeat_at = now + timedelta(seconds=every_s)
        if status is DeliveryStatus.DEAD:
            fallback = self.policy.fallbacks.get(self.receiver.name)
        notifications = []
        for delivery in deliveries:
            is_uncertain = delivery.may_be_known or may_be_known
            notification = Notification(
                delivery_id=delivery.id,
                at=now,
                status=status,
                reason=reason,
                next_attempt_at=again,
                may_be_known=is_uncertain,
                message_key=delivery.message_key if is_uncertain else None,
                fallback=None if delivery.transition.is_end else fallback,
                repeat_at=repeat_at if delivery.transition.is_start else None,
            )
            notifications.append(notification)
        self.outbox.record(*notifications)
        outcome = status.value
        if status is DeliveryStatus.PENDING and reason:
            outcome = "retry"
        if outcome not in (DeliveryStatus.HELD, DeliveryStatus.PENDING):
            for _ in deliveries:
                self.publisher.count("notifications_total", self.receiver.name, outcome)


def brief_message(message: Message, outbox: Outbox, policy: NotificationPolicy) -> Message:
    """Add the briefing of the newest run in which an alert of the message began.

    If that run found no cause, the briefing has the newest cause that an earlier run of the
    incident found. Items are left out if messages must not show items.
    """
    newest = max((start.slot for start in message.starts), default=None)
    if newest is None:
        return message
    briefing = outbox.briefing(message.comparison, newest)
    if briefing.explanation is None or briefing.explanation.finding is None:
        briefing = replace(briefing, known_cause=_find_known_cause(message, newest, outbox))
    if not policy.shows_items:
        explanation = briefing.explanation and briefing.explanation.without_items
        briefing = replace(briefing, explanation=explanation, examples=())
    return replace(message, briefing=briefing)


def _find_known_cause(message: Message, newest: datetime, outbox: Outbox) -> KnownCause | None:
    slots = {start.slot for start in message.firing if start.has_run and start.slot < newest}
    for slot in sorted(slots, reverse=True):
        explanation = outbox.briefing(message.comparison, slot).explanation
        if explanation is not None and explanation.finding is not None:
            return KnownCause(slot=slot, sentence=explanation.sentence)
    return None


def next_attempt(
    attempts: int,
    *,
    now: datetime,
    draw: float,
    retry_after_s: float | None,
) -> datetime:
    """Time of the next attempt after a failure. ``attempts`` is the number of attempts before it.

    This is exponential backoff with full jitter. The wait is min(300 s, 2 s * 2^attempts), times
    ``draw``, which is uniform in [0, 1). If the receiver requested a pause, it is added, up to an
    hour.
    """
    ceiling = min(_CAP_S, _BASE_S * 2.0 ** min(attempts, 32))
    return now + timedelta(seconds=asked_pause_s(retry_after_s) + draw * ceiling)


def asked_pause_s(retry_after_s: float | None) -> float:
    """The pause that a receiver requested, in seconds, limited to [0, 3600]."""
    return min(max(retry_after_s or 0.0, 0.0), _LONGEST_RETRY_AFTER_S)


def drain(
    senders: Sequence[OutboxSender],
    *,
    budget_s: float = 15.0,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Deliver to all receivers in turn, until no delivery waits or ``budget_s`` has passed.

    The last attempt may take longer than that, by the receiver's timeout at most.
    """
    if not senders:
        return
    clock = senders[0].clock
    outbox = senders[0].outbox
    ends_at = clock.monotonic() + budget_s

    def is_over() -> bool:
        return clock.monotonic() >= ends_at

    while True:
        for sender in senders:
            sender.deliver_due(should_stop=is_over)
        # The process ends afterwards, so this waits for retries that become due in time.
        waiting = outbox.waiting(clock.now())
        counts = [waiting.get(sender.receiver.name, (0, 0.0))[0] for sender in senders]
        seconds_left = ends_at - clock.monotonic()
        if seconds_left <= 0 or not any(counts):
            return
        pause(min(_PAUSE_S, seconds_left))


def _by_message(deliveries: Iterable[Delivery]) -> dict[str | None, list[Delivery]]:
    """Group deliveries by the key of their message that may have arrived.

    The key is None for deliveries that were never sent.
    """
    by_key: dict[str | None, list[Delivery]] = {}
    for delivery in deliveries:
        by_key.setdefault(delivery.message_key, []).append(delivery)
    return by_key


def _decide_together(decisions: Sequence[Decision]) -> Iterator[Decision]:
    """Decide alike on all changes of a message that may have arrived.

    If one change is sent, all are sent. If none is sent and one is held, all are held.
    """
    by_status: dict[str | None, dict[DeliveryStatus, Decision]] = {}
    for decision in decisions:
        of_message = by_status.setdefault(decision.delivery.message_key, {})
        of_message.setdefault(decision.status, decision)
    for decision in decisions:
        delivery = decision.delivery
        strongest = decision
        if delivery.message_key:
            of_message = by_status[delivery.message_key]
            held = of_message.get(DeliveryStatus.HELD, decision)
            strongest = of_message.get(DeliveryStatus.PENDING, held)
        yield strongest._replace(delivery=delivery)


def _compose(deliveries: Iterable[Delivery], snapshot: FiringSnapshot) -> list[Message]:
    """Compose messages. Those that may have arrived come first and keep their keys."""
    by_key = _by_message(deliveries)
    fresh = [delivery.transition for delivery in by_key.pop(None, ())]
    messages = []
    for key, of_message in by_key.items():
        changes = [delivery.transition for delivery in of_message]
        messages += [replace(message, key=key) for message in compose_messages(changes, snapshot)]
        starts = tuple(change for change in changes if change.is_start)
        delivered = snapshot.delivered.union(str(start.dedup_key) for start in starts)
        snapshot = replace(
            snapshot, sent_starts=(*snapshot.sent_starts, *starts), delivered=delivered
        )
    return [*messages, *compose_messages(fresh, snapshot)]


def _group_incidents(changes: Iterable[Transition]) -> Iterator[tuple[Transition, ...]]:
    """Group changes for messages. A group has one comparison. An incident is never split."""
    by_incident: dict[tuple[str, str | None], list[Transition]] = {}
    for change in changes:
        key = (change.comparison, change.incident or change.dedup_key)
        by_incident.setdefault(key, []).append(change)
    group: list[Transition] = []
    for of_incident in sorted(by_incident.values(), key=lambda members: members[0].comparison):
        comparison = of_incident[0].comparison
        is_too_large = len(group) + len(of_incident) > _LARGEST_GROUP
        if group and (is_too_large or group[0].comparison != comparison):
            yield tuple(group)
            group = []
        group += of_incident
    if group:
        yield tuple(group)


def _change_key(change: Transition) -> tuple[object, ...]:
    """A key that is different for every change of a comparison that receivers get."""
    return change.dedup_key, change.from_state, change.to_state, change.slot
