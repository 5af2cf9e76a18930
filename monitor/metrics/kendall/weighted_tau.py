"""Vigna's weighted tau of the items in common, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.kendall.weighted import weighted_tau
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedTau(Metric):
    """Order alone, of the items that both lists hold, the top weighing most: hyperbolic weights.

    See `monitor.kernels.kendall.weighted.weighted_tau`.
    """

    name: ClassVar[str] = "weighted_tau"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    ties: ClassVar[str] = (
        "items of equal neighbouring scores are tied, as Vigna does; NaN where all of a list's are; none without scores"
    )
    source: ClassVar[str] = "Vigna, A weighted correlation index for rankings with ties (2015); scipy.stats.weightedtau"

    def measure(self, alignment: Alignment) -> Floats:
        """Weighted tau of each pair."""
        return weighted_tau(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """0: the order of the items in common is random. None where there cannot be two."""
        del catalogue
        return 0.0 if k > 1 else None
