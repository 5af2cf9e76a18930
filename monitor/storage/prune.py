"""Pruning: what is older than the retention is deleted, little by little, in transactions that let others write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, Delete, Select, Table, delete, exists, or_, select

from monitor.model import Cutoffs, Pruned, State
from monitor.storage.alert_states import WAITING
from monitor.storage.list_pieces import runs_with_unneeded_lists
from monitor.storage.partitions import (
    day_of_slot,
    drop_past,
    ensure_partitions,
    is_settled_before,
    of_run,
    runs_in_default,
)
from monitor.storage.run_results import RUN_TABLES
from monitor.storage.tables import (
    alert_states,
    deliveries,
    evidence,
    explanations,
    kept_lists,
    notifications,
    runs,
    scores,
    silences,
    transitions,
)
from monitor.storage.transactions import Database

TRANSITIONS_AT_ONCE = 500

_DAYS_AHEAD = 2
"""For so many days partitions are made ahead, so that the first run of a day need not make one."""


def prune(database: Database, cutoffs: Cutoffs, now: datetime) -> Pruned:
    """Delete what is too old.

    Silences are deleted with the runs of their end. Kept lists are deleted earlier where nothing needs them any more.
    """
    ensure_partitions(database, [day_of_slot(now + timedelta(days=days)) for days in range(_DAYS_AHEAD + 1)])
    before = max(cutoffs.scores, cutoffs.runs)
    # On PostgreSQL partition by partition, and run by run only what lies in the default partition.
    dropped, obstacles = (0, ()) if database.is_sqlite else drop_past(database, before)
    counts = Counter(scores=dropped)
    scored = _settled_with(scores, before) if database.is_sqlite else runs_in_default(before)
    old = select(runs.c.id).where(is_settled_before(cutoffs.runs))
    for tables, found in [((scores,), scored), *_gone_early(cutoffs, now), ((*RUN_TABLES, runs), old)]:
        counts += _delete_of_each(database, tables, found)
    while deleted := _delete_some_transitions(database, cutoffs.runs):
        counts += deleted
    with database.write() as connection:
        counts += _execute(connection, delete(silences).where(silences.c.ends_at < cutoffs.runs))
    return Pruned(rows=dict(+counts), put_off=obstacles)


def _gone_early(cutoffs: Cutoffs, now: datetime) -> list[tuple[Sequence[Table], Select[tuple[int]]]]:
    """Tables with rows that go before their run does, and the runs whose rows go now."""
    before = max(cutoffs.evidence, cutoffs.runs)
    return [
        ((evidence,), _settled_with(evidence, before)),
        ((explanations,), _settled_with(explanations, before)),
        ((kept_lists,), runs_with_unneeded_lists(max(cutoffs.scores, cutoffs.runs), now)),
    ]


def _delete_of_each(database: Database, tables: Sequence[Table], found: Select[tuple[int]]) -> Counter[str]:
    """Delete the rows of each of these runs, in a transaction of its own."""
    counts: Counter[str] = Counter()
    for run_id in _read_ids(database, found.order_by(runs.c.scheduled_for)):
        with database.write() as connection:
            for table in tables if _is_found(connection, found, run_id) else ():
                counts += _execute(connection, delete(table).where(of_run(connection, run_id, table)))
    return counts


def _is_found(connection: Connection, found: Select[tuple[int]], run_id: int) -> bool:
    """Whether the query still finds the run, which nobody can claim or label then before this transaction ends."""
    # Runs are listed long before their rows are deleted, and a slot that was run again meanwhile has new ones. A run that is
    # locked at this moment is left for the next time.
    again = found.where(runs.c.id == run_id).order_by(None).with_for_update(of=runs, key_share=True, skip_locked=True)
    return connection.scalar(again) is not None


def _settled_with(table: Table, before: datetime) -> Select[tuple[int]]:
    has_rows = exists(select(table.c.run_id).where(table.c.run_id == runs.c.id))
    return select(runs.c.id).where(is_settled_before(before), has_rows)


def _read_ids(database: Database, query: Select[tuple[int]]) -> list[int]:
    with database.read() as connection:
        return list(connection.scalars(query))


def _delete_some_transitions(database: Database, before: datetime) -> Counter[str]:
    with database.write() as connection:
        ids = list(connection.scalars(_prunable_transitions(before).limit(TRANSITIONS_AT_ONCE)))
        of_these = select(deliveries.c.id).where(deliveries.c.transition_id.in_(ids))
        counts = _execute(connection, delete(notifications).where(notifications.c.delivery_id.in_(of_these)))
        counts += _execute(connection, delete(deliveries).where(deliveries.c.transition_id.in_(ids)))
        return counts + _execute(connection, delete(transitions).where(transitions.c.id.in_(ids)))


def _prunable_transitions(before: datetime) -> Select[tuple[int]]:
    """Old transitions, but those of a firing that lasts, or of which a delivery still waits."""
    same = transitions.alias("same")
    is_waiting = exists(
        select(deliveries.c.id)
        .join(same, same.c.id == deliveries.c.transition_id)
        .where(
            or_(same.c.id == transitions.c.id, same.c.dedup_key == transitions.c.dedup_key),
            deliveries.c.status.in_(WAITING),
        )
        .correlate(transitions)
    )
    lasts = exists().where(
        alert_states.c.state == State.FIRING,
        *(alert_states.c[name] == transitions.c[name] for name in ("comparison", "alert", "segment")),
        alert_states.c.dedup_key.is_not_distinct_from(transitions.c.dedup_key),
    )
    return select(transitions.c.id).where(transitions.c.scheduled_for < before, ~or_(is_waiting, lasts))


def _execute(connection: Connection, statement: Delete) -> Counter[str]:
    # Without what is zero, so that nothing deleted is an empty counter.
    return +Counter({str(statement.table): connection.execute(statement).rowcount})
