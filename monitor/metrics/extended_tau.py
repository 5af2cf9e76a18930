"""Extended tau: order and membership in one number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from monitor.kernels import Alignment
from monitor.kernels.chance import expect_extended_surplus, expect_over_shared
from monitor.kernels.kendall.element_weighted import element_weighted_tau
from monitor.kernels.kendall.extended import appended_tau, extended_tau, extended_tau_unscaled
from monitor.metrics.metric import Metric, Need
from monitor.model.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedTau(Metric):
    """Order and membership together, every rank alike; see `monitor.kernels.kendall.extended.extended_tau`."""

    name: ClassVar[str] = "extended_tau"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = -1.0
    one_empty: ClassVar[float] = -1.0
    uneven: ClassVar[str] = "exact: a universe of as many items as both lists have places; a proper prefix scores under 1"
    source: ClassVar[str] = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016), scaled"

    def measure(self, alignment: Alignment) -> Floats:
        """Scaled extended tau of each pair."""
        return extended_tau(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the surplus of concordant pairs is linear."""
        norm = k * (3 * k - 1) / 2
        return (2 * expect_extended_surplus(k, catalogue) + k * k - norm) / (norm + k * k)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedTauUnscaled(Metric):
    """Extended tau as published, its lowest value depending on the lengths.

    See `monitor.kernels.kendall.extended.extended_tau_unscaled`.
    """

    name: ClassVar[str] = "extended_tau_unscaled"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact: a universe of as many items as both lists have places; a proper prefix scores under 1"
    source: ClassVar[str] = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016)"

    def measure(self, alignment: Alignment) -> Floats:
        """Extended tau of each pair."""
        return extended_tau_unscaled(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the surplus of concordant pairs is linear."""
        return expect_extended_surplus(k, catalogue) / (k * (3 * k - 1) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedTau(Metric):
    """Tau-b over the items of both lists, each list's mismatches tied behind the other's end.

    See `monitor.kernels.kendall.extended.appended_tau`.
    """

    name: ClassVar[str] = "appended_tau"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = (
        "exact, but a list that lacks only the last item of the other scores 1; NaN for identical lists of one item"
    )
    source: ClassVar[str] = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016), Appending mismatches"

    def measure(self, alignment: Alignment) -> Floats:
        """Appended tau of each pair."""
        return appended_tau(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: with z items in common only the (k - z)² pairs of one item here and the other there are out of balance."""
        if k == 1:
            return -1.0 if catalogue > 1 else None
        z = np.arange(k + 1.0)
        universe = 2 * k - z
        norm = (universe * (universe - 1) - (k - z) * (k - z - 1)) / 2
        return expect_over_shared(k, catalogue, -((k - z) ** 2) / norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWeightedTau(Metric):
    """Order and membership together, an item of weight w counting as w items.

    See `monitor.kernels.kendall.element_weighted.element_weighted_tau`.
    """

    name: ClassVar[str] = "element_weighted_tau"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = -1.0
    one_empty: ClassVar[float] = -1.0
    uneven: ClassVar[str] = "exact: a universe of as much weight as both lists have; a proper prefix scores under 1"
    need: ClassVar[Need | None] = Need.ITEM_WEIGHTS
    source: ClassVar[str] = "Kumar and Vassilvitskii, Generalized distances between rankings (2010); van der Geer (2016)"

    def measure(self, alignment: Alignment) -> Floats:
        """Element-weighted extended tau of each pair."""
        return element_weighted_tau(alignment)
