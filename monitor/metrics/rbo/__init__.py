"""Rank-biased overlap: what is seen, its bounds, its extrapolation, and what ties make of it."""

from monitor.metrics.rbo.rbo import Rbo
from monitor.metrics.rbo.rbo_a import RboA
from monitor.metrics.rbo.rbo_b import RboB
from monitor.metrics.rbo.rbo_max import RboMax
from monitor.metrics.rbo.rbo_min import RboMin
from monitor.metrics.rbo.rbo_res import RboRes
from monitor.metrics.rbo.rbo_truncated import RboTruncated
from monitor.metrics.rbo.rbo_w import RboW

__all__ = ["Rbo", "RboA", "RboB", "RboMax", "RboMin", "RboRes", "RboTruncated", "RboW"]
