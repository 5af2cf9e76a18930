"""What chance alone would give: the score to expect of two lists that have nothing to do with each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from monitor.errors import MetricError
from monitor.metrics.metric import Metric

# Python's integers know no overflow, and beyond this size floats cannot distinguish catalogues.
_LARGEST = 2**53
TYPICAL_SHARE = 0.9


def expect_by_chance(metric: Metric, k: int, catalogue: int) -> float | None:
    """Mean score of two lists of k items, each drawn at random, in random order, from ``catalogue`` items; exact.

    Pairs for which the metric is undefined are left out of the mean. None for a metric that needs more than the lists, that is
    undefined for all pairs, or whose mean would take too long. MetricError unless both are whole numbers and
    1 <= k <= catalogue. A metric of a ``depth`` sees no more of the lists than that.
    """
    for name, value in (("k", k), ("catalogue", catalogue)):
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            msg = f"chance: {name} must be a whole number, not {value!r}"
            raise MetricError(msg)
    if not 1 <= k <= catalogue:
        msg = f"chance: k must lie between 1 and the size of the catalogue, {catalogue}, not {k}"
        raise MetricError(msg)
    if metric.need is not None:
        return None
    return metric.expected_by_chance(int(min(k, metric.depth or k)), int(min(catalogue, _LARGEST)))


def typical_length(lengths: npt.NDArray[np.int64]) -> int | None:
    """The one length above 0 that nine lists in ten have; None when there is none."""
    length = int(np.median(lengths)) if len(lengths) else 0
    return length if length and float((lengths == length).mean()) >= TYPICAL_SHARE else None


def chance_scores(metrics: Sequence[Metric], length: int | None, catalogue: int) -> dict[str, float | None]:
    """Expected score by canonical metric name; None where there is no typical length, or the metric has no such value."""
    known = length if length is not None and length <= catalogue else None
    return {str(metric): None if known is None else expect_by_chance(metric, known, catalogue) for metric in metrics}
