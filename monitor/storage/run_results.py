"""Writes the results of a run as rows of tables, and reads them back as dataclasses.

A field of a dataclass has the name of its column. So a new value needs a field and a column only.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, select

from monitor.model.alerts import Expectation
from monitor.model.explanation import Explanation
from monitor.model.memory import PARTS, Lesson, to_lessons
from monitor.model.rankings import Coverage, CoverageRow
from monitor.model.runs import ArmScore, Evidence, RunResult, RunStatus, Summary
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

    _T = TypeVar("_T", bound=DataclassInstance)

_DOUBLES = "<f8"
_DOUBLE_BYTES = 8

_About = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Alert, series and segments of each lesson."""

RUN_TABLES: tuple[Table, ...] = tuple(
    table for table in reversed(metadata.sorted_tables) if "run_id" in table.c
)
"""Tables whose rows belong to a run, in an order in which foreign keys permit to delete."""


def replace_results(connection: Connection, result: RunResult) -> None:
    """Replace an earlier attempt's results by what the run measured, except its lists."""
    run_id = result.claim.run_id
    for table in RUN_TABLES:
        connection.execute(delete(table).where(of_run(connection, run_id, table)))
    items_by_table: dict[Table, Sequence[Any]] = {
        coverage: result.coverage.rows if result.coverage else (),
        summaries: result.summaries,
        arm_scores: result.arm_scores,
        expectations: result.expectations,
        evidence: result.evidence,
    }
    for table, items in items_by_table.items():
        put_items(connection, run_id, table, items)
    if result.explanation is not None:
        new = {"sentence": result.explanation.sentence, "details": result.explanation}
        connection.execute(explanations.insert().values(run_id=run_id, **new))
    taught = lesson_row(result.expectations)
    if taught:
        connection.execute(lessons.insert().values(run_id=run_id, **taught))
    if result.scores is not None:
        store_scores(connection, run_id, result.claim.slot, result.scores)


def put_items(
    connection: Connection,
    run_id: int,
    table: Table,
    items: Iterable["DataclassInstance"],
    *,
    first: int = 0,
) -> None:
    """Insert a row for each item of the run, in this order; the first has position ``first``."""
    rows = []
    for position, item in enumerate(items, start=first):
        row = to_row(item, table, run_id=run_id)
        if "position" in table.c:
            row.setdefault("position", position)
        rows.append(row)
    if rows:
        connection.execute(table.insert(), rows)


def newest_ok(comparison: str, *conditions: ColumnElement[bool]) -> Select[Any]:
    """Select id and slot of the comparison's ok runs that meet the conditions, newest first."""
    is_ok = (runs.c.comparison == comparison, runs.c.status == RunStatus.OK)
    return select(runs.c.id, runs.c.slot).where(*is_ok, *conditions).order_by(runs.c.slot.desc())


def arm_scores_of(
    connection: Connection, run_ids: Sequence[int]
) -> dict[int, tuple[ArmScore, ...]]:
    """Return arm-wide scores by run, in the order they were stored."""
    return _by_run(connection, ArmScore, select(arm_scores).order_by("position"), run_ids)


def expectations_of(
    connection: Connection,
    run_ids: Sequence[int],
    *,
    segment: str | None = None,
) -> dict[int, tuple[Expectation, ...]]:
    """Return expectations by run, in the order of alerts and segments.

    ``segment`` None selects all segments.
    """
    query = select(expectations).order_by("alert", "segment")
    if segment is not None:
        query = query.where(expectations.c.segment == segment)
    return _by_run(connection, Expectation, query, run_ids)


def coverage_of(
    connection: Connection,
    run_ids: Sequence[int],
    *,
    segment: str | None = None,
) -> dict[int, Coverage]:
    """Return the coverage of each run that has one. ``segment`` None selects all segments."""
    query = select(coverage).order_by("position")
    if segment is not None:
        query = query.where(coverage.c.segment == segment)
    by_run = _by_run(connection, CoverageRow, query, run_ids)
    return {run_id: Coverage(rows=rows) for run_id, rows in by_run.items()}


def summaries_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, tuple[Summary, ...]]:
    """Return summaries by run, in the order they were stored."""
    return _by_run(connection, Summary, select(summaries).order_by("position"), run_ids)


def evidence_of(connection: Connection, run_id: int) -> tuple[Evidence, ...]:
    """Return the run's evidence: worst users, then representative ones, each by position."""
    user = evidence.c.user.label("user")
    query = select(evidence, user).order_by(evidence.c.kind.desc(), "position")
    return _by_run(connection, Evidence, query, [run_id]).get(run_id, ())


def explanations_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Explanation]:
    """Return the explanation of each run that has one that this version can read."""
    query = select(explanations.c.run_id, explanations.c.details).where(
        explanations.c.run_id.in_(run_ids)
    )
    return {run_id: explanation for run_id, explanation in connection.execute(query) if explanation}


def _by_run(
    connection: Connection,
    kind: type["_T"],
    query: Select[Any],
    run_ids: Sequence[int],
) -> dict[int, tuple["_T", ...]]:
    """Return an item for each row of these runs, by run, in the order of the query."""
    by_run: dict[int, list[_T]] = defaultdict(list)
    for row in connection.execute(query.where(query.selected_columns.run_id.in_(run_ids))):
        by_run[row.run_id].append(from_row(kind, row))
    return {run_id: tuple(items) for run_id, items in by_run.items()}


def lesson_row(expectations: Iterable[Expectation]) -> Mapping[str, object]:
    """Return the lessons of one run as a row. It is empty if no expectation names its series."""
    by_alert = {
        alert: lesson for alert, lesson in to_lessons(expectations).items() if lesson.series
    }
    if not by_alert:
        return {}
    import numpy as np

    about = [[alert, lesson.series, lesson.segments] for alert, lesson in by_alert.items()]
    numbers = np.concatenate([lesson.numbers for lesson in by_alert.values()], axis=1)
    return {"about": json.dumps(about), "numbers": numbers.astype(_DOUBLES).tobytes()}


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
