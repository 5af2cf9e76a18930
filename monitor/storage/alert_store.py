"""Silences, acknowledgements and manual resolves, and alert states after a clock was set back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from monitor.model import AlertState, DeliveryStatus, Silence, State, Transition
from monitor.storage.alert_states import announce, firing, lasting_states, upsert
from monitor.storage.column_types import key
from monitor.storage.dialects import lock_comparisons
from monitor.storage.tables import alert_states, deliveries, silences, transitions


def add(connection: Connection, silence: Silence) -> Silence:
    """Store a silence; its number is given here."""
    values = {name: getattr(silence, name) for name in ("author", "comment", "created_at", "starts_at", "ends_at")}
    added = connection.execute(silences.insert().values(matchers=list(silence.matchers), **values))
    (number,) = added.inserted_primary_key or (0,)
    return replace(silence, id=number)


def read(connection: Connection, *, ending_after: datetime | None) -> tuple[Silence, ...]:
    """Silences that end later than that, all of them for None, oldest first."""
    query = select(silences).order_by(silences.c.id)
    if ending_after is not None:
        query = query.where(silences.c.ends_at > ending_after)
    return tuple(_silence(row) for row in connection.execute(query))


def expire(connection: Connection, number: int, now: datetime) -> bool:
    """End a silence now; False when there is none of that number that has not ended yet."""
    ended = update(silences).where(silences.c.id == number, silences.c.ends_at > now).values(ends_at=now)
    return connection.execute(ended).rowcount == 1


def prune(connection: Connection, before: datetime) -> int:
    """Delete silences that ended before that time; how many."""
    count: int = connection.execute(delete(silences).where(silences.c.ends_at < before)).rowcount
    return count


def acknowledge(
    connection: Connection, comparison: str, alerts: Sequence[tuple[str, str]], *, author: str, reason: str, at: datetime
) -> tuple[Transition, ...]:
    """Mark firings (alert, segment) as looked after, and tell who was told of them; those that do not fire are left out."""
    changes = []
    for state, start in _lasting(connection, comparison, alerts):
        upsert(connection, [replace(state, acknowledged_by=author)], keeps_acknowledgement=False)
        changes.append(_by_hand(start, state, State.FIRING, reason, at))
    announce(connection, changes, ())
    return tuple(changes)


def resolve(
    connection: Connection, comparison: str, alerts: Sequence[tuple[str, str]], *, reason: str, at: datetime
) -> tuple[Transition, ...]:
    """End firings (alert, segment) by hand, and tell who was told of them; those that do not fire are left out."""
    changes = []
    for state, start in _lasting(connection, comparison, alerts):
        quiet = replace(state, state=State.QUIET, since=at, streak=0, dedup_key=None, incident=None, acknowledged_by=None)
        upsert(connection, [quiet])
        changes.append(_by_hand(start, state, State.QUIET, reason, at))
    announce(connection, changes, ())
    return tuple(changes)


def _lasting(connection: Connection, comparison: str, alerts: Sequence[tuple[str, str]]) -> list[tuple[AlertState, Transition]]:
    """State and start of those of the alerts that fire."""
    lock_comparisons(connection, {comparison})
    wanted = set(alerts)
    starts = {start.dedup_key: start for start in firing(connection, comparison=comparison)}
    return [
        (state, starts[state.dedup_key])
        for state in lasting_states(connection, comparison)
        if (state.alert, state.segment) in wanted and state.dedup_key in starts
    ]


def _by_hand(start: Transition, state: AlertState, to_state: State, reason: str, at: datetime) -> Transition:
    """What somebody changed: of no slot, so the time stands for it."""
    return replace(
        start,
        slot=at,
        at=at,
        from_state=State.FIRING,
        to_state=to_state,
        reason=reason,
        value=state.value,
        users=state.users,
        since=state.since,
        explanation=None,
        interval=None,
    )


def _silence(row: Row[Any]) -> Silence:
    return Silence(
        id=row.id,
        matchers=tuple(row.matchers),
        author=row.author,
        comment=row.comment,
        created_at=row.created_at,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
    )


_BEFORE = timedelta(microseconds=1)
_WAITING = (DeliveryStatus.PENDING, DeliveryStatus.HELD)


def rewind(connection: Connection, comparison: str, *, slot: datetime, now: datetime) -> None:
    """Let this comparison's states be judged by ``slot``, and deliver at ``now`` what was put off to later.

    States stay what they are: only since when and up to which slot they were judged is moved back.
    """
    lock_comparisons(connection, [comparison])
    for column, moved in ((alert_states.c.judged_slot, slot - _BEFORE), (alert_states.c.since, slot)):
        late = (alert_states.c.comparison == key(comparison), column > now)
        connection.execute(update(alert_states).where(*late).values({column: moved}))
    owed = select(transitions.c.id).where(transitions.c.comparison == key(comparison))
    put_off = (deliveries.c.status.in_(_WAITING), deliveries.c.next_attempt_at > now, deliveries.c.transition_id.in_(owed))
    connection.execute(update(deliveries).where(*put_off).values(next_attempt_at=now, leased_by=None, leased_until=None))
