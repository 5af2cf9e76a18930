"""What a run measured, its split and explanation too, as rows of the tables that belong to it, and back as dataclasses."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Row, Select, Table, delete, select

from monitor.model.alerts import Expectation, Standstill
from monitor.model.explanation import Explanation, PartMeans, Split
from monitor.model.instants import format_instant
from monitor.model.memory import PARTS, Lesson, to_lessons
from monitor.model.rankings import ALL, Arm, Coverage, CoverageReason, CoverageRow
from monitor.model.runs import (
    ArmScore,
    Evidence,
    EvidenceKind,
    Histogram,
    RunResult,
    RunStatus,
    Summary,
)
from monitor.storage.partitions import of_run
from monitor.storage.rows import from_row, to_row
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import (
    arm_scores,
    coverage,
    coverage_reasons,
    evidence,
    expectations,
    explanations,
    lessons,
    runs,
    splits,
    stages,
    standstills,
    statistics,
    summaries,
)
from monitor.storage.user_scores import store_scores

_T = TypeVar("_T")
_DOUBLES, _DOUBLE_BYTES = "<f8", 8

_About = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Alert, series and segments of each lesson."""

RUN_TABLES: tuple[Table, ...] = tuple(
    table for table in reversed(metadata.sorted_tables) if "run_id" in table.c
)
"""Tables whose rows belong to a run, in an order in which they can be deleted."""
_HABITS = "habits"


def replace_results(connection: Connection, result: RunResult) -> None:
    """Store all that the run measured, its lists apart, in place of what an earlier attempt stored."""
    run_id = result.claim.run_id
    for table in RUN_TABLES:
        connection.execute(delete(table).where(of_run(connection, run_id, table)))
    _put(
        connection,
        stages,
        run_id,
        [{"stage": name, "seconds": spent} for name, spent in result.stage_seconds.items()],
    )
    rows = result.coverage.rows if result.coverage else ()
    reasons = [
        {"segment": row.segment, "arm": arm, "reason": reason, "users": users}
        for row in rows
        for (arm, reason), users in row.reasons.items()
    ]
    _put(
        connection,
        coverage,
        run_id,
        [to_row(row, coverage, position=position) for position, row in enumerate(rows)],
    )
    _put(connection, coverage_reasons, run_id, reasons)
    put_summaries(connection, run_id, result.summaries)
    of_arms = [
        to_row(each, arm_scores, position=position)
        for position, each in enumerate(result.arm_scores)
    ]
    _put(connection, arm_scores, run_id, of_arms)
    _put(
        connection,
        expectations,
        run_id,
        [to_row(each, expectations) for each in result.expectations],
    )
    _put(
        connection, standstills, run_id, [to_row(each, standstills) for each in result.standstills]
    )
    _put(connection, lessons, run_id, lesson_rows(result.expectations))
    _put(connection, evidence, run_id, [to_row(each, evidence) for each in result.evidence])
    if result.scores is not None:
        store_scores(connection, run_id, result.claim.slot, result.scores)


def put_summaries(
    connection: Connection, run_id: int, found: Sequence[Summary], *, first: int = 0
) -> None:
    """Insert summaries of the run, in this order, from position ``first`` on."""
    _put(
        connection,
        summaries,
        run_id,
        [_summary_row(position, each) for position, each in enumerate(found, start=first)],
    )
    _put(connection, statistics, run_id, [row for each in found for row in _statistic_rows(each)])


def newest_ok(comparison: str, *which: ColumnElement[bool]) -> Select[Any]:
    """Number and slot of the comparison's ok runs for which all of this holds, the newest first."""
    is_ok = (runs.c.comparison == comparison, runs.c.status == RunStatus.OK)
    return (
        select(runs.c.id, runs.c.scheduled_for)
        .where(*is_ok, *which)
        .order_by(runs.c.scheduled_for.desc())
    )


def arm_scores_of(
    connection: Connection, run_ids: Sequence[int]
) -> dict[int, tuple[ArmScore, ...]]:
    """Arm-wide scores of the runs in the order they were stored."""
    return _by_run(
        connection,
        select(arm_scores).order_by(arm_scores.c.position),
        run_ids,
        partial(from_row, ArmScore),
    )


def expectations_of(
    connection: Connection, run_ids: Sequence[int], *, segment: str | None = None
) -> dict[int, tuple[Expectation, ...]]:
    """What was expected of the runs, by alert and segment.

    Of one segment only where it is given.
    """
    ordered = select(expectations).order_by(expectations.c.alert, expectations.c.segment)
    if segment is not None:
        ordered = ordered.where(expectations.c.segment == segment)
    return _by_run(connection, ordered, run_ids, partial(from_row, Expectation))


def standstills_of(
    connection: Connection, run_ids: Sequence[int]
) -> dict[int, dict[str, Standstill]]:
    """What the runs counted for each rule on standstill, by alert."""
    found = _by_run(connection, select(standstills), run_ids, partial(from_row, Standstill))
    return {run_id: {each.alert: each for each in of_run} for run_id, of_run in found.items()}


def coverage_of(
    connection: Connection, run_ids: Sequence[int], *, segment: str | None = None
) -> dict[int, Coverage]:
    """Coverage of those of the runs that have one; of one segment only where it is given."""
    of_runs, why = (
        [each.c.run_id.in_(run_ids), each.c.segment == segment][: 1 if segment is None else 2]
        for each in (coverage, coverage_reasons)
    )
    reasons: dict[tuple[int, str], dict[tuple[Arm, CoverageReason], int]] = defaultdict(dict)
    for row in connection.execute(select(coverage_reasons).where(*why)):
        reasons[row.run_id, row.segment][row.arm, row.reason] = row.users
    rows: dict[int, list[CoverageRow]] = defaultdict(list)
    for row in connection.execute(select(coverage).where(*of_runs).order_by(coverage.c.position)):
        of_segment = reasons.get((row.run_id, row.segment), {})
        rows[row.run_id].append(from_row(CoverageRow, row, reasons=of_segment))
    return {run_id: Coverage(rows=tuple(found)) for run_id, found in rows.items()}


def summaries_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, tuple[Summary, ...]]:
    """Summaries of the runs in the order they were stored."""
    values: dict[tuple[int, str, str], dict[str, float]] = defaultdict(dict)
    for row in connection.execute(select(statistics).where(statistics.c.run_id.in_(run_ids))):
        values[row.run_id, row.segment, row.metric][row.statistic] = row.value

    def summary(row: Row[Any]) -> Summary:
        histogram = Histogram(
            low=row.histogram_low, high=row.histogram_high, counts=tuple(row.histogram_counts)
        )
        of_it = values.get((row.run_id, row.segment, row.metric), {})
        return from_row(Summary, row, statistics=of_it, histogram=histogram)

    return _by_run(connection, select(summaries).order_by(summaries.c.position), run_ids, summary)


def evidence_of(connection: Connection, run_id: int) -> tuple[Evidence, ...]:
    """Evidence of the run: the worst users first, then the representative ones, each by position."""
    rows = connection.execute(select(evidence).where(evidence.c.run_id == run_id)).all()
    order = list(EvidenceKind)
    return tuple(
        from_row(Evidence, row, baseline=tuple(row.baseline), candidate=tuple(row.candidate))
        for row in sorted(rows, key=lambda row: (order.index(row.kind), row.position))
    )


def _by_run(
    connection: Connection,
    query: Select[Any],
    run_ids: Sequence[int],
    item: Callable[[Row[Any]], _T],
) -> dict[int, tuple[_T, ...]]:
    """What each of the runs has, made of its rows, in the order of the query."""
    found: dict[int, list[_T]] = defaultdict(list)
    for row in connection.execute(query.where(query.selected_columns.run_id.in_(run_ids))):
        found[row.run_id].append(item(row))
    return {run_id: tuple(items) for run_id, items in found.items()}


def _put(
    connection: Connection, table: Table, run_id: int, rows: Iterable[Mapping[str, object]]
) -> None:
    owned = [{"run_id": run_id, **row} for row in rows]
    if owned:
        connection.execute(table.insert(), owned)


def _summary_row(position: int, summary: Summary) -> dict[str, object]:
    low, high = summary.histogram.low, summary.histogram.high
    counts = [int(count) for count in summary.histogram.counts]
    return to_row(
        summary,
        summaries,
        position=position,
        histogram_low=low,
        histogram_high=high,
        histogram_counts=counts,
    )


def _statistic_rows(summary: Summary) -> list[dict[str, object]]:
    # No value is stored as no row.
    return [
        {
            "segment": summary.segment,
            "metric": summary.metric,
            "statistic": statistic,
            "value": value,
        }
        for statistic, value in summary.statistics.items()
        if not math.isnan(value)
    ]


def lesson_rows(expectations: Iterable[Expectation]) -> list[dict[str, object]]:
    """The lessons of one run as one row; none where no expectation names its series."""
    taught = {alert: each for alert, each in to_lessons(expectations).items() if each.series}
    if not taught:
        return []
    import numpy as np

    about = [[alert, each.series, each.segments] for alert, each in taught.items()]
    numbers = np.concatenate([each.numbers for each in taught.values()], axis=1)
    return [{"about": json.dumps(about), "numbers": numbers.astype(_DOUBLES).tobytes()}]


def lessons_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, dict[str, Lesson]]:
    """Lessons of the runs by alert.

    A run whose numbers do not fit has none: its summaries are used instead.
    """
    query = select(lessons.c.run_id, lessons.c.about, lessons.c.numbers).where(
        lessons.c.run_id.in_(run_ids)
    )
    return {
        run_id: _unpack(_parse_about(about), numbers)
        for run_id, about, numbers in connection.execute(query)
    }


def _unpack(about: _About, numbers: bytes) -> dict[str, Lesson]:
    ends = [0, *accumulate(len(segments) for _, _, segments in about)]
    if len(numbers) != PARTS * ends[-1] * _DOUBLE_BYTES:
        return {}
    import numpy as np

    table = np.frombuffer(numbers, dtype=_DOUBLES).reshape(PARTS, ends[-1])
    return {
        alert: Lesson(series=series, segments=segments, numbers=table[:, begin:end])
        for (alert, series, segments), (begin, end) in zip(about, pairwise(ends), strict=True)
    }


@lru_cache(maxsize=64)
def _parse_about(about: str) -> _About:
    return tuple((alert, series, tuple(segments)) for alert, series, segments in json.loads(about))


def store_explanation(connection: Connection, result: RunResult) -> None:
    """Insert the run's split and explanation, those that it has."""
    run_id, split, explanation = result.claim.run_id, result.split, result.explanation
    if split is not None:
        about = {
            "run_id": run_id,
            "segment": ALL,
            "position": 0,
            "metric": split.metric,
            "asked": split.asked,
        }
        connection.execute(
            splits.insert().values(
                to_row(split.means, splits, **about, kinds={_HABITS: split.habits})
            )
        )
    if explanation is not None:
        details = {name: value for name, value in asdict(explanation).items() if name != "sentence"}
        details["since"] = explanation.since and format_instant(explanation.since)
        connection.execute(
            explanations.insert().values(
                run_id=run_id, sentence=explanation.sentence, details=details
            )
        )


def explanations_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Explanation]:
    """Explanations of those of the runs that have one which can be read."""
    found = connection.execute(select(explanations).where(explanations.c.run_id.in_(run_ids)))
    read = {row.run_id: _explanation(row.sentence, row.details) for row in found}
    return {run_id: explanation for run_id, explanation in read.items() if explanation is not None}


def splits_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Split]:
    """Splits of those of the runs that have one."""
    query = select(splits).where(
        splits.c.run_id.in_(run_ids), splits.c.segment == ALL, splits.c.n > 0
    )
    return {row.run_id: _split(row) for row in connection.execute(query)}


def _split(row: Any) -> Split:  # noqa: ANN401 - a row of splits
    stored = (row.kinds or {}).get(_HABITS, {})
    habits = {
        arm: {habit: tuple(shares) for habit, shares in of_arm.items()}
        for arm, of_arm in stored.items()
    }
    return Split(metric=row.metric, asked=row.asked, means=from_row(PartMeans, row), habits=habits)


def _explanation(sentence: str, details: Any) -> Explanation | None:  # noqa: ANN401 - a document
    try:
        return _reader().validate_python({**details, "sentence": sentence})
    except (TypeError, ValueError):
        # A document of another version, which holds what this one does not know, or lacks what it
        # needs.
        return None


@cache
def _reader() -> TypeAdapter[Explanation]:
    return TypeAdapter(Explanation)
