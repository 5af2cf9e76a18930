"""Measures of how alike two ranked lists are, each a `Metric` whose name parses and prints: ``rbo(p=0.9)@10``."""

from collections.abc import Mapping

from monitor.kernels.rbo.weight import rbo_persistence, rbo_weight
from monitor.metrics.chance import expect_by_chance
from monitor.metrics.extended_tau import AppendedTau, ElementWeightedTau, ExtendedTau, ExtendedTauUnscaled
from monitor.metrics.footrule import (
    ElementWeightedFootrule,
    ElementWeightedFootruleNormalized,
    Footrule,
    FootruleNormalized,
    GeneralizedFootrule,
    TopkFootrule,
    TopkFootruleNormalized,
)
from monitor.metrics.kendall import KendallDistance, KendallDistanceNormalized, KendallTau, TopkKendall, TopkKendallNormalized
from monitor.metrics.metric import Metric, Need
from monitor.metrics.names import read_name
from monitor.metrics.rbo import Rbo, RboA, RboB, RboMax, RboMin, RboRes, RboTruncated, RboW
from monitor.metrics.relevance import Cg, Dcg, Map, Mrr, Ndcg, NdcgVsBaseline, Recall
from monitor.metrics.scores import score_all
from monitor.metrics.sets import AverageOverlap, Jaccard, Overlap
from monitor.metrics.weighted_kendall import (
    ElementWeightedKendallDistance,
    ElementWeightedKendallDistanceNormalized,
    GeneralizedKendallDistance,
    PositionWeightedKendallDistance,
    TauAp,
    TauApSymmetric,
    WeightedTau,
)

__all__ = [
    "DEFAULT_METRICS",
    "METRICS",
    "Metric",
    "Need",
    "expected_by_chance",
    "parse",
    "rbo_persistence",
    "rbo_weight",
    "score_all",
]

DEFAULT_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
"""What is measured where nothing is named: order and items together, the top, and membership alone."""

METRICS: Mapping[str, type[Metric]] = {
    "appended_tau": AppendedTau,
    "average_overlap": AverageOverlap,
    "cg": Cg,
    "dcg": Dcg,
    "element_weighted_footrule": ElementWeightedFootrule,
    "element_weighted_footrule_normalized": ElementWeightedFootruleNormalized,
    "element_weighted_kendall_distance": ElementWeightedKendallDistance,
    "element_weighted_kendall_distance_normalized": ElementWeightedKendallDistanceNormalized,
    "element_weighted_tau": ElementWeightedTau,
    "extended_tau": ExtendedTau,
    "extended_tau_unscaled": ExtendedTauUnscaled,
    "footrule": Footrule,
    "footrule_normalized": FootruleNormalized,
    "generalized_footrule": GeneralizedFootrule,
    "generalized_kendall_distance": GeneralizedKendallDistance,
    "jaccard": Jaccard,
    "kendall_distance": KendallDistance,
    "kendall_distance_normalized": KendallDistanceNormalized,
    "kendall_tau": KendallTau,
    "map": Map,
    "mrr": Mrr,
    "ndcg": Ndcg,
    "ndcg_vs_baseline": NdcgVsBaseline,
    "overlap": Overlap,
    "position_weighted_kendall_distance": PositionWeightedKendallDistance,
    "rbo": Rbo,
    "rbo_a": RboA,
    "rbo_b": RboB,
    "rbo_max": RboMax,
    "rbo_min": RboMin,
    "rbo_res": RboRes,
    "rbo_truncated": RboTruncated,
    "rbo_w": RboW,
    "recall": Recall,
    "tau_ap": TauAp,
    "tau_ap_symmetric": TauApSymmetric,
    "topk_footrule": TopkFootrule,
    "topk_footrule_normalized": TopkFootruleNormalized,
    "topk_kendall": TopkKendall,
    "topk_kendall_normalized": TopkKendallNormalized,
    "weighted_tau": WeightedTau,
}


def parse(text: str) -> Metric:
    """Read a metric's name, parameters left out taking their defaults: ``rbo`` is ``rbo(p=0.9)``.

    ``p=0.90`` and ``p=0.9`` give the same metric. MetricError, with a suggestion, for an unknown name or parameter or a value
    out of range.
    """
    return read_name(text, METRICS)


def expected_by_chance(metric: str | Metric, k: int, catalogue: int) -> float | None:
    """Mean score of two random lists of k items from ``catalogue`` items; see `monitor.metrics.chance.expect_by_chance`."""
    return expect_by_chance(metric if isinstance(metric, Metric) else parse(metric), k, catalogue)
