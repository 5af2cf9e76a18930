"""Metrics of the similarity of two ranked lists.

A metric has a name such as ``rbo(p=0.9)@10``. `parse` reads it, and ``str`` writes it.
"""

from collections.abc import Sequence

import numpy as np

from monitor.boundary.plugins import Registry
from monitor.measures.kernels.rbo.untied import (
    rbo_persistence as rbo_persistence,
    rbo_weight as rbo_weight,
)
from monitor.measures.metrics import footrule, kendall, rbo, relevance, sets
from monitor.measures.metrics.metric import Metric, Need as Need, read_metric_kind, read_name
from monitor.measures.metrics.scores import can_score as can_score, score_all as score_all
from monitor.model.arrays import Integers
from monitor.model.errors import MetricError
from monitor.model.rules import Direction
from monitor.model.statistics import DISTANCES, Statistic, parse_derived

DEFAULT_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
"""The metrics of a comparison whose configuration names none.

The first metric compares order and items together. The second one gives the top of the lists the
highest weight. The third one compares only which items are in the lists.
"""

TYPICAL_SHARE = 0.9


def _built_in() -> dict[str, type[Metric]]:
    kinds = {}
    for family in (footrule, kendall, rbo, relevance, sets):
        for kind in vars(family).values():
            if hasattr(kind, "kernel"):
                kinds[kind.name] = kind
    return dict(sorted(kinds.items()))


METRICS: Registry[type[Metric]] = Registry("metrics", _built_in(), read_metric_kind)
"""All built-in metrics by name. Installed packages can add metrics."""


def parse(text: str) -> Metric:
    """The metric with this name. ``rbo`` and ``rbo(p=0.90)`` both name ``rbo(p=0.9)``.

    Raises MetricError if there is no such metric. The message of the error suggests a name.
    """
    return read_name(text, METRICS)


def drift_direction(series: str, statistic: Statistic) -> Direction:
    """Return how the statistic of a metric or derived series changes as lists drift apart."""
    derived, name = parse_derived(series)
    grows = derived in DISTANCES or not parse(name).higher_is_more_alike
    if statistic.below is not None:
        # share_below(x) grows when scores become smaller.
        grows = not grows
    return Direction.ABOVE if grows else Direction.BELOW


def expected_by_chance(metric: str | Metric, k: int, catalogue: int) -> float | None:
    """The exact mean score of two random lists of k items.

    The items are drawn from a catalogue of ``catalogue`` items, and their order is random. Pairs
    with an undefined score are left out. The result is None if the metric needs more data
    than lists, if the score is undefined for all pairs, or if the computation would take too long.
    Raises MetricError unless k and catalogue are integers with 1 <= k <= catalogue.
    """
    if not isinstance(metric, Metric):
        metric = parse(metric)
    for name, value in (("k", k), ("catalogue", catalogue)):
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise MetricError(f"expected_by_chance: {name} is {value!r}: give a whole number")
    if not 1 <= k <= catalogue:
        raise MetricError(
            f"expected_by_chance: k is {k}: give a number from 1 to the catalogue size {catalogue}"
        )
    if metric.need is not None:
        return None
    # Python's integers do not overflow. Floats cannot distinguish catalogues above 2**53.
    return metric.expected_by_chance(int(min(k, metric.depth or k)), int(min(catalogue, 2**53)))


def typical_length(lengths: Integers) -> int | None:
    """The length that at least nine in ten lists have. None if no length above 0 is that common."""
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
    """The mean score of two random lists of this length, by canonical metric name.

    A score is None if ``length`` is None, or if it exceeds the catalogue. It is also None if
    `expected_by_chance` returns None for the metric.
    """
    if length is None or length > catalogue:
        return {str(metric): None for metric in metrics}
    return {str(metric): expected_by_chance(metric, length, catalogue) for metric in metrics}
