"""Lessons of a run as rows, and back as arrays."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

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
            "about": json.dumps([alert, lesson.series, *lesson.segments]),
            "numbers": lesson.numbers.astype(_DOUBLES).tobytes(),
        }
        for alert, lesson in to_lessons(expectations).items()
        if lesson.series
    ]


def lessons_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, dict[str, Lesson]]:
    """Lessons of the runs by alert. One whose numbers do not fit its segments is left out: the summaries still speak."""
    found: dict[int, dict[str, Lesson]] = defaultdict(dict)
    query = select(lessons.c.run_id, lessons.c.about, lessons.c.numbers).where(lessons.c.run_id.in_(run_ids))
    for run_id, about, numbers in connection.execute(query):
        alert, series, segments = _read(about)
        if len(numbers) == _PARTS * len(segments) * _DOUBLES.itemsize:
            table = np.frombuffer(numbers, dtype=_DOUBLES).reshape(_PARTS, len(segments))
            found[run_id][alert] = Lesson(series=series, segments=segments, numbers=table)
    return found


@lru_cache(maxsize=1024)
def _read(about: str) -> tuple[str, str, tuple[str, ...]]:
    """Alert, series and segments; runs mostly have the same."""
    alert, series, *segments = json.loads(about)
    return alert, series, tuple(segments)
