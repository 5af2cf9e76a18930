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
    """How far the items in common move among each other, summed up."""

    kernel = staticmethod(footrule.footrule)
    source = "Diaconis and Graham, Spearman's footrule as a measure of disarray (1977)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to half the square of k, rounded down."""
        return 0.0, max(1.0, k * k // 2)  # a histogram needs some width, for lists of one item too

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """(z² - 1) / 3 for z items in common, where there are two; None where there cannot be."""
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, (z * z - 1) / 3, least=2)


class FootruleNormalized(OrderDistance):
    """How far the items in common move among each other, as a share of the most they could."""

    kernel = staticmethod(footrule.footrule_normalized)
    high = 1.0
    source = "Diaconis and Graham, Spearman's footrule as a measure of disarray (1977)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """(z² - 1) / 3 by floor(z² / 2) for z items in common, where there are two.

        None where there cannot be.
        """
        z = np.arange(k + 1.0)
        return expect_over_shared(
            k, catalogue, (z * z - 1) / 3 / np.maximum(z * z // 2, 1), least=2
        )


class TopkFootrule(Distance):
    """How far the items of either list move, absent ones ranked right behind the list."""

    kernel = staticmethod(footrule.topk_footrule)
    disjoint = None
    one_empty = math.nan
    uneven = (
        "each list's own length gives the rank of its absent items; a list that lacks only "
        "the last item has distance 0"
    )
    source = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l+1)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to the distance of two disjoint lists of k items."""
        return 0.0, k * (k + 1.0)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: an item of one list stands at each of the other's ranks with chance 1 / N."""
        return k * (k * k - 1) / (3 * catalogue) + (1 - k / catalogue) * k * (k + 1)


class TopkFootruleNormalized(Distance):
    """`topk_footrule` divided by its value on disjoint lists of the same lengths."""

    kernel = staticmethod(footrule.topk_footrule_normalized)
    high = 1.0
    disjoint = 1.0
    one_empty = 1.0
    uneven = (
        "each list's own length gives the rank of its absent items; a list that lacks only "
        "the last item has distance 0"
    )
    source = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l+1)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: an item of one list stands at each of the other's ranks with chance 1 / N."""
        return (k - 1) / (3 * catalogue) + 1 - k / catalogue


class ElementWeightedFootrule(WeightedOrderDistance):
    """How much weight the items in common move past, each counting its own weight."""

    kernel = staticmethod(footrule.element_weighted_footrule)


class ElementWeightedFootruleNormalized(WeightedOrderDistance):
    """How much weight the items in common move past, as a share of the most they could."""

    kernel = staticmethod(footrule.element_weighted_footrule_normalized)
    high = 1.0


class GeneralizedFootrule(PositionWeighted):
    """How far the items in common move, weighted by the items and by how near the top they move."""

    kernel = staticmethod(footrule.generalized_footrule)
    need = Need.ITEM_WEIGHTS
