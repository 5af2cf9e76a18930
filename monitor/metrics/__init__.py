"""Measures of how alike two ranked lists are, each a `Metric` whose name parses and prints: ``rbo(p=0.9)@10``."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from monitor.errors import MetricError
from monitor.kernels.rbo.untied import rbo_persistence, rbo_weight
from monitor.metrics import footrule, kendall, rbo, relevance, sets
from monitor.metrics.metric import Metric, Need, read_kind, read_name
from monitor.metrics.scores import can_score, score_all
from monitor.plugins import Registry

DEFAULT_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
"""What is measured where nothing is named: order and items together, the top, and membership alone."""

TYPICAL_SHARE = 0.9

_WRITTEN = [
    each for family in (footrule, kendall, rbo, relevance, sets) for each in vars(family).values()
]
METRICS: Registry[type[Metric]] = Registry(
    "metrics",
    dict(sorted((each.name, each) for each in _WRITTEN if hasattr(each, "kernel"))),
    read_kind,
)
"""Every measure that is written, by its name; installed packages bring others."""


def parse(text: str) -> Metric:
    """Read a metric's name: ``rbo`` is ``rbo(p=0.9)``, as is ``rbo(p=0.90)``.

    MetricError, with a suggestion, for any other.
    """
    return read_name(text, METRICS)


def expected_by_chance(metric: str | Metric, k: int, catalogue: int) -> float | None:
    """Mean score of two lists of k items, each drawn at random, in random order, from ``catalogue`` items; exact.

    Over pairs for which the metric is defined. None for a metric that needs more than lists, is undefined for all pairs, or
    would take too long. MetricError unless 1 <= k <= catalogue, whole numbers.
    """
    measured = metric if isinstance(metric, Metric) else parse(metric)
    for name, value in (("k", k), ("catalogue", catalogue)):
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise MetricError(f"chance: {name} must be a whole number, not {value!r}")
    if not 1 <= k <= catalogue:
        raise MetricError(
            f"chance: k must lie between 1 and the size of the catalogue, {catalogue}, not {k}"
        )
    if measured.need is not None:
        return None
    # Python's integers know no overflow, and beyond this size floats cannot distinguish catalogues.
    return measured.expected_by_chance(int(min(k, measured.depth or k)), int(min(catalogue, 2**53)))


def typical_length(lengths: npt.NDArray[np.int64]) -> int | None:
    """The one length above 0 that nine lists in ten have; None when there is none."""
    length = int(np.median(lengths)) if len(lengths) else 0
    return length if length and float((lengths == length).mean()) >= TYPICAL_SHARE else None


def chance_scores(
    metrics: Sequence[Metric], length: int | None, catalogue: int
) -> dict[str, float | None]:
    """Expected score by canonical metric name.

    None where there is no typical length, or the metric has no such value.
    """
    known = length if length is not None and length <= catalogue else None
    return {
        str(metric): None if known is None else expected_by_chance(metric, known, catalogue)
        for metric in metrics
    }
