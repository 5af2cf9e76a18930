"""Kendall's tau-b of the items in common, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.kendall.common import kendall_tau
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class KendallTau(Metric):
    """Order alone, of the items that both lists hold: Kendall's tau-b; see `monitor.kernels.kendall.common.kendall_tau`."""

    name: ClassVar[str] = "kendall_tau"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    ties: ClassVar[str] = (
        "items of equal neighbouring scores are tied, as tau-b does; NaN where all of a list's are; none without scores"
    )
    source: ClassVar[str] = "Kendall (1938, 1945)"

    def measure(self, alignment: Alignment) -> Floats:
        """Tau-b of each pair."""
        return kendall_tau(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """0: the order of the items in common is random. None where there cannot be two."""
        del catalogue
        return 0.0 if k > 1 else None
