"""Lessons of a run as rows, and back as arrays."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from monitor.model import Expectation, Lesson, to_lessons
from monitor.storage.tables import lessons

_DOUBLES = np.dtype("<f8")
_PARTS = 3


def rows_of(expectations: Iterable[Expectation]) -> list[dict[str, object]]:
    """One row an alert; none for expectations that do not tell what they are about."""
    return [
        {
            "alert": alert,
            "series": lesson.series,
            "segments": json.dumps(lesson.segments),
            "numbers": lesson.numbers.astype(_DOUBLES).tobytes(),
        }
        for alert, lesson in to_lessons(expectations).items()
        if lesson.series
    ]


def lessons_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, dict[str, Lesson]]:
    """Lessons of the runs by alert. One whose numbers do not fit its segments is left out: the summaries still speak."""
    found: dict[int, dict[str, Lesson]] = defaultdict(dict)
    for row in connection.execute(select(lessons).where(lessons.c.run_id.in_(run_ids))):
        if (lesson := _lesson(row)) is not None:
            found[row.run_id][row.alert] = lesson
    return found


def _lesson(row: Any) -> Lesson | None:  # noqa: ANN401 - a row of lessons
    segments = _segments(row.segments)
    if len(row.numbers) != _PARTS * len(segments) * _DOUBLES.itemsize:
        return None
    numbers = np.frombuffer(row.numbers, dtype=_DOUBLES).reshape(_PARTS, len(segments))
    return Lesson(series=row.series, segments=segments, numbers=numbers)


@lru_cache(maxsize=256)
def _segments(text: str) -> tuple[str, ...]:
    """Runs mostly have the same segments."""
    return tuple(json.loads(text))
