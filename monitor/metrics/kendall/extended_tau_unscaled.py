"""Extended Kendall tau before scaling, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import expect_extended_surplus
from monitor.kernels.kendall.appended import extended_tau_unscaled
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedTauUnscaled(Metric):
    """Extended tau as published, its lowest value depending on the lengths.

    See `monitor.kernels.kendall.appended.extended_tau_unscaled`.
    """

    name: ClassVar[str] = "extended_tau_unscaled"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact: a universe of as many items as both lists have places; a proper prefix scores under 1"
    source: ClassVar[str] = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016)"

    def measure(self, alignment: Alignment) -> Floats:
        """Extended tau of each pair."""
        return extended_tau_unscaled(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the surplus of concordant pairs is linear."""
        return expect_extended_surplus(k, catalogue) / (k * (3 * k - 1) / 2)
