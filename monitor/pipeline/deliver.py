"""The outbox's way out: claim, send, record, at least once.

A delivery is leased before it is sent and recorded after; a process that dies in between leaves it to whoever comes once the
lease has run out, and it goes out again under the same key. For one receiver, call these from one thread: what is told again
must not overtake an end that has just been sent.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.alerts import next_attempt
from monitor.errors import DeliveryError
from monitor.model import Delivery, DeliveryStatus, Notification
from monitor.ports import Clock, Publisher, Receiver, Store

LEASE = timedelta(seconds=60)
"""Longer than any receiver may take for one message."""
_BATCH = 64
_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryCounts:
    """Attempts by what came of them. ``retry_at``: when the receiver that failed may be tried again."""

    sent: int = 0
    retry: int = 0
    dead: int = 0
    retry_at: datetime | None = None

    def __add__(self, other: DeliveryCounts) -> DeliveryCounts:
        return DeliveryCounts(
            sent=self.sent + other.sent,
            retry=self.retry + other.retry,
            dead=self.dead + other.dead,
            retry_at=other.retry_at or self.retry_at,
        )


def deliver_due(  # noqa: PLR0913 - all but the first four have defaults
    store: Store,
    receiver: Receiver,
    clock: Clock,
    *,
    owner: str,
    publisher: Publisher,
    limit: int = 1000,
    should_stop: Callable[[], bool] = lambda: False,
    draw: Callable[[], float] = random.random,
) -> DeliveryCounts:
    """Send what is due for this receiver, oldest first, one by one, at most ``limit``.

    Ends early when ``should_stop`` says so, and at the first failure that may pass: a receiver that is down is not tried
    with everything that waits for it. Any error but DeliveryError is a defect: the delivery is put off and the error raised.
    """
    counts = DeliveryCounts()
    for _ in range(limit):
        if counts.retry or should_stop():
            break
        now = clock.now()
        claimed = store.claim_deliveries(receiver.name, owner=owner, now=now, until=now + LEASE, limit=1)
        if not claimed:
            break
        counts += _deliver(store, receiver, clock, publisher, claimed[0], draw())
    return counts


def resend_firing(store: Store, receiver: Receiver, clock: Clock) -> int:
    """Tell a receiver that wants it everything that fires now; how many. DeliveryError when it did not take them.

    Nothing is recorded: the next call tells them again.
    """
    if receiver.resend_every_s is None:
        return 0
    firing = store.firing(only_announced=True)
    for start in range(0, len(firing), _BATCH):
        receiver.send(firing[start : start + _BATCH], now=clock.now())
    return len(firing)


def drain(  # noqa: PLR0913 - all but the first four have defaults
    store: Store,
    receivers: Sequence[Receiver],
    clock: Clock,
    *,
    owner: str,
    publisher: Publisher,
    budget_s: float = 15.0,
    pause: Callable[[float], None] = time.sleep,
) -> DeliveryCounts:
    """Deliver until nobody is owed anything or the time is over; what is left stays in the outbox.

    For a process that ends afterwards, so retries that come due within the time are waited for. Receivers take turns; the last
    attempt may outlast the time by the receiver's own timeout.
    """
    ends_at = clock.monotonic() + budget_s
    counts = DeliveryCounts()
    while True:
        for receiver in receivers:
            counts += deliver_due(
                store, receiver, clock, owner=owner, publisher=publisher, should_stop=lambda: clock.monotonic() >= ends_at
            )
        owed = store.outbox(clock.now())
        left = ends_at - clock.monotonic()
        if left <= 0 or not any(owed.get(receiver.name, (0, 0.0))[0] for receiver in receivers):
            return counts
        pause(min(_PAUSE_S, left))


def _deliver(
    store: Store, receiver: Receiver, clock: Clock, publisher: Publisher, delivery: Delivery, draw: float
) -> DeliveryCounts:
    try:
        receiver.send([delivery.transition], now=clock.now())
    except DeliveryError as error:
        failed = _failed(delivery, error, clock.now(), draw)
        store.record(failed)
        is_dead = failed.status is DeliveryStatus.DEAD
        publisher.notified(receiver.name, "dead" if is_dead else "retry")
        return DeliveryCounts(dead=1) if is_dead else DeliveryCounts(retry=1, retry_at=failed.next_attempt_at)
    except Exception as error:
        defect = DeliveryError(f"{receiver.name} failed with {type(error).__name__}, a defect: see the log", permanent=False)
        store.record(_failed(delivery, defect, clock.now(), draw))
        publisher.notified(receiver.name, "retry")
        raise
    store.record(_note(delivery, clock.now(), DeliveryStatus.SENT))
    publisher.notified(receiver.name, "sent")
    return DeliveryCounts(sent=1)


def _failed(delivery: Delivery, error: DeliveryError, now: datetime, draw: float) -> Notification:
    if error.permanent:
        return _note(delivery, now, DeliveryStatus.DEAD, reason=str(error))
    again = next_attempt(delivery.attempts, now=now, draw=draw, retry_after_s=error.retry_after_s)
    return _note(delivery, now, DeliveryStatus.PENDING, reason=str(error), next_attempt_at=again)


def _note(
    delivery: Delivery,
    at: datetime,
    status: DeliveryStatus,
    *,
    reason: str | None = None,
    next_attempt_at: datetime | None = None,
) -> Notification:
    return Notification(delivery_id=delivery.id, at=at, status=status, reason=reason, next_attempt_at=next_attempt_at)
