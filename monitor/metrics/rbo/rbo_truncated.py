"""Rank-biased overlap of the depths seen, as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.rbo.bounds import rbo_truncated
from monitor.metrics.rbo.persistent import Persistent, align_full


@dataclass(frozen=True, slots=True, kw_only=True)
class RboTruncated(Persistent):
    """RBO@k, the sum over the depths seen: identical lists score 1 - p^k; see `monitor.kernels.rbo.bounds.rbo_truncated`.

    Known elsewhere as plain RBO. It mixes how alike lists are with how long they are; `rbo` does not.
    """

    name: ClassVar[str] = "rbo_truncated"
    identical: ClassVar[None] = None
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: depths down to the end of the shorter list; a prefix of s items scores 1 - p^s"
    source: ClassVar[str] = "Webber, Moffat and Zobel (2010), equation 4 cut off at the shorter list's end (RBO@k)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0, and the score of two identical lists of k items."""
        return 0.0, float(self.measure(align_full(min(k, self.depth or k), is_same=True))[0])

    def measure(self, alignment: Alignment) -> Floats:
        """Truncated RBO of each pair."""
        return rbo_truncated(alignment, self.p)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Agreement at depth d is d / catalogue on average, and the depths below count nothing."""
        return float(((1 - self.p**k) / (1 - self.p) - k * self.p**k) / catalogue)
