"""Measures of order by pairs of items: Kendall and what was made of it."""

from monitor.metrics.kendall.extended_tau import ExtendedTau

__all__ = ["ExtendedTau"]
