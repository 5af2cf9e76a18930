"""Rank-biased overlap as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.errors import MetricError
from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.rbo import rbo
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Rbo(Metric):
    """Agreement at every depth, the top weighing most; see `monitor.kernels.rbo.rbo`.

    ``p``: chance that a reader who looked at one rank looks at the next; at 0.9 the first ten ranks carry 86 % of the weight.
    """

    p: float = 0.9

    name: ClassVar[str] = "rbo"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact, by equation 32: agreement seen is taken to go on below the shorter list; a prefix scores 1"
    source: ClassVar[str] = "Webber, Moffat and Zobel (2010), A similarity measure for indefinite rankings, equation 32"

    def __post_init__(self) -> None:
        """MetricError unless 0 < p < 1."""
        Metric.__post_init__(self)
        if not 0 < self.p < 1:
            msg = f"rbo(p={self.p!r}): p must lie between 0 and 1, both excluded, such as rbo(p=0.9)"
            raise MetricError(msg)

    def measure(self, alignment: Alignment) -> Floats:
        """Extrapolated RBO of each pair."""
        return rbo(alignment, self.p)
