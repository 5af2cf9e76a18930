"""Measures of how alike two ranked lists are, each a `Metric` whose name parses and prints: ``rbo(p=0.9)@10``."""

from collections.abc import Mapping

from monitor.kernels.rbo.weight import rbo_persistence, rbo_weight
from monitor.metrics import extended_tau, footrule, kendall, rbo, relevance, sets, weighted_kendall
from monitor.metrics.chance import expect_by_chance
from monitor.metrics.metric import Metric, Need
from monitor.metrics.names import read_name
from monitor.metrics.scores import score_all

DEFAULT_METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
"""What is measured where nothing is named: order and items together, the top, and membership alone."""

METRICS: Mapping[str, type[Metric]] = {
    "appended_tau": extended_tau.AppendedTau,
    "average_overlap": sets.AverageOverlap,
    "cg": relevance.Cg,
    "dcg": relevance.Dcg,
    "element_weighted_footrule": footrule.ElementWeightedFootrule,
    "element_weighted_footrule_normalized": footrule.ElementWeightedFootruleNormalized,
    "element_weighted_kendall_distance": weighted_kendall.ElementWeightedKendallDistance,
    "element_weighted_kendall_distance_normalized": weighted_kendall.ElementWeightedKendallDistanceNormalized,
    "element_weighted_tau": extended_tau.ElementWeightedTau,
    "extended_tau": extended_tau.ExtendedTau,
    "extended_tau_unscaled": extended_tau.ExtendedTauUnscaled,
    "footrule": footrule.Footrule,
    "footrule_normalized": footrule.FootruleNormalized,
    "generalized_footrule": footrule.GeneralizedFootrule,
    "generalized_kendall_distance": weighted_kendall.GeneralizedKendallDistance,
    "jaccard": sets.Jaccard,
    "kendall_distance": kendall.KendallDistance,
    "kendall_distance_normalized": kendall.KendallDistanceNormalized,
    "kendall_tau": kendall.KendallTau,
    "map": relevance.Map,
    "mrr": relevance.Mrr,
    "ndcg": relevance.Ndcg,
    "ndcg_vs_baseline": relevance.NdcgVsBaseline,
    "overlap": sets.Overlap,
    "position_weighted_kendall_distance": weighted_kendall.PositionWeightedKendallDistance,
    "rbo": rbo.Rbo,
    "rbo_a": rbo.RboA,
    "rbo_b": rbo.RboB,
    "rbo_max": rbo.RboMax,
    "rbo_min": rbo.RboMin,
    "rbo_res": rbo.RboRes,
    "rbo_truncated": rbo.RboTruncated,
    "rbo_w": rbo.RboW,
    "recall": relevance.Recall,
    "tau_ap": weighted_kendall.TauAp,
    "tau_ap_symmetric": weighted_kendall.TauApSymmetric,
    "topk_footrule": footrule.TopkFootrule,
    "topk_footrule_normalized": footrule.TopkFootruleNormalized,
    "topk_kendall": kendall.TopkKendall,
    "topk_kendall_normalized": kendall.TopkKendallNormalized,
    "weighted_tau": weighted_kendall.WeightedTau,
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
