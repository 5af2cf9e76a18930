"""Order by pairs of items, weighted by rank or by item."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.kernels.kendall.element_weighted import (
    element_weighted_kendall_distance,
    element_weighted_kendall_distance_normalized,
)
from monitor.kernels.kendall.weighted import tau_ap, tau_ap_symmetric, weighted_tau
from monitor.metrics.metric import OrderCorrelation, WeightedOrderDistance


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedTau(OrderCorrelation):
    """Order alone, of the items that both lists hold, the top weighing most: hyperbolic weights."""

    name = "weighted_tau"
    kernel = staticmethod(weighted_tau)
    ties = "items of equal neighbouring scores are tied, as Vigna does; NaN where all of a list's are; none without scores"
    source = "Vigna, A weighted correlation index for rankings with ties (2015); scipy.stats.weightedtau"


@dataclass(frozen=True, slots=True, kw_only=True)
class TauAp(OrderCorrelation):
    """Order alone, the baseline taken as the truth, errors at the candidate's top costing most."""

    name = "tau_ap"
    kernel = staticmethod(tau_ap)
    is_symmetric = False
    source = "Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information retrieval (2008)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TauApSymmetric(OrderCorrelation):
    """Mean of `tau_ap` with either list as the truth."""

    name = "tau_ap_symmetric"
    kernel = staticmethod(tau_ap_symmetric)
    source = "Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information retrieval (2008)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWeightedKendallDistance(WeightedOrderDistance):
    """Pairs of common items in opposite order, each counting the product of the items' weights."""

    name = "element_weighted_kendall_distance"
    kernel = staticmethod(element_weighted_kendall_distance)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWeightedKendallDistanceNormalized(WeightedOrderDistance):
    """Share of the weight of pairs of common items that stands in opposite order."""

    name = "element_weighted_kendall_distance_normalized"
    kernel = staticmethod(element_weighted_kendall_distance_normalized)
    high = 1.0
