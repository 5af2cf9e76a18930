"""Measures of order by pairs of items: Kendall and what was made of it."""

from monitor.metrics.kendall.appended_tau import AppendedTau
from monitor.metrics.kendall.element_weighted_kendall_distance import ElementWeightedKendallDistance
from monitor.metrics.kendall.element_weighted_kendall_distance_normalized import ElementWeightedKendallDistanceNormalized
from monitor.metrics.kendall.element_weighted_tau import ElementWeightedTau
from monitor.metrics.kendall.extended_tau import ExtendedTau
from monitor.metrics.kendall.extended_tau_unscaled import ExtendedTauUnscaled
from monitor.metrics.kendall.generalized_kendall_distance import GeneralizedKendallDistance
from monitor.metrics.kendall.kendall_distance import KendallDistance
from monitor.metrics.kendall.kendall_distance_normalized import KendallDistanceNormalized
from monitor.metrics.kendall.kendall_tau import KendallTau
from monitor.metrics.kendall.position_weighted_kendall_distance import PositionWeightedKendallDistance
from monitor.metrics.kendall.tau_ap import TauAp
from monitor.metrics.kendall.tau_ap_symmetric import TauApSymmetric
from monitor.metrics.kendall.topk_kendall import TopkKendall
from monitor.metrics.kendall.topk_kendall_normalized import TopkKendallNormalized
from monitor.metrics.kendall.weighted_tau import WeightedTau

__all__ = [
    "AppendedTau",
    "ElementWeightedKendallDistance",
    "ElementWeightedKendallDistanceNormalized",
    "ElementWeightedTau",
    "ExtendedTau",
    "ExtendedTauUnscaled",
    "GeneralizedKendallDistance",
    "KendallDistance",
    "KendallDistanceNormalized",
    "KendallTau",
    "PositionWeightedKendallDistance",
    "TauAp",
    "TauApSymmetric",
    "TopkKendall",
    "TopkKendallNormalized",
    "WeightedTau",
]
