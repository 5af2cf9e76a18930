"""What chance alone would give for lists like those that were compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from monitor.metrics import Metric, expected_by_chance

LONGEST_LISTS = 1000
"""Longest lists that chance is worked out for: beyond them a simulation would take longer than the comparison."""
TYPICAL_SHARE = 0.9


def typical_length(lengths: npt.NDArray[np.int64]) -> int | None:
    """The one length that nine lists in ten have; None when there is none, or it is 0 or above `LONGEST`."""
    if not len(lengths):
        return None
    length = int(np.median(lengths))
    share = float((lengths == length).mean())
    return length if share >= TYPICAL_SHARE and 1 <= length <= LONGEST_LISTS else None


def chance_scores(metrics: Sequence[Metric], length: int | None, catalogue: int) -> dict[str, float | None]:
    """Expected score by canonical metric name; None where there is no typical length, or the metric has no such value."""
    if length is None or length > catalogue:
        return {str(metric): None for metric in metrics}
    return {str(metric): _expected(metric, length, catalogue) for metric in metrics}


_expected = lru_cache(maxsize=256)(expected_by_chance)
