"""Rank-biased overlap as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.rbo.extrapolated import rbo
from monitor.metrics.rbo.persistent import Persistent


@dataclass(frozen=True, slots=True, kw_only=True)
class Rbo(Persistent):
    """Agreement at every depth, the top weighing most; see `monitor.kernels.rbo.extrapolated.rbo`."""

    name: ClassVar[str] = "rbo"
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact, by equation 32: agreement seen is taken to go on below the shorter list; a prefix scores 1"
    source: ClassVar[str] = "Webber, Moffat and Zobel (2010), A similarity measure for indefinite rankings, equation 32"

    def measure(self, alignment: Alignment) -> Floats:
        """Extrapolated RBO of each pair."""
        return rbo(alignment, self.p)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Agreement at depth d is d / catalogue on average, k / catalogue below: together (1 - p^k) / (1 - p) / catalogue."""
        return float((1 - self.p**k) / (1 - self.p) / catalogue)
