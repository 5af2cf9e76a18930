"""Delivers changes from the outbox to receivers, each at least once.

The steps are to claim deliveries, decide whether to send them, send them, and record the result.

Before deliveries are sent, they are claimed and marked with the key of their message. If a process
dies while it sends, another process sends the deliveries again after the claim has expired.

If a message may have arrived, it is sent again with the same changes and the same key. Changes that
have joined the incident since then are sent in the next message.

Use one thread for each receiver. With more threads, a repetition of an alert could
arrive after its end.
"""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta

from monitor.alerts.notification_policy import (
    Dispatch,
    NotificationPolicy,
)
from monitor.model.alerts import Transition
from monitor.model.errors import DeliveryError
from monitor.model.immutable import immutable
from monitor.model.notifications import (
    Delivery,
    DeliveryStatus,
    FiringSnapshot,
    Message,
    Notification,
    Updates,
    message_key,
)
from monitor.model.ports import Clock, DeliveryCounter, Outbox, Receiver
from monitor.pipeline.briefings import brief_message
from monitor.pipeline.due_messages import (
    change_key,
    compose_due_messages,
    decide_together,
    group_by_message,
    group_incidents,
)
from monitor.pipeline.retry_times import next_notification_at, requested_pause_s

CLAIM = timedelta(seconds=60)
"""A delivery is claimed for this time, because no receiver may take longer for one message."""
RECHECK_AFTER = timedelta(seconds=30)
"""A delivery that is held back is decided again after this time."""
RESEND_ENDS_FOR = timedelta(minutes=5)
"""If a receiver wants alerts resent, the end of an alert is resent for this time."""
_REPETITION_BACKOFF = 4
"""A failed repetition waits as long as after this many failures, because it is not urgent."""
_MOST_CLAIMED = 2000
_POLL_S = 0.25


def _always() -> bool:
    return True


def _never() -> bool:
    return False


def _no_picture(_: Message) -> bytes | None:
    return None


@immutable
class Stop:
    """The receiver gets no more messages in this turn.

    Deliveries that were not sent are due again at ``until``. If the receiver failed, it may have
    requested a pause of ``requested_s``.
    """

    until: datetime
    requested_s: float = 0.0


@immutable
class OutboxSender:
    """Sends the deliveries of the outbox to one receiver.

    - ``is_sole_sender`` returns True if no other process can be sending now. It is called before
      each message.
    - ``draw`` returns a random number from 0 to 1, but never 1.
    - ``picture_of`` returns the picture of a message. It never raises, and takes a few seconds at
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

    def deliver_due(self, *, should_stop: Callable[[], bool] = _never) -> Stop | None:
        """Send the deliveries that are due, one message per incident.

        Deliveries that have waited longest are sent first. After the first temporary failure no
        more is sent. If the receiver's code raises another error than DeliveryError, the error is
        raised here too, and the deliveries are tried again later.

        Returns a stop if a message had a temporary failure, or could not be sent because another
        process may be sending. Otherwise returns None.
        """
        stop = None
        while stop is None and not should_stop():
            now = self.clock.now()
            claimed = self.outbox.claim_deliveries(
                self.receiver.name,
                owner=self.owner,
                now=now,
                until=now + CLAIM,
                limit=_MOST_CLAIMED,
            )
            # Claimed deliveries that are not sent need no release, because their claim expires.
            if not claimed or not self.is_sole_sender():
                break
            stop = self._decide_and_send(claimed, now, should_stop)
        return stop

    def repeat_due(self) -> int:
        """Repeat alerts that still fire and are not acknowledged. Returns the number of alerts.

        Raises DeliveryError if the receiver did not accept a message.
        """
        interval_s = self.receiver.treatment.repeat_every_s
        if interval_s is None:
            return 0
        now = self.clock.now()
        interval = timedelta(seconds=interval_s)
        due = self.outbox.due_repetitions(self.receiver.name, now=now, limit=_MOST_CLAIMED)
        if not due:
            return 0
        due_incidents = {
            (delivery.transition.comparison, delivery.transition.incident) for delivery in due
        }
        # Alerts that joined a due incident later are not due yet, but are repeated with it.
        due_within_interval = self.outbox.due_repetitions(
            self.receiver.name, now=now + interval, limit=_MOST_CLAIMED
        )
        by_comparison: dict[str, list[Delivery]] = {}
        for delivery in due_within_interval:
            change = delivery.transition
            if (change.comparison, change.incident) in due_incidents:
                by_comparison.setdefault(change.comparison, []).append(delivery)
        return sum(self._repeat(deliveries, interval) for deliveries in by_comparison.values())

    def resend_alerts(self) -> int:
        """Resend alerts that still fire or ended lately, if the receiver wants this.

        Returns the number of alerts that were resent. Stops if another process may be sending.
        Raises DeliveryError if the receiver did not accept a message. Nothing is recorded, so the
        next call sends the same alerts again.
        """
        if self.receiver.treatment.resend_every_s is None:
            return 0
        now = self.clock.now()
        delivered = self.outbox.delivered(self.receiver.name, ended_since=now - RESEND_ENDS_FOR)
        resent = 0
        for group in group_incidents(delivered):
            if not self.is_sole_sender():
                break
            # A group may have several incidents of its comparison. The message has the name of the
            # first one, because receivers that want resends read each change separately.
            first = group[0]
            message = Message(
                incident=first.incident or "",
                comparison=first.comparison,
                severity=first.severity,
                changes=tuple(group),
                is_repetition=True,
            )
            message = brief_message(message, self.outbox, self.policy)
            try:
                self.receiver.send(message, now=now)
            except DeliveryError as error:
                self.publisher.count("delivery_errors_total", self.receiver.name, error.kind)
                raise
            self._count_outcomes(len(group), DeliveryStatus.SENT.value)
            resent += len(group)
        return resent

    def _decide_and_send(
        self,
        claimed: Sequence[Delivery],
        now: datetime,
        should_stop: Callable[[], bool],
    ) -> Stop | None:
        """Decide which of the claimed deliveries of one comparison are sent, and send them.

        Returns a stop if the receiver must not get more messages for now, else None.
        """
        comparison = claimed[0].transition.comparison
        dispatch = self._make_dispatch(
            comparison, [delivery.transition for delivery in claimed], now
        )
        to_send = []
        unsent: dict[tuple[DeliveryStatus, str | None], list[Delivery]] = {}
        for delivery, unsent_status, reason in decide_together(dispatch.decide(claimed)):
            if unsent_status is None:
                to_send.append(delivery)
            else:
                unsent.setdefault((unsent_status, reason), []).append(delivery)
        for (status, reason), deliveries in unsent.items():
            self._record(deliveries, status, reason=reason)
        return self._send_all(to_send, dispatch.snapshot, now, should_stop)

    def _send_all(
        self,
        to_send: Iterable[Delivery],
        snapshot: FiringSnapshot,
        now: datetime,
        should_stop: Callable[[], bool],
    ) -> Stop | None:
        """Send these deliveries of one comparison. Returns what `_send` returns."""
        unsent_by_key = {change_key(delivery.transition): delivery for delivery in to_send}
        for message in compose_due_messages(unsent_by_key.values(), snapshot):
            if should_stop():
                self._record_untried(unsent_by_key.values(), now)
                break
            deliveries = [unsent_by_key.pop(change_key(change)) for change in message.changes]
            stop = self._send(brief_message(message, self.outbox, self.policy), deliveries)
            if stop is not None:
                # Deliveries that were not tried are due at the same time as the failed ones.
                self._record_untried(unsent_by_key.values(), stop.until)
                return stop
        return None

    def _record_untried(self, deliveries: Iterable[Delivery], at: datetime) -> None:
        """Record deliveries that were not tried as pending, and due again ``at`` this time."""
        self._record([*deliveries], DeliveryStatus.PENDING, next_attempt_at=at)

    def _make_dispatch(
        self, comparison: str, changes: Sequence[Transition], now: datetime
    ) -> Dispatch:
        """Return the object that decides on these changes now."""
        receiver = self.receiver
        snapshot = self.outbox.firing_snapshot(comparison, receiver.name, changes, now=now)
        return Dispatch(
            snapshot=snapshot,
            policy=self.policy,
            receiver=receiver.name,
            treatment=receiver.treatment,
            now=now,
        )

    def _send(self, message: Message, deliveries: Sequence[Delivery]) -> Stop | None:
        """Send the message and record the result for its deliveries.

        Returns a stop if the receiver must not get more messages for now, else None. Raises the
        error if the receiver's code has a defect.
        """
        if not self.is_sole_sender():
            return Stop(until=self.clock.now())
        if message.is_update and self.receiver.treatment.updates is Updates.NONE:
            self._record(
                deliveries,
                DeliveryStatus.SENT,
                reason="the incident was already sent, so this change got no message",
            )
            return None
        # The deliveries are marked before they are sent. If the process dies while it sends, the
        # message may have arrived.
        now = self.clock.now()
        key = message_key(message, now)
        message = replace(message, key=key)
        deliveries = [replace(delivery, message_key=key) for delivery in deliveries]
        self.outbox.mark_sending(deliveries, message_key=key, owner=self.owner, until=now + CLAIM)
        try:
            self._send_with_picture(message)
        except DeliveryError as error:
            return self._handle_failure(message, deliveries, error)
        except Exception as error:
            # The receiver's code has a defect. It may have failed after the message arrived.
            text = f"{self.receiver.name} failed with {type(error).__name__}, a defect: see the log"
            defect = DeliveryError(text, permanent=False, may_be_known=True)
            self._handle_failure(message, deliveries, defect)
            raise
        self._record(deliveries, DeliveryStatus.SENT)
        return None

    def _send_with_picture(self, message: Message) -> None:
        """Send the message, with its picture if the receiver shows pictures.

        If the receiver rejects the message with the picture, send it without the picture.
        """
        if self.receiver.treatment.shows_pictures and self._try_picture(message):
            return
        self.receiver.send(message, now=self.clock.now())

    def _try_picture(self, message: Message) -> bool:
        """Send the message with its picture. Returns False if there is none or it was rejected."""
        picture = self.picture_of(message)
        if picture is None:
            return False
        try:
            self.receiver.send(replace(message, picture=picture), now=self.clock.now())
        except DeliveryError as error:
            if error.of_message:  # the receiver rejected this message
                return False
            raise
        return True

    def _handle_failure(
        self,
        message: Message,
        deliveries: Sequence[Delivery],
        error: DeliveryError,
    ) -> Stop | None:
        """Record a failure. If the receiver rejected several changes, send each half of them again.

        Returns a stop until the next attempt, or None if the deliveries are not tried again.
        """
        # The receiver rejected only this message. One change may be the reason, and must not block
        # the other changes.
        is_rejected = error.permanent and error.of_message
        if is_rejected and len(deliveries) > 1:
            middle = len(deliveries) // 2
            last_stop = None
            for half in (slice(None, middle), slice(middle, None)):
                half_message = replace(message, changes=message.changes[half], key=None)
                last_stop = self._send(half_message, deliveries[half]) or last_stop
            return last_stop
        self.publisher.count("delivery_errors_total", self.receiver.name, error.kind)
        if error.permanent:
            self._record(
                deliveries,
                DeliveryStatus.DEAD,
                reason=str(error),
                attempt_may_be_known=error.may_be_known,
            )
            return None
        # The largest number of attempts counts, so that new deliveries do not shorten the wait.
        attempts = max(delivery.attempts for delivery in deliveries)
        next_attempt_at = next_notification_at(
            attempts,
            now=self.clock.now(),
            draw=self.draw(),
            retry_after_s=error.retry_after_s,
        )
        self._record(
            deliveries,
            DeliveryStatus.PENDING,
            reason=str(error),
            attempt_may_be_known=error.may_be_known,
            next_attempt_at=next_attempt_at,
        )
        return Stop(until=next_attempt_at, requested_s=requested_pause_s(error.retry_after_s))

    def _repeat(self, due: Sequence[Delivery], interval: timedelta) -> int:
        """Repeat the ``due`` alerts of one comparison that are not held back. Returns their number.

        Alerts that are held back are decided again after a short time. If another process may be
        sending, no message is sent, and the alerts stay due.
        """
        now = self.clock.now()
        dispatch = self._make_dispatch(due[0].transition.comparison, (), now)
        to_repeat: dict[tuple[object, ...], Delivery] = {}
        held: list[Delivery] = []
        for delivery in due:
            if dispatch.why_not_again(delivery.transition) is None:
                to_repeat[change_key(delivery.transition)] = delivery
            else:
                held.append(delivery)
        recheck_at = now + min(interval, RECHECK_AFTER)
        for key, deliveries in group_by_message(held).items():
            self.outbox.schedule_repetition(deliveries, at=recheck_at, message_key=key)
        for message in compose_due_messages(to_repeat.values(), dispatch.snapshot):
            if self.is_sole_sender():
                # Nothing has changed, so all alerts of a repetition are in ``firing``.
                repetition = replace(
                    message, changes=(), firing=message.changes, is_repetition=True
                )
                # If the receiver may know an earlier attempt, `message_key` returns its key.
                # Otherwise it returns a new key.
                repetition = replace(repetition, key=message_key(repetition, now))
                repetition = brief_message(repetition, self.outbox, self.policy)
                deliveries = [to_repeat[change_key(change)] for change in repetition.firing]
                self._send_repetition(repetition, deliveries, interval)
        return len(to_repeat)

    def _send_repetition(
        self,
        message: Message,
        deliveries: Sequence[Delivery],
        interval: timedelta,
    ) -> None:
        """Send a repetition, and store when its alerts are repeated next.

        They are repeated after ``interval``, or sooner after a temporary failure. Any failure is
        raised.
        """
        now = self.clock.now()
        # All deliveries have the same key. They have none if the receiver cannot know an earlier
        # attempt.
        earlier_key = deliveries[0].message_key
        # The key is stored before the message is sent. If this process is killed in between, the
        # next process sends the message with the same key, and the receiver can discard it.
        self.outbox.schedule_repetition(deliveries, at=now, message_key=message.key)
        try:
            self._send_with_picture(message)
        except DeliveryError as error:
            self.publisher.count("delivery_errors_total", self.receiver.name, error.kind)
            if error.permanent:
                self.outbox.schedule_repetition(deliveries, at=now + interval, message_key=None)
                raise
            at = next_notification_at(
                _REPETITION_BACKOFF,
                now=now,
                draw=self.draw(),
                retry_after_s=error.retry_after_s,
            )
            # If the receiver cannot know any attempt, the stored key is deleted.
            may_be_known = error.may_be_known or earlier_key is not None
            key = message.key if may_be_known else None
            self.outbox.schedule_repetition(deliveries, at=at, message_key=key)
            raise
        self._count_outcomes(len(deliveries), DeliveryStatus.SENT.value)
        self.outbox.schedule_repetition(deliveries, at=now + interval, message_key=None)

    def _record(
        self,
        deliveries: Sequence[Delivery],
        status: DeliveryStatus,
        *,
        reason: str | None = None,
        next_attempt_at: datetime | None = None,
        attempt_may_be_known: bool = False,
    ) -> None:
        """Record the status of these deliveries, and count the outcomes of attempts.

        ``next_attempt_at`` is when a pending delivery is tried again. Held deliveries are decided
        again after `RECHECK_AFTER`. ``attempt_may_be_known`` is True if the attempt failed, but the
        receiver may know the message.
        """
        if not deliveries:
            return
        now = self.clock.now()
        if status is DeliveryStatus.HELD:
            next_attempt_at = now + RECHECK_AFTER
        # Starts of alerts are repeated while the alerts fire.
        repeat_at = None
        interval_s = self.receiver.treatment.repeat_every_s
        if status is DeliveryStatus.SENT and interval_s is not None:
            repeat_at = now + timedelta(seconds=interval_s)
        # The fallback receiver gets a delivery that is given up. It does not get ends of alerts.
        fallback = None
        if status is DeliveryStatus.DEAD:
            fallback = self.policy.fallbacks.get(self.receiver.name)
        notifications = []
        for delivery in deliveries:
            # The receiver may know the message from this attempt, or from an earlier one.
            may_be_known = delivery.may_be_known or attempt_may_be_known
            notification = Notification(
                delivery_id=delivery.id,
                at=now,
                status=status,
                reason=reason,
                next_attempt_at=next_attempt_at,
                may_be_known=may_be_known,
                message_key=delivery.message_key if may_be_known else None,
                fallback=None if delivery.transition.is_end else fallback,
                repeat_at=repeat_at if delivery.transition.is_start else None,
            )
            notifications.append(notification)
        self.outbox.record(*notifications)
        was_attempted = status not in (DeliveryStatus.HELD, DeliveryStatus.PENDING)
        if was_attempted:
            self._count_outcomes(len(deliveries), status.value)
        elif status is DeliveryStatus.PENDING and reason is not None:
            # Only a failed attempt gives a pending delivery a reason.
            self._count_outcomes(len(deliveries), "retry")

    def _count_outcomes(self, deliveries: int, outcome: str) -> None:
        for _ in range(deliveries):
            self.publisher.count("notifications_total", self.receiver.name, outcome)


def deliver_all(
    senders: Sequence[OutboxSender],
    *,
    budget_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Deliver to all receivers in turn, until no delivery waits or ``budget_s`` seconds are over.

    There is at least one sender. All senders have the same clock and outbox. The last attempt may
    end later, but it takes no longer than the receiver's timeout.
    """
    clock = senders[0].clock
    outbox = senders[0].outbox
    receivers = {sender.receiver.name for sender in senders}
    ends_at = clock.monotonic() + budget_s

    def is_over() -> bool:
        return clock.monotonic() >= ends_at

    while True:
        # One query finds the receivers, because each claim is a transaction.
        due_receivers = outbox.due_receivers(receivers, now=clock.now())
        for sender in senders:
            if sender.receiver.name in due_receivers:
                sender.deliver_due(should_stop=is_over)
        waiting_receivers = receivers.intersection(outbox.waiting(clock.now()))
        seconds_left = ends_at - clock.monotonic()
        if seconds_left <= 0 or not waiting_receivers:
            return
        # The process ends afterwards, so waiting deliveries are retried if they are due in time.
        pause(min(_POLL_S, seconds_left))
