"""Extended Kendall tau as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import expect_extended_surplus
from monitor.kernels.kendall.extended import extended_tau
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedTau(Metric):
    """Order and membership together, every rank alike; see `monitor.kernels.kendall.extended.extended_tau`."""

    name: ClassVar[str] = "extended_tau"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = -1.0
    one_empty: ClassVar[float] = -1.0
    uneven: ClassVar[str] = "exact: a universe of as many items as both lists have places; a proper prefix scores under 1"
    source: ClassVar[str] = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016), scaled"

    def measure(self, alignment: Alignment) -> Floats:
        """Scaled extended tau of each pair."""
        return extended_tau(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the surplus of concordant pairs is linear."""
        norm = k * (3 * k - 1) / 2
        return (2 * expect_extended_surplus(k, catalogue) + k * k - norm) / (norm + k * k)
