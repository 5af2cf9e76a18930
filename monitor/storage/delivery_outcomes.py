"""Outcomes of deliveries: notifications are stored, deliveries moved, and fallback receivers get theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Integer, Row, Select, bindparam, select, update

from monitor.errors import DatabaseError
from monitor.model import DeliveryStatus, Notification
from monitor.storage.alert_states import WAITING, pending_delivery
from monitor.storage.dialects import chunks, insert
from monitor.storage.rows import to_row
from monitor.storage.tables import deliveries, notifications


def record_outcomes(connection: Connection, found: Sequence[Notification]) -> None:
    """Store the outcomes and move the deliveries, but those that another attempt has settled meanwhile."""
    stored = _lock(connection, [each.delivery_id for each in found])
    for each in found:
        if each.delivery_id not in stored:
            msg = f"no delivery {each.delivery_id} to record a notification for: it was deleted by hand"
            raise DatabaseError(msg)
    # The number of statements does not grow with the deliveries: a run may have a thousand, and on SQLite all others wait.
    news = [each for each in found if _is_news(stored[each.delivery_id], each)]
    if news:
        connection.execute(notifications.insert(), [to_row(each, notifications, attempted_at=each.at) for each in news])
    if waiting := [each for each in found if stored[each.delivery_id].status in WAITING]:
        connection.execute(_MOVE, [_moved(each) for each in waiting])
    _deliver_to_fallbacks(
        connection,
        [(stored[each.delivery_id].transition_id, each.fallback, each.at) for each in waiting if each.fallback is not None],
    )


def _lock(connection: Connection, ids: Sequence[int]) -> Mapping[int, Row[Any]]:
    """The state of these deliveries, until this transaction ends."""
    columns = (deliveries.c.id, deliveries.c.transition_id, deliveries.c.status, deliveries.c.reason)
    locked: dict[int, Row[Any]] = {}
    # Locked in one order, so that no two wait for each other.
    for some in chunks(sorted(ids)):
        query: Select[Any] = select(*columns).where(deliveries.c.id.in_(some)).order_by(deliveries.c.id).with_for_update()
        locked |= {row.id: row for row in connection.execute(query)}
    return locked


def _is_news(row: Row[Any], note: Notification) -> bool:
    return (row.status, row.reason) != (note.status, note.reason) or note.status is DeliveryStatus.SENT


_NEW = ("status", "reason", "next_attempt_at", "settled_at", "repeat_at", "may_be_known")
_MOVE = (
    update(deliveries)
    .where(deliveries.c.id == bindparam("moved_id"))
    .values(
        {name: bindparam(f"new_{name}") for name in _NEW}
        | {
            "attempts": deliveries.c.attempts + bindparam("tried", type_=Integer),
            "leased_by": None,
            "leased_until": None,
        }
    )
)
_DELIVER_AGAIN = (
    update(deliveries)
    .where(
        deliveries.c.transition_id == bindparam("its_transition"),
        deliveries.c.receiver == bindparam("fallback"),
        deliveries.c.status == DeliveryStatus.DROPPED,
    )
    .values(status=DeliveryStatus.PENDING, next_attempt_at=bindparam("due_at"), settled_at=None)
)


def _moved(note: Notification) -> dict[str, object]:
    return {
        "moved_id": note.delivery_id,
        "new_status": note.status,
        "new_reason": note.reason,
        "new_next_attempt_at": note.next_attempt_at or note.at,
        "new_settled_at": None if note.status in WAITING else note.at,
        "new_repeat_at": note.repeat_at,
        "new_may_be_known": note.may_be_known,
        "tried": int(note.status not in (DeliveryStatus.HELD, DeliveryStatus.DROPPED)),
    }


def _deliver_to_fallbacks(connection: Connection, refused: Sequence[tuple[int, str, datetime]]) -> None:
    """Add deliveries of these transitions to the fallback receivers."""
    if not refused:
        return
    again = [{"its_transition": number, "fallback": receiver, "due_at": at} for number, receiver, at in refused]
    # Also where they were routed past these before.
    connection.execute(_DELIVER_AGAIN, again)
    fresh = [pending_delivery(number, receiver, at) for number, receiver, at in refused]
    connection.execute(insert(connection, deliveries).on_conflict_do_nothing(), fresh)
