"""Rank-biased overlap with tied items sharing their rank, as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.rbo.ties import rbo_w
from monitor.metrics.metric import Need
from monitor.metrics.rbo.persistent import Persistent


@dataclass(frozen=True, slots=True, kw_only=True)
class RboW(Persistent):
    """RBO where a tie means equality: tied items share one rank; see `monitor.kernels.rbo.ties.rbo_w`.

    A list scores 1 against itself, ties and all.
    """

    name: ClassVar[str] = "rbo_w"
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: extrapolated as rbo is; a prefix scores 1, unless a tied group reaches over its end"
    ties: ClassVar[str] = "tied items share one rank; the part of a tied group that the cut at k leaves is the group"
    need: ClassVar[Need] = Need.SCORES
    source: ClassVar[str] = (
        "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^w; Webber, Moffat and Zobel, equation 28"
    )

    def measure(self, alignment: Alignment) -> Floats:
        """Extrapolated RBO^w of each pair."""
        return rbo_w(alignment, self.p)
