"""Alert states and transitions, and the deliveries that announced transitions owe: what a result may change of them.

A run is judged on states that were read when it began. Another run of the comparison may have moved them meanwhile, so
`admit` compares with what is stored when the result is written: no older slot moves a state back, and no firing starts or
ends that does not follow from the stored state. What is refused is judged again by the next run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, case, delete, select

from monitor.model import AlertState, DeliveryStatus, Direction, Outcome, Severity, State, Transition
from monitor.storage.column_types import key
from monitor.storage.dialects import insert, lock_comparisons
from monitor.storage.run_results import number
from monitor.storage.tables import alert_states, deliveries, transitions

Watch = tuple[str, str, str]
"""Comparison, alert and segment, as stored."""

_WATCH = ("comparison", "alert", "segment")
_REMOVE = delete(alert_states).where(*(alert_states.c[name] == bindparam(f"its_{name}") for name in _WATCH))
_NEXT = timedelta(microseconds=1)
_RENAMED = {"slot": "scheduled_for", "at": "changed_at"}
_COLUMNS = {each.name: _RENAMED.get(each.name, each.name) for each in fields(Transition) if each.name != "interval"}


def watch_of(item: AlertState | Transition) -> Watch:
    """What a state or transition is about."""
    return key(item.comparison), key(item.alert), key(item.segment)


def store(
    connection: Connection, states: Sequence[AlertState], changes: Sequence[Transition], receivers: Sequence[str]
) -> None:
    """Write what may be written of these states and transitions, and the deliveries."""
    names = {state.comparison for state in states} | {change.comparison for change in changes}
    lock_comparisons(connection, names)
    stored = _stored(connection, names)
    admitted, caused = _told_apart(connection, *admit(stored, states, changes))
    upsert(connection, admitted)
    announce(connection, caused, receivers)
    _owe_what_lasts(connection, [state for state in admitted if state.state is State.FIRING], receivers)


def upsert(connection: Connection, states: Sequence[AlertState], *, keeps_acknowledgement: bool = True) -> None:
    """Write states in place of the stored ones. Who looks after a firing stays, as it may have been said since it was read."""
    if not states:
        return
    fresh = insert(connection, alert_states)
    values: dict[str, Any] = dict(fresh.excluded)
    if keeps_acknowledgement:
        is_same = alert_states.c.dedup_key.is_not_distinct_from(fresh.excluded.dedup_key)
        values["acknowledged_by"] = case((is_same, alert_states.c.acknowledged_by), else_=None)
    renewed = fresh.on_conflict_do_update(index_elements=_WATCH, set_=values)
    connection.execute(renewed, [_plain(state) for state in states])


def admit(
    stored: Mapping[Watch, AlertState], states: Sequence[AlertState], changes: Sequence[Transition]
) -> tuple[list[AlertState], list[Transition]]:
    """States of newer slots than the stored ones that follow from them, and the transitions that belong to these.

    A state follows from the stored one when it is the same, or when there is a transition from the one to the other. Where
    nothing is stored the state is quiet.
    """
    causes = {watch_of(change): change for change in reversed(changes)}
    admitted = [state for state in states if _follows(stored.get(watch_of(state)), state, causes.get(watch_of(state)))]
    watches = {watch_of(state) for state in admitted}
    return admitted, [change for change in changes if watch_of(change) in watches]


def retire(connection: Connection, changes: Sequence[Transition], receivers: Sequence[str]) -> None:
    """Remove the states that these transitions end and store the transitions; one whose state is gone or moved is dropped."""
    names = {change.comparison for change in changes}
    lock_comparisons(connection, names)
    stored = _stored(connection, names)
    ended = []
    for change in changes:
        state = stored.pop(watch_of(change), None)
        if state is not None and (state.state, state.dedup_key) == (change.from_state, change.dedup_key):
            ended.append(change)
    if ended:
        connection.execute(_REMOVE, [{f"its_{name}": getattr(change, name) for name in _WATCH} for change in ended])
    announce(connection, _in_free_slots(connection, ended), receivers)


def read(connection: Connection, comparison: str | None) -> tuple[AlertState, ...]:
    """Alert states of one comparison or of all, by comparison, alert and segment."""
    query = select(alert_states).order_by(alert_states.c.comparison, alert_states.c.alert, alert_states.c.segment)
    if comparison is not None:
        query = query.where(alert_states.c.comparison == comparison)
    return tuple(_state(row) for row in connection.execute(query))


def lasting_states(connection: Connection, comparison: str) -> tuple[AlertState, ...]:
    """The comparison's alerts that fire."""
    return tuple(state for state in read(connection, comparison) if state.state is State.FIRING)


def lasting() -> ColumnElement[bool]:
    """Whether a transition is the start of a firing that lasts, where it is joined with the states."""
    return and_(
        *(transitions.c[name] == alert_states.c[name] for name in _WATCH),
        transitions.c.to_state == State.FIRING,
        transitions.c.from_state != State.FIRING,
        transitions.c.dedup_key.is_not_distinct_from(alert_states.c.dedup_key),
        alert_states.c.state == State.FIRING,
    )


def firing(connection: Connection, *, comparison: str | None = None) -> tuple[Transition, ...]:
    """The transition that started each firing that lasts, of one comparison or of all, oldest first."""
    query = select(transitions).join(alert_states, lasting())
    if comparison is not None:
        query = query.where(transitions.c.comparison == comparison)
    newest = {(row.comparison, row.alert, row.segment): row for row in connection.execute(query.order_by(transitions.c.id))}
    return tuple(transition(row) for row in sorted(newest.values(), key=lambda row: row.id))


def history(connection: Connection, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
    """The newest ``limit`` transitions in the order they were stored."""
    query: Select[Any] = select(transitions).order_by(transitions.c.id.desc()).limit(limit)
    if comparison is not None:
        query = query.where(transitions.c.comparison == comparison)
    return tuple(transition(row) for row in reversed(connection.execute(query).all()))


def transition(row: Any) -> Transition:  # noqa: ANN401 - a row of transitions
    """The transition that a row holds."""
    values = {name: getattr(row, column) for name, column in _COLUMNS.items()}
    values["interval"] = None if row.interval_low is None else (row.interval_low, row.interval_high)
    kinds = {"from_state": State, "to_state": State, "direction": Direction, "severity": Severity}
    return Transition(**(values | {name: kind(values[name]) for name, kind in kinds.items()}))


def _told_apart(
    connection: Connection, states: Sequence[AlertState], changes: Sequence[Transition]
) -> tuple[list[AlertState], list[Transition]]:
    """The same, told apart from what was stored of these slots before, and the ends as their starts are known.

    A slot comes again when a clock was set back, or when a rule was removed and put back: what begins to fire in it then is no
    firing that was told already.
    """
    apart = _in_free_slots(connection, changes)
    keys = {new.dedup_key: _another_key(new) for old, new in zip(changes, apart, strict=True) if new != old and new.is_start}
    renamed = [replace(state, dedup_key=keys.get(state.dedup_key, state.dedup_key)) for state in states]
    return renamed, [
        replace(change, dedup_key=keys.get(change.dedup_key, change.dedup_key)) for change in _as_started(connection, apart)
    ]


def _another_key(start: Transition) -> str:
    return hashlib.sha256(f"{start.dedup_key} {start.slot.isoformat()}".encode()).hexdigest()[:32]


def _in_free_slots(connection: Connection, changes: Sequence[Transition]) -> list[Transition]:
    """The changes, each in the first slot from its own on in which none like it is stored."""
    free = list(changes)
    while known := _numbered(connection, free):
        moved = [replace(each, slot=each.slot + _NEXT) if _change_of(each) in known else each for each in free]
        if moved == free:
            break
        free = moved
    return free


def _as_started(connection: Connection, changes: Sequence[Transition]) -> list[Transition]:
    """The changes, ends under metric and labels of their starts: by these receivers know them, whatever the rule says now."""
    keys = {change.dedup_key for change in changes if change.is_end} - {None}
    query = select(transitions).where(
        transitions.c.dedup_key.in_(keys), transitions.c.to_state == State.FIRING, transitions.c.from_state != State.FIRING
    )
    starts = {row.dedup_key: transition(row) for row in connection.execute(query)} if keys else {}
    return [
        replace(change, labels=start.labels, metric=start.metric, statistic=start.statistic)
        if change.is_end and (start := starts.get(change.dedup_key)) is not None
        else change
        for change in changes
    ]


def _stored(connection: Connection, names: Iterable[str]) -> dict[Watch, AlertState]:
    return {watch_of(state): state for name in names for state in read(connection, name)}


def _follows(before: AlertState | None, state: AlertState, cause: Transition | None) -> bool:
    if before is not None and state.judged_slot <= before.judged_slot:
        return False
    was, was_key = (before.state, before.dedup_key) if before else (State.QUIET, None)
    if cause is not None:
        return cause.from_state is was
    return (state.state, state.dedup_key) == (was, was_key)


def _owe_what_lasts(connection: Connection, lasting: Sequence[AlertState], receivers: Sequence[str]) -> None:
    """A pending delivery of each firing's start to every receiver that is owed none yet.

    So a receiver that was added later hears of it, and so does everybody when it began in a replay that told nobody.
    """
    keys = [state.dedup_key for state in lasting]
    if not keys or not receivers:
        return
    starts = select(transitions.c.id, transitions.c.changed_at).where(
        transitions.c.dedup_key.in_(keys),
        transitions.c.to_state == State.FIRING,
        transitions.c.from_state != State.FIRING,
    )
    begun = {row.id: row.changed_at for row in connection.execute(starts)}
    known = select(deliveries.c.transition_id, deliveries.c.receiver).where(deliveries.c.transition_id.in_(list(begun)))
    owed = {(row.transition_id, key(row.receiver)) for row in connection.execute(known)}
    wanted = dict.fromkeys(receivers)
    missing = [(start, receiver) for start in begun for receiver in wanted if (start, key(receiver)) not in owed]
    if missing:
        connection.execute(deliveries.insert(), [owing(start, receiver, begun[start]) for start, receiver in missing])


def owing(transition_id: int, receiver: str, due: datetime) -> dict[str, object]:
    """A row of ``deliveries`` that waits."""
    return {
        "transition_id": transition_id,
        "receiver": receiver,
        "status": DeliveryStatus.PENDING,
        "attempts": 0,
        "next_attempt_at": due,
    }


def announce(connection: Connection, changes: Sequence[Transition], receivers: Sequence[str]) -> None:
    """Store the transitions, those apart that are stored, and what they owe: starts to all receivers.

    Ends and acknowledgements are owed to those who are owed the start, and where nobody is, to nobody.
    """
    known = _numbered(connection, changes)
    fresh = [change for change in changes if _change_of(change) not in known]
    if not fresh:
        return
    rows = ({_RENAMED.get(name, name): value for name, value in _plain(change).items()} for change in fresh)
    connection.execute(transitions.insert(), list(rows))
    numbered = _numbered(connection, fresh)
    heard = _owed_starts(connection, fresh)
    owed = [
        owing(numbered[_change_of(change)], receiver, change.at)
        for change in fresh
        if change.is_announced
        for receiver in dict.fromkeys(receivers if change.is_start else heard.get(change.dedup_key, ()))
    ]
    if owed:
        connection.execute(deliveries.insert(), owed)


def _owed_starts(connection: Connection, changes: Sequence[Transition]) -> dict[str | None, list[str]]:
    """Receivers that are owed the starts, sent ones included, by the keys of these changes that are none themselves."""
    keys = {change.dedup_key for change in changes if change.is_announced and not change.is_start}
    query = (
        select(transitions.c.dedup_key, deliveries.c.receiver)
        .join(deliveries, deliveries.c.transition_id == transitions.c.id)
        .where(transitions.c.dedup_key.in_(keys - {None}), transitions.c.from_state != State.FIRING)
        .order_by(deliveries.c.id)
    )
    found: dict[str | None, list[str]] = {}
    for key_of, receiver in connection.execute(query) if keys else ():
        found.setdefault(key_of, []).append(receiver)
    return found


def _change_of(change: Transition) -> tuple[object, ...]:
    """What no two stored transitions have in common."""
    return *watch_of(change), change.slot, change.to_state


def _numbered(connection: Connection, changes: Sequence[Transition]) -> dict[tuple[object, ...], int]:
    """Numbers of the stored transitions of these comparisons and slots."""
    names, slots = {change.comparison for change in changes}, {change.slot for change in changes}
    query = select(transitions).where(transitions.c.comparison.in_(names), transitions.c.scheduled_for.in_(slots))
    return {_change_of(transition(row)): row.id for row in connection.execute(query)}


def _plain(item: AlertState | Transition) -> dict[str, Any]:
    values = {field.name: getattr(item, field.name) for field in fields(item)}
    values |= {name: number(values[name]) for name in ("value", "threshold")} | {"users": int(item.users)}
    if not isinstance(item, Transition):
        return values
    low, high = item.interval or (None, None)
    of_interval = {"interval_low": number(low), "interval_high": number(high)}
    del values["interval"]
    return values | of_interval | {"normal": number(item.normal), "labels": dict(item.labels)}


def _state(row: Any) -> AlertState:  # noqa: ANN401 - a row of alert_states
    values = {field.name: getattr(row, field.name) for field in fields(AlertState)}
    kinds = {"state": State, "outcome": Outcome, "severity": Severity}
    return AlertState(**(values | {name: kind(values[name]) for name, kind in kinds.items()}))
