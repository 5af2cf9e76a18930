"""Decides which alert states and transitions to store, and reads and writes their rows.

A run reads the alert states when it starts. Another process may change them before the run stores
its result. So `admit_states` compares each new state with the stored state. If it refuses a state,
the next run judges the alert again.

The start of a firing is the transition to ``firing``, and its end is the transition that ends it.
All transitions of a firing have the same dedup key, which identifies the firing for receivers.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Row,
    Select,
    and_,
    bindparam,
    case,
    select,
)

from monitor.model.alerts import ACCEPTED_LEVEL, AlertState, State, Transition
from monitor.model.notifications import DeliveryStatus
from monitor.storage.column_types import stored_name
from monitor.storage.rows import from_rows, insert, insert_in, lock_names, to_row
from monitor.storage.tables.alert_tables import alert_states, deliveries, transitions

_StateOrTransition = TypeVar("_StateOrTransition", AlertState, Transition)
AlertKey = tuple[str, str, str]
"""What identifies an alert: its comparison, its name and its segment, each as stored."""

KEY_COLUMNS = ("comparison", "alert", "segment")
WAITING_STATUSES = (DeliveryStatus.PENDING, DeliveryStatus.HELD)
"""Statuses of a delivery that may still be sent."""


def is_start(change: FromClause) -> ColumnElement[bool]:
    """Return the condition that a row is the start of a firing.

    ``change`` is the table ``transitions`` or an alias.
    """
    return and_(change.c.to_state == State.FIRING, change.c.from_state != State.FIRING)


IS_START = is_start(transitions)
"""Whether a transition is the start of a firing."""
IS_END = and_(transitions.c.from_state == State.FIRING, transitions.c.to_state != State.FIRING)
"""Whether a transition is the end of a firing."""
IS_START_OF_CURRENT_FIRING = and_(
    *(transitions.c[name] == alert_states.c[name] for name in KEY_COLUMNS),
    IS_START,
    transitions.c.dedup_key.is_not_distinct_from(alert_states.c.dedup_key),
    alert_states.c.state == State.FIRING,
)
"""Whether a transition started a firing that still lasts. Use it to join transitions and states."""

# Each run executes these statements, and building a statement takes longer than executing it.
_STATES = select(alert_states).order_by(*(alert_states.c[name] for name in KEY_COLUMNS))
_STATES_OF_COMPARISON = _STATES.where(alert_states.c.comparison == bindparam("comparison"))
_STATES_TO_COMPARE: Select[Any] = _STATES_OF_COMPARISON.with_only_columns(
    *(alert_states.c[name] for name in KEY_COLUMNS),
    alert_states.c.state,
    alert_states.c.dedup_key,
    alert_states.c.judged_slot,
)
_ACCEPTED = (
    select(transitions)
    .where(
        transitions.c.comparison == bindparam("comparison"), transitions.c.alert == ACCEPTED_LEVEL
    )
    .order_by(transitions.c.id)
)


def key_of(state: AlertState | Transition | Row[Any]) -> AlertKey:
    """Return the key of the alert to which this state or transition belongs."""
    return stored_name(state.comparison), stored_name(state.alert), stored_name(state.segment)


def store_alerts(
    connection: Connection,
    new_states: Sequence[AlertState],
    new_transitions: Sequence[Transition],
    receivers: Sequence[str],
) -> None:
    """Store the states and transitions that `admit_states` allows, and their deliveries.

    The comparisons are locked first, so that no other process changes the alerts meanwhile.
    """
    comparisons = {state.comparison for state in new_states}
    comparisons |= {transition.comparison for transition in new_transitions}
    lock_names(connection, comparisons)
    stored = stored_states(connection, comparisons)
    admitted_states, admitted_transitions = admit_states(stored, new_states, new_transitions)
    completed_transitions = _copy_from_starts_to_ends(connection, admitted_transitions)
    states_to_store, transitions_to_store = _with_new_dedup_keys(
        connection, admitted_states, completed_transitions
    )
    upsert_states(connection, states_to_store)
    store_transitions(connection, transitions_to_store, receivers)
    # A receiver may have been added after a firing began. Or the firing began in a replay, which
    # has no receivers.
    firing = [state for state in states_to_store if state.state is State.FIRING]
    _add_missing_deliveries(connection, firing, receivers)


def upsert_states(
    connection: Connection,
    states: Sequence[AlertState],
    *,
    keeps_acknowledgement: bool = True,
) -> None:
    """Insert states, or replace the stored states of the same alerts.

    With ``keeps_acknowledgement``, a stored acknowledgement of the same firing stays.
    """
    if not states:
        return
    statement = _upsert_statement(
        connection.dialect.name, keeps_acknowledgement=keeps_acknowledgement
    )
    connection.execute(statement, [to_row(state, alert_states) for state in states])


@cache
def _upsert_statement(dialect: str, *, keeps_acknowledgement: bool) -> Insert:
    insertion = insert_in(dialect, alert_states)
    # If the alert already has a row, SQL calls the new row ``excluded``.
    values: dict[str, Any] = dict(insertion.excluded)
    if keeps_acknowledgement:
        # Somebody may have acknowledged the firing since the state was read.
        new_key = insertion.excluded.dedup_key
        is_same_firing = alert_states.c.dedup_key.is_not_distinct_from(new_key)
        stored_value = alert_states.c.acknowledged_by
        values["acknowledged_by"] = case((is_same_firing, stored_value), else_=None)
    return insertion.on_conflict_do_update(index_elements=KEY_COLUMNS, set_=values)


def admit_states(
    stored: Mapping[AlertKey, AlertState | Row[Any]],
    states: Sequence[AlertState],
    new_transitions: Sequence[Transition],
) -> tuple[list[AlertState], list[Transition]]:
    """Return the states that may replace the stored states, and the transitions of these alerts.

    ``new_transitions`` are in the order in which they happened.
    """
    first_transitions: dict[AlertKey, Transition] = {}
    for transition in new_transitions:
        first_transitions.setdefault(key_of(transition), transition)
    admitted_states = []
    for state in states:
        alert = key_of(state)
        if _may_replace(stored.get(alert), state, first_transitions.get(alert)):
            admitted_states.append(state)
    admitted_alerts = set(map(key_of, admitted_states))
    admitted_transitions = []
    for transition in new_transitions:
        if key_of(transition) in admitted_alerts:
            admitted_transitions.append(transition)
    return admitted_states, admitted_transitions


def store_transitions(
    connection: Connection,
    new_transitions: Sequence[Transition],
    receivers: Sequence[str],
) -> None:
    """Store the transitions, and deliveries of the announced transitions.

    The start of a firing is delivered to each of ``receivers``. An end or an acknowledgement is
    delivered to each receiver that has a delivery of the start.
    """
    if not new_transitions:
        return
    insertion = transitions.insert().returning(transitions.c.id, sort_by_parameter_order=True)
    rows = [to_row(transition, transitions) for transition in new_transitions]
    ids = connection.scalars(insertion, rows).all()
    start_receivers = _receivers_of_starts(connection, new_transitions)
    pending = []
    for transition_id, transition in zip(ids, new_transitions, strict=True):
        if not transition.is_announced:
            continue
        notified_receivers = receivers
        if not transition.is_start:
            notified_receivers = start_receivers.get(transition.dedup_key, ())
        # A receiver that is named twice gets one delivery.
        for receiver in dict.fromkeys(notified_receivers):
            pending.append(pending_delivery(transition_id, receiver, transition.at))
    if pending:
        connection.execute(deliveries.insert(), pending)


def pending_delivery(transition_id: int, receiver: str, due: datetime) -> dict[str, object]:
    """Return the row of a new delivery, which may be sent from ``due`` on."""
    return {
        "transition_id": transition_id,
        "receiver": receiver,
        "status": DeliveryStatus.PENDING,
        "attempts": 0,
        "next_attempt_at": due,
    }


def stored_states(connection: Connection, comparisons: Iterable[str]) -> dict[AlertKey, Row[Any]]:
    """Return state, dedup key and judged slot of each alert of these comparisons."""
    states = {}
    for comparison in comparisons:
        for state in connection.execute(_STATES_TO_COMPARE, {"comparison": comparison}):
            states[key_of(state)] = state
    return states


def read_states(
    connection: Connection,
    comparison: str | None,
    *,
    state: State | None = None,
) -> tuple[AlertState, ...]:
    """Return the alerts of a comparison in one state, ordered by comparison, alert and segment.

    ``comparison`` None selects all comparisons, and ``state`` None selects all states.
    """
    query = _STATES
    if comparison is not None:
        query = _STATES_OF_COMPARISON
    if state is not None:
        query = query.where(alert_states.c.state == state)
    return from_rows(AlertState, connection.execute(query, {"comparison": comparison}))


def read_firing(connection: Connection, comparison: str | None = None) -> tuple[Transition, ...]:
    """Return the transition that started each current firing, oldest first.

    ``comparison`` None selects all comparisons.
    """
    query = (
        select(transitions)
        .join(alert_states, IS_START_OF_CURRENT_FIRING)
        .order_by(transitions.c.id)
    )
    if comparison is not None:
        query = query.where(transitions.c.comparison == comparison)
    newest_starts: dict[AlertKey, Transition] = {}
    for start in from_rows(Transition, connection.execute(query)):
        # The query finds several starts of an alert if earlier firings had the same dedup key. Then
        # the newest start is returned. `pop` moves its alert to the end of the dict, so the starts
        # stay ordered by id.
        newest_starts.pop(key_of(start), None)
        newest_starts[key_of(start)] = start
    return tuple(newest_starts.values())


def read_accepted_levels(connection: Connection, comparison: str) -> tuple[Transition, ...]:
    """Return the new normal levels that people accepted for the comparison, oldest first.

    Each acceptance is stored as a transition, whose slot is the first slot with the new level.
    """
    return from_rows(Transition, connection.execute(_ACCEPTED, {"comparison": comparison}))


def _may_replace(
    stored: AlertState | Row[Any] | None, new: AlertState, first_transition: Transition | None
) -> bool:
    """Return whether the new row of an alert may replace the stored row.

    - The slot for which the new row was judged must not be earlier than the stored one.
    - The alert's first new transition must begin at the stored state. The dedup key is not
      compared, because the transition may have changed it.
    - Without a transition, the state and the dedup key must not differ.

    An alert without a stored row is quiet and has no dedup key.
    """
    stored_state = State.QUIET
    stored_key = None
    if stored is not None:
        if new.judged_slot < stored.judged_slot:
            return False
        stored_state = stored.state
        stored_key = stored.dedup_key
    if first_transition is not None:
        return first_transition.from_state is stored_state
    return new.state is stored_state and new.dedup_key == stored_key


def _with_new_dedup_keys(
    connection: Connection,
    states: Sequence[AlertState],
    new_transitions: Sequence[Transition],
) -> tuple[list[AlertState], list[Transition]]:
    """Return the states and transitions, with a new dedup key if an earlier firing has their key.

    Otherwise receivers would take the new firing for the earlier one. Firings have the same key if
    a rule was removed and added again, or if a clock was set back.
    """
    # The new starts are not stored yet, so a stored start with the same key is an earlier one.
    starts = {
        transition.dedup_key: transition for transition in new_transitions if transition.is_start
    }
    if not starts:
        return list(states), list(new_transitions)
    query = select(transitions.c.dedup_key).where(transitions.c.dedup_key.in_(starts), IS_START)
    new_keys = {}
    for old_key in connection.scalars(query):
        # The time of the start distinguishes the two firings.
        key_and_start = f"{old_key} {starts[old_key].at.isoformat()}"
        new_keys[old_key] = hashlib.sha256(key_and_start.encode()).hexdigest()[:32]

    def with_new_key(change: _StateOrTransition) -> _StateOrTransition:
        return replace(change, dedup_key=new_keys.get(change.dedup_key, change.dedup_key))

    return list(map(with_new_key, states)), list(map(with_new_key, new_transitions))


def _copy_from_starts_to_ends(
    connection: Connection, new_transitions: Sequence[Transition]
) -> list[Transition]:
    """Return the transitions. Each end of a firing gets some values from the start of the firing.

    These values are the rule's kind, metric and statistic, and the labels that the configuration
    gives to its alerts. Receivers need the same values to find the alert that ended, and the rule
    may have changed since the start.
    """
    keys = {transition.dedup_key for transition in new_transitions if transition.is_end} - {None}
    if not keys:
        return list(new_transitions)
    query = select(transitions).where(transitions.c.dedup_key.in_(keys), IS_START)
    starts = from_rows(Transition, connection.execute(query))
    start_by_key = {start.dedup_key: start for start in starts}
    completed = []
    for transition in new_transitions:
        start = start_by_key.get(transition.dedup_key)
        if transition.is_end and start is not None:
            changed = replace(
                transition,
                labels=start.labels,
                kind=start.kind,
                metric=start.metric,
                statistic=start.statistic,
            )
            completed.append(changed)
        else:
            completed.append(transition)
    return completed


def _add_missing_deliveries(
    connection: Connection,
    firing: Sequence[AlertState],
    receivers: Sequence[str],
) -> None:
    """Store a delivery of each firing's start to every receiver that has no such delivery yet."""
    if not firing:
        return
    keys = [state.dedup_key for state in firing]
    is_of_firing = transitions.c.dedup_key.in_(keys)
    starts = select(transitions.c.id, transitions.c.at).where(is_of_firing, IS_START)
    pending = []
    for transition_id, started_at in connection.execute(starts):
        for receiver in receivers:
            pending.append(pending_delivery(transition_id, receiver, started_at))
    if pending:
        # A transition has at most one delivery to each receiver. A second one is ignored.
        store_missing = insert(connection, deliveries).on_conflict_do_nothing()
        connection.execute(store_missing, pending)


def _receivers_of_starts(
    connection: Connection, new_transitions: Sequence[Transition]
) -> dict[str | None, list[str]]:
    """Return, by dedup key, the receivers to which the start of each firing is delivered.

    Only firings that one of the transitions ends or acknowledges are returned.
    """
    keys = {
        transition.dedup_key
        for transition in new_transitions
        if transition.is_announced and not transition.is_start
    } - {None}
    receivers: dict[str | None, list[str]] = {}
    if not keys:
        return receivers
    query = (
        select(transitions.c.dedup_key, deliveries.c.receiver)
        .join(deliveries, deliveries.c.transition_id == transitions.c.id)
        .where(transitions.c.dedup_key.in_(keys), IS_START)
        .order_by(deliveries.c.id)
    )
    for dedup_key, receiver in connection.execute(query):
        receivers.setdefault(dedup_key, []).append(receiver)
    return receivers
