"""Overlap as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.sets import overlap
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap(Metric):
    """Membership alone: common items by the length of the longer list; see `monitor.kernels.sets.overlap`."""

    name: ClassVar[str] = "overlap"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: common items by the longer length; a prefix scores under 1"
    source: ClassVar[str] = "overlap@k, |A ∩ B| / k"

    def measure(self, alignment: Alignment) -> Floats:
        """Overlap of each pair."""
        return overlap(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Each of the k items is in the other list with chance k / catalogue."""
        return k / catalogue
