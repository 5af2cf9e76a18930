"""Rank-biased overlap: what is seen, its bounds, its extrapolation, and what ties make of it."""

from monitor.metrics.rbo.rbo import Rbo

__all__ = ["Rbo"]
