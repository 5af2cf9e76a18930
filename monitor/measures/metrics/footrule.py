"""Spearman's footrule: how far items move."""

import math

import numpy as np

from monitor.measures.kernels import footrule
from monitor.measures.kernels.sets import expect_over_shared
from monitor.measures.metrics.metric import (
    Distance,
    Need,
    OrderDistance,
    PositionWeighted,
    WeightedOrderDistance,
)


class Footrule(OrderDistance):
    """Sum of the distances that common items move. Ranks are counted among the common items."""

    kernel = staticmethod(footrule.footrule)
    source = "Diaconis and Graham, Spearman's footrule as a measure of disarray (1977)"

    def bounds(self, k: int) -> tuple[float, float]:
        """Ranges from 0 to half the square of k, rounded down."""
        # A histogram needs a range of some width, even for lists of one item.
        return 0.0, max(1.0, k * k // 2)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """The mean of (z² - 1) / 3, where z is the number of common items.

        None if two common items are impossible.
        """
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, (z * z - 1) / 3, least=2)


class FootruleNormalized(OrderDistance):
    """`footrule` divided by its maximum."""

    kernel = staticmethod(footrule.footrule_normalized)
    high = 1.0
    source = "Diaconis and Graham, Spearman's footrule as a measure of disarray (1977)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """The mean of (z² - 1) / 3 / floor(z² / 2), where z is the number of common items.

        None if two common items are impossible.
        """
        z = np.arange(k + 1.0)
        shares = (z * z - 1) / 3 / np.maximum(z * z // 2, 1)
        return expect_over_shared(k, catalogue, shares, least=2)


class TopkFootrule(Distance):
    """Sum of the distances that all items move, even items that only one list has.

    An item that is missing from a list of length l has rank l + 1 there.
    """

    kernel = staticmethod(footrule.topk_footrule)
    disjoint = None
    one_empty = math.nan
    uneven = (
        "an item that is missing from a list of length l gets rank l + 1; so [a, b] and [a, b, c] "
        "have distance 0"
    )
    source = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l+1)"

    def bounds(self, k: int) -> tuple[float, float]:
        """Ranges from 0 to the distance of two disjoint lists of k items."""
        return 0.0, k * (k + 1.0)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """The exact mean. Each rank of a list has a given item with probability 1 / catalogue."""
        return k * (k * k - 1) / (3 * catalogue) + (1 - k / catalogue) * k * (k + 1)


class TopkFootruleNormalized(Distance):
    """`topk_footrule` divided by its value for disjoint lists of the same lengths."""

    kernel = staticmethod(footrule.topk_footrule_normalized)
    high = 1.0
    disjoint = 1.0
    one_empty = 1.0
    uneven = TopkFootrule.uneven
    source = TopkFootrule.source

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """The exact mean. Each rank of a list has a given item with probability 1 / catalogue."""
        return (k - 1) / (3 * catalogue) + 1 - k / catalogue


class ElementWeightedFootrule(WeightedOrderDistance):
    """Each common item adds its weight times the weight of the items that it moves past."""

    kernel = staticmethod(footrule.element_weighted_footrule)


class ElementWeightedFootruleNormalized(WeightedOrderDistance):
    """`element_weighted_footrule` divided by its maximum."""

    kernel = staticmethod(footrule.element_weighted_footrule_normalized)
    high = 1.0


class GeneralizedFootrule(PositionWeighted):
    """Sum of the distances that the common items move, with weights of items and ranks."""

    kernel = staticmethod(footrule.generalized_footrule)
    need = Need.ITEM_WEIGHTS
