"""SqlAlertStore: alert states and transitions stored outside of runs, and silences."""

# ruff: noqa: D102 - the port's docstrings are the contract

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

from monitor.model.alerts import ACCEPTED, AlertState, State, Transition
from monitor.model.notifications import Silence
from monitor.storage.alert_states import (
    KEY_COLUMNS,
    announce,
    in_free_slots,
    key_of,
    read_accepted,
    read_firing,
    read_states,
    store_alerts,
    stored_states,
    transition_of_row,
    upsert,
)
from monitor.storage.leases import installation_of
from monitor.storage.rows import from_row, lock_comparisons, to_row
from monitor.storage.tables.alert_tables import alert_states, silences, transitions
from monitor.storage.transactions import Database

_JUST_BEFORE = timedelta(microseconds=1)
_REMOVE_STATE = delete(alert_states).where(
    *(alert_states.c[name] == bindparam(f"its_{name}") for name in KEY_COLUMNS)
)


class SqlAlertStore:
    """Port AlertStore over SQLAlchemy Core."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._installation = ""

    def installation(self, *, create: bool) -> str:
        if not self._installation:
            with self._database.write() if create else self._database.read() as connection:
                self._installation = installation_of(connection, create=create)
        return self._installation

    def states(
        self, comparison: str | None = None, *, state: State | None = None
    ) -> tuple[AlertState, ...]:
        with self._database.read() as connection:
            return read_states(connection, comparison, state=state)

    def firing(self) -> tuple[Transition, ...]:
        with self._database.read() as connection:
            return read_firing(connection)

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        query = select(transitions).order_by(transitions.c.id.desc()).limit(limit)
        if comparison is not None:
            query = query.where(transitions.c.comparison == comparison)
        return tuple(transition_of_row(row) for row in reversed(self._database.rows(query)))

    def store_states(
        self,
        states: Sequence[AlertState],
        transitions: Sequence[Transition],
        *,
        receivers: Sequence[str],
    ) -> None:
        with self._database.write() as connection:
            store_alerts(connection, states, transitions, receivers)

    def retire(self, transitions: Sequence[Transition], *, receivers: Sequence[str]) -> None:
        names = {change.comparison for change in transitions}
        with self._database.write() as connection:
            lock_comparisons(connection, names)
            stored = stored_states(connection, names)
            ended = []
            for change in transitions:
                state = stored.pop(key_of(change), None)
                if state is not None and (state.state, state.dedup_key) == (
                    change.from_state,
                    change.dedup_key,
                ):
                    ended.append(change)
            if ended:
                keys = [
                    {f"its_{name}": getattr(change, name) for name in KEY_COLUMNS}
                    for change in ended
                ]
                connection.execute(_REMOVE_STATE, keys)
            announce(connection, in_free_slots(connection, ended), receivers)

    def rewind(self, comparison: str, *, slot: datetime, now: datetime) -> None:
        # States stay what they are: only since when and up to which slot they were judged is moved
        # back.
        moved = {alert_states.c.judged_slot: slot - _JUST_BEFORE, alert_states.c.since: slot}
        with self._database.write() as connection:
            lock_comparisons(connection, [comparison])
            for column, earlier in moved.items():
                late = update(alert_states).where(
                    alert_states.c.comparison == comparison, column > now
                )
                connection.execute(late.values({column: earlier}))

    def acknowledge(
        self,
        comparison: str,
        alerts: Sequence[tuple[str, str]],
        *,
        author: str,
        reason: str,
        at: datetime,
    ) -> tuple[Transition, ...]:
        return self._change(
            comparison, alerts, {"acknowledged_by": author}, State.FIRING, reason, at
        )

    def resolve(
        self, comparison: str, alerts: Sequence[tuple[str, str]], *, reason: str, at: datetime
    ) -> tuple[Transition, ...]:
        ended: dict[str, Any] = {"state": State.QUIET, "since": at, "streak": 0}
        ended |= {"dedup_key": None, "incident": None, "acknowledged_by": None}
        return self._change(comparison, alerts, ended, State.QUIET, reason, at)

    def _change(
        self,
        comparison: str,
        alerts: Sequence[tuple[str, str]],
        moved: dict[str, Any],
        to: State,
        reason: str,
        at: datetime,
    ) -> tuple[Transition, ...]:
        with self._database.write() as connection:
            firing = _lock_firing(connection, comparison, alerts)
            changing = [
                (state, new, start)
                for state, start in firing
                if (new := replace(state, **moved)) != state
            ]
            upsert(connection, [new for _, new, _ in changing], keeps_acknowledgement=False)
            changes = tuple(
                _manual_change(start, state, to, reason, at) for state, _, start in changing
            )
            announce(connection, changes, ())
            return changes

    def accept(self, level: Transition) -> Transition:
        with self._database.write() as connection:
            lock_comparisons(connection, [level.comparison])
            announce(connection, [level], ())
            found = read_accepted(connection, level.comparison)
        return next(each for each in found if each.slot == level.slot)

    def undo_acceptance(self, comparison: str, slot: datetime) -> Transition | None:
        with self._database.write() as connection:
            lock_comparisons(connection, [comparison])
            found = next(
                (each for each in read_accepted(connection, comparison) if each.slot == slot), None
            )
            of_it = (
                transitions.c.comparison == comparison,
                transitions.c.alert == ACCEPTED,
                transitions.c.scheduled_for == slot,
            )
            connection.execute(delete(transitions).where(*of_it))
        return found

    def add_silence(self, silence: Silence) -> Silence:
        values = to_row(silence, silences)
        del values["id"]  # the database gives it
        with self._database.write() as connection:
            added = connection.execute(silences.insert().values(values))
            (number,) = added.inserted_primary_key or (0,)
        return replace(silence, id=number)

    def silences(self, *, ending_after: datetime | None) -> tuple[Silence, ...]:
        with self._database.read() as connection:
            return read_silences(connection, ending_after=ending_after)

    def expire_silence(self, number: int, *, now: datetime) -> bool:
        ended = (
            update(silences)
            .where(silences.c.id == number, silences.c.ends_at > now)
            .values(ends_at=now)
        )
        with self._database.write() as connection:
            return connection.execute(ended).rowcount == 1


def read_silences(connection: Connection, *, ending_after: datetime | None) -> tuple[Silence, ...]:
    """Silences that end later than that, all of them for None, oldest first."""
    query = select(silences).order_by(silences.c.id)
    if ending_after is not None:
        query = query.where(silences.c.ends_at > ending_after)
    return tuple(
        from_row(Silence, row, matchers=tuple(row.matchers)) for row in connection.execute(query)
    )


def _lock_firing(
    connection: Connection, comparison: str, alerts: Sequence[tuple[str, str]]
) -> list[tuple[AlertState, Transition]]:
    # Nobody else can move them before the end.
    lock_comparisons(connection, {comparison})
    wanted = set(alerts)
    starts = {start.dedup_key: start for start in read_firing(connection, comparison)}
    return [
        (state, starts[state.dedup_key])
        for state in read_states(connection, comparison, state=State.FIRING)
        if (state.alert, state.segment) in wanted and state.dedup_key in starts
    ]


def _manual_change(
    start: Transition, state: AlertState, to_state: State, reason: str, at: datetime
) -> Transition:
    return replace(
        start,
        # It belongs to no slot, so its time stands in place of the slot.
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
