"""Rank-biased overlap corrected for ties, as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.rbo.ties import rbo_b
from monitor.metrics.metric import Need
from monitor.metrics.rbo.persistent import Persistent


@dataclass(frozen=True, slots=True, kw_only=True)
class RboB(Persistent):
    """RBO where a tie leaves the order open, normalised as tau-b is; see `monitor.kernels.rbo.ties.rbo_b`.

    A list scores 1 against itself, ties and all; never below `rbo_a`.
    """

    name: ClassVar[str] = "rbo_b"
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: extrapolated as rbo is; a prefix scores 1, unless a tied group reaches over its end"
    ties: ClassVar[str] = (
        "chances of each order, normalised by the ties; the part of a tied group that the cut at k leaves is the group"
    )
    need: ClassVar[Need] = Need.SCORES
    source: ClassVar[str] = "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^b"

    def measure(self, alignment: Alignment) -> Floats:
        """Extrapolated RBO^b of each pair."""
        return rbo_b(alignment, self.p)
