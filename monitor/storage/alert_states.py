"""What a transaction may change of alert states, transitions and their deliveries.

The rows, and back as dataclasses.

Another run may have moved a state since a run read it: `admit` compares with what is stored when
the result is written, and what it refuses the next run judges again."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, and_, case, select

from monitor.model.alerts import ACCEPTED, AlertState, State, Transition
from monitor.model.notifications import DeliveryStatus
from monitor.storage.column_types import key
from monitor.storage.rows import from_row, insert, lock_comparisons, to_row
from monitor.storage.tables.alert_tables import alert_states, deliveries, transitions

AlertKey = tuple[str, str, str]
"""Comparison, alert and segment, as stored."""

KEY_COLUMNS = ("comparison", "alert", "segment")
WAITING = (DeliveryStatus.PENDING, DeliveryStatus.HELD)
"""A delivery that may still be sent."""
IS_START = and_(transitions.c.to_state == State.FIRING, transitions.c.from_state != State.FIRING)
"""Whether a transition is the start of a firing."""
IS_END = and_(transitions.c.from_state == State.FIRING, transitions.c.to_state != State.FIRING)
"""Whether a transition is the end of a firing."""
IS_LASTING_START = and_(
    *(transitions.c[name] == alert_states.c[name] for name in KEY_COLUMNS),
    IS_START,
    transitions.c.dedup_key.is_not_distinct_from(alert_states.c.dedup_key),
    alert_states.c.state == State.FIRING,
)
"""Whether a transition is the start of a firing that lasts, where it is joined with the states."""

_NEXT = timedelta(microseconds=1)


def key_of(item: AlertState | Transition) -> AlertKey:
    """The alert that a state or transition belongs to."""
    return key(item.comparison), key(item.alert), key(item.segment)


def store_alerts(
    connection: Connection,
    states: Sequence[AlertState],
    changes: Sequence[Transition],
    receivers: Sequence[str],
) -> None:
    """Write what may be written of these states and transitions, and the deliveries."""
    names = {state.comparison for state in states} | {change.comparison for change in changes}
    lock_comparisons(connection, names)
    admitted, caused = _with_free_keys(
        connection, *admit(stored_states(connection, names), states, changes)
    )
    upsert(connection, admitted)
    announce(connection, caused, receivers)
    _deliver_lasting_starts(
        connection, [state for state in admitted if state.state is State.FIRING], receivers
    )


def upsert(
    connection: Connection, states: Sequence[AlertState], *, keeps_acknowledgement: bool = True
) -> None:
    """Write states in place of the stored ones."""
    if not states:
        return
    fresh = insert(connection, alert_states)
    values: dict[str, Any] = dict(fresh.excluded)
    if keeps_acknowledgement:
        # An acknowledgement stays, as it may have come since the state was read.
        is_same = alert_states.c.dedup_key.is_not_distinct_from(fresh.excluded.dedup_key)
        values["acknowledged_by"] = case((is_same, alert_states.c.acknowledged_by), else_=None)
    renewed = fresh.on_conflict_do_update(index_elements=KEY_COLUMNS, set_=values)
    connection.execute(renewed, [to_row(state, alert_states) for state in states])


def admit(
    stored: Mapping[AlertKey, AlertState],
    states: Sequence[AlertState],
    changes: Sequence[Transition],
) -> tuple[list[AlertState], list[Transition]]:
    """States of newer slots than the stored ones that follow from them, and the transitions that belong to these.

    A state follows from the stored one when it is the same, or when there is a transition from the one to the other. Where
    nothing is stored the state is quiet.
    """
    causes = {key_of(change): change for change in reversed(changes)}
    admitted = [
        state
        for state in states
        if _follows(stored.get(key_of(state)), state, causes.get(key_of(state)))
    ]
    keys = {key_of(state) for state in admitted}
    return admitted, [change for change in changes if key_of(change) in keys]


def announce(
    connection: Connection, changes: Sequence[Transition], receivers: Sequence[str]
) -> None:
    """Store transitions that are not stored yet, and their deliveries: of starts to all receivers.

    Ends and acknowledgements go to receivers that have a delivery of the start, and where there are
    none, to nobody."""
    known = _ids_of(connection, changes)
    fresh = [change for change in changes if _identity(change) not in known]
    if not fresh:
        return
    connection.execute(transitions.insert(), [_transition_row(change) for change in fresh])
    ids = _ids_of(connection, fresh)
    of_starts = _receivers_of_starts(connection, fresh)
    pending = [
        pending_delivery(ids[_identity(change)], receiver, change.at)
        for change in fresh
        if change.is_announced
        for receiver in dict.fromkeys(
            receivers if change.is_start else of_starts.get(change.dedup_key, ())
        )
    ]
    if pending:
        connection.execute(deliveries.insert(), pending)


def in_free_slots(connection: Connection, changes: Sequence[Transition]) -> list[Transition]:
    """The changes, each in the first slot from its own on in which none like it is stored."""
    free = list(changes)
    while known := _ids_of(connection, free):
        moved = [
            replace(each, slot=each.slot + _NEXT) if _identity(each) in known else each
            for each in free
        ]
        if moved == free:
            break
        free = moved
    return free


def pending_delivery(transition_id: int, receiver: str, due: datetime) -> dict[str, object]:
    """A row of ``deliveries`` that waits to be sent."""
    return {
        "transition_id": transition_id,
        "receiver": receiver,
        "status": DeliveryStatus.PENDING,
        "attempts": 0,
        "next_attempt_at": due,
    }


def stored_states(connection: Connection, names: Iterable[str]) -> dict[AlertKey, AlertState]:
    """The stored states of these comparisons."""
    return {key_of(state): state for name in names for state in read_states(connection, name)}


def read_states(
    connection: Connection, comparison: str | None, *, state: State | None = None
) -> tuple[AlertState, ...]:
    """Alert states of one comparison or of all, and of one state where it is given, by comparison, alert and segment."""
    query = select(alert_states).order_by(
        alert_states.c.comparison, alert_states.c.alert, alert_states.c.segment
    )
    if comparison is not None:
        query = query.where(alert_states.c.comparison == comparison)
    if state is not None:
        query = query.where(alert_states.c.state == state)
    return tuple(from_row(AlertState, row) for row in connection.execute(query))


def read_firing(connection: Connection, comparison: str | None = None) -> tuple[Transition, ...]:
    """The transition that started each firing that lasts, of one comparison or of all, oldest first."""
    query = select(transitions).join(alert_states, IS_LASTING_START)
    if comparison is not None:
        query = query.where(transitions.c.comparison == comparison)
    newest = {
        (row.comparison, row.alert, row.segment): row
        for row in connection.execute(query.order_by(transitions.c.id))
    }
    return tuple(transition_of_row(row) for row in sorted(newest.values(), key=lambda row: row.id))


def read_accepted(connection: Connection, comparison: str) -> tuple[Transition, ...]:
    """The levels of the comparison that somebody accepted, in this order."""
    query = select(transitions).where(
        transitions.c.comparison == comparison, transitions.c.alert == ACCEPTED
    )
    return tuple(
        transition_of_row(row) for row in connection.execute(query.order_by(transitions.c.id))
    )


def transition_of_row(row: Row[Any]) -> Transition:
    """The transition that a row holds."""
    return from_row(
        Transition,
        row,
        interval=None if row.interval_low is None else (row.interval_low, row.interval_high),
    )


def _follows(before: AlertState | None, state: AlertState, cause: Transition | None) -> bool:
    if before is not None and state.judged_slot <= before.judged_slot:
        return False
    was, was_key = (before.state, before.dedup_key) if before else (State.QUIET, None)
    if cause is not None:
        return cause.from_state is was
    return (state.state, state.dedup_key) == (was, was_key)


def _with_free_keys(
    connection: Connection, states: Sequence[AlertState], changes: Sequence[Transition]
) -> tuple[list[AlertState], list[Transition]]:
    """The same, distinct from what was stored of these slots before, and the ends as receivers know their starts."""
    # A slot comes again when a clock was set back, or when a rule was removed and put back: what
    # begins to fire in it then is another firing than the one that receivers know.
    moved = in_free_slots(connection, changes)
    keys = {
        new.dedup_key: hashlib.sha256(
            f"{new.dedup_key} {new.slot.isoformat()}".encode()
        ).hexdigest()[:32]
        for old, new in zip(changes, moved, strict=True)
        if new != old and new.is_start
    }
    renamed = [
        replace(state, dedup_key=keys.get(state.dedup_key, state.dedup_key)) for state in states
    ]
    return renamed, [
        replace(change, dedup_key=keys.get(change.dedup_key, change.dedup_key))
        for change in _as_started(connection, moved)
    ]


def _as_started(connection: Connection, changes: Sequence[Transition]) -> list[Transition]:
    keys = {change.dedup_key for change in changes if change.is_end} - {None}
    query = select(transitions).where(transitions.c.dedup_key.in_(keys), IS_START)
    starts = (
        {row.dedup_key: transition_of_row(row) for row in connection.execute(query)} if keys else {}
    )
    return [
        # Receivers find them by these, whatever the rule says now.
        replace(change, labels=start.labels, metric=start.metric, statistic=start.statistic)
        if change.is_end and (start := starts.get(change.dedup_key)) is not None
        else change
        for change in changes
    ]


def _deliver_lasting_starts(
    connection: Connection, lasting: Sequence[AlertState], receivers: Sequence[str]
) -> None:
    """Add a pending delivery of each firing's start for every receiver that has none yet."""
    keys = [state.dedup_key for state in lasting]
    if not keys or not receivers:
        return
    starts = select(transitions.c.id, transitions.c.changed_at).where(
        transitions.c.dedup_key.in_(keys), IS_START
    )
    begun = {row.id: row.changed_at for row in connection.execute(starts)}
    stored = select(deliveries.c.transition_id, deliveries.c.receiver).where(
        deliveries.c.transition_id.in_(list(begun))
    )
    known = {(row.transition_id, key(row.receiver)) for row in connection.execute(stored)}
    wanted = dict.fromkeys(receivers)
    # So a receiver that was added later is notified, and so is everybody when the firing began in a
    # replay without receivers.
    missing = [
        (start, receiver)
        for start in begun
        for receiver in wanted
        if (start, key(receiver)) not in known
    ]
    if missing:
        rows = [pending_delivery(start, receiver, begun[start]) for start, receiver in missing]
        connection.execute(deliveries.insert(), rows)


def _receivers_of_starts(
    connection: Connection, changes: Sequence[Transition]
) -> dict[str | None, list[str]]:
    """Receivers with a delivery of the start, by the keys of those of these changes that are no starts."""
    keys = {change.dedup_key for change in changes if change.is_announced and not change.is_start}
    query = (
        select(transitions.c.dedup_key, deliveries.c.receiver)
        .join(deliveries, deliveries.c.transition_id == transitions.c.id)
        .where(transitions.c.dedup_key.in_(keys - {None}), transitions.c.from_state != State.FIRING)
        .order_by(deliveries.c.id)
    )
    found: dict[str | None, list[str]] = {}
    for dedup_key, receiver in connection.execute(query) if keys else ():
        found.setdefault(dedup_key, []).append(receiver)
    return found


def _identity(change: Transition) -> tuple[object, ...]:
    """What no two stored transitions have in common."""
    return *key_of(change), change.slot, change.to_state


def _ids_of(connection: Connection, changes: Sequence[Transition]) -> dict[tuple[object, ...], int]:
    names, slots = {change.comparison for change in changes}, {change.slot for change in changes}
    query = select(transitions).where(
        transitions.c.comparison.in_(names), transitions.c.scheduled_for.in_(slots)
    )
    return {_identity(transition_of_row(row)): row.id for row in connection.execute(query)}


def _transition_row(change: Transition) -> dict[str, Any]:
    low, high = change.interval or (None, None)
    return to_row(change, transitions, interval_low=low, interval_high=high)
