"""Deliveries: leasing what is due, recording what came of it, counting what waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Row, Select, and_, bindparam, case, func, or_, select, update

from monitor.errors import DatabaseError
from monitor.model import Delivery, DeliveryRecord, DeliveryStatus, Notification, State, Transition
from monitor.storage.alert_states import lasting, owing, transition
from monitor.storage.dialects import chunks, insert, lock_comparisons
from monitor.storage.tables import alert_states, deliveries, notifications, transitions

_GONE = "the receiver has left the configuration"
_LONGEST_LEASE = timedelta(minutes=10)
_LONGEST_HELD = timedelta(minutes=2)
_LONGEST_PAUSE = timedelta(hours=2)
"""More than anybody leases, holds back or puts off a delivery for."""
_REFUSED_FOR = timedelta(days=1)
"""How long an end that was refused for good is worth another try."""
_WAITING = (DeliveryStatus.PENDING, DeliveryStatus.HELD)
_IS_WAITING = deliveries.c.status.in_(_WAITING)
_STARTS = and_(transitions.c.to_state == State.FIRING, transitions.c.from_state != State.FIRING)
_ENDS = and_(transitions.c.from_state == State.FIRING, transitions.c.to_state != State.FIRING)


def lease(
    connection: Connection, receiver: str, *, owner: str, now: datetime, until: datetime, limit: int
) -> tuple[Delivery, ...]:
    """Lease all that waits for the receiver of the comparison whose delivery is due longest, oldest first.

    Of more than ``limit`` first what is due: what is held must not stand before it.
    """
    is_for_it = and_(deliveries.c.receiver == receiver, _IS_WAITING)
    at_it = _of_deliveries(transitions.c.comparison).where(is_for_it, _is_leased(now))
    due = _of_deliveries(transitions.c.comparison).where(
        is_for_it, _is_due(now), ~_is_leased(now), transitions.c.comparison.not_in(at_it)
    )
    comparison = connection.execute(due.order_by(deliveries.c.next_attempt_at, transitions.c.id).limit(1)).scalar()
    if comparison is None or _is_being_told(connection, receiver, comparison, now):
        return ()
    waiting = (
        _of_deliveries(*_COLUMNS)
        .where(is_for_it, ~_is_leased(now), transitions.c.comparison == comparison)
        .order_by(case((_is_due(now), 0), else_=1), transitions.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True, of=deliveries)
    )
    rows = connection.execute(waiting).all()
    ours = update(deliveries).where(deliveries.c.id.in_([row.delivery_id for row in rows]), _IS_WAITING, ~_is_leased(now))
    connection.execute(ours.values(leased_by=owner, leased_until=until))
    return tuple(_delivery(row) for row in sorted(rows, key=lambda row: row.id))


def _is_due(now: datetime) -> ColumnElement[bool]:
    """Whether it may be sent; also where it is put off for longer than anything ever is, by a clock that was set back since."""
    is_untried = and_(deliveries.c.status == DeliveryStatus.PENDING, deliveries.c.attempts == 0)
    is_held_too_long = and_(deliveries.c.status == DeliveryStatus.HELD, deliveries.c.next_attempt_at > now + _LONGEST_HELD)
    return or_(
        deliveries.c.next_attempt_at <= now, is_untried, is_held_too_long, deliveries.c.next_attempt_at > now + _LONGEST_PAUSE
    )


def _is_leased(now: datetime) -> ColumnElement[bool]:
    """Whether somebody is at it; a lease that ends later than any can is one of a clock that was set back since."""
    ends_at = func.coalesce(deliveries.c.leased_until, now)
    return and_(ends_at > now, ends_at <= now + _LONGEST_LEASE)


def _is_being_told(connection: Connection, receiver: str, comparison: str, now: datetime) -> bool:
    """Whether somebody is at telling the receiver of the comparison: what is newer must not overtake it."""
    lock_comparisons(connection, {comparison})
    leased = _of_deliveries(deliveries.c.id).where(
        deliveries.c.receiver == receiver, transitions.c.comparison == comparison, _IS_WAITING, _is_leased(now)
    )
    return connection.execute(leased.limit(1)).first() is not None


def begin(connection: Connection, sending: Sequence[Delivery], *, owner: str, until: datetime) -> None:
    """Remember that these are about to be sent: whoever finds them like this later cannot know whether they arrived.

    Whatever else the owner has leased for the receiver stays leased meanwhile.
    """
    ids = [each.id for each in sending]
    connection.execute(update(deliveries).where(deliveries.c.id.in_(ids)).values(may_be_known=True))
    receivers = {each.receiver for each in sending}
    ours = and_(deliveries.c.receiver.in_(receivers), deliveries.c.leased_by == owner, _IS_WAITING)
    connection.execute(update(deliveries).where(ours).values(leased_until=until))


def free(connection: Connection, gone: str) -> None:
    """End the leases of an owner who can record nothing any more: what was sent and not recorded goes out again."""
    left = and_(_IS_WAITING, deliveries.c.leased_by == gone)
    connection.execute(update(deliveries).where(left).values(leased_by=None, leased_until=None))


def record(connection: Connection, found: Sequence[Notification]) -> None:
    """Store what became of deliveries and move them, but for those that another attempt has settled meanwhile.

    The number of statements does not grow with the deliveries: a run may owe a thousand, and on SQLite all others wait.
    """
    stored = _locked(connection, [each.delivery_id for each in found])
    for each in found:
        if each.delivery_id not in stored:
            msg = f"no delivery {each.delivery_id} to record a notification for: it was deleted by hand"
            raise DatabaseError(msg)
    if news := [_noted(each) for each in found if _is_news(stored[each.delivery_id], each)]:
        connection.execute(notifications.insert(), news)
    if waiting := [each for each in found if stored[each.delivery_id].status in _WAITING]:
        connection.execute(_MOVE, [_moved(each) for each in waiting])
    _owe_stand_ins(
        connection,
        [(stored[each.delivery_id].transition_id, each.fallback, each.at) for each in waiting if each.fallback is not None],
    )


def _locked(connection: Connection, ids: Sequence[int]) -> Mapping[int, Any]:
    """Where these deliveries stand, until this transaction ends; locked in one order, so that none waits for ever."""
    columns = (deliveries.c.id, deliveries.c.transition_id, deliveries.c.status, deliveries.c.reason)
    locked: dict[int, Any] = {}
    for some in chunks(sorted(ids)):
        query: Select[Any] = select(*columns).where(deliveries.c.id.in_(some)).order_by(deliveries.c.id).with_for_update()
        locked |= {row.id: row for row in connection.execute(query)}
    return locked


def _is_news(row: Any, note: Notification) -> bool:  # noqa: ANN401 - a row of deliveries
    return (row.status, row.reason) != (note.status, note.reason) or note.status is DeliveryStatus.SENT


def _noted(note: Notification) -> dict[str, object]:
    return {
        "delivery_id": note.delivery_id,
        "attempted_at": note.at,
        "status": note.status,
        "reason": note.reason,
        "next_attempt_at": note.next_attempt_at,
    }


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
_OWE_AGAIN = (
    update(deliveries)
    .where(
        deliveries.c.transition_id == bindparam("its_transition"),
        deliveries.c.receiver == bindparam("stand_in"),
        deliveries.c.status == DeliveryStatus.DROPPED,
    )
    .values(status=DeliveryStatus.PENDING, next_attempt_at=bindparam("due_at"), settled_at=None)
)


def _moved(note: Notification) -> dict[str, object]:
    """What `_MOVE` needs."""
    return {
        "moved_id": note.delivery_id,
        "new_status": note.status,
        "new_reason": note.reason,
        "new_next_attempt_at": note.next_attempt_at or note.at,
        "new_settled_at": None if note.status in _WAITING else note.at,
        "new_repeat_at": note.repeat_at,
        "new_may_be_known": note.may_be_known,
        "tried": int(note.status not in (DeliveryStatus.HELD, DeliveryStatus.DROPPED)),
    }


def _owe_stand_ins(connection: Connection, refused: Sequence[tuple[int, str, datetime]]) -> None:
    """Owe the same transitions to the receivers that stand in, also where they were routed past those before."""
    if not refused:
        return
    again = [{"its_transition": number, "stand_in": receiver, "due_at": at} for number, receiver, at in refused]
    connection.execute(_OWE_AGAIN, again)
    fresh = [owing(number, receiver, at) for number, receiver, at in refused]
    connection.execute(insert(connection, deliveries).on_conflict_do_nothing(), fresh)


def due_repetitions(connection: Connection, receiver: str, now: datetime, limit: int) -> tuple[Delivery, ...]:
    """Sent starts of firings that last and that nobody looks after, which are to be told again, oldest first."""
    query = (
        _of_deliveries(*_COLUMNS)
        .join(alert_states, lasting())
        .where(deliveries.c.receiver == receiver, deliveries.c.repeat_at <= now, alert_states.c.acknowledged_by.is_(None))
        .order_by(transitions.c.id)
        .limit(limit)
    )
    return tuple(_delivery(row) for row in connection.execute(query))


def repeat(connection: Connection, repeated: Iterable[Delivery], at: datetime) -> None:
    """Set the time at which these are to be told again."""
    ids = [each.id for each in repeated]
    is_repeated = and_(deliveries.c.id.in_(ids), deliveries.c.repeat_at.is_not(None))
    connection.execute(update(deliveries).where(is_repeated).values(repeat_at=at))


def told(connection: Connection, receiver: str, *, ended_since: datetime) -> tuple[Transition, ...]:
    """Starts of firings that last and ends since then, as far as the receiver was told them, in the order they were stored."""
    is_told = and_(deliveries.c.receiver == receiver, deliveries.c.status == DeliveryStatus.SENT)
    starts = _of_deliveries(transitions).join(alert_states, lasting()).where(is_told)
    ends = _of_deliveries(transitions).where(is_told, _ENDS, deliveries.c.settled_at >= ended_since)
    found = {row.id: transition(row) for query in (starts, ends) for row in connection.execute(query)}
    return tuple(found[number] for number in sorted(found))


def keys_told(connection: Connection, receiver: str, comparison: str, keys: Iterable[str | None]) -> frozenset[str]:
    """Those of the firings whose start the receiver was told or may know."""
    is_known = or_(deliveries.c.status == DeliveryStatus.SENT, deliveries.c.may_be_known)
    query = _of_deliveries(transitions.c.dedup_key).where(
        deliveries.c.receiver == receiver, transitions.c.comparison == comparison, is_known, _STARTS
    )
    return frozenset(row.dedup_key for row in _of_keys(connection, query, keys))


def refused(connection: Connection, comparison: str, keys: Iterable[str | None]) -> frozenset[tuple[str, str]]:
    """Receivers that refused for good to be told that these firings begin, each with the firing's key."""
    query = _of_deliveries(deliveries.c.receiver, transitions.c.dedup_key).where(
        transitions.c.comparison == comparison, deliveries.c.status == DeliveryStatus.DEAD, _STARTS
    )
    return frozenset((row.receiver, row.dedup_key) for row in _of_keys(connection, query, keys))


def _of_keys(connection: Connection, query: Select[Any], keys: Iterable[str | None]) -> Iterator[Row[Any]]:
    """What the query finds of firings of these keys."""
    for some in chunks({key for key in keys if key is not None}):
        yield from connection.execute(query.where(transitions.c.dedup_key.in_(some)))


def revive(connection: Connection, receivers: Sequence[str], now: datetime) -> int:
    """Let what was given up or dropped be decided anew: starts of firings that last, and ends refused lately; how many."""
    is_known = deliveries.c.receiver.in_(list(receivers))
    given_up = deliveries.c.status.in_((DeliveryStatus.DEAD, DeliveryStatus.DROPPED))
    starts = _of_deliveries(deliveries.c.id).join(alert_states, lasting()).where(is_known, given_up)
    lately = and_(deliveries.c.status == DeliveryStatus.DEAD, deliveries.c.settled_at >= now - _REFUSED_FOR)
    ends = _of_deliveries(deliveries.c.id).where(is_known, lately, _ENDS)
    ids = [number for query in (starts, ends) for number in connection.execute(query).scalars()]
    again = {"status": DeliveryStatus.PENDING, "next_attempt_at": now, "settled_at": None}
    for some in chunks(ids):
        connection.execute(update(deliveries).where(deliveries.c.id.in_(some)).values(again))
    return len(ids)


def forget(connection: Connection, known: Sequence[str], now: datetime) -> int:
    """Give up what waits for receivers that are not known any more, and record why."""
    gone = and_(_IS_WAITING, deliveries.c.receiver.not_in(list(known)))
    orphans = list(connection.execute(select(deliveries.c.id).where(gone)).scalars())
    dead = DeliveryStatus.DEAD
    notes = [Notification(delivery_id=each, at=now, status=dead, reason=_GONE, next_attempt_at=None) for each in orphans]
    record(connection, notes)
    return len(orphans)


def waiting(connection: Connection, now: datetime, status: DeliveryStatus) -> Mapping[str, tuple[int, float]]:
    """Deliveries of this status by receiver: how many, and the age of the oldest in seconds, never below zero."""
    query = (
        _of_deliveries(deliveries.c.receiver, func.count().label("waiting"), func.min(transitions.c.changed_at).label("oldest"))
        .where(deliveries.c.status == status)
        .group_by(deliveries.c.receiver)
        .order_by(deliveries.c.receiver)
    )
    rows = connection.execute(query)
    return {receiver: (count, max(0.0, (now - oldest).total_seconds())) for receiver, count, oldest in rows}


def given_up(connection: Connection, since: datetime) -> Mapping[str, int]:
    """Deliveries given up since then by receiver, but for what is owed to receivers that have left the configuration."""
    is_given_up = and_(
        deliveries.c.status == DeliveryStatus.DEAD,
        deliveries.c.settled_at >= since,
        deliveries.c.reason.is_distinct_from(_GONE),
    )
    query = select(deliveries.c.receiver, func.count()).where(is_given_up).group_by(deliveries.c.receiver)
    return {row[0]: row[1] for row in connection.execute(query)}


def records(connection: Connection, receiver: str | None, *, settled: int, limit: int) -> tuple[DeliveryRecord, ...]:
    """The newest that were given up or dropped, and the oldest that wait, each in the order they were stored."""
    query = _of_deliveries(*_COLUMNS, deliveries.c.next_attempt_at, deliveries.c.settled_at)
    if receiver is not None:
        query = query.where(deliveries.c.receiver == receiver)
    over = query.where(deliveries.c.status.in_((DeliveryStatus.DEAD, DeliveryStatus.DROPPED)))
    newest = connection.execute(over.order_by(deliveries.c.settled_at.desc(), deliveries.c.id.desc()).limit(settled)).all()
    oldest = connection.execute(query.where(_IS_WAITING).order_by(deliveries.c.id).limit(limit)).all()
    return tuple(_record_of(row) for row in (*reversed(newest), *oldest))


def _record_of(row: Row[Any]) -> DeliveryRecord:
    status = DeliveryStatus(row.status)
    return DeliveryRecord(
        receiver=row.receiver,
        transition=transition(row),
        status=status,
        attempts=row.attempts,
        reason=row.last_reason,
        next_attempt_at=row.next_attempt_at if status in _WAITING else None,
        settled_at=row.settled_at,
        may_be_known=row.may_be_known,
    )


_COLUMNS = (
    deliveries.c.id.label("delivery_id"),
    deliveries.c.receiver,
    deliveries.c.status,
    deliveries.c.attempts,
    deliveries.c.may_be_known,
    deliveries.c.reason.label("last_reason"),
    transitions,
)


def _of_deliveries(*columns: Any) -> Select[Any]:  # noqa: ANN401 - columns and tables
    """What is asked of deliveries and their transitions."""
    return select(*columns).select_from(deliveries).join(transitions, transitions.c.id == deliveries.c.transition_id)


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        id=row.delivery_id,
        transition_id=row.id,
        receiver=row.receiver,
        attempts=row.attempts,
        transition=transition(row),
        status=DeliveryStatus(row.status),
        may_be_known=row.may_be_known,
    )
