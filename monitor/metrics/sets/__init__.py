"""Measures of membership."""

from monitor.metrics.sets.average_overlap import AverageOverlap
from monitor.metrics.sets.jaccard import Jaccard
from monitor.metrics.sets.overlap import Overlap

__all__ = ["AverageOverlap", "Jaccard", "Overlap"]
