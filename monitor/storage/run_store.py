"""Stored runs: reading them, and adding measures of relevance that arrive after the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, func, select, update

from monitor.model import ALL, ArmScore, Coverage, LatestRun, Run, RunRecord, RunStatus, Scores, Summary
from monitor.storage import alert_states, explanations, run_results
from monitor.storage import user_scores as per_user
from monitor.storage.list_pieces import HAS_LISTS
from monitor.storage.tables import coverage, runs, statistics, summaries

_OF_ALL = and_(coverage.c.run_id == runs.c.id, coverage.c.segment == ALL)
_RUNS: Select[Any] = select(runs, coverage.c.asked, coverage.c.paired).outerjoin(coverage, _OF_ALL)

WAITS = and_(runs.c.status == RunStatus.OK, runs.c.labels_until.is_not(None), runs.c.labelled_at.is_(None), HAS_LISTS)
"""Whether the measures of relevance of a run are missing and can still be made up for."""


def newest_runs(connection: Connection, comparison: str | None, limit: int) -> tuple[Run, ...]:
    """Stored runs, newest slot first, then by comparison."""
    query = _RUNS.order_by(runs.c.scheduled_for.desc(), runs.c.comparison).limit(limit)
    if comparison is not None:
        query = query.where(runs.c.comparison == comparison)
    return tuple(_run(row) for row in connection.execute(query))


def latest(connection: Connection, comparisons: Sequence[str], until: datetime | None) -> tuple[LatestRun, ...]:
    """The newest finished run of each comparison that has one, with all that it measured."""
    found = [run for name in dict.fromkeys(comparisons) if (run := _newest_finished(connection, name, until)) is not None]
    ids = [run.id for run in found]
    covered, measured = run_results.coverage_of(connection, ids), run_results.summaries_of(connection, ids)
    of_arms, expected = run_results.arm_scores_of(connection, ids), run_results.expectations_of(connection, ids)
    explained = explanations.explanations_of(connection, ids)
    return tuple(
        replace(
            _latest(connection, run, covered.get(run.id), measured.get(run.id, ()), of_arms.get(run.id, ())),
            expectations=expected.get(run.id, ()),
            explanation=explained.get(run.id),
        )
        for run in found
    )


def records(connection: Connection, comparison: str, after: datetime | None, limit: int) -> tuple[RunRecord, ...]:
    """The oldest ``limit`` finished runs of the comparison of slots after this one, with all that they are judged by."""
    query = _RUNS.where(runs.c.comparison == comparison, runs.c.status != RunStatus.RUNNING).order_by(runs.c.scheduled_for)
    if after is not None:
        query = query.where(runs.c.scheduled_for > after)
    found = [_run(row) for row in connection.execute(query.limit(limit))]
    ids = [run.id for run in found]
    covered, measured = run_results.coverage_of(connection, ids), run_results.summaries_of(connection, ids)
    of_arms, explained = run_results.arm_scores_of(connection, ids), explanations.explanations_of(connection, ids)
    return tuple(
        RunRecord(
            run=run,
            coverage=covered.get(run.id),
            summaries=measured.get(run.id, ()),
            arm_scores=of_arms.get(run.id, ()),
            explanation=explained.get(run.id),
        )
        for run in found
    )


def unlabelled(connection: Connection, comparison: str, since: datetime) -> tuple[Run, ...]:
    """Runs of the comparison that wait for relevance, of this slot and later ones, oldest first."""
    wanted = and_(runs.c.comparison == comparison, runs.c.scheduled_for >= since, runs.c.claimed_until.is_(None))
    return tuple(_run(row) for row in connection.execute(_RUNS.where(WAITS, wanted).order_by(runs.c.scheduled_for)))


def count_unlabelled(connection: Connection, comparison: str) -> int:
    """How many runs of the comparison wait for relevance."""
    return connection.scalar(select(func.count()).select_from(runs).where(WAITS, runs.c.comparison == comparison)) or 0


def _newest_finished(connection: Connection, comparison: str, until: datetime | None) -> Run | None:
    is_finished = and_(runs.c.comparison == comparison, runs.c.status != RunStatus.RUNNING)
    if until is not None:
        is_finished = and_(is_finished, runs.c.scheduled_for <= until)
    row = connection.execute(_RUNS.where(is_finished).order_by(runs.c.scheduled_for.desc()).limit(1)).first()
    return None if row is None else _run(row)


def _latest(
    connection: Connection,
    run: Run,
    covered: Coverage | None,
    measured: tuple[Summary, ...],
    of_arms: tuple[ArmScore, ...],
) -> LatestRun:
    was_ok = and_(runs.c.comparison == run.comparison, runs.c.status == RunStatus.OK)
    ok = select(runs.c.scheduled_for, runs.c.finished_at).where(was_ok).order_by(runs.c.scheduled_for.desc()).limit(1)
    slot, at = connection.execute(ok).first() or (None, None)
    return LatestRun(
        run=run,
        coverage=covered,
        summaries=measured,
        states=alert_states.read(connection, run.comparison),
        last_ok_slot=slot,
        last_ok_at=at,
        arm_scores=of_arms,
        unlabelled=count_unlabelled(connection, run.comparison),
        first_slot=connection.scalar(select(func.min(runs.c.scheduled_for)).where(runs.c.comparison == run.comparison)),
    )


def _run(row: Any) -> Run:  # noqa: ANN401 - a row of runs with its coverage
    return Run(
        id=row.id,
        comparison=row.comparison,
        slot=row.scheduled_for,
        status=RunStatus(row.status),
        reason=row.reason,
        attempt=row.attempt,
        owner=row.owner,
        config_hash=row.config_hash,
        k=row.k,
        asked=row.asked,
        paired=row.paired,
        started_at=row.started_at,
        finished_at=row.finished_at,
        catalogue_size=row.catalogue_size,
        labels_until=row.labels_until,
        labelled_at=row.labelled_at,
    )


def label(connection: Connection, run: Run, found: Sequence[Summary], scores: Scores | None, at: datetime) -> bool:
    """Add measures of relevance to the run; False when it has been measured anew, or is being, since it was read."""
    is_same = and_(runs.c.id == run.id, runs.c.attempt == run.attempt, runs.c.claimed_until.is_(None))
    if connection.execute(update(runs).where(is_same).values(labelled_at=at)).rowcount != 1:
        return False
    metrics = {summary.metric for summary in found}
    for table in (statistics, summaries):
        connection.execute(delete(table).where(table.c.run_id == run.id, table.c.metric.in_(metrics)))
    run_results.put_summaries(connection, run.id, found, first=_next_position(connection, run.id))
    if scores is not None:
        per_user.replace(connection, run.id, scores)
    return True


def _next_position(connection: Connection, run_id: int) -> int:
    last = connection.scalar(select(func.max(summaries.c.position)).where(summaries.c.run_id == run_id))
    return 0 if last is None else int(last) + 1
