"""Metrics of the similarity of two ranked lists. Names parse and print: ``rbo(p=0.9)@10``."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from monitor.errors import MetricError
from monitor.kernels.rbo.untied import rbo_persistence, rbo_weight
from monitor.metrics import footrule, kendall, rbo, relevance, sets
from monitor.metrics.metric import Metric, Need, read_kind, read_name
from monitor.metrics.scores import can_score, score_all
from monitor.model.arrays import Integers
from monitor.plugins import Registry

DEFAULT_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
"""The metrics without configuration: order and items together, the top, and membership only."""

TYPICAL_SHARE = 0.9


def _built_in() -> dict[str, type[Metric]]:
    kinds = {}
    for family in (footrule, kendall, rbo, relevance, sets):
        for kind in vars(family).values():
            if hasattr(kind, "kernel"):
                kinds[kind.name] = kind
    return dict(sorted(kinds.items()))


METRICS: Registry[type[Metric]] = Registry("metrics", _built_in(), read_kind)
"""Every built-in metric by name. Installed packages add others."""


def parse(text: str) -> Metric:
    """Read a metric's name: ``rbo`` and ``rbo(p=0.90)`` are ``rbo(p=0.9)``.

    Raises MetricError, with a suggestion, for any other name.
    """
    return read_name(text, METRICS)


def expected_by_chance(metric: str | Metric, k: int, catalogue: int) -> float | None:
    """Exact mean score of two random lists of k items, drawn from ``catalogue`` items.

    The order of the lists is random too. The mean is over pairs with a defined score. It is None
    for a metric that needs more than lists, is undefined for all pairs, or would take too long.
    Raises MetricError unless k and catalogue are integers with 1 <= k <= catalogue.
    """
    if not isinstance(metric, Metric):
        metric = parse(metric)
    for name, value in (("k", k), ("catalogue", catalogue)):
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise MetricError(f"chance: {name} must be a whole number, not {value!r}")
    if not 1 <= k <= catalogue:
        raise MetricError(
            f"chance: k must be between 1 and the size of the catalogue, {catalogue}, not {k}"
        )
    if metric.need is not None:
        return None
    # Python's integers do not overflow. Beyond 2**53 floats cannot distinguish catalogues.
    return metric.expected_by_chance(int(min(k, metric.depth or k)), int(min(catalogue, 2**53)))


def typical_length(lengths: Integers) -> int | None:
    """The length above 0 of at least nine in ten lists. None if there is no such length."""
    if not len(lengths):
        return None
    length = int(np.median(lengths))
    if not length or (lengths == length).mean() < TYPICAL_SHARE:
        return None
    return length


def chance_scores(
    metrics: Sequence[Metric],
    length: int | None,
    catalogue: int,
) -> dict[str, float | None]:
    """Expected score by canonical metric name.

    None if there is no typical length, or the metric has no such value.
    """
    if length is None or length > catalogue:
        return {str(metric): None for metric in metrics}
    return {str(metric): expected_by_chance(metric, length, catalogue) for metric in metrics}
