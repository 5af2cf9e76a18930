"""Kendall's tau and distances: metrics that compare the order of pairs of items."""

import math
from abc import ABC

import numpy as np

from monitor.measures.kernels.kendall import element_weighted, unweighted, weighted
from monitor.measures.kernels.sets import (
    common_by_chance,
    expect_extended_surplus,
    expect_over_shared,
    expect_topk_kendall,
)
from monitor.measures.metrics import metric
from monitor.model.errors import MetricError
from monitor.model.immutable import immutable

_MOST_SHARED = 2000
_NEGLIGIBLE = 1e-12


class KendallTau(metric.OrderCorrelation):
    """Order of the common items only: Kendall's tau-b."""

    kernel = staticmethod(unweighted.kendall_tau)
    ties = (
        "neighbours with equal scores are tied, as in tau-b; NaN if a list ties all common items; "
        "without scores nothing is tied"
    )
    source = "Kendall (1938, 1945)"


class KendallDistance(metric.OrderDistance):
    """Number of pairs of common items that the lists order in opposite ways."""

    kernel = staticmethod(unweighted.kendall_distance)
    source = "Kendall, A new measure of rank correlation (1938)"

    def bounds(self, k: int) -> tuple[float, float]:
        """Ranges from 0 to the number of pairs of k items."""
        # A histogram needs a range of some width, even for lists of one item.
        return 0.0, max(1.0, k * (k - 1) / 2)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Half of the mean number of pairs of common items. None if there cannot be a pair."""
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, z * (z - 1) / 4, least=2)


class KendallDistanceNormalized(metric.OrderDistance):
    """Share of the pairs of common items that the lists order in opposite ways."""

    kernel = staticmethod(unweighted.kendall_distance_normalized)
    high = 1.0
    source = "Kendall, A new measure of rank correlation (1938)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:  # noqa: ARG002 - as base
        """One half, because the order is random. None if two common items are impossible."""
        return 0.5 if k > 1 else None


@immutable
class TopkPairs(metric.Distance, ABC):
    """A distance over all pairs of items that either list has."""

    # The cost, in [0, 1], of a pair of items that one list has and the other list lacks. 0 is
    # optimistic, and 0.5 is neutral.
    penalty: float = 0.0

    uneven = "the definition covers unequal lengths too; a prefix has distance 0 if penalty is 0"
    source = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), K^(p)"

    def __post_init__(self) -> None:
        """Raise MetricError unless 0 <= penalty <= 1."""
        metric.Distance.__post_init__(self)
        if not 0 <= self.penalty <= 1:
            raise MetricError(
                f"{self.name}(penalty={self.penalty!r}): penalty must be between 0 and 1, "
                f"such as {self.name}(penalty=0.5)"
            )


class TopkKendall(TopkPairs):
    """Number of pairs of items of either list that the lists order in opposite ways."""

    kernel = staticmethod(unweighted.topk_kendall)
    disjoint = None
    one_empty = math.nan

    def bounds(self, k: int) -> tuple[float, float]:
        """Ranges from 0 to the distance of two disjoint lists of k items."""
        return 0.0, k * k + self.penalty * k * (k - 1)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """The exact mean, because the distance is a sum over pairs of items."""
        return expect_topk_kendall(k, catalogue, self.penalty)


class TopkKendallNormalized(TopkPairs):
    """`topk_kendall` divided by its value for disjoint lists of the same lengths."""

    kernel = staticmethod(unweighted.topk_kendall_normalized)
    high = 1.0
    disjoint = 1.0
    one_empty = 1.0

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """The exact mean, because the distance is a sum over pairs of items."""
        return expect_topk_kendall(k, catalogue, self.penalty) / (
            k * k + self.penalty * k * (k - 1)
        )


class WeightedTau(metric.OrderCorrelation):
    """Order of the common items only, with hyperbolic weights: the top has the highest weight."""

    kernel = staticmethod(weighted.weighted_tau)
    ties = (
        "neighbours with equal scores are tied, as Vigna defines it; NaN if a list ties all common "
        "items; without scores nothing is tied"
    )
    source = (
        "Vigna, A weighted correlation index for rankings with ties (2015); scipy.stats.weightedtau"
    )


class TauAp(metric.OrderCorrelation):
    """Order of the common items only. Errors at the top of the candidate's list cost most."""

    kernel = staticmethod(weighted.tau_ap)
    is_symmetric = False
    source = (
        "Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information "
        "retrieval (2008)"
    )


class TauApSymmetric(metric.OrderCorrelation):
    """Mean of two values of `tau_ap`: each list is the truth once."""

    kernel = staticmethod(weighted.tau_ap_symmetric)
    source = TauAp.source


class PositionWeightedKendallDistance(metric.PositionWeighted):
    """Sum over pairs of common items in opposite order. Moves at the top cost most."""

    kernel = staticmethod(element_weighted.position_weighted_kendall_distance)

    bounds = KendallDistance.bounds  # because a step costs at most 1

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """The exact mean. None if there may well be more than `_MOST_SHARED` common items."""
        most = min(k, _MOST_SHARED)
        if common_by_chance(k, catalogue)[most + 1 :].sum() > _NEGLIGIBLE:
            return None  # the time grows with the square of ``most``
        values = np.zeros(k + 1)
        values[: most + 1] = element_weighted.expect_position_weighted(most, self.discount)
        return expect_over_shared(k, catalogue, values, least=2)


class ElementWeightedKendallDistance(metric.WeightedOrderDistance):
    """Sum of the products of both items' weights over pairs of common items in opposite order."""

    kernel = staticmethod(element_weighted.element_weighted_kendall_distance)


class ElementWeightedKendallDistanceNormalized(metric.WeightedOrderDistance):
    """Weight of the pairs of common items in opposite order, divided by the weight of all pairs."""

    kernel = staticmethod(element_weighted.element_weighted_kendall_distance_normalized)
    high = 1.0


class GeneralizedKendallDistance(metric.PositionWeighted):
    """Sum over pairs of common items in opposite order, with weights of items and ranks."""

    kernel = staticmethod(element_weighted.generalized_kendall_distance)
    need = metric.Need.ITEM_WEIGHTS


class ExtendedTau(metric.Correlation):
    """Order and membership together. All ranks have the same weight."""

    kernel = staticmethod(unweighted.extended_tau)
    disjoint = -1.0
    one_empty = -1.0
    uneven = "a list that is only the start of the other list scores below 1"
    source = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016), scaled"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """The exact mean, because the score is linear in the surplus of concordant pairs."""
        norm = k * (3 * k - 1) / 2
        return (2 * expect_extended_surplus(k, catalogue) + k * k - norm) / (norm + k * k)


class ExtendedTauUnscaled(metric.Correlation):
    """Extended tau as it was published. Its minimum depends on the lengths of the lists."""

    kernel = staticmethod(unweighted.extended_tau_unscaled)
    disjoint = None
    one_empty = math.nan
    uneven = "a list that is only the start of the other list scores below 1"
    source = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """The exact mean, because the score is linear in the surplus of concordant pairs."""
        return expect_extended_surplus(k, catalogue) / (k * (3 * k - 1) / 2)


class AppendedTau(metric.Correlation):
    """Tau-b after missing items are appended to each list. Appended items are tied."""

    kernel = staticmethod(unweighted.appended_tau)
    disjoint = None
    one_empty = math.nan
    uneven = (
        "two lists score 1 if one of them lacks only the last item of the other; NaN for identical "
        "lists of one item"
    )
    source = (
        "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016), Appending "
        "mismatches"
    )

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """The exact mean.

        All pairs cancel out, except the pairs of an item that only the baseline has and an item
        that only the candidate has. There are (k - z)² such pairs for z common items.
        """
        if k == 1:
            return -1.0 if catalogue > 1 else None
        z = np.arange(k + 1.0)
        universe = 2 * k - z
        norm = (universe * (universe - 1) - (k - z) * (k - z - 1)) / 2
        return expect_over_shared(k, catalogue, -((k - z) ** 2) / norm)


class ElementWeightedTau(metric.Correlation):
    """Order and membership together. An item with weight 3 counts as much as three items."""

    kernel = staticmethod(element_weighted.element_weighted_tau)
    disjoint = -1.0
    one_empty = -1.0
    uneven = "a list that is only the start of the other list scores below 1"
    need = metric.Need.ITEM_WEIGHTS
    source = (
        "Kumar and Vassilvitskii, Generalized distances between rankings (2010); van der Geer "
        "(2016)"
    )
