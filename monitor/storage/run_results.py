"""Writes the results of a run as rows of tables, and reads them back as dataclasses.

Each field of a dataclass has the same name as its column. So a new value only needs a new field and
a new column.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import (
    JSON,
    Connection,
    Select,
    Table,
    and_,
    delete,
    select,
    type_coerce,
)

from monitor.model.alerts import Expectation
from monitor.model.explanation import Explanation
from monitor.model.memory import LESSON_NUMBERS, Lessons, LessonTopic, to_lessons
from monitor.model.rankings import ALL, Coverage, CoverageRow
from monitor.model.rules import JudgedSeries
from monitor.model.runs import ArmScore, Evidence, Run, RunResult, Summary
from monitor.storage.partitions import of_run
from monitor.storage.rows import RUN_IDS, from_rows, to_row
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

_TABLES_AND_ORDERS: Mapping[type, tuple[Table, Sequence[Any]]] = {
    CoverageRow: (coverage, (coverage.c.position,)),
    Summary: (summaries, (summaries.c.position,)),
    ArmScore: (arm_scores, (arm_scores.c.position,)),
    Expectation: (expectations, (expectations.c.alert, expectations.c.segment)),
    # Worst users come before representative ones.
    Evidence: (evidence, (evidence.c.kind.desc(), evidence.c.position)),
}
"""The table of each dataclass of results, and the columns by which its rows are ordered."""

_NOT_STORED: Mapping[type, frozenset[str]] = {
    Expectation: frozenset(
        {"fault_z", "series", "judged", "error", "lost", "trend_z", "usual_lost", "note"}
    )
}
"""Fields without a column. Those of an expectation are packed into lessons, or serve one run."""

# Each run executes these statements, and building a statement takes longer than executing it.
_LESSONS = select(lessons).where(lessons.c.run_id.in_(RUN_IDS))
_EXPLANATIONS = select(explanations.c.run_id, explanations.c.details).where(
    explanations.c.run_id.in_(RUN_IDS)
)
_EXPLANATIONS_WITH_FINDING = _EXPLANATIONS.where(
    # An explanation is large, so the database selects those with a finding.
    type_coerce(explanations.c.details, JSON)["finding"].as_string().is_not(None)
)


def delete_results(connection: Connection, run_id: int) -> None:
    """Delete the results of an earlier attempt of this run, with its lists and scores."""
    for table in RUN_TABLES:
        connection.execute(delete(table).where(of_run(connection, run_id, table)))


def store_results(connection: Connection, result: RunResult) -> None:
    """Store the results of a run that has no stored results.

    The caller stores lists. The expectations are stored twice: as rows for people, and packed as
    lessons, the numbers that later runs learn from.
    """
    run_id = result.claim.run_id
    if result.coverage is not None:
        insert_results(connection, run_id, CoverageRow, result.coverage.rows)
    insert_results(connection, run_id, Summary, result.summaries)
    insert_results(connection, run_id, ArmScore, result.arm_scores)
    insert_results(connection, run_id, Expectation, result.expectations)
    insert_results(connection, run_id, Evidence, result.evidence)
    explanation = result.explanation
    if explanation is not None:
        row = {"run_id": run_id, "sentence": explanation.sentence, "details": explanation}
        connection.execute(explanations.insert(), row)
    packed_lessons = _pack_lessons(result.expectations)
    if packed_lessons:
        connection.execute(lessons.insert(), {"run_id": run_id, **packed_lessons})
    if result.scores is not None:
        store_scores(connection, run_id, result.claim.slot, result.scores)


def insert_results(
    connection: Connection,
    run_id: int,
    kind: type[_T],
    results: Iterable[_T],
    *,
    first_position: int = 0,
) -> None:
    """Insert a row for each of the run's results, which are objects of the dataclass ``kind``.

    Positions are numbered from ``first_position``.
    """
    table, _ = _TABLES_AND_ORDERS[kind]
    not_stored = _NOT_STORED.get(kind, frozenset())
    rows = []
    for position, result in enumerate(results, start=first_position):
        row = to_row(result, table, without=not_stored, run_id=run_id)
        if "position" in table.c:
            # `Evidence` has a field ``position``. Its value stays.
            row.setdefault("position", position)
        rows.append(row)
    if rows:
        connection.execute(table.insert(), rows)


def results_by_run(
    connection: Connection,
    kind: type[_T],
    run_ids: Sequence[int],
    *,
    segment: str | None = None,
) -> dict[int, tuple[_T, ...]]:
    """Return the results of each run that are objects of the dataclass ``kind``, by the run's id.

    ``segment`` None selects all segments.
    """
    if not run_ids:
        return {}
    query = _select_results(kind)
    if segment is not None:
        table, _ = _TABLES_AND_ORDERS[kind]
        query = query.where(table.c.segment == segment)
    rows = connection.execute(query, {"ids": run_ids}).all()
    by_run: dict[int, list[_T]] = defaultdict(list)
    for row, result in zip(rows, from_rows(kind, rows), strict=True):
        by_run[row.run_id].append(result)
    return {run_id: tuple(results) for run_id, results in by_run.items()}


@cache
def _select_results(kind: type[_T]) -> Select[Any]:
    """Select the rows of the dataclass ``kind`` of the runs with ids in the parameter ``ids``."""
    table, order = _TABLES_AND_ORDERS[kind]
    # A column's key is the name of the field. The database may have another name for the column.
    columns = [column.label(key) for key, column in table.c.items()]
    return select(*columns).where(table.c.run_id.in_(RUN_IDS)).order_by(*order)


def coverage_by_run(
    connection: Connection,
    run_ids: Sequence[int],
    *,
    segment: str | None = None,
) -> dict[int, Coverage]:
    """Return the coverage of each run that has one. ``segment`` None selects all segments."""
    by_run = results_by_run(connection, CoverageRow, run_ids, segment=segment)
    return {run_id: Coverage(rows=rows) for run_id, rows in by_run.items()}


def explanations_by_run(
    connection: Connection, run_ids: Sequence[int], *, with_finding: bool = False
) -> dict[int, Explanation]:
    """Return the explanation of each run. Explanations that cannot be read are left out.

    With ``with_finding``, explanations without a finding are left out too.
    """
    query = _EXPLANATIONS_WITH_FINDING if with_finding else _EXPLANATIONS
    rows = connection.execute(query, {"ids": run_ids})
    return {run_id: explanation for run_id, explanation in rows if explanation}


def _pack_lessons(expectations: Iterable[Expectation]) -> Mapping[str, object]:
    """Return the lessons of one run as values of the columns ``about`` and ``numbers``.

    An expectation without a series is left out, because later runs could not match it with a rule.
    Returns no values if there are no other expectations.
    """
    run_lessons = to_lessons(
        expectation for expectation in expectations if expectation.series is not None
    )
    if run_lessons is None:
        return {}
    return {
        "about": json.dumps(run_lessons.topics),
        "numbers": run_lessons.numbers.astype(_DOUBLES).tobytes(),
    }


def lessons_by_run(connection: Connection, run_ids: Sequence[int]) -> dict[int, Lessons | None]:
    """Return the lessons of each run that has lessons.

    The lessons are None if the stored numbers do not fit the topics. The caller then reads the
    run's summaries.
    """
    return {
        row.run_id: _unpack_lessons(_parse_topics(row.about), row.numbers)
        for row in connection.execute(_LESSONS, {"ids": run_ids})
    }


def _unpack_lessons(topics: tuple[LessonTopic, ...], numbers: bytes) -> Lessons | None:
    """Return the lessons that `_pack_lessons` wrote as ``numbers``.

    There are `LESSON_NUMBERS` numbers for each segment of each topic. Returns None if the number of
    bytes does not fit.
    """
    columns = sum(len(topic.segments) for topic in topics)
    if len(numbers) != LESSON_NUMBERS * columns * _DOUBLE_BYTES:
        return None
    import numpy as np

    table = np.frombuffer(numbers, dtype=_DOUBLES).reshape(LESSON_NUMBERS, columns)
    return Lessons(topics=topics, numbers=table)


@lru_cache(maxsize=64)
def _parse_topics(about: str) -> tuple[LessonTopic, ...]:
    """Parse the column ``about``: the alert, series and measured segments of each lesson.

    The cache helps because most runs have the same text.
    """
    topics = []
    for alert, series, measured_segments in json.loads(about):
        metric, statistic, segments_of_rule, min_users = series
        # A rule judges the segments that it names, or those that a word such as ``each`` selects.
        if not isinstance(segments_of_rule, str):
            segments_of_rule = tuple(segments_of_rule)
        judged_series = JudgedSeries(metric, statistic, segments_of_rule, min_users)
        topics.append(LessonTopic(alert, judged_series, tuple(measured_segments)))
    return tuple(topics)
