"""Writes the results of a run as rows of tables, and reads them back as dataclasses.

Each field of a dataclass has the same name as its column. So a new value only needs a new field and
a new column.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, delete, select

from monitor.model.alerts import Expectation
from monitor.model.explanation import Explanation
from monitor.model.memory import LESSON_NUMBERS, Lesson, to_lessons
from monitor.model.rankings import ALL, Coverage, CoverageRow
from monitor.model.rules import JudgedSeries
from monitor.model.runs import ArmScore, Evidence, Run, RunResult, RunStatus, Summary
from monitor.storage.partitions import of_run
from monitor.storage.rows import from_row, to_row
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import (
    arm_scores,
    coverage,
    evidence,
    expectations,
    explanations,
    lessons,
    runs,
    summaries,
)
from monitor.storage.user_scores import store_scores

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")

_DOUBLES = "<f8"
_DOUBLE_BYTES = 8

_About = tuple[tuple[str, JudgedSeries, tuple[str, ...]], ...]
"""Alert, series and segments of each lesson."""

_FIELDS = {field.name for field in fields(Run)}
RUN_ROWS: Select[Any] = select(
    *(column for column in runs.c if column.name in _FIELDS),
    coverage.c.asked,
    coverage.c.paired,
).outerjoin(coverage, and_(coverage.c.run_id == runs.c.id, coverage.c.segment == ALL))
"""Selects the columns of `Run`."""

RUN_TABLES: tuple[Table, ...] = tuple(
    table for table in reversed(metadata.sorted_tables) if "run_id" in table.c
)
"""Tables whose rows belong to a run, in an order in which foreign keys allow their deletion."""

_TABLES_OF_ROWS: Mapping[type, tuple[Table, Sequence[Any]]] = {
    CoverageRow: (coverage, (coverage.c.position,)),
    Summary: (summaries, (summaries.c.position,)),
    ArmScore: (arm_scores, (arm_scores.c.position,)),
    Expectation: (expectations, (expectations.c.alert, expectations.c.segment)),
    # Worst users come before representative ones.
    Evidence: (evidence, (evidence.c.kind.desc(), evidence.c.position)),
}
"""The table of each kind of result, and the columns by which its rows are ordered."""

_NOT_STORED: Mapping[type, frozenset[str]] = {
    Expectation: frozenset(
        {"fault", "series", "judged", "error", "lost", "steady", "usual_lost", "note"}
    )
}
"""Fields without a column. Those of an expectation are packed into lessons, or serve one run."""


def replace_results(connection: Connection, result: RunResult) -> None:
    """Replace the results of an earlier attempt by the results of this run.

    They include lessons, which are the numbers that later runs learn from. The lists of the earlier
    attempt are deleted too. `store_lists` stores the new lists later.
    """
    run_id = result.claim.run_id
    for table in RUN_TABLES:
        connection.execute(delete(table).where(of_run(connection, run_id, table)))
    put_items(connection, run_id, CoverageRow, result.coverage.rows if result.coverage else ())
    put_items(connection, run_id, Summary, result.summaries)
    put_items(connection, run_id, ArmScore, result.arm_scores)
    put_items(connection, run_id, Expectation, result.expectations)
    put_items(connection, run_id, Evidence, result.evidence)
    explanation = result.explanation
    if explanation is not None:
        row = {"run_id": run_id, "sentence": explanation.sentence, "details": explanation}
        connection.execute(explanations.insert().values(row))
    packed_lessons = _pack_lessons(result.expectations)
    if packed_lessons:
        connection.execute(lessons.insert().values(run_id=run_id, **packed_lessons))
    if result.scores is not None:
        store_scores(connection, run_id, result.claim.slot, result.scores)


def put_items(
    connection: Connection,
    run_id: int,
    kind: type[_T],
    items: Iterable[_T],
    *,
    first: int = 0,
) -> None:
    """Insert a row for each item of the run, in this order; the first has position ``first``."""
    table, _ = _TABLES_OF_ROWS[kind]
    rows = []
    for position, item in enumerate(items, start=first):
        row = to_row(item, table, without=_NOT_STORED.get(kind, frozenset()), run_id=run_id)
        if "position" in table.c:
            # Evidence has a position of its own.
            row.setdefault("position", position)
        rows.append(row)
    if rows:
        connection.execute(table.insert(), rows)


def items_by_run(
    connection: Connection,
    kind: type[_T],
    run_ids: Sequence[int],
    *,
    segment: str | None = None,
) -> dict[int, tuple[_T, ...]]:
    """Return the items of each run, by the run's id. ``segment`` None selects all segments."""
    table, order = _TABLES_OF_ROWS[kind]
    # The names of fields are the columns' keys, which may differ from their names in the database.
    columns = [column.label(key) for key, column in table.c.items()]
    query = select(*columns).where(table.c.run_id.in_(run_ids)).order_by(*order)
    if segment is not None:
        query = query.where(table.c.segment == segment)
    by_run: dict[int, list[_T]] = defaultdict(list)
    for row in connection.execute(query):
        by_run[row.run_id].append(from_row(kind, row))
    return {run_id: tuple(items) for run_id, items in by_run.items()}


def newest_run(
    connection: Connection,
    comparison: str,
    *conditions: ColumnElement[bool],
) -> Run | None:
    """Return the newest run of the comparison that meets these conditions."""
    query = RUN_ROWS.where(runs.c.comparison == comparison, *conditions)
    newest = query.order_by(runs.c.slot.desc()).limit(1)
    row = connection.execute(newest).first()
    return None if row is None else from_row(Run, row)


def newest_ok(comparison: str, *conditions: ColumnElement[bool]) -> Select[Any]:
    """Select id and slot of the comparison's ok runs that meet the conditions, newest first."""
    is_ok = (runs.c.comparison == comparison, runs.c.status == RunStatus.OK)
    return select(runs.c.id, runs.c.slot).where(*is_ok, *conditions).order_by(runs.c.slot.desc())


def coverage_by_run(
    connection: Connection,
    run_ids: Sequence[int],
    *,
    segment: str | None = None,
) -> dict[int, Coverage]:
    """Return the coverage of each run that has one. ``segment`` None selects all segments."""
    by_run = items_by_run(connection, CoverageRow, run_ids, segment=segment)
    return {run_id: Coverage(rows=rows) for run_id, rows in by_run.items()}


def explanations_by_run(connection: Connection, run_ids: Sequence[int]) -> dict[int, Explanation]:
    """Return the explanations of these runs, if this version can read them."""
    query = select(explanations.c.run_id, explanations.c.details).where(
        explanations.c.run_id.in_(run_ids)
    )
    return {run_id: explanation for run_id, explanation in connection.execute(query) if explanation}


def _pack_lessons(expectations: Iterable[Expectation]) -> Mapping[str, object]:
    """Return the lessons of one run as values of ``about`` and ``numbers``, two columns of a row.

    The row is empty if no expectation names its series.
    """
    about = []
    numbers = []
    for alert, lesson in to_lessons(expectations).items():
        if lesson.series is not None:
            about.append([alert, lesson.series, lesson.segments])
            numbers.append(lesson.numbers)
    if not numbers:
        return {}
    import numpy as np

    # ``numbers`` have one row for each part of a lesson, and one column for each segment.
    joined = np.concatenate(numbers, axis=1)
    return {"about": json.dumps(about), "numbers": joined.astype(_DOUBLES).tobytes()}


def lessons_by_run(connection: Connection, run_ids: Sequence[int]) -> dict[int, dict[str, Lesson]]:
    """Return the lessons of each run, by run and alert.

    If the stored numbers of a run do not fit, the run gets no lessons. Its summaries are used
    instead.
    """
    query = select(lessons).where(lessons.c.run_id.in_(run_ids))
    return {
        row.run_id: _unpack_lessons(_parse_about(row.about), row.numbers)
        for row in connection.execute(query)
    }


def _unpack_lessons(about: _About, numbers: bytes) -> dict[str, Lesson]:
    """Return the lessons in these bytes by alert: the reverse of `_pack_lessons`.

    Returns no lessons if the number of bytes does not fit ``about``.
    """
    all_segments = sum(len(segments) for _, _, segments in about)
    if len(numbers) != LESSON_NUMBERS * all_segments * _DOUBLE_BYTES:
        return {}
    import numpy as np

    table = np.frombuffer(numbers, dtype=_DOUBLES).reshape(LESSON_NUMBERS, all_segments)
    by_alert = {}
    begin = 0
    for alert, series, segments in about:
        end = begin + len(segments)
        by_alert[alert] = Lesson(series=series, segments=segments, numbers=table[:, begin:end])
        begin = end
    return by_alert


@lru_cache(maxsize=64)
def _parse_about(about: str) -> _About:
    """Parse the text once for all runs of a comparison, whose texts are mostly equal."""
    parsed = []
    for alert, (metric, statistic, judged, min_users), segments in json.loads(about):
        judged_segments = judged if isinstance(judged, str) else tuple(judged)
        series = JudgedSeries(metric, statistic, judged_segments, min_users)
        parsed.append((alert, series, tuple(segments)))
    return tuple(parsed)
