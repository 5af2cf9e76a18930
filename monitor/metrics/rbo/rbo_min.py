"""The least rank-biased overlap as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.rbo.bounds import rbo_min
from monitor.kernels.rbo.weight import rbo_weight
from monitor.metrics.rbo.persistent import Persistent, align_full


@dataclass(frozen=True, slots=True, kw_only=True)
class RboMin(Persistent):
    """The least RBO that the lists can have, however they go on; see `monitor.kernels.rbo.bounds.rbo_min`."""

    name: ClassVar[str] = "rbo_min"
    identical: ClassVar[None] = None
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: nothing below either list is in the other; a prefix scores the weight of its ranks"
    source: ClassVar[str] = "Webber, Moffat and Zobel (2010), equation 11"

    def bounds(self, k: int) -> tuple[float, float]:
        """0, and the score of two identical lists of k items."""
        return 0.0, float(self.measure(align_full(min(k, self.depth or k), is_same=True))[0])

    def measure(self, alignment: Alignment) -> Floats:
        """Lower bound of RBO of each pair."""
        return rbo_min(alignment, self.p)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Overlap at depth d is d^2 / catalogue on average, and stays k^2 / catalogue below the lists."""
        seen = (1 - self.p**k) / (1 - self.p) - k * self.p**k
        below = k * (rbo_weight(self.p, k) - (1 - self.p**k))
        return float((seen + below) / catalogue)
