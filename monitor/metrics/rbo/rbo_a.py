"""Rank-biased overlap averaged over the orders of tied items, as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.rbo.ties import rbo_a
from monitor.metrics.metric import Need
from monitor.metrics.rbo.persistent import Persistent


@dataclass(frozen=True, slots=True, kw_only=True)
class RboA(Persistent):
    """RBO where a tie leaves the order open: the mean over all orders; see `monitor.kernels.rbo.ties.rbo_a`.

    A list with ties scores under 1 against itself.
    """

    name: ClassVar[str] = "rbo_a"
    identical: ClassVar[None] = None
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: extrapolated as rbo is; a prefix scores 1, unless a tied group reaches over its end"
    ties: ClassVar[str] = (
        "the mean over all orders of the tied items; the part of a tied group that the cut at k leaves is the group"
    )
    need: ClassVar[Need] = Need.SCORES
    source: ClassVar[str] = "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^a"

    def measure(self, alignment: Alignment) -> Floats:
        """Extrapolated RBO^a of each pair."""
        return rbo_a(alignment, self.p)
