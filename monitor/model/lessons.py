"""Lesson: what one rule saw of its series in one run, packed as later runs learn from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.model.alerts import Expectation

PARTS = 5
"""Numbers of each segment."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lesson:
    """One rule's series in one run.

    ``series``: what was measured, `Rule.series` of that time. ``numbers`` (PARTS, segments) float64, NaN for none: value and
    sampling error on the scale that is judged, how far out the value lay (z), the share of users without a score, and what it
    added to evidence over runs.
    Of an arm that may be frozen: changes of the other arm since its own last one, the most there ever were, and how often it
    changed itself.
    """

    series: str
    segments: tuple[str, ...]
    numbers: npt.NDArray[np.float64]


def to_lessons(expectations: Iterable[Expectation]) -> dict[str, Lesson]:
    """Lessons by alert, each over the segments in the order of the expectations."""
    by_alert: dict[str, list[Expectation]] = defaultdict(list)
    for each in expectations:
        by_alert[each.alert].append(each)
    return {alert: _lesson(found) for alert, found in by_alert.items()}


def _lesson(found: list[Expectation]) -> Lesson:
    numbers = np.array([_numbers(each) for each in found], dtype=np.float64)  # None becomes NaN
    return Lesson(series=found[0].series, segments=tuple(each.segment for each in found), numbers=numbers.T)


def _numbers(each: Expectation) -> tuple[float | None, ...]:
    return each.judged, each.error, each.z, each.lost, each.steady
