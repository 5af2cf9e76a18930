"""What a run measured, as rows of the tables that belong to it, and back as dataclasses."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, Select, Table, delete, select

from monitor.model import (
    Arm,
    ArmScore,
    Coverage,
    CoverageReason,
    CoverageRow,
    Evidence,
    EvidenceKind,
    Expectation,
    Histogram,
    RunResult,
    Standstill,
    Summary,
)
from monitor.storage.packed_lessons import lesson_rows
from monitor.storage.partitions import of_run
from monitor.storage.tables import (
    arm_scores,
    coverage,
    coverage_reasons,
    evidence,
    expectations,
    explanations,
    kept_lists,
    lessons,
    scores,
    splits,
    stages,
    standstills,
    statistics,
    summaries,
)
from monitor.storage.user_scores import store_scores

_T = TypeVar("_T")

RUN_TABLES: tuple[Table, ...] = (
    stages,
    coverage_reasons,
    coverage,
    statistics,
    summaries,
    arm_scores,
    expectations,
    lessons,
    standstills,
    evidence,
    splits,
    explanations,
    kept_lists,
    scores,
)
"""Tables whose rows belong to a run, in an order in which they can be deleted."""


def replace_results(connection: Connection, result: RunResult) -> None:
    """Store all that the run measured, its lists apart, in place of what an earlier attempt stored."""
    run_id = result.claim.run_id
    for table in RUN_TABLES:
        is_of_run = of_run(connection, run_id) if table is scores else table.c.run_id == run_id
        connection.execute(delete(table).where(is_of_run))
    _put(connection, stages, run_id, [{"stage": name, "seconds": spent} for name, spent in result.stage_seconds.items()])
    rows = result.coverage.rows if result.coverage else ()
    _put(connection, coverage, run_id, [_coverage_row(position, row) for position, row in enumerate(rows)])
    _put(connection, coverage_reasons, run_id, [reason for row in rows for reason in _reason_rows(row)])
    put_summaries(connection, run_id, result.summaries)
    _put(connection, arm_scores, run_id, [_arm_row(position, score) for position, score in enumerate(result.arm_scores)])
    _put(connection, expectations, run_id, [_expectation_row(each) for each in result.expectations])
    _put(connection, standstills, run_id, [asdict(each) for each in result.standstills])
    _put(connection, lessons, run_id, lesson_rows(result.expectations))
    _put(connection, evidence, run_id, [_evidence_row(item) for item in result.evidence])
    if result.scores is not None:
        store_scores(connection, run_id, result.claim.slot, result.scores)


def put_summaries(connection: Connection, run_id: int, found: Sequence[Summary], *, first: int = 0) -> None:
    """Insert summaries of the run, in this order, from position ``first`` on."""
    _put(connection, summaries, run_id, [_summary_row(position, each) for position, each in enumerate(found, start=first)])
    _put(connection, statistics, run_id, [row for each in found for row in _statistic_rows(each)])


def arm_scores_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, tuple[ArmScore, ...]]:
    """Arm-wide scores of the runs in the order they were stored."""

    def score(row: Row[Any]) -> ArmScore:
        return ArmScore(segment=row.segment, arm=Arm(row.arm), metric=row.metric, value=row.value, n=row.n)

    return _by_run(connection, select(arm_scores).order_by(arm_scores.c.position), run_ids, score)


def expectations_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, tuple[Expectation, ...]]:
    """What was expected of the runs, by alert and segment."""

    def expectation(row: Row[Any]) -> Expectation:
        return Expectation(**{name: getattr(row, column) for name, column in _EXPECTATION.items()})

    ordered = select(expectations).order_by(expectations.c.alert, expectations.c.segment)
    return _by_run(connection, ordered, run_ids, expectation)


_EXPECTATION = {
    "alert": "alert",
    "segment": "segment",
    "runs": "learned_from",
    "expected": "expected",
    "limit": "bound",
    "opposite": "opposite_bound",
    "z": "z",
    "evidence": "evidence",
    "evidence_limit": "evidence_bound",
}
"""Columns by the fields of `Expectation` that are stored."""


def _expectation_row(each: Expectation) -> dict[str, Any]:
    values = {column: getattr(each, name) for name, column in _EXPECTATION.items()}
    return {column: value if isinstance(value, str | int) else finite_or_none(value) for column, value in values.items()}


def standstills_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, dict[str, Standstill]]:
    """What the runs counted for each rule on standstill, by alert."""
    found: dict[int, dict[str, Standstill]] = defaultdict(dict)
    for row in connection.execute(select(standstills).where(standstills.c.run_id.in_(run_ids))):
        counted = Standstill(alert=row.alert, arm=Arm(row.arm), missed=row.missed, longest=row.longest, changes=row.changes)
        found[row.run_id][row.alert] = counted
    return dict(found)


def coverage_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Coverage]:
    """Coverage of those of the runs that have one."""
    reasons: dict[tuple[int, str], dict[tuple[Arm, CoverageReason], int]] = defaultdict(dict)
    for row in connection.execute(select(coverage_reasons).where(coverage_reasons.c.run_id.in_(run_ids))):
        reasons[row.run_id, row.segment][Arm(row.arm), CoverageReason(row.reason)] = row.users
    rows: dict[int, list[CoverageRow]] = defaultdict(list)
    for row in connection.execute(select(coverage).where(coverage.c.run_id.in_(run_ids)).order_by(coverage.c.position)):
        of_segment = reasons.get((row.run_id, row.segment), {})
        rows[row.run_id].append(CoverageRow(segment=row.segment, asked=row.asked, paired=row.paired, reasons=of_segment))
    return {run_id: Coverage(rows=tuple(found)) for run_id, found in rows.items()}


def summaries_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, tuple[Summary, ...]]:
    """Summaries of the runs in the order they were stored."""
    values: dict[tuple[int, str, str], dict[str, float]] = defaultdict(dict)
    for row in connection.execute(select(statistics).where(statistics.c.run_id.in_(run_ids))):
        values[row.run_id, row.segment, row.metric][row.statistic] = row.value

    def summary(row: Row[Any]) -> Summary:
        counts = tuple(row.histogram_counts)
        return Summary(
            segment=row.segment,
            metric=row.metric,
            n=row.n,
            n_undefined=row.n_undefined,
            mean=row.mean,
            standard_error=row.standard_error,
            statistics=values.get((row.run_id, row.segment, row.metric), {}),
            histogram=Histogram(low=row.histogram_low, high=row.histogram_high, counts=counts),
        )

    return _by_run(connection, select(summaries).order_by(summaries.c.position), run_ids, summary)


def evidence_of(connection: Connection, run_id: int) -> tuple[Evidence, ...]:
    """Evidence of the run: the worst users first, then the representative ones, each by position."""
    rows = connection.execute(select(evidence).where(evidence.c.run_id == run_id)).all()
    order = {kind.value: number for number, kind in enumerate(EvidenceKind)}
    return tuple(
        Evidence(
            kind=EvidenceKind(row.kind),
            position=row.position,
            user=row.user_id,
            baseline=tuple(row.baseline),
            candidate=tuple(row.candidate),
            scores=row.scores,
        )
        for row in sorted(rows, key=lambda row: (order[row.kind], row.position))
    )


def _by_run(
    connection: Connection, query: Select[Any], run_ids: Sequence[int], item: Callable[[Row[Any]], _T]
) -> dict[int, tuple[_T, ...]]:
    """What each of the runs has, made of its rows, in the order of the query."""
    found: dict[int, list[_T]] = defaultdict(list)
    for row in connection.execute(query.where(query.selected_columns.run_id.in_(run_ids))):
        found[row.run_id].append(item(row))
    return {run_id: tuple(items) for run_id, items in found.items()}


def finite_or_none(value: float | None) -> float | None:
    """A plain float; None for what is no number."""
    return None if value is None or math.isnan(value) else float(value)


def _put(connection: Connection, table: Table, run_id: int, rows: Iterable[Mapping[str, object]]) -> None:
    owned = [{"run_id": run_id, **row} for row in rows]
    if owned:
        connection.execute(table.insert(), owned)


def _coverage_row(position: int, row: CoverageRow) -> dict[str, object]:
    return {"segment": row.segment, "position": position, "asked": int(row.asked), "paired": int(row.paired)}


def _reason_rows(row: CoverageRow) -> list[dict[str, object]]:
    return [
        {"segment": row.segment, "arm": arm, "reason": reason, "users": int(users)}
        for (arm, reason), users in row.reasons.items()
    ]


def _summary_row(position: int, summary: Summary) -> dict[str, object]:
    return {
        "segment": summary.segment,
        "metric": summary.metric,
        "position": position,
        "n": int(summary.n),
        "n_undefined": int(summary.n_undefined),
        "mean": finite_or_none(summary.mean),
        "standard_error": finite_or_none(summary.standard_error),
        "histogram_low": float(summary.histogram.low),
        "histogram_high": float(summary.histogram.high),
        "histogram_counts": [int(count) for count in summary.histogram.counts],
    }


def _statistic_rows(summary: Summary) -> list[dict[str, object]]:
    """Values that are no numbers are left out: no value is stored as no row."""
    return [
        {"segment": summary.segment, "metric": summary.metric, "statistic": statistic, "value": value}
        for statistic, raw in summary.statistics.items()
        if (value := finite_or_none(raw)) is not None
    ]


def _arm_row(position: int, score: ArmScore) -> dict[str, object]:
    return {
        "segment": score.segment,
        "arm": score.arm,
        "metric": score.metric,
        "position": position,
        "value": finite_or_none(score.value),
        "n": int(score.n),
    }


def _evidence_row(item: Evidence) -> dict[str, object]:
    return {
        "kind": item.kind,
        "position": item.position,
        "user_id": item.user,
        "baseline": item.baseline,
        "candidate": item.candidate,
        "scores": {metric: finite_or_none(value) for metric, value in item.scores.items()},
    }
