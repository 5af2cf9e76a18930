"""Order by pairs of items, weighted by rank or by item."""

from __future__ import annotations

import numpy as np

from monitor.kernels.chance import common_by_chance, expect_over_shared
from monitor.kernels.kendall.element_weighted import (
    element_weighted_kendall_distance,
    element_weighted_kendall_distance_normalized,
    expect_position_weighted,
    generalized_kendall_distance,
    position_weighted_kendall_distance,
)
from monitor.kernels.kendall.weighted import tau_ap, tau_ap_symmetric, weighted_tau
from monitor.metrics.metric import Need, OrderCorrelation, PositionWeighted, WeightedOrderDistance


class WeightedTau(OrderCorrelation):
    """Order alone, of the items that both lists hold, the top weighing most: hyperbolic weights."""

    name = "weighted_tau"
    kernel = staticmethod(weighted_tau)
    ties = "items of equal neighbouring scores are tied, as Vigna does; NaN where all of a list's are; none without scores"
    source = "Vigna, A weighted correlation index for rankings with ties (2015); scipy.stats.weightedtau"


class TauAp(OrderCorrelation):
    """Order alone, the baseline taken as the truth, errors at the candidate's top costing most."""

    name = "tau_ap"
    kernel = staticmethod(tau_ap)
    is_symmetric = False
    source = "Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information retrieval (2008)"


class TauApSymmetric(OrderCorrelation):
    """Mean of `tau_ap` with either list as the truth."""

    name = "tau_ap_symmetric"
    kernel = staticmethod(tau_ap_symmetric)
    source = "Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information retrieval (2008)"


_MOST_SHARED = 2000
_NEGLIGIBLE = 1e-12


class PositionWeightedKendallDistance(PositionWeighted):
    """Pairs of common items in opposite order, those that move at the top counting most."""

    name = "position_weighted_kendall_distance"
    kernel = staticmethod(position_weighted_kendall_distance)

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to all pairs of k items: no step costs more than the first, 1."""
        return 0.0, max(1.0, k * (k - 1) / 2)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact where lists share no more than `_MOST_SHARED` items or so; None where they do."""
        most = min(k, _MOST_SHARED)
        if common_by_chance(k, catalogue)[most + 1 :].sum() > _NEGLIGIBLE:
            return None  # the sum costs the square of the items shared
        values = np.zeros(k + 1)
        values[: most + 1] = expect_position_weighted(most, self.discount)
        return expect_over_shared(k, catalogue, values, least=2)


class ElementWeightedKendallDistance(WeightedOrderDistance):
    """Pairs of common items in opposite order, each counting the product of the items' weights."""

    name = "element_weighted_kendall_distance"
    kernel = staticmethod(element_weighted_kendall_distance)


class ElementWeightedKendallDistanceNormalized(WeightedOrderDistance):
    """Share of the weight of pairs of common items that stands in opposite order."""

    name = "element_weighted_kendall_distance_normalized"
    kernel = staticmethod(element_weighted_kendall_distance_normalized)
    high = 1.0


class GeneralizedKendallDistance(PositionWeighted):
    """Pairs of common items in opposite order, weighted by the items and by how near the top they move."""

    name = "generalized_kendall_distance"
    kernel = staticmethod(generalized_kendall_distance)
    need = Need.ITEM_WEIGHTS
