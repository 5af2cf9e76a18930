"""Kendall's distance as a share of all pairs, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.kendall.common import kendall_distance_normalized
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class KendallDistanceNormalized(Metric):
    """Share of the pairs of common items that the lists order in opposite ways.

    See `monitor.kernels.kendall.common.kendall_distance_normalized`.
    """

    name: ClassVar[str] = "kendall_distance_normalized"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    source: ClassVar[str] = "Kendall, A new measure of rank correlation (1938)"

    def measure(self, alignment: Alignment) -> Floats:
        """Share of discordant pairs of each pair of lists."""
        return kendall_distance_normalized(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """One half: the order of the items in common is random. None where there cannot be two."""
        del catalogue
        return 0.5 if k > 1 else None
