"""SqlAlertStore stores silences, and the changes of alert states that do not come from runs.

People acknowledge and resolve alerts, and add and expire silences. Every daemon and command may
store these changes, but only the leader delivers them. Each change locks its comparison, so that no
run changes the same alerts at the same time.
"""

# ruff: noqa: D102 - the methods of the port have their docstrings there

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, select, update

from monitor.model.alerts import ACCEPTED_LEVEL, AlertNames, AlertState, State, Transition
from monitor.model.notifications import Silence
from monitor.storage.alert_states import (
    KEY_COLUMNS,
    key_of,
    read_accepted_levels,
    read_firing,
    read_states,
    store_alerts,
    store_transitions,
    stored_states,
    upsert_states,
)
from monitor.storage.leases import installation_of
from monitor.storage.rows import from_rows, lock_names, to_row
from monitor.storage.tables.alert_tables import alert_states, silences, transitions
from monitor.storage.transactions import DatabasePart

_NAMES = select(*(alert_states.c[name] for name in AlertNames._fields))
_JUST_BEFORE = timedelta(microseconds=1)
_SILENCES = select(silences).order_by(silences.c.id)
_LASTING_SILENCES = _SILENCES.where(silences.c.ends_at > bindparam("now"))


class SqlAlertStore(DatabasePart):
    """Implements the port AlertStore, with more methods that only the service uses."""

    _installation = ""

    def installation(self, *, create: bool) -> str:
        """Return this database's random id, which never changes.

        If the database has no id, ``create`` True creates one, and ``create`` False returns an
        empty text.
        """
        if not self._installation:
            begin = self._database.write if create else self._database.read
            with begin() as connection:
                self._installation = installation_of(connection, create=create)
        return self._installation

    def states(
        self, comparison: str | None = None, *, state: State | None = None
    ) -> tuple[AlertState, ...]:
        """Return alert states, ordered by comparison, alert and segment.

        None selects all comparisons or all states.
        """
        with self._database.read() as connection:
            return read_states(connection, comparison, state=state)

    def names(self) -> tuple[AlertNames, ...]:
        """Return the names of all alerts. This takes a fraction of the time of `states`."""
        return tuple(map(AlertNames._make, self._database.rows(_NAMES)))

    def firing(self) -> tuple[Transition, ...]:
        with self._database.read() as connection:
            return read_firing(connection)

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        """Return the newest ``limit`` transitions, in the order of storing."""
        query = select(transitions).order_by(transitions.c.id.desc()).limit(limit)
        if comparison is not None:
            query = query.where(transitions.c.comparison == comparison)
        return from_rows(Transition, reversed(self._database.rows(query)))

    def store_states(
        self,
        states: Sequence[AlertState],
        transitions: Sequence[Transition],
        *,
        receivers: Sequence[str],
    ) -> None:
        """Store states that no run judged, with their transitions and deliveries.

        `SqlRunStore.finish` stores the states of runs in the same way.
        """
        with self._database.write() as connection:
            store_alerts(connection, states, transitions, receivers)

    def retire(self, transitions: Sequence[Transition], *, receivers: Sequence[str]) -> None:
        """Delete the states of alerts whose rule or comparison was removed.

        ``transitions`` end these alerts, and are stored with their deliveries. A state stays if it
        has changed since it was read.
        """
        comparisons = {change.comparison for change in transitions}
        with self._database.write() as connection:
            lock_names(connection, comparisons)
            stored = stored_states(connection, comparisons)
            ended = []
            for change in transitions:
                # After `pop`, other transitions of the same alert find no state.
                state = stored.pop(key_of(change), None)
                expected = (change.from_state, change.dedup_key)
                if state is not None and (state.state, state.dedup_key) == expected:
                    ended.append(change)
            for change in ended:
                is_state = [alert_states.c[name] == getattr(change, name) for name in KEY_COLUMNS]
                connection.execute(delete(alert_states).where(*is_state))
            store_transitions(connection, ended, receivers)

    def rewind(self, comparison: str, *, slot: datetime, now: datetime) -> None:
        """Let the run of ``slot`` change states that were judged for slots after ``now``.

        Such states exist if a clock was set back. Nobody is notified.
        """
        # A run can change a state only if the state was judged for an earlier slot.
        new_times = {alert_states.c.judged_slot: slot - _JUST_BEFORE, alert_states.c.since: slot}
        with self._database.write() as connection:
            lock_names(connection, [comparison])
            for column, new_time in new_times.items():
                is_in_future = and_(alert_states.c.comparison == comparison, column > now)
                change = update(alert_states).where(is_in_future).values({column: new_time})
                connection.execute(change)

    def acknowledge(
        self,
        comparison: str,
        alerts: Sequence[tuple[str, str]],
        *,
        author: str,
        reason: str,
        at: datetime,
    ) -> tuple[Transition, ...]:
        return self._change_firing(
            comparison,
            alerts,
            values={"acknowledged_by": author},
            to_state=State.FIRING,  # an acknowledged alert goes on firing
            reason=reason,
            at=at,
        )

    def resolve(
        self,
        comparison: str,
        alerts: Sequence[tuple[str, str]],
        *,
        reason: str,
        at: datetime,
    ) -> tuple[Transition, ...]:
        values = {
            "state": State.QUIET,
            "since": at,
            "streak": 0,
            "dedup_key": None,
            "incident": None,
            "acknowledged_by": None,
        }
        return self._change_firing(
            comparison, alerts, values=values, to_state=State.QUIET, reason=reason, at=at
        )

    def _change_firing(
        self,
        comparison: str,
        alerts: Sequence[tuple[str, str]],
        *,
        values: dict[str, Any],
        to_state: State,
        reason: str,
        at: datetime,
    ) -> tuple[Transition, ...]:
        """Set fields of those ``alerts`` that fire. Store and return the transitions.

        ``alerts`` are names and segments. An alert is left out if its fields already have these
        ``values``.
        """
        # People may change alerts in every daemon, also in one without the lease.
        with self._database.write(needs_lease=False) as connection:
            states = []
            changes = []
            for state, start in _lock_firing(connection, comparison, alerts):
                changed = replace(state, **values)
                if changed != state:
                    states.append(changed)
                    changes.append(_manual_change(start, state, to_state, reason, at))
            upsert_states(connection, states, keeps_acknowledgement=False)
            store_transitions(connection, changes, ())
        return tuple(changes)

    def accept(self, acceptance: Transition) -> Transition:
        """Store ``acceptance``, the transition by which a person accepts a new normal level.

        The level began in the slot of the transition. If somebody accepted this level before,
        nothing is stored, and the earlier transition is returned.
        """
        with self._database.write() as connection:
            lock_names(connection, [acceptance.comparison])
            for earlier in read_accepted_levels(connection, acceptance.comparison):
                if earlier.slot == acceptance.slot:
                    return earlier
            store_transitions(connection, [acceptance], ())
        return acceptance

    def undo_acceptance(self, comparison: str, slot: datetime) -> Transition | None:
        """Delete and return the transition by which a person accepted a new normal level.

        The level began in this slot. Returns None if nobody accepted it.
        """
        is_acceptance = (
            transitions.c.comparison == comparison,
            transitions.c.alert == ACCEPTED_LEVEL,
            transitions.c.slot == slot,
        )
        with self._database.write() as connection:
            lock_names(connection, [comparison])
            acceptances = read_accepted_levels(connection, comparison)
            connection.execute(delete(transitions).where(*is_acceptance))
        for acceptance in acceptances:
            if acceptance.slot == slot:
                return acceptance
        return None

    def add_silence(self, silence: Silence) -> Silence:
        """Store a silence. Returns the silence with its number."""
        values = to_row(silence, silences)
        del values["id"]  # the database numbers silences
        with self._database.write(needs_lease=False) as connection:
            insertion = silences.insert().values(values).returning(silences.c.id)
            silence_id = connection.execute(insertion).scalar_one()
        return replace(silence, id=silence_id)

    def silences(self, *, ending_after: datetime | None) -> tuple[Silence, ...]:
        """Return the silences that end after this time, oldest first. None selects all silences."""
        with self._database.read() as connection:
            return read_silences(connection, ending_after=ending_after)

    def expire_silence(self, number: int, *, now: datetime) -> bool:
        """End a silence now.

        Returns False if there is no such silence, or if it had already ended.
        """
        end_silence = (
            update(silences)
            .where(silences.c.id == number, silences.c.ends_at > now)
            .values(ends_at=now)
        )
        with self._database.write(needs_lease=False) as connection:
            return connection.execute(end_silence).rowcount == 1


def read_silences(connection: Connection, *, ending_after: datetime | None) -> tuple[Silence, ...]:
    """Return the silences that end after ``ending_after``, oldest first.

    ``ending_after`` None selects all silences.
    """
    query = _SILENCES if ending_after is None else _LASTING_SILENCES
    return from_rows(Silence, connection.execute(query, {"now": ending_after}))


def _lock_firing(
    connection: Connection,
    comparison: str,
    alerts: Sequence[tuple[str, str]],
) -> list[tuple[AlertState, Transition]]:
    """Return the states of those ``alerts`` that fire, each with the start of the firing.

    ``alerts`` are names and segments. No other transaction can change the states before this
    transaction ends.
    """
    lock_names(connection, {comparison})
    starts = {start.dedup_key: start for start in read_firing(connection, comparison)}
    wanted = set(alerts)
    firing = []
    for state in read_states(connection, comparison, state=State.FIRING):
        if (state.alert, state.segment) in wanted and state.dedup_key in starts:
            firing.append((state, starts[state.dedup_key]))
    return firing


def _manual_change(
    start: Transition,
    state: AlertState,
    to_state: State,
    reason: str,
    at: datetime,
) -> Transition:
    """Return the transition of a firing alert that a person changed.

    ``start`` is the transition that made the alert fire, and ``state`` is the alert's state before
    the change.
    """
    return replace(
        start,
        # The change belongs to no slot, so its time replaces the slot.
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
