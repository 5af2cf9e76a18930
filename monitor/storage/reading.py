"""Runs as lists and pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, func, select

from monitor.model import ALL, ArmScore, Coverage, LatestRun, Run, RunRecord, RunStatus, Summary
from monitor.storage import alerting, explaining, results
from monitor.storage.lists import HAS_LISTS
from monitor.storage.tables import coverage, runs

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
    covered, measured = results.coverage_of(connection, ids), results.summaries_of(connection, ids)
    of_arms, expected = results.arm_scores_of(connection, ids), results.expectations_of(connection, ids)
    explained = explaining.explanations_of(connection, ids)
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
    covered, measured = results.coverage_of(connection, ids), results.summaries_of(connection, ids)
    of_arms, explained = results.arm_scores_of(connection, ids), explaining.explanations_of(connection, ids)
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
        states=alerting.read(connection, run.comparison),
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
