"""Deleting what is older than it may get: little by little, each step a transaction of its own that lets others write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Delete, Table, and_, delete, exists, or_, select

from monitor.model import DeliveryStatus, RunStatus, State
from monitor.storage import lists, silences
from monitor.storage.connecting import Database
from monitor.storage.dialects import is_sqlite
from monitor.storage.results import PARTS
from monitor.storage.tables import (
    alert_states,
    deliveries,
    evidence,
    explanations,
    kept_lists,
    notifications,
    runs,
    scores,
    transitions,
)

SCORES_AT_ONCE = 20_000
RUNS_AT_ONCE = 20
TRANSITIONS_AT_ONCE = 500


def prune(
    database: Database, *, scores_before: datetime, evidence_before: datetime, runs_before: datetime, now: datetime
) -> Mapping[str, int]:
    """Delete scores, evidence with explanations, runs and transitions of slots before these; rows deleted by table.

    Silences go with runs of their end. Kept lists go with the scores, and earlier where ``now`` nothing needs them any more.
    """
    counts: Counter[str] = Counter()
    for run_id in _runs_with(database, scores, max(scores_before, runs_before)):
        counts += _repeat(database, _some_scores, run_id)
    for table in (evidence, explanations):
        for run_id in _runs_with(database, table, max(evidence_before, runs_before)):
            with database.write() as connection:
                counts += _execute(connection, table.delete().where(table.c.run_id == run_id))
    for run_id in _runs_with_unneeded_lists(database, max(scores_before, runs_before), now):
        with database.write() as connection:
            counts += _execute(connection, kept_lists.delete().where(kept_lists.c.run_id == run_id))
    counts += _repeat(database, _some_runs, runs_before)
    counts += _repeat(database, _some_transitions, runs_before)
    with database.write() as connection:
        counts += Counter(silences=silences.prune(connection, runs_before))
    return dict(+counts)


def _repeat(database: Database, step: Callable[[Connection, Any], Counter[str]], what: object) -> Counter[str]:
    """Take the step, in a transaction each time, until it finds nothing more."""
    total: Counter[str] = Counter()
    while True:
        with database.write() as connection:
            found = step(connection, what)
        if not found:
            return total
        total += found


def _runs_with(database: Database, table: Table, before: datetime) -> list[int]:
    """Settled runs of older slots that have rows in the table."""
    has_rows = exists(select(table.c.run_id).where(table.c.run_id == runs.c.id))
    with database.read() as connection:
        return list(connection.scalars(select(runs.c.id).where(_is_settled_before(before), has_rows)))


def _runs_with_unneeded_lists(database: Database, before: datetime, now: datetime) -> list[int]:
    with database.read() as connection:
        return list(connection.scalars(lists.unneeded(before, now)))


def _is_settled_before(before: datetime) -> ColumnElement[bool]:
    """Runs of older slots that nobody is at."""
    return and_(runs.c.scheduled_for < before, runs.c.status != RunStatus.RUNNING, runs.c.claimed_until.is_(None))


def _some_scores(connection: Connection, run_id: int) -> Counter[str]:
    """Delete the scores of the run's next users; on PostgreSQL, where deleting holds nobody up, of all."""
    of_run = scores.c.run_id == run_id
    if not is_sqlite(connection):
        return _execute(connection, delete(scores).where(of_run))
    users = select(scores.c.user_id).where(of_run).order_by(scores.c.user_id, scores.c.metric_id)
    last = connection.scalar(users.offset(SCORES_AT_ONCE).limit(1))
    return _execute(connection, delete(scores).where(of_run if last is None else and_(of_run, scores.c.user_id <= last)))


def _some_runs(connection: Connection, before: datetime) -> Counter[str]:
    chosen = select(runs.c.id).where(_is_settled_before(before)).limit(RUNS_AT_ONCE).with_for_update(skip_locked=True)
    ids = list(connection.scalars(chosen))
    counts: Counter[str] = Counter()
    for table in PARTS:
        counts += _execute(connection, delete(table).where(table.c.run_id.in_(ids)))
    return counts + _execute(connection, delete(runs).where(runs.c.id.in_(ids)))


def _some_transitions(connection: Connection, before: datetime) -> Counter[str]:
    """Delete old transitions, but for those of a firing that lasts, or of which something is still owed to a receiver."""
    same = transitions.alias("same")
    is_owed = exists(
        select(deliveries.c.id)
        .join(same, same.c.id == deliveries.c.transition_id)
        .where(
            or_(same.c.id == transitions.c.id, same.c.dedup_key == transitions.c.dedup_key),
            deliveries.c.status.in_((DeliveryStatus.PENDING, DeliveryStatus.HELD)),
        )
        .correlate(transitions)
    )
    lasts = exists().where(
        alert_states.c.state == State.FIRING,
        *(alert_states.c[name] == transitions.c[name] for name in ("comparison", "alert", "segment")),
        alert_states.c.dedup_key.is_not_distinct_from(transitions.c.dedup_key),
    )
    chosen = select(transitions.c.id).where(transitions.c.scheduled_for < before, ~or_(is_owed, lasts))
    ids = list(connection.scalars(chosen.limit(TRANSITIONS_AT_ONCE)))
    of_these = select(deliveries.c.id).where(deliveries.c.transition_id.in_(ids))
    counts = _execute(connection, delete(notifications).where(notifications.c.delivery_id.in_(of_these)))
    counts += _execute(connection, delete(deliveries).where(deliveries.c.transition_id.in_(ids)))
    return counts + _execute(connection, delete(transitions).where(transitions.c.id.in_(ids)))


def _execute(connection: Connection, statement: Delete) -> Counter[str]:
    """Rows deleted, by table; empty when there were none."""
    return +Counter({str(statement.table): connection.execute(statement).rowcount})
