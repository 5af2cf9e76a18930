"""Measures of how good the lists are for what users found relevant."""

from monitor.metrics.relevance.cg import Cg
from monitor.metrics.relevance.dcg import Dcg
from monitor.metrics.relevance.map import Map
from monitor.metrics.relevance.mrr import Mrr
from monitor.metrics.relevance.ndcg import Ndcg
from monitor.metrics.relevance.ndcg_vs_baseline import NdcgVsBaseline
from monitor.metrics.relevance.recall import Recall

__all__ = ["Cg", "Dcg", "Map", "Mrr", "Ndcg", "NdcgVsBaseline", "Recall"]
