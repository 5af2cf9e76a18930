"""Extended tau: order and membership in one number."""

from __future__ import annotations

import math

import numpy as np

from monitor.kernels.chance import expect_extended_surplus, expect_over_shared
from monitor.kernels.kendall.element_weighted import element_weighted_tau
from monitor.kernels.kendall.extended import appended_tau, extended_tau, extended_tau_unscaled
from monitor.metrics.metric import Correlation, Need


class ExtendedTau(Correlation):
    """Order and membership together, every rank alike."""

    name = "extended_tau"
    kernel = staticmethod(extended_tau)
    disjoint = -1.0
    one_empty = -1.0
    uneven = "exact: a universe of as many items as both lists have places; a proper prefix scores under 1"
    source = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016), scaled"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the surplus of concordant pairs is linear."""
        norm = k * (3 * k - 1) / 2
        return (2 * expect_extended_surplus(k, catalogue) + k * k - norm) / (norm + k * k)


class ExtendedTauUnscaled(Correlation):
    """Extended tau as published, its lowest value depending on the lengths."""

    name = "extended_tau_unscaled"
    kernel = staticmethod(extended_tau_unscaled)
    disjoint = None
    one_empty = math.nan
    uneven = "exact: a universe of as many items as both lists have places; a proper prefix scores under 1"
    source = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016)"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the surplus of concordant pairs is linear."""
        return expect_extended_surplus(k, catalogue) / (k * (3 * k - 1) / 2)


class AppendedTau(Correlation):
    """Tau-b over the items of both lists, each list's mismatches tied behind the other's end."""

    name = "appended_tau"
    kernel = staticmethod(appended_tau)
    disjoint = None
    one_empty = math.nan
    uneven = "exact, but a list that lacks only the last item of the other scores 1; NaN for identical lists of one item"
    source = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016), Appending mismatches"

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: with z items in common only the (k - z)² pairs of one item here and the other there are out of balance."""
        if k == 1:
            return -1.0 if catalogue > 1 else None
        z = np.arange(k + 1.0)
        universe = 2 * k - z
        norm = (universe * (universe - 1) - (k - z) * (k - z - 1)) / 2
        return expect_over_shared(k, catalogue, -((k - z) ** 2) / norm)


class ElementWeightedTau(Correlation):
    """Order and membership together, an item of weight w counting as w items."""

    name = "element_weighted_tau"
    kernel = staticmethod(element_weighted_tau)
    disjoint = -1.0
    one_empty = -1.0
    uneven = "exact: a universe of as much weight as both lists have; a proper prefix scores under 1"
    need = Need.ITEM_WEIGHTS
    source = "Kumar and Vassilvitskii, Generalized distances between rankings (2010); van der Geer (2016)"
