"""The most rank-biased overlap as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.rbo.bounds import rbo_max
from monitor.metrics.rbo.persistent import Persistent, align_full
from monitor.metrics.rbo.rbo_min import RboMin
from monitor.metrics.rbo.rbo_res import RboRes


@dataclass(frozen=True, slots=True, kw_only=True)
class RboMax(Persistent):
    """The most RBO that the lists can have, however they go on; see `monitor.kernels.rbo.bounds.rbo_max`."""

    name: ClassVar[str] = "rbo_max"
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[None] = None
    one_empty: ClassVar[float] = 1.0
    uneven: ClassVar[str] = "exact: what is below either list may be in the other; a prefix scores 1"
    source: ClassVar[str] = "Webber, Moffat and Zobel (2010), section 4.3 and equation 30: the lower bound and the residual"

    def bounds(self, k: int) -> tuple[float, float]:
        """The score of two disjoint lists of k items, and 1."""
        return float(self.measure(align_full(min(k, self.depth or k), is_same=False))[0]), 1.0

    def measure(self, alignment: Alignment) -> Floats:
        """Upper bound of RBO of each pair."""
        return rbo_max(alignment, self.p)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The sum of what chance gives of the lower bound and of the residual."""
        return min(1.0, RboMin(p=self.p).expected_by_chance(k, catalogue) + RboRes(p=self.p).expected_by_chance(k, catalogue))
