"""Jaccard's index as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import common_by_chance
from monitor.kernels.sets import jaccard
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Jaccard(Metric):
    """Membership alone: common items by the items of both lists together; see `monitor.kernels.sets.jaccard`."""

    name: ClassVar[str] = "jaccard"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: common items by all items; a prefix scores its share of the longer list"
    source: ClassVar[str] = "Jaccard (1901), Étude comparative de la distribution florale"

    def measure(self, alignment: Alignment) -> Floats:
        """Jaccard's index of each pair."""
        return jaccard(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean of x / (2k - x), x the common items of two random lists, which is hypergeometric."""
        common = np.arange(k + 1)
        return float(common_by_chance(k, catalogue) @ (common / (2 * k - common)))
