"""Spearman's footrule: how far items move."""

import math

import numpy as np

from monitor.kernels import footrule
from monitor.kernels.sets import expect_over_shared
from monitor.metrics.metric import (
    Distance,
    Need,
    OrderDistance,
    PositionWeighted,
    WeightedOrderDistance,
)


class Footrule(OrderDistance):
    """How far the common items move among each other, summed up."""

    kernel = staticmethod(footrule.footrule)
    source = "Diaconis and Graham, Spearman's footrule as a measure of disarray (1977)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to half the square of k, rounded down."""
        # A histogram needs a range above 0, also for lists of one item.
        return 0.0, max(1.0, k * k // 2)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """(z² - 1) / 3 for z common items. None if there cannot be two common items."""
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, (z * z - 1) / 3, least=2)


class FootruleNormalized(OrderDistance):
    """How far the common items move among each other, as a share of the maximum."""

    kernel = staticmethod(footrule.footrule_normalized)
    high = 1.0
    source = "Diaconis and Graham, Spearman's footrule as a measure of disarray (1977)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """(z² - 1) / 3 / floor(z² / 2) for z common items. None if there cannot be two."""
        z = np.arange(k + 1.0)
        shares = (z * z - 1) / 3 / np.maximum(z * z // 2, 1)
        return expect_over_shared(k, catalogue, shares, least=2)


class TopkFootrule(Distance):
    """How far the items of either list move. Absent items have the rank after the list's end."""

    kernel = staticmethod(footrule.topk_footrule)
    disjoint = None
    one_empty = math.nan
    uneven = (
        "absent items have the rank after the list's end; a list that lacks only the last "
        "item has distance 0"
    )
    source = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l+1)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to the distance of two disjoint lists of k items."""
        return 0.0, k * (k + 1.0)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: an item of one list is at each rank of the other with probability 1 / N."""
        return k * (k * k - 1) / (3 * catalogue) + (1 - k / catalogue) * k * (k + 1)


class TopkFootruleNormalized(Distance):
    """`topk_footrule` divided by its value on disjoint lists of the same lengths."""

    kernel = staticmethod(footrule.topk_footrule_normalized)
    high = 1.0
    disjoint = 1.0
    one_empty = 1.0
    uneven = (
        "absent items have the rank after the list's end; a list that lacks only the last "
        "item has distance 0"
    )
    source = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l+1)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: an item of one list is at each rank of the other with probability 1 / N."""
        return (k - 1) / (3 * catalogue) + 1 - k / catalogue


class ElementWeightedFootrule(WeightedOrderDistance):
    """How much weight the common items move past, each weighted by its weight."""

    kernel = staticmethod(footrule.element_weighted_footrule)


class ElementWeightedFootruleNormalized(WeightedOrderDistance):
    """How much weight the common items move past, as a share of the maximum."""

    kernel = staticmethod(footrule.element_weighted_footrule_normalized)
    high = 1.0


class GeneralizedFootrule(PositionWeighted):
    """How far the common items move, weighted by the items and by their ranks."""

    kernel = staticmethod(footrule.generalized_footrule)
    need = Need.ITEM_WEIGHTS
