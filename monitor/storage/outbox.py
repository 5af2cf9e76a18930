"""Deliveries: leasing what is due, recording what came of it, counting what waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, Exists, and_, exists, func, or_, select, update

from monitor.errors import DatabaseError
from monitor.model import Delivery, DeliveryStatus, Notification
from monitor.storage.alerting import transition
from monitor.storage.tables import deliveries, notifications, transitions

_GONE = "the receiver has left the configuration"


def lease(
    connection: Connection, receiver: str, *, owner: str, now: datetime, until: datetime, limit: int
) -> tuple[Delivery, ...]:
    """Lease what is due for the receiver, oldest first."""
    is_free = or_(deliveries.c.leased_until.is_(None), deliveries.c.leased_until <= now)
    is_due = and_(deliveries.c.status == DeliveryStatus.PENDING, deliveries.c.next_attempt_at <= now, is_free)
    due = (
        select(deliveries.c.id.label("delivery_id"), deliveries.c.attempts, transitions)
        .join(transitions, transitions.c.id == deliveries.c.transition_id)
        .where(deliveries.c.receiver == receiver, is_due, ~_older_pending())
        .order_by(transitions.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True, of=deliveries)
    )
    leased: list[Delivery] = []
    for row in connection.execute(due).all():
        taken = update(deliveries).where(deliveries.c.id == row.delivery_id, is_due)
        if connection.execute(taken.values(leased_by=owner, leased_until=until)).rowcount == 1:
            leased.append(
                Delivery(
                    id=row.delivery_id,
                    transition_id=row.id,
                    receiver=receiver,
                    attempts=row.attempts,
                    transition=transition(row),
                )
            )
    return tuple(leased)


def record(connection: Connection, notification: Notification) -> None:
    """Store the attempt and move its delivery, unless another attempt has settled it meanwhile."""
    known = connection.execute(select(deliveries.c.id).where(deliveries.c.id == notification.delivery_id)).first()
    if known is None:
        msg = f"no delivery {notification.delivery_id} to record a notification for: it was deleted by hand"
        raise DatabaseError(msg)
    connection.execute(
        notifications.insert().values(
            delivery_id=notification.delivery_id,
            attempted_at=notification.at,
            status=notification.status,
            reason=notification.reason,
            next_attempt_at=notification.next_attempt_at,
        )
    )
    moved = update(deliveries).where(deliveries.c.id == notification.delivery_id, deliveries.c.status == DeliveryStatus.PENDING)
    connection.execute(
        moved.values(
            status=notification.status,
            attempts=deliveries.c.attempts + 1,
            next_attempt_at=notification.next_attempt_at or notification.at,
            leased_by=None,
            leased_until=None,
        )
    )


def forget(connection: Connection, known: Sequence[str], now: datetime) -> int:
    """Give up what waits for receivers that are not known any more, and record why."""
    gone = and_(deliveries.c.status == DeliveryStatus.PENDING, deliveries.c.receiver.not_in(list(known)))
    orphans = list(connection.execute(select(deliveries.c.id).where(gone)).scalars())
    for delivery_id in orphans:
        note = Notification(delivery_id=delivery_id, at=now, status=DeliveryStatus.DEAD, reason=_GONE, next_attempt_at=None)
        record(connection, note)
    return len(orphans)


def free(connection: Connection, owner: str) -> None:
    """End the leases of an owner who can record nothing any more: what was sent and not recorded goes out again."""
    leased = update(deliveries).where(deliveries.c.leased_by == owner)
    connection.execute(leased.values(leased_by=None, leased_until=None))


def waiting(connection: Connection, now: datetime) -> Mapping[str, tuple[int, float]]:
    """Pending deliveries by receiver: how many, and the age of the oldest in seconds, never below zero."""
    rows = connection.execute(
        select(deliveries.c.receiver, func.count(), func.min(transitions.c.changed_at))
        .join(transitions, transitions.c.id == deliveries.c.transition_id)
        .where(deliveries.c.status == DeliveryStatus.PENDING)
        .group_by(deliveries.c.receiver)
        .order_by(deliveries.c.receiver)
    )
    return {receiver: (count, max(0.0, (now - oldest).total_seconds())) for receiver, count, oldest in rows}


def _older_pending() -> Exists:
    """Whether an older delivery of the same alert and segment still waits for the same receiver."""
    older, cause = deliveries.alias("older"), transitions.alias("cause")
    return exists(
        select(older.c.id)
        .join(cause, cause.c.id == older.c.transition_id)
        .where(
            older.c.receiver == deliveries.c.receiver,
            older.c.status == DeliveryStatus.PENDING,
            cause.c.comparison == transitions.c.comparison,
            cause.c.alert == transitions.c.alert,
            cause.c.segment == transitions.c.segment,
            cause.c.id < transitions.c.id,
        )
        .correlate(deliveries, transitions)
    )
