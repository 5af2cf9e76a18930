"""Average overlap as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.sets import average_overlap
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class AverageOverlap(Metric):
    """Overlap averaged over the depths, so that the top counts more; see `monitor.kernels.sets.average_overlap`."""

    name: ClassVar[str] = "average_overlap"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: the mean of overlap@1 to overlap@l of the longer list's length l; a prefix scores under 1"
    source: ClassVar[str] = "Wu and Crestani (2003), average accuracy; Webber, Moffat and Zobel (2010), section 3.3"

    def measure(self, alignment: Alignment) -> Floats:
        """Average overlap of each pair."""
        return average_overlap(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean of d / catalogue over the depths d = 1 to k."""
        return (k + 1) / (2 * catalogue)
