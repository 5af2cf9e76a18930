"""Kendall's tau and distances: order by pairs of items, every pair alike."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass

import numpy as np

from monitor.errors import MetricError
from monitor.kernels.chance import expect_over_shared, expect_topk_kendall
from monitor.kernels.kendall.unweighted import (
    kendall_distance,
    kendall_distance_normalized,
    kendall_tau,
    topk_kendall,
    topk_kendall_normalized,
)
from monitor.metrics.metric import Distance, OrderCorrelation, OrderDistance


class KendallTau(OrderCorrelation):
    """Order alone, of the items that both lists hold: Kendall's tau-b."""

    name = "kendall_tau"
    kernel = staticmethod(kendall_tau)
    ties = "items of equal neighbouring scores are tied, as tau-b does; NaN where all of a list's are; none without scores"
    source = "Kendall (1938, 1945)"


class KendallDistance(OrderDistance):
    """Pairs of common items that the lists order in opposite ways."""

    name = "kendall_distance"
    kernel = staticmethod(kendall_distance)
    source = "Kendall, A new measure of rank correlation (1938)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to all pairs of k items."""
        return 0.0, max(1.0, k * (k - 1) / 2)  # a histogram needs some width, for lists of one item too

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Half of the pairs of items in common, where there are two; None where there cannot be."""
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, z * (z - 1) / 4, least=2)


class KendallDistanceNormalized(OrderDistance):
    """Share of the pairs of common items that the lists order in opposite ways."""

    name = "kendall_distance_normalized"
    kernel = staticmethod(kendall_distance_normalized)
    high = 1.0
    source = "Kendall, A new measure of rank correlation (1938)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """One half: the order of the items in common is random. None where there cannot be two."""
        del catalogue
        return 0.5 if k > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopkPairs(Distance, ABC):
    """A distance over the pairs of items of either list.

    ``penalty``: p from 0 to 1, what two items count that one list holds and the other has neither of; 0 is optimistic,
    0.5 neutral.
    """

    penalty: float = 0.0

    uneven = "exact, by the four cases; at penalty 0 a prefix has distance 0"
    source = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), K^(p)"

    def __post_init__(self) -> None:
        """MetricError unless 0 <= penalty <= 1."""
        Distance.__post_init__(self)
        if not 0 <= self.penalty <= 1:
            msg = f"{self.name}(penalty={self.penalty!r}): penalty must lie between 0 and 1, such as {self.name}(penalty=0.5)"
            raise MetricError(msg)


class TopkKendall(TopkPairs):
    """Pairs of items of either list that the lists order in opposite ways."""

    name = "topk_kendall"
    kernel = staticmethod(topk_kendall)
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

    name = "topk_kendall_normalized"
    kernel = staticmethod(topk_kendall_normalized)
    high = 1.0
    disjoint = 1.0
    one_empty = 1.0

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the distance is a sum over pairs of items."""
        return expect_topk_kendall(k, catalogue, self.penalty) / (k * k + self.penalty * k * (k - 1))
