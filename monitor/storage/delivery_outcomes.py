"""Stores the outcomes of deliveries."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Integer, Row, Select, bindparam, select, update

from monitor.model.errors import DatabaseError
from monitor.model.notifications import DeliveryStatus, Notification
from monitor.storage.alert_states import WAITING_STATUSES, pending_delivery
from monitor.storage.rows import chunks, insert, to_row
from monitor.storage.tables.alert_tables import deliveries, notifications

_UPDATE = (
    update(deliveries)
    .where(deliveries.c.id == bindparam("delivery_id"))
    .values(attempts=deliveries.c.attempts + bindparam("new_attempts", type_=Integer))
)
"""Changes a delivery. SQLAlchemy also sets the other columns that the parameters name."""

_NOT_IN_NOTIFICATIONS = frozenset({"may_be_known", "message_key", "fallback", "repeat_at"})
_NOT_IN_DELIVERIES = frozenset({"delivery_id", "at", "fallback"})


def record_outcomes(connection: Connection, outcomes: Sequence[Notification]) -> None:
    """Store the outcomes of attempts, and update their deliveries.

    A delivery is not updated if it is settled already: sent, dropped or given up. If an outcome
    names a fallback receiver, this receiver gets a delivery of the same transition. Raises
    DatabaseError if a delivery is missing.
    """
    delivery_rows = _lock_deliveries(connection, [outcome.delivery_id for outcome in outcomes])
    new_notifications = []
    updates = []
    fallbacks = []
    for outcome in outcomes:
        delivery = delivery_rows.get(outcome.delivery_id)
        if delivery is None:
            raise DatabaseError(
                f"no delivery {outcome.delivery_id} to record a notification for: it was deleted "
                "by hand"
            )
        if _is_news(delivery, outcome):
            row = to_row(outcome, notifications, without=_NOT_IN_NOTIFICATIONS)
            new_notifications.append(row)
        if delivery.status not in WAITING_STATUSES:
            continue
        updates.append(_new_values(outcome))
        if outcome.fallback:
            fallback = pending_delivery(delivery.transition_id, outcome.fallback, outcome.at)
            fallbacks.append(fallback)
    # All rows of a kind are written at once. A run may have a thousand deliveries, and on SQLite
    # all other writers wait until this ends.
    if new_notifications:
        connection.execute(notifications.insert(), new_notifications)
    if updates:
        connection.execute(_UPDATE, updates)
    if fallbacks:
        # The fallback receiver may have a delivery of the transition already. This delivery becomes
        # pending if the receiver's routes dropped it. Otherwise it does not change.
        insertion = insert(connection, deliveries)
        # If there is such a delivery, SQL calls the new row ``excluded``.
        columns = ("status", "next_attempt_at", "settled_at")
        insert_or_reopen = insertion.on_conflict_do_update(
            index_elements=["transition_id", "receiver"],
            set_={name: insertion.excluded[name] for name in columns},
            where=deliveries.c.status == DeliveryStatus.DROPPED,
        )
        connection.execute(insert_or_reopen, fallbacks)


def _lock_deliveries(connection: Connection, ids: Sequence[int]) -> Mapping[int, Row[Any]]:
    """Return the rows of these deliveries by id, locked until the transaction ends."""
    query: Select[Any] = (
        select(
            deliveries.c.id,
            deliveries.c.transition_id,
            deliveries.c.status,
            deliveries.c.reason,
        )
        .order_by(deliveries.c.id)
        .with_for_update()
    )
    locked: dict[int, Row[Any]] = {}
    # All transactions lock rows in the same order, so that there is no deadlock.
    for chunk in chunks(sorted(ids)):
        rows = connection.execute(query.where(deliveries.c.id.in_(chunk)))
        locked |= {row.id: row for row in rows}
    return locked


def _is_news(row: Row[Any], outcome: Notification) -> bool:
    """Return whether to store the outcome.

    It is stored if the delivery was sent, or if its status or reason has changed.
    """
    has_changed = row.status is not outcome.status or row.reason != outcome.reason
    return has_changed or outcome.status is DeliveryStatus.SENT


def _new_values(outcome: Notification) -> dict[str, object]:
    """Return the new values of the delivery's columns, as parameters of `_UPDATE`.

    The values also end the claim on the delivery.
    """
    settled_at = None if outcome.status in WAITING_STATUSES else outcome.at
    was_tried = outcome.status not in (DeliveryStatus.HELD, DeliveryStatus.DROPPED)
    return to_row(
        outcome,
        deliveries,
        without=_NOT_IN_DELIVERIES,
        delivery_id=outcome.delivery_id,
        new_attempts=int(was_tried),
        # The column must not be NULL. Nothing reads it after the delivery is settled.
        next_attempt_at=outcome.next_attempt_at or outcome.at,
        settled_at=settled_at,
        claimed_by=None,
        claimed_until=None,
    )
