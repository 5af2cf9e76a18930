"""Spearman's footrule: how far items move."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from monitor.kernels import Alignment
from monitor.kernels.chance import expect_over_shared
from monitor.kernels.footrule import (
    element_weighted_footrule,
    element_weighted_footrule_normalized,
    footrule,
    footrule_normalized,
    generalized_footrule,
    topk_footrule,
    topk_footrule_normalized,
)
from monitor.kernels.kendall.element_weighted import DISCOUNTS
from monitor.metrics.metric import Metric, Need
from monitor.model.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Footrule(Metric):
    """How far the items in common move among each other, summed up; see `monitor.kernels.footrule.footrule`."""

    name: ClassVar[str] = "footrule"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    source: ClassVar[str] = "Diaconis and Graham, Spearman's footrule as a measure of disarray (1977)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to half the square of k, rounded down."""
        return 0.0, max(1.0, k * k // 2)

    def measure(self, alignment: Alignment) -> Floats:
        """Footrule of each pair."""
        return footrule(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """(z² - 1) / 3 for z items in common, where there are two; None where there cannot be."""
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, (z * z - 1) / 3, least=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class FootruleNormalized(Metric):
    """How far the items in common move among each other, as a share of the most they could.

    See `monitor.kernels.footrule.footrule_normalized`.
    """

    name: ClassVar[str] = "footrule_normalized"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    source: ClassVar[str] = "Diaconis and Graham, Spearman's footrule as a measure of disarray (1977)"

    def measure(self, alignment: Alignment) -> Floats:
        """Normalized footrule of each pair."""
        return footrule_normalized(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """(z² - 1) / 3 by floor(z² / 2) for z items in common, where there are two; None where there cannot be."""
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, (z * z - 1) / 3 / np.maximum(z * z // 2, 1), least=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopkFootrule(Metric):
    """How far the items of either list move, absent ones ranked right behind the list.

    See `monitor.kernels.footrule.topk_footrule`.
    """

    name: ClassVar[str] = "topk_footrule"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = (
        "each list's own length gives the rank of its absent items; a list that lacks only the last item has distance 0"
    )
    source: ClassVar[str] = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l+1)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to the distance of two disjoint lists of k items."""
        return 0.0, k * (k + 1.0)

    def measure(self, alignment: Alignment) -> Floats:
        """F^(l+1) of each pair."""
        return topk_footrule(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: an item of one list stands at each of the other's ranks with chance 1 / N."""
        return k * (k * k - 1) / (3 * catalogue) + (1 - k / catalogue) * k * (k + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopkFootruleNormalized(Metric):
    """`topk_footrule` divided by its value on disjoint lists of the same lengths.

    See `monitor.kernels.footrule.topk_footrule_normalized`.
    """

    name: ClassVar[str] = "topk_footrule_normalized"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = 1.0
    one_empty: ClassVar[float] = 1.0
    uneven: ClassVar[str] = (
        "each list's own length gives the rank of its absent items; a list that lacks only the last item has distance 0"
    )
    source: ClassVar[str] = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l+1)"

    def measure(self, alignment: Alignment) -> Floats:
        """Normalized F^(l+1) of each pair."""
        return topk_footrule_normalized(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: an item of one list stands at each of the other's ranks with chance 1 / N."""
        return (k - 1) / (3 * catalogue) + 1 - k / catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWeightedFootrule(Metric):
    """How much weight the items in common move past, each counting its own weight.

    See `monitor.kernels.footrule.element_weighted_footrule`.
    """

    name: ClassVar[str] = "element_weighted_footrule"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    need: ClassVar[Need | None] = Need.ITEM_WEIGHTS
    source: ClassVar[str] = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"

    def measure(self, alignment: Alignment) -> Floats:
        """Element-weighted footrule of each pair."""
        return element_weighted_footrule(alignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWeightedFootruleNormalized(Metric):
    """How much weight the items in common move past, as a share of the most they could.

    See `monitor.kernels.footrule.element_weighted_footrule_normalized`.
    """

    name: ClassVar[str] = "element_weighted_footrule_normalized"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    need: ClassVar[Need | None] = Need.ITEM_WEIGHTS
    source: ClassVar[str] = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"

    def measure(self, alignment: Alignment) -> Floats:
        """Normalized element-weighted footrule of each pair."""
        return element_weighted_footrule_normalized(alignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneralizedFootrule(Metric):
    """How far the items in common move, weighted by the items and by how near the top they move.

    See `monitor.kernels.footrule.generalized_footrule`.

    ``discount``: what a rank is worth, 1 / log2(rank + 1) for ``dcg`` and 1 / rank for ``hyperbolic``; moving between two ranks
    costs the difference.
    """

    discount: str = "dcg"

    name: ClassVar[str] = "generalized_footrule"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    need: ClassVar[Need | None] = Need.ITEM_WEIGHTS
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"discount": tuple(DISCOUNTS)}
    source: ClassVar[str] = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"

    def measure(self, alignment: Alignment) -> Floats:
        """Generalized footrule of each pair."""
        return generalized_footrule(alignment, self.discount)
