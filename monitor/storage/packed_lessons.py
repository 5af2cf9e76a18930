"""Lessons of a run packed into one row: their names as JSON, their numbers as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

from sqlalchemy import Connection, select

from monitor.model import PARTS, Expectation, Lesson, to_lessons
from monitor.storage.tables import lessons

_DOUBLES, _DOUBLE_BYTES = "<f8", 8

_About = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Alert, series and segments of each lesson."""


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
    """Lessons of the runs by alert. A run whose numbers do not fit has none: its summaries are used instead."""
    query = select(lessons.c.run_id, lessons.c.about, lessons.c.numbers).where(lessons.c.run_id.in_(run_ids))
    return {run_id: _unpack(_parse_about(about), numbers) for run_id, about, numbers in connection.execute(query)}


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
