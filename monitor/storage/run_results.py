"""Writes the results of a run as rows of tables, and reads them back as dataclasses."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Row, Select, Table, delete, select

from monitor.model.alerts import Expectation, Standstill
from monitor.model.explanation import Explanation, PartMeans, Split
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
_DOUBLES = "<f8"
_DOUBLE_BYTES = 8

_About = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Alert, series and segments of each lesson."""

RUN_TABLES: tuple[Table, ...] = tuple(
    table for table in reversed(metadata.sorted_tables) if "run_id" in table.c
)
"""Tables whose rows belong to a run, in an order in which foreign keys permit to delete."""
_HABITS = "habits"


def replace_results(connection: Connection, result: RunResult) -> None:
    """Replace an earlier attempt's results by what the run measured, except its lists."""
    run_id = result.claim.run_id
    for table in RUN_TABLES:
        connection.execute(delete(table).where(of_run(connection, run_id, table)))
    put = partial(_put, connection, run_id)
    put(
        stages,
        [{"stage": name, "seconds": seconds} for name, seconds in result.stage_seconds.items()],
    )
    covered = []
    reasons = []
    for position, row in enumerate(result.coverage.rows if result.coverage else ()):
        covered.append(to_row(row, coverage, position=position))
        for (arm, reason), users in row.users_by_reason.items():
            reasons.append({"segment": row.segment, "arm": arm, "reason": reason, "users": users})
    put(coverage, covered)
    put(coverage_reasons, reasons)
    put_summaries(connection, run_id, result.summaries)
    put(
        arm_scores,
        [
            to_row(score, arm_scores, position=position)
            for position, score in enumerate(result.arm_scores)
        ],
    )
    put(lessons, lesson_rows(result.expectations))
    for table, items in (
        (expectations, result.expectations),
        (standstills, result.standstills),
        (evidence, result.evidence),
    ):
        put(table, [to_row(item, table) for item in items])
    if result.scores is not None:
        store_scores(connection, run_id, result.claim.slot, result.scores)


def put_summaries(
    connection: Connection,
    run_id: int,
    measured: Sequence[Summary],
    *,
    first: int = 0,
) -> None:
    """Insert summaries of the run in this order; the first one has the position ``first``."""
    summary_rows: list[dict[str, object]] = []
    statistic_rows: list[dict[str, object]] = []
    for position, summary in enumerate(measured, start=first):
        summary_rows.append(_summary_row(position, summary))
        for statistic, value in summary.statistics.items():
            # A value that is missing has no row.
            if not math.isnan(value):
                statistic_rows.append(
                    {
                        "segment": summary.segment,
                        "metric": summary.metric,
                        "statistic": statistic,
                        "value": value,
                    }
                )
    _put(connection, run_id, summaries, summary_rows)
    _put(connection, run_id, statistics, statistic_rows)


def newest_ok(comparison: str, *conditions: ColumnElement[bool]) -> Select[Any]:
    """Select id and slot of the comparison's ok runs that meet the conditions, newest first."""
    is_ok = (runs.c.comparison == comparison, runs.c.status == RunStatus.OK)
    return (
        select(runs.c.id, runs.c.scheduled_for)
        .where(*is_ok, *conditions)
        .order_by(runs.c.scheduled_for.desc())
    )


def arm_scores_of(
    connection: Connection, run_ids: Sequence[int]
) -> dict[int, tuple[ArmScore, ...]]:
    """Return arm-wide scores by run, in the order they were stored."""
    query = select(arm_scores).order_by(arm_scores.c.position)
    return _by_run(connection, query, run_ids, partial(from_row, ArmScore))


def expectations_of(
    connection: Connection,
    run_ids: Sequence[int],
    *,
    segment: str | None = None,
) -> dict[int, tuple[Expectation, ...]]:
    """Return expectations by run, in the order of alerts and segments.

    ``segment`` None selects all segments.
    """
    query = select(expectations).order_by(expectations.c.alert, expectations.c.segment)
    if segment is not None:
        query = query.where(expectations.c.segment == segment)
    return _by_run(connection, query, run_ids, partial(from_row, Expectation))


def standstills_of(
    connection: Connection, run_ids: Sequence[int]
) -> dict[int, dict[str, Standstill]]:
    """Return what each rule on standstill counted, by run and alert."""
    by_run: dict[int, dict[str, Standstill]] = defaultdict(dict)
    query = select(standstills).where(standstills.c.run_id.in_(run_ids))
    for row in connection.execute(query):
        by_run[row.run_id][row.alert] = from_row(Standstill, row)
    return by_run


def coverage_of(
    connection: Connection,
    run_ids: Sequence[int],
    *,
    segment: str | None = None,
) -> dict[int, Coverage]:
    """Return the coverage of each run that has one. ``segment`` None selects all segments."""
    counts = select(coverage).where(coverage.c.run_id.in_(run_ids)).order_by(coverage.c.position)
    reasons = select(coverage_reasons).where(coverage_reasons.c.run_id.in_(run_ids))
    if segment is not None:
        counts = counts.where(coverage.c.segment == segment)
        reasons = reasons.where(coverage_reasons.c.segment == segment)
    users: dict[tuple[int, str], dict[tuple[Arm, CoverageReason], int]] = defaultdict(dict)
    for row in connection.execute(reasons):
        users[row.run_id, row.segment][row.arm, row.reason] = row.users
    rows: dict[int, list[CoverageRow]] = defaultdict(list)
    for row in connection.execute(counts):
        of_segment = users.get((row.run_id, row.segment), {})
        rows[row.run_id].append(from_row(CoverageRow, row, users_by_reason=of_segment))
    return {run_id: Coverage(rows=tuple(segments)) for run_id, segments in rows.items()}


def summaries_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, tuple[Summary, ...]]:
    """Return summaries by run, in the order they were stored."""
    values: dict[tuple[int, str, str], dict[str, float]] = defaultdict(dict)
    of_runs = select(statistics).where(statistics.c.run_id.in_(run_ids))
    for row in connection.execute(of_runs):
        values[row.run_id, row.segment, row.metric][row.statistic] = row.value

    def summary(row: Row[Any]) -> Summary:
        histogram = Histogram(
            low=row.histogram_low,
            high=row.histogram_high,
            counts=tuple(row.histogram_counts),
        )
        of_summary = values.get((row.run_id, row.segment, row.metric), {})
        return from_row(Summary, row, statistics=of_summary, histogram=histogram)

    return _by_run(connection, select(summaries).order_by(summaries.c.position), run_ids, summary)


def evidence_of(connection: Connection, run_id: int) -> tuple[Evidence, ...]:
    """Return the run's evidence: worst users, then representative ones, each by position."""
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
    """Make one item of each row of these runs. Return them by run, in the order of the query."""
    by_run: dict[int, list[_T]] = defaultdict(list)
    for row in connection.execute(query.where(query.selected_columns.run_id.in_(run_ids))):
        by_run[row.run_id].append(item(row))
    return {run_id: tuple(items) for run_id, items in by_run.items()}


def _put(
    connection: Connection,
    run_id: int,
    table: Table,
    rows: Sequence[Mapping[str, object]],
) -> None:
    if rows:
        connection.execute(table.insert(), [{"run_id": run_id, **row} for row in rows])


def _summary_row(position: int, summary: Summary) -> dict[str, object]:
    low = summary.histogram.low
    high = summary.histogram.high
    counts = [int(count) for count in summary.histogram.counts]
    return to_row(
        summary,
        summaries,
        position=position,
        histogram_low=low,
        histogram_high=high,
        histogram_counts=counts,
    )


def lesson_rows(expectations: Iterable[Expectation]) -> list[dict[str, object]]:
    """Return the lessons of one run as one row. No row if no expectation names its series."""
    by_alert = {
        alert: lesson for alert, lesson in to_lessons(expectations).items() if lesson.series
    }
    if not by_alert:
        return []
    import numpy as np

    about = [[alert, lesson.series, lesson.segments] for alert, lesson in by_alert.items()]
    numbers = np.concatenate([lesson.numbers for lesson in by_alert.values()], axis=1)
    return [{"about": json.dumps(about), "numbers": numbers.astype(_DOUBLES).tobytes()}]


def lessons_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, dict[str, Lesson]]:
    """Return lessons by run and alert.

    A run gets no lessons if the stored numbers do not fit. Its summaries are used instead.
    """
    query = select(lessons.c.run_id, lessons.c.about, lessons.c.numbers).where(
        lessons.c.run_id.in_(run_ids)
    )
    return {
        run_id: _unpack(_parse_about(about), numbers)
        for run_id, about, numbers in connection.execute(query)
    }


def _unpack(about: _About, numbers: bytes) -> dict[str, Lesson]:
    width = sum(len(segments) for _, _, segments in about)
    if len(numbers) != PARTS * width * _DOUBLE_BYTES:
        return {}
    import numpy as np

    table = np.frombuffer(numbers, dtype=_DOUBLES).reshape(PARTS, width)
    by_alert = {}
    begin = 0
    for alert, series, segments in about:
        end = begin + len(segments)
        by_alert[alert] = Lesson(series=series, segments=segments, numbers=table[:, begin:end])
        begin = end
    return by_alert


@lru_cache(maxsize=64)
def _parse_about(about: str) -> _About:
    lessons = []
    for alert, series, segments in json.loads(about):
        lessons.append((alert, series, tuple(segments)))
    return tuple(lessons)


def store_explanation(connection: Connection, result: RunResult) -> None:
    """Insert the run's split and explanation, if it has them."""
    run_id = result.claim.run_id
    split = result.split
    explanation = result.explanation
    if split is not None:
        row = to_row(
            split.means,
            splits,
            run_id=run_id,
            segment=ALL,
            position=0,
            metric=split.metric,
            asked=split.asked,
            kinds={_HABITS: split.habits},
        )
        connection.execute(splits.insert().values(row))
    if explanation is not None:
        details = asdict(explanation)
        sentence = details.pop("sentence")
        connection.execute(
            explanations.insert().values(run_id=run_id, sentence=sentence, details=details)
        )


def explanations_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Explanation]:
    """Return the explanation of each run that has one that this version can read."""
    by_run = {}
    query = select(explanations).where(explanations.c.run_id.in_(run_ids))
    for row in connection.execute(query):
        explanation = _explanation(row.sentence, row.details)
        if explanation is not None:
            by_run[row.run_id] = explanation
    return by_run


def splits_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Split]:
    """Return the split of each run that has one."""
    query = select(splits).where(
        splits.c.run_id.in_(run_ids), splits.c.segment == ALL, splits.c.n > 0
    )
    return {row.run_id: _split(row) for row in connection.execute(query)}


def _split(row: Any) -> Split:  # noqa: ANN401 - a row of splits
    habits = {}
    for arm, shares_by_habit in (row.kinds or {}).get(_HABITS, {}).items():
        habits[arm] = {habit: tuple(shares) for habit, shares in shares_by_habit.items()}
    return Split(metric=row.metric, asked=row.asked, means=from_row(PartMeans, row), habits=habits)


def _explanation(sentence: str, details: Any) -> Explanation | None:  # noqa: ANN401 - a document
    try:
        return _reader().validate_python({**details, "sentence": sentence})
    except (TypeError, ValueError):
        # Another version wrote the document, with other fields.
        return None


@cache
def _reader() -> TypeAdapter[Explanation]:
    return TypeAdapter(Explanation)
