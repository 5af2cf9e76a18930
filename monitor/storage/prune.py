"""Deleting what is older than it may get: little by little, each step a transaction of its own that lets others write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Delete, Select, Table, and_, delete, exists, func, or_, select

from monitor.model import ALL, Cutoffs, DeliveryStatus, State
from monitor.storage import daily_rollup as days
from monitor.storage import leaving, list_pieces, partitions, room
from monitor.storage.claims import is_settled_before
from monitor.storage.dialects import is_sqlite
from monitor.storage.leaving import DropOutcome
from monitor.storage.run_results import RUN_TABLES
from monitor.storage.tables import (
    alert_states,
    arm_scores,
    coverage,
    coverage_reasons,
    daily,
    deliveries,
    evidence,
    expectations,
    explanations,
    kept_lists,
    notifications,
    runs,
    scores,
    silences,
    statistics,
    summaries,
    transitions,
)
from monitor.storage.transactions import Database

SCORES_AT_ONCE = 20_000
RUNS_AT_ONCE = 20
TRANSITIONS_AT_ONCE = 500

DETAILS: tuple[Table, ...] = (coverage_reasons, coverage, statistics, summaries, arm_scores, expectations)
"""Tables with rows for each segment, in an order in which these can be deleted: those of ``all`` stay as long as the run."""

Told = Callable[[str], object]
"""Hears what is being done, for people who wait."""


def prune(database: Database, cutoffs: Cutoffs, now: datetime, told: Told = str) -> tuple[Counter[str], list[DropOutcome]]:
    """Delete what its age lets go, after adding up the days that are over; rows deleted by table, and what did not go.

    Silences go with runs of their end. Kept lists go earlier where ``now`` nothing needs them any more.
    """
    told("days")
    oldest = max(cutoffs.summaries, cutoffs.runs)
    days.roll_up(database, since=cutoffs.daily, complete_from=oldest, now=now)
    room.make_room_ahead(database, now)
    told("scores")
    counts, obstacles = _prune_scores(database, max(cutoffs.scores, cutoffs.runs))
    told("evidence and lists")
    for table in (evidence, explanations):
        counts += delete_of_each(database, settled_with(table, max(cutoffs.evidence, cutoffs.runs)), table)
    counts += delete_of_each(database, list_pieces.runs_with_unneeded_lists(max(cutoffs.lists, cutoffs.runs), now), kept_lists)
    told("segments")
    with_old_details = with_details(min(oldest, days.midnight(now)))
    for run_id in read_ids(database, with_old_details):
        counts += delete_details(database, run_id, with_old_details)
    told("runs")
    counts += _repeat(database, _some_runs, cutoffs.runs)
    counts += _repeat(database, _some_transitions, cutoffs.runs)
    with database.write() as connection:
        counts += execute(connection, delete(silences).where(silences.c.ends_at < cutoffs.runs))
        counts += execute(connection, delete(daily).where(daily.c.day < cutoffs.daily))
    return +counts, obstacles


def count(database: Database, cutoffs: Cutoffs, now: datetime) -> Counter[str]:
    """Rows by table that `prune` would delete; nothing is changed. Without what goes only to stay under a size."""
    counts: Counter[str] = Counter()
    with database.read() as connection:
        old = select(runs.c.id).where(is_settled_before(cutoffs.runs))
        for table in RUN_TABLES:
            if table is not scores:
                counts[str(table)] += _count(connection, table, table.c.run_id.in_(old))
        counts["runs"] = _count(connection, runs, is_settled_before(cutoffs.runs))
        counts["scores"] = _count_scores(connection, cutoffs)
        for table, before in ((evidence, cutoffs.evidence), (explanations, cutoffs.evidence)):
            counts[str(table)] = _count(connection, table, table.c.run_id.in_(settled_with(table, max(before, cutoffs.runs))))
        unneeded = list_pieces.runs_with_unneeded_lists(max(cutoffs.lists, cutoffs.runs), now)
        counts["kept_lists"] = _count(connection, kept_lists, kept_lists.c.run_id.in_(unneeded))
        details = with_details(min(max(cutoffs.summaries, cutoffs.runs), days.midnight(now)))
        for table in DETAILS:
            is_detail = and_(table.c.run_id.in_(details), table.c.run_id.not_in(old), table.c.segment != ALL)
            counts[str(table)] += _count(connection, table, is_detail)
        counts["transitions"] = _count(connection, transitions, transitions.c.id.in_(_over(cutoffs.runs)))
        counts["daily"] = _count(connection, daily, daily.c.day < cutoffs.daily)
    return +counts


def _count(connection: Connection, table: Table, condition: ColumnElement[bool]) -> int:
    return int(connection.scalar(select(func.count()).select_from(table).where(condition)) or 0)


def _count_scores(connection: Connection, cutoffs: Cutoffs) -> int:
    """On PostgreSQL whole partitions, and elsewhere rows that have outlived them by far."""
    before = max(cutoffs.scores, cutoffs.runs)
    if is_sqlite(connection):
        return _count(connection, scores, scores.c.run_id.in_(select(runs.c.id).where(is_settled_before(before))))
    whole = partitions.past(connection, before)
    over = is_settled_before(max(before - partitions.GRACE, cutoffs.runs))
    apart = [~and_(runs.c.id >= each.low, runs.c.id < each.high) for each in whole]
    left = select(runs.c.id).where(over, *apart)
    return sum(partitions.rows_of(connection, each) for each in whole) + _count(connection, scores, scores.c.run_id.in_(left))


def _prune_scores(database: Database, before: datetime) -> tuple[Counter[str], list[DropOutcome]]:
    """On PostgreSQL by partition as far as possible, and by row what has outlived that by far; and what did not go."""
    outcomes: list[DropOutcome] = []
    if not database.is_sqlite:
        outcomes = [*leaving.clear(database), *leaving.drop_past(database, before)]
        before -= partitions.GRACE
    counts = Counter(scores=sum(each.rows for each in outcomes))
    query = settled_with(scores, before)
    for run_id in _with_scores(database, query):
        counts += delete_scores(database, run_id, query)
    return counts, [each for each in outcomes if each.obstacle]


def delete_scores(database: Database, run_id: int, query: Select[tuple[int]]) -> Counter[str]:
    """Delete the scores of the run, in steps, as long as the query finds it; rows by table."""
    return _repeat(database, lambda connection, _: _some_scores(connection, run_id, query), run_id)


def delete_of_each(database: Database, query: Select[tuple[int]], table: Table) -> Counter[str]:
    """Delete the table's rows of the runs that the query finds, oldest slot first; rows by table."""
    counts: Counter[str] = Counter()
    for run_id in read_ids(database, query.order_by(runs.c.scheduled_for)):
        counts += delete_of_run(database, table, run_id, query)
    return counts


def delete_of_run(database: Database, table: Table, run_id: int, query: Select[tuple[int]]) -> Counter[str]:
    """Delete the run's rows of the table if the query finds it still; rows by table."""
    with database.write() as connection:
        if not is_found(connection, query, run_id):
            return Counter()
        return execute(connection, table.delete().where(table.c.run_id == run_id))


def delete_details(database: Database, run_id: int, query: Select[tuple[int]]) -> Counter[str]:
    """Delete what the run holds of segments other than all if the query finds it still; rows by table."""
    counts: Counter[str] = Counter()
    with database.write() as connection:
        for table in DETAILS if is_found(connection, query, run_id) else ():
            counts += execute(connection, delete(table).where(table.c.run_id == run_id, table.c.segment != ALL))
    return counts


def is_found(connection: Connection, query: Select[tuple[int]], run_id: int) -> bool:
    """Whether the query finds the run still; nobody can claim or label it then before this transaction ends.

    Runs are listed long before their rows are deleted, and a slot that was run again meanwhile has new ones. What somebody is
    at in this moment is left for the next time.
    """
    again = query.where(runs.c.id == run_id).order_by(None).with_for_update(of=runs, key_share=True, skip_locked=True)
    return connection.scalar(again) is not None


def _repeat(database: Database, step: Callable[[Connection, Any], Counter[str]], what: object) -> Counter[str]:
    """Take the step, in a transaction each time, until it finds nothing more."""
    total: Counter[str] = Counter()
    while True:
        with database.write() as connection:
            found = step(connection, what)
        if not found:
            return total
        total += found


def _with_scores(database: Database, query: Select[tuple[int]]) -> list[int]:
    """What the query finds among runs that may have scores, oldest slot first."""
    with database.read() as connection:
        may_have = runs.c.id >= partitions.first_run(connection)
        return list(connection.scalars(query.where(may_have).order_by(runs.c.scheduled_for)))


def settled_with(table: Table, before: datetime) -> Select[tuple[int]]:
    """Settled runs of older slots that have rows in the table."""
    has_rows = exists(select(table.c.run_id).where(table.c.run_id == runs.c.id))
    return select(runs.c.id).where(is_settled_before(before), has_rows)


def with_details(before: datetime) -> Select[tuple[int]]:
    """Settled runs of older slots that hold summaries of segments other than all."""
    has_details = exists(select(summaries.c.run_id).where(summaries.c.run_id == runs.c.id, summaries.c.segment != ALL))
    is_covered = exists(select(coverage.c.run_id).where(coverage.c.run_id == runs.c.id, coverage.c.segment != ALL))
    return select(runs.c.id).where(is_settled_before(before), or_(has_details, is_covered))


def read_ids(database: Database, query: Select[tuple[int]]) -> list[int]:
    """What the query finds."""
    with database.read() as connection:
        return list(connection.scalars(query))


def _some_scores(connection: Connection, run_id: int, query: Select[tuple[int]]) -> Counter[str]:
    """Delete the scores of the run's next users; on PostgreSQL, where deleting holds nobody up, of all."""
    if not is_found(connection, query, run_id):
        return Counter()
    of_run = scores.c.run_id == run_id
    if not is_sqlite(connection):
        return execute(connection, delete(scores).where(of_run))
    users = select(scores.c.user_id).where(of_run).order_by(scores.c.user_id, scores.c.metric_id)
    last = connection.scalar(users.offset(SCORES_AT_ONCE).limit(1))
    return execute(connection, delete(scores).where(of_run if last is None else and_(of_run, scores.c.user_id <= last)))


def _some_runs(connection: Connection, before: datetime) -> Counter[str]:
    chosen = select(runs.c.id).where(is_settled_before(before)).limit(RUNS_AT_ONCE).with_for_update(skip_locked=True)
    ids = list(connection.scalars(chosen))
    counts: Counter[str] = Counter()
    for table in RUN_TABLES:
        counts += execute(connection, delete(table).where(table.c.run_id.in_(ids)))
    return counts + execute(connection, delete(runs).where(runs.c.id.in_(ids)))


def _some_transitions(connection: Connection, before: datetime) -> Counter[str]:
    ids = list(connection.scalars(_over(before).limit(TRANSITIONS_AT_ONCE)))
    of_these = select(deliveries.c.id).where(deliveries.c.transition_id.in_(ids))
    counts = execute(connection, delete(notifications).where(notifications.c.delivery_id.in_(of_these)))
    counts += execute(connection, delete(deliveries).where(deliveries.c.transition_id.in_(ids)))
    return counts + execute(connection, delete(transitions).where(transitions.c.id.in_(ids)))


def _over(before: datetime) -> Select[tuple[int]]:
    """Old transitions, but for those of a firing that lasts, or of which something is still owed to a receiver."""
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
    return select(transitions.c.id).where(transitions.c.scheduled_for < before, ~or_(is_owed, lasts))


def execute(connection: Connection, statement: Delete) -> Counter[str]:
    """Rows deleted, by table; empty when there were none."""
    return +Counter({str(statement.table): connection.execute(statement).rowcount})
