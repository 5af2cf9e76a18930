"""Kendall's distance of the items in common, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import expect_over_shared
from monitor.kernels.kendall.common import kendall_distance
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class KendallDistance(Metric):
    """Pairs of common items that the lists order in opposite ways; see `monitor.kernels.kendall.common.kendall_distance`."""

    name: ClassVar[str] = "kendall_distance"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    source: ClassVar[str] = "Kendall, A new measure of rank correlation (1938)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to all pairs of k items."""
        return 0.0, max(1.0, k * (k - 1) / 2)

    def measure(self, alignment: Alignment) -> Floats:
        """Discordant pairs of each pair of lists."""
        return kendall_distance(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Half of the pairs of items in common, where there are two; None where there cannot be."""
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, z * (z - 1) / 4, least=2)
