"""Measures of how alike two ranked lists are, each a `Metric` whose name parses and prints: ``rbo(p=0.9)@10``."""

from collections.abc import Mapping

from monitor.metrics.chance import expected_by_chance
from monitor.metrics.kendall import ExtendedTau
from monitor.metrics.metric import Metric, Need
from monitor.metrics.rbo import Rbo
from monitor.metrics.reading import read
from monitor.metrics.relevance import Cg, Dcg, Map, Mrr, Ndcg, NdcgVsBaseline, Recall
from monitor.metrics.scoring import score_all
from monitor.metrics.sets import Overlap

__all__ = ["METRICS", "Metric", "Need", "expected_by_chance", "parse", "score_all"]

METRICS: Mapping[str, type[Metric]] = {
    "cg": Cg,
    "dcg": Dcg,
    "extended_tau": ExtendedTau,
    "map": Map,
    "mrr": Mrr,
    "ndcg": Ndcg,
    "ndcg_vs_baseline": NdcgVsBaseline,
    "overlap": Overlap,
    "rbo": Rbo,
    "recall": Recall,
}


def parse(text: str) -> Metric:
    """Read a metric's name, parameters left out taking their defaults: ``rbo`` is ``rbo(p=0.9)``.

    ``p=0.90`` and ``p=0.9`` give the same metric. MetricError, with a suggestion, for an unknown name or parameter or a value
    out of range.
    """
    return read(text, METRICS)
