"""Measures of order by how far items move: Spearman's footrule and what was made of it."""

from monitor.metrics.footrule.element_weighted_footrule import ElementWeightedFootrule
from monitor.metrics.footrule.element_weighted_footrule_normalized import ElementWeightedFootruleNormalized
from monitor.metrics.footrule.footrule import Footrule
from monitor.metrics.footrule.footrule_normalized import FootruleNormalized
from monitor.metrics.footrule.generalized_footrule import GeneralizedFootrule
from monitor.metrics.footrule.topk_footrule import TopkFootrule
from monitor.metrics.footrule.topk_footrule_normalized import TopkFootruleNormalized

__all__ = [
    "ElementWeightedFootrule",
    "ElementWeightedFootruleNormalized",
    "Footrule",
    "FootruleNormalized",
    "GeneralizedFootrule",
    "TopkFootrule",
    "TopkFootruleNormalized",
]
