"""Measures of membership."""

from monitor.metrics.sets.overlap import Overlap

__all__ = ["Overlap"]
