"""SqlOutbox: deliveries, from the lease to the outcome."""

# ruff: noqa: D102 - the port's docstrings are the contract

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
    update,
)

from monitor.errors import DatabaseError
from monitor.model.alerts import State, Transition
from monitor.model.explanation import ExampleLists
from monitor.model.model_versions import write_models
from monitor.model.notifications import (
    Briefing,
    Delivery,
    DeliveryStatus,
    FiringSnapshot,
    Notification,
)
from monitor.model.runs import EvidenceKind
from monitor.storage.alert_states import (
    IS_END,
    IS_LASTING_START,
    IS_START,
    WAITING,
    pending_delivery,
    read_firing,
    read_states,
    transition_of_row,
)
from monitor.storage.alert_store import read_silences
from monitor.storage.rows import chunks, from_row, insert, lock_comparisons, to_row
from monitor.storage.run_results import evidence_of, explanations_of
from monitor.storage.tables.alert_tables import alert_states, deliveries, notifications, transitions
from monitor.storage.tables.run_tables import runs
from monitor.storage.transactions import Database

_TRIED = deliveries.c.attempts + bindparam("tried", type_=Integer)
_MOVE = update(deliveries).where(deliveries.c.id == bindparam("moved_id")).values(attempts=_TRIED)
_DELIVER_AGAIN = (
    update(deliveries)
    .where(
        deliveries.c.transition_id == bindparam("its_transition"),
        deliveries.c.receiver == bindparam("fallback"),
        deliveries.c.status == DeliveryStatus.DROPPED,
    )
    .values(status=DeliveryStatus.PENDING, next_attempt_at=bindparam("due_at"), settled_at=None)
)
_REMOVED = "the receiver was removed from the configuration"
_LONGEST_LEASE = timedelta(minutes=10)
_LONGEST_HELD = timedelta(minutes=2)
_LONGEST_PAUSE = timedelta(hours=2)
"""More than anybody leases, holds or puts off a delivery for."""
_RETRIED_FOR = timedelta(days=1)
"""How long an end that was refused for good is retried when the configuration changes."""
_EXAMPLES = 2
"""Users whose lists a message shows where no explanation names any."""
_IN_TURN = (case((deliveries.c.message_key.is_(None), 1), else_=0), deliveries.c.message_key)
"""What may have arrived comes first, message by message: a message is repeated whole."""
_GIVEN_UP = (DeliveryStatus.DEAD, DeliveryStatus.DROPPED)
_IS_WAITING = deliveries.c.status.in_(WAITING)
_COLUMNS = (
    deliveries.c.id.label("delivery_id"),
    deliveries.c.receiver,
    deliveries.c.status,
    deliveries.c.attempts,
    deliveries.c.may_be_known,
    deliveries.c.message_key,
    deliveries.c.reason.label("last_reason"),
    deliveries.c.next_attempt_at,
    deliveries.c.settled_at,
    transitions,
)


class SqlOutbox:
    """Port Outbox over SQLAlchemy Core."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim_deliveries(
        self, receiver: str, *, owner: str, now: datetime, until: datetime, limit: int
    ) -> tuple[Delivery, ...]:
        with self._database.write() as connection:
            comparison = _comparison_due_longest(connection, receiver, now)
            if comparison is None or _is_being_delivered(connection, receiver, comparison, now):
                return ()
            is_free = and_(deliveries.c.receiver == receiver, _IS_WAITING, ~_is_leased(now))
            waiting = (
                _select(*_COLUMNS)
                .where(is_free, transitions.c.comparison == comparison)
                .order_by(*_IN_TURN, case((_is_due(now), 0), else_=1), transitions.c.id)
                .limit(limit)
                .with_for_update(skip_locked=True, of=deliveries)
            )
            rows = connection.execute(waiting).all()
            leased = update(deliveries).where(
                deliveries.c.id.in_([row.delivery_id for row in rows]), is_free
            )
            connection.execute(leased.values(leased_by=owner, leased_until=until))
        return tuple(_delivery(row) for row in sorted(rows, key=lambda row: row.id))

    def firing_snapshot(
        self, comparison: str, receiver: str, changes: Sequence[Transition], *, now: datetime
    ) -> FiringSnapshot:
        with self._database.read() as connection:
            firing = read_firing(connection, comparison)
            states = read_states(connection, comparison, state=State.FIRING)
            asked = [*changes, *firing]
            known = _known_rows(connection, receiver, comparison, asked)
            silences = read_silences(connection, ending_after=now)
            return FiringSnapshot(
                firing=firing,
                delivered=frozenset(row.dedup_key for row in known if row.to_state == State.FIRING),
                told=_told(known),
                acknowledged=frozenset(
                    each.dedup_key for each in states if each.dedup_key and each.acknowledged_by
                ),
                silences=tuple(silence for silence in silences if silence.is_active(now)),
                refused=_refused(
                    connection, comparison, [each.dedup_key for each in asked if each.dedup_key]
                ),
            )

    def briefing(self, comparison: str, slot: datetime) -> Briefing:
        is_it = (runs.c.comparison == comparison, runs.c.scheduled_for == slot)
        with self._database.read() as connection:
            run_id, models = connection.execute(
                select(runs.c.id, runs.c.models).where(*is_it)
            ).first() or (None, None)
            if run_id is None:
                return Briefing()
            explanation = explanations_of(connection, [run_id]).get(run_id)
            shown = explanation.examples if explanation else ()
            if not shown:
                worst = [
                    each
                    for each in evidence_of(connection, run_id)
                    if each.kind is EvidenceKind.WORST
                ]
                shown = tuple(
                    ExampleLists(user=each.user, baseline=each.baseline, candidate=each.candidate)
                    for each in worst[:_EXAMPLES]
                )
        return Briefing(explanation=explanation, examples=shown, models=write_models(models, slot))

    def mark_sending(
        self, sending: Sequence[Delivery], *, message_key: str, owner: str, until: datetime
    ) -> None:
        is_sent = deliveries.c.id.in_([each.id for each in sending])
        marked = (
            update(deliveries).where(is_sent).values(may_be_known=True, message_key=message_key)
        )
        receivers = {each.receiver for each in sending}
        leased = and_(
            deliveries.c.receiver.in_(receivers), deliveries.c.leased_by == owner, _IS_WAITING
        )
        with self._database.write() as connection:
            connection.execute(marked)
            connection.execute(update(deliveries).where(leased).values(leased_until=until))

    def record(self, *notifications: Notification) -> None:
        with self._database.write() as connection:
            record_outcomes(connection, notifications)

    def due_repetitions(self, receiver: str, *, now: datetime, limit: int) -> tuple[Delivery, ...]:
        is_due = and_(deliveries.c.receiver == receiver, deliveries.c.repeat_at <= now)
        query = (
            _select(*_COLUMNS)
            .join(alert_states, IS_LASTING_START)
            .where(is_due, alert_states.c.acknowledged_by.is_(None))
            .order_by(transitions.c.id)
            .limit(limit)
        )
        return tuple(_delivery(row) for row in self._database.rows(query))

    def schedule_repetition(
        self, repeated: Sequence[Delivery], *, at: datetime, message_key: str | None
    ) -> None:
        ids = [each.id for each in repeated]
        is_repeated = and_(deliveries.c.id.in_(ids), deliveries.c.repeat_at.is_not(None))
        with self._database.write() as connection:
            moved = update(deliveries).where(is_repeated)
            connection.execute(moved.values(repeat_at=at, message_key=message_key))

    def delivered(self, receiver: str, *, ended_since: datetime) -> tuple[Transition, ...]:
        is_sent = and_(
            deliveries.c.receiver == receiver, deliveries.c.status == DeliveryStatus.SENT
        )
        starts = _select(transitions).join(alert_states, IS_LASTING_START).where(is_sent)
        ends = _select(transitions).where(is_sent, IS_END, deliveries.c.settled_at >= ended_since)
        with self._database.read() as connection:
            found = {
                row.id: transition_of_row(row)
                for query in (starts, ends)
                for row in connection.execute(query)
            }
        return tuple(found[number] for number in sorted(found))

    def retry_refused(self, now: datetime, *, receivers: Sequence[str]) -> int:
        is_known = deliveries.c.receiver.in_(list(receivers))
        starts = _select(deliveries.c.id).join(alert_states, IS_LASTING_START)
        lately = and_(
            deliveries.c.status == DeliveryStatus.DEAD,
            deliveries.c.settled_at >= now - _RETRIED_FOR,
        )
        refused = (
            starts.where(is_known, deliveries.c.status.in_(_GIVEN_UP)),
            _select(deliveries.c.id).where(is_known, lately, IS_END),
        )
        again = {"status": DeliveryStatus.PENDING, "next_attempt_at": now, "settled_at": None}
        with self._database.write() as connection:
            ids = [number for query in refused for number in connection.scalars(query)]
            for some in chunks(ids):
                connection.execute(
                    update(deliveries).where(deliveries.c.id.in_(some)).values(again)
                )
        return len(ids)

    def give_up_unknown(self, *, known: Sequence[str], now: datetime) -> int:
        removed = select(deliveries.c.id).where(
            _IS_WAITING, deliveries.c.receiver.not_in(list(known))
        )
        dead: dict[str, Any] = {
            "status": DeliveryStatus.DEAD,
            "reason": _REMOVED,
            "next_attempt_at": None,
        }
        with self._database.write() as connection:
            ids = list(connection.scalars(removed))
            record_outcomes(
                connection, [Notification(delivery_id=each, at=now, **dead) for each in ids]
            )
        return len(ids)

    def deliveries(self, *, receiver: str | None, settled: int, limit: int) -> tuple[Delivery, ...]:
        query = _select(*_COLUMNS)
        if receiver is not None:
            query = query.where(deliveries.c.receiver == receiver)
        given_up = query.where(deliveries.c.status.in_(_GIVEN_UP))
        newest = given_up.order_by(deliveries.c.settled_at.desc(), deliveries.c.id.desc()).limit(
            settled
        )
        oldest = query.where(_IS_WAITING).order_by(deliveries.c.id).limit(limit)
        with self._database.read() as connection:
            rows = [*reversed(connection.execute(newest).all()), *connection.execute(oldest)]
        return tuple(map(_delivery, rows))

    def waiting(self, now: datetime, *, held: bool = False) -> Mapping[str, tuple[int, float]]:
        is_held = and_(deliveries.c.status == DeliveryStatus.HELD, IS_START)
        query = (
            _select(deliveries.c.receiver, func.count(), func.min(transitions.c.changed_at))
            .where(is_held if held else deliveries.c.status == DeliveryStatus.PENDING)
            .group_by(deliveries.c.receiver)
            .order_by(deliveries.c.receiver)
        )
        rows = self._database.rows(query)
        return {
            receiver: (count, max(0.0, (now - oldest).total_seconds()))
            for receiver, count, oldest in rows
        }

    def given_up(self, *, since: datetime) -> Mapping[str, int]:
        is_given_up = and_(
            deliveries.c.status == DeliveryStatus.DEAD,
            deliveries.c.settled_at >= since,
            deliveries.c.reason.is_distinct_from(_REMOVED),
        )
        query = (
            select(deliveries.c.receiver, func.count())
            .where(is_given_up)
            .group_by(deliveries.c.receiver)
        )
        return {row[0]: row[1] for row in self._database.rows(query)}


def record_outcomes(connection: Connection, found: Sequence[Notification]) -> None:
    """Store the outcomes and move the deliveries, but those that another attempt has settled meanwhile."""
    stored = _lock(connection, [each.delivery_id for each in found])
    if missing := {note.delivery_id for note in found} - stored.keys():
        raise DatabaseError(
            f"no delivery {min(missing)} to record a notification for: it was deleted by hand"
        )
    moves = [(stored[note.delivery_id], note) for note in found]
    # The number of statements does not grow with the deliveries: a run may have a thousand, and on
    # SQLite all others wait.
    if news := [
        to_row(note, notifications, attempted_at=note.at)
        for row, note in moves
        if _is_news(row, note)
    ]:
        connection.execute(notifications.insert(), news)
    if waiting := [(row, note) for row, note in moves if row.status in WAITING]:
        connection.execute(_MOVE, [_moved(note) for _, note in waiting])
    _deliver_to_fallbacks(
        connection,
        [(row.transition_id, note.fallback, note.at) for row, note in waiting if note.fallback],
    )


def _lock(connection: Connection, ids: Sequence[int]) -> Mapping[int, Row[Any]]:
    columns = (
        deliveries.c.id,
        deliveries.c.transition_id,
        deliveries.c.status,
        deliveries.c.reason,
    )
    locked: dict[int, Row[Any]] = {}
    # Locked in one order, so that no two wait for each other.
    for some in chunks(sorted(ids)):
        query: Select[Any] = (
            select(*columns)
            .where(deliveries.c.id.in_(some))
            .order_by(deliveries.c.id)
            .with_for_update()
        )
        locked |= {row.id: row for row in connection.execute(query)}
    return locked


def _is_news(row: Row[Any], note: Notification) -> bool:
    return (row.status, row.reason) != (
        note.status,
        note.reason,
    ) or note.status is DeliveryStatus.SENT


def _moved(note: Notification) -> dict[str, object]:
    return {
        "moved_id": note.delivery_id,
        "tried": int(note.status not in (DeliveryStatus.HELD, DeliveryStatus.DROPPED)),
        "status": note.status,
        "reason": note.reason,
        "next_attempt_at": note.next_attempt_at or note.at,
        "settled_at": None if note.status in WAITING else note.at,
        "repeat_at": note.repeat_at,
        "may_be_known": note.may_be_known,
        "message_key": note.message_key,
        "leased_by": None,
        "leased_until": None,
    }


def _deliver_to_fallbacks(
    connection: Connection, refused: Sequence[tuple[int, str, datetime]]
) -> None:
    if not refused:
        return
    again = [
        {"its_transition": number, "fallback": receiver, "due_at": at}
        for number, receiver, at in refused
    ]
    # Also where they were routed past these before.
    connection.execute(_DELIVER_AGAIN, again)
    fresh = [pending_delivery(number, receiver, at) for number, receiver, at in refused]
    connection.execute(insert(connection, deliveries).on_conflict_do_nothing(), fresh)


def end_leases(connection: Connection, owner: str) -> None:
    """End the leases of an owner who can record nothing any more."""
    # What he sent and did not record is sent again.
    leased = and_(_IS_WAITING, deliveries.c.leased_by == owner)
    connection.execute(update(deliveries).where(leased).values(leased_by=None, leased_until=None))


def _select(*columns: Any) -> Select[Any]:  # noqa: ANN401 - columns and tables
    return (
        select(*columns)
        .select_from(deliveries)
        .join(transitions, transitions.c.id == deliveries.c.transition_id)
    )


def _comparison_due_longest(connection: Connection, receiver: str, now: datetime) -> str | None:
    """The comparison whose delivery to the receiver is due longest, but those that somebody is delivering."""
    is_waiting = and_(deliveries.c.receiver == receiver, _IS_WAITING)
    leased = _select(transitions.c.comparison).where(is_waiting, _is_leased(now))
    due = _select(transitions.c.comparison).where(
        is_waiting, _is_due(now), ~_is_leased(now), transitions.c.comparison.not_in(leased)
    )
    found: str | None = connection.scalar(
        due.order_by(deliveries.c.next_attempt_at, transitions.c.id).limit(1)
    )
    return found


def _is_being_delivered(
    connection: Connection, receiver: str, comparison: str, now: datetime
) -> bool:
    # Nothing newer must overtake it.
    lock_comparisons(connection, {comparison})
    leased = _select(deliveries.c.id).where(
        deliveries.c.receiver == receiver,
        transitions.c.comparison == comparison,
        _IS_WAITING,
        _is_leased(now),
    )
    return connection.execute(leased.limit(1)).first() is not None


def _is_due(now: datetime) -> ColumnElement[bool]:
    is_untried = and_(deliveries.c.status == DeliveryStatus.PENDING, deliveries.c.attempts == 0)
    # Put off for longer than anything ever is: by a clock that was set back since.
    is_held_too_long = and_(
        deliveries.c.status == DeliveryStatus.HELD,
        deliveries.c.next_attempt_at > now + _LONGEST_HELD,
    )
    return or_(
        deliveries.c.next_attempt_at <= now,
        is_untried,
        is_held_too_long,
        deliveries.c.next_attempt_at > now + _LONGEST_PAUSE,
    )


def _is_leased(now: datetime) -> ColumnElement[bool]:
    ends_at = func.coalesce(deliveries.c.leased_until, now)
    # A lease that ends later than any can is one of a clock that was set back since.
    return and_(ends_at > now, ends_at <= now + _LONGEST_LEASE)


def _known_rows(
    connection: Connection, receiver: str, comparison: str, changes: Iterable[Transition]
) -> list[Row[Any]]:
    """Starts and ends that the receiver was sent or may know, of these firings and their incidents, as they were stored."""
    is_known = or_(deliveries.c.status == DeliveryStatus.SENT, deliveries.c.may_be_known)
    query = _select(transitions, deliveries.c.status, deliveries.c.settled_at).where(
        deliveries.c.receiver == receiver,
        transitions.c.comparison == comparison,
        is_known,
        or_(IS_START, IS_END),
    )
    found: dict[int, Row[Any]] = {}
    for column, name in (
        (transitions.c.dedup_key, "dedup_key"),
        (transitions.c.incident, "incident"),
    ):
        for some in chunks({getattr(each, name) for each in changes} - {None}):
            found |= {row.id: row for row in connection.execute(query.where(column.in_(some)))}
    return [found[number] for number in sorted(found)]


def _told(known: Sequence[Row[Any]]) -> tuple[Transition, ...]:
    """The starts among these that were sent since the receiver was sent the end of their incident, in the order of sending."""
    settled = (
        row for row in known if row.status == DeliveryStatus.SENT and row.incident is not None
    )
    sent = sorted(settled, key=lambda row: row.settled_at)
    ended = {row.incident: row.settled_at for row in sent if row.to_state != State.FIRING}
    return tuple(
        transition_of_row(row)
        for row in sent
        if row.to_state == State.FIRING
        and (row.incident not in ended or row.settled_at > ended[row.incident])
    )


def _refused(
    connection: Connection, comparison: str, keys: Iterable[str]
) -> frozenset[tuple[str, str]]:
    """Receivers that refused the start of one of these firings for good, each with the firing's key."""
    query = _select(deliveries.c.receiver, transitions.c.dedup_key).where(
        transitions.c.comparison == comparison, deliveries.c.status == DeliveryStatus.DEAD, IS_START
    )
    rows = (
        row
        for some in chunks(keys)
        for row in connection.execute(query.where(transitions.c.dedup_key.in_(some)))
    )
    return frozenset((row.receiver, row.dedup_key) for row in rows)


def _delivery(row: Row[Any]) -> Delivery:
    told = {
        "id": row.delivery_id,
        "transition_id": row.id,
        "transition": transition_of_row(row),
        "reason": row.last_reason,
    }
    return from_row(
        Delivery,
        row,
        **told,
        next_attempt_at=row.next_attempt_at if row.status in WAITING else None,
    )
