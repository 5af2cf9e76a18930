"""Kendall's tau and distances: order by pairs of items, every pair alike or weighted, and extended tau with membership."""

import math
from abc import ABC
from dataclasses import dataclass

import numpy as np

from monitor.errors import MetricError
from monitor.kernels.kendall import element_weighted, unweighted, weighted
from monitor.kernels.sets import (
    common_by_chance,
    expect_extended_surplus,
    expect_over_shared,
    expect_topk_kendall,
)
from monitor.metrics import metric

_MOST_SHARED = 2000
_NEGLIGIBLE = 1e-12


class KendallTau(metric.OrderCorrelation):
    """Order alone, of the items that both lists hold: Kendall's tau-b."""

    kernel = staticmethod(unweighted.kendall_tau)
    ties = (
        "items of equal neighbouring scores are tied, as tau-b does; NaN where all of a "
        "list's are; none without scores"
    )
    source = "Kendall (1938, 1945)"


class KendallDistance(metric.OrderDistance):
    """Pairs of common items that the lists order in opposite ways."""

    kernel = staticmethod(unweighted.kendall_distance)
    source = "Kendall, A new measure of rank correlation (1938)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to all pairs of k items."""
        return 0.0, max(
            1.0, k * (k - 1) / 2
        )  # a histogram needs some width, for lists of one item too

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Half of the pairs of items in common, where there are two; None where there cannot be."""
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, z * (z - 1) / 4, least=2)


class KendallDistanceNormalized(metric.OrderDistance):
    """Share of the pairs of common items that the lists order in opposite ways."""

    kernel = staticmethod(unweighted.kendall_distance_normalized)
    high = 1.0
    source = "Kendall, A new measure of rank correlation (1938)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:  # noqa: ARG002 - the base's signature
        """One half: the order of the items in common is random. None where there cannot be two."""
        return 0.5 if k > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopkPairs(metric.Distance, ABC):
    """A distance over the pairs of items of either list."""

    # P in [0, 1], for two items of one list, neither in the other; 0 optimistic, 0.5 neutral
    penalty: float = 0.0

    uneven = "exact, by the four cases; at penalty 0 a prefix has distance 0"
    source = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), K^(p)"

    def __post_init__(self) -> None:
        """MetricError unless 0 <= penalty <= 1."""
        metric.Distance.__post_init__(self)
        if not 0 <= self.penalty <= 1:
            msg = (
                f"{self.name}(penalty={self.penalty!r}): penalty must lie between 0 and 1, "
                f"such as {self.name}(penalty=0.5)"
            )
            raise MetricError(msg)


class TopkKendall(TopkPairs):
    """Pairs of items of either list that the lists order in opposite ways."""

    kernel = staticmethod(unweighted.topk_kendall)
    disjoint = None
    one_empty = math.nan

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to the distance of two disjoint lists of k items."""
        return 0.0, k * k + self.penalty * k * (k - 1)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the distance is a sum over pairs of items."""
        return expect_topk_kendall(k, catalogue, self.penalty)


class TopkKendallNormalized(TopkPairs):
    """`topk_kendall` divided by its value on disjoint lists of the same lengths, at the same ``penalty``."""

    kernel = staticmethod(unweighted.topk_kendall_normalized)
    high = 1.0
    disjoint = 1.0
    one_empty = 1.0

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the distance is a sum over pairs of items."""
        return expect_topk_kendall(k, catalogue, self.penalty) / (
            k * k + self.penalty * k * (k - 1)
        )


class WeightedTau(metric.OrderCorrelation):
    """Order alone, of the items that both lists hold, the top weighing most: hyperbolic weights."""

    kernel = staticmethod(weighted.weighted_tau)
    ties = (
        "items of equal neighbouring scores are tied, as Vigna does; NaN where all of a "
        "list's are; none without scores"
    )
    source = (
        "Vigna, A weighted correlation index for rankings with ties (2015); scipy.stats.weightedtau"
    )


class TauAp(metric.OrderCorrelation):
    """Order alone, the baseline taken as the truth, errors at the candidate's top costing most."""

    kernel = staticmethod(weighted.tau_ap)
    is_symmetric = False
    source = (
        "Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information "
        "retrieval (2008)"
    )


class TauApSymmetric(metric.OrderCorrelation):
    """Mean of `tau_ap` with either list as the truth."""

    kernel = staticmethod(weighted.tau_ap_symmetric)
    source = (
        "Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information "
        "retrieval (2008)"
    )


class PositionWeightedKendallDistance(metric.PositionWeighted):
    """Pairs of common items in opposite order, those that move at the top counting most."""

    kernel = staticmethod(element_weighted.position_weighted_kendall_distance)

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to all pairs of k items: no step costs more than the first, 1."""
        return 0.0, max(1.0, k * (k - 1) / 2)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact where lists share no more than `_MOST_SHARED` items or so; None where they do."""
        most = min(k, _MOST_SHARED)
        if common_by_chance(k, catalogue)[most + 1 :].sum() > _NEGLIGIBLE:
            return None  # the sum costs the square of the items shared
        values = np.zeros(k + 1)
        values[: most + 1] = element_weighted.expect_position_weighted(most, self.discount)
        return expect_over_shared(k, catalogue, values, least=2)


class ElementWeightedKendallDistance(metric.WeightedOrderDistance):
    """Pairs of common items in opposite order, each counting the product of the items' weights."""

    kernel = staticmethod(element_weighted.element_weighted_kendall_distance)


class ElementWeightedKendallDistanceNormalized(metric.WeightedOrderDistance):
    """Share of the weight of pairs of common items that stands in opposite order."""

    kernel = staticmethod(element_weighted.element_weighted_kendall_distance_normalized)
    high = 1.0


class GeneralizedKendallDistance(metric.PositionWeighted):
    """Pairs of common items in opposite order, weighted by the items and by how near the top they move."""

    kernel = staticmethod(element_weighted.generalized_kendall_distance)
    need = metric.Need.ITEM_WEIGHTS


class ExtendedTau(metric.Correlation):
    """Order and membership together, every rank alike."""

    kernel = staticmethod(unweighted.extended_tau)
    disjoint = -1.0
    one_empty = -1.0
    uneven = (
        "exact: a universe of as many items as both lists have places; a proper prefix "
        "scores under 1"
    )
    source = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016), scaled"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the surplus of concordant pairs is linear."""
        norm = k * (3 * k - 1) / 2
        return (2 * expect_extended_surplus(k, catalogue) + k * k - norm) / (norm + k * k)


class ExtendedTauUnscaled(metric.Correlation):
    """Extended tau as published, its lowest value depending on the lengths."""

    kernel = staticmethod(unweighted.extended_tau_unscaled)
    disjoint = None
    one_empty = math.nan
    uneven = (
        "exact: a universe of as many items as both lists have places; a proper prefix "
        "scores under 1"
    )
    source = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the surplus of concordant pairs is linear."""
        return expect_extended_surplus(k, catalogue) / (k * (3 * k - 1) / 2)


class AppendedTau(metric.Correlation):
    """Tau-b over the items of both lists, each list's mismatches tied behind the other's end."""

    kernel = staticmethod(unweighted.appended_tau)
    disjoint = None
    one_empty = math.nan
    uneven = (
        "exact, but a list that lacks only the last item of the other scores 1; NaN for "
        "identical lists of one item"
    )
    source = (
        "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016), "
        "Appending mismatches"
    )

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: with z items in common only the (k - z)² pairs of one item here and the other there are out of balance."""
        if k == 1:
            return -1.0 if catalogue > 1 else None
        z = np.arange(k + 1.0)
        universe = 2 * k - z
        norm = (universe * (universe - 1) - (k - z) * (k - z - 1)) / 2
        return expect_over_shared(k, catalogue, -((k - z) ** 2) / norm)


class ElementWeightedTau(metric.Correlation):
    """Order and membership together, an item of weight w counting as w items."""

    kernel = staticmethod(element_weighted.element_weighted_tau)
    disjoint = -1.0
    one_empty = -1.0
    uneven = (
        "exact: a universe of as much weight as both lists have; a proper prefix scores under 1"
    )
    need = metric.Need.ITEM_WEIGHTS
    source = (
        "Kumar and Vassilvitskii, Generalized distances between rankings (2010); van der "
        "Geer (2016)"
    )
