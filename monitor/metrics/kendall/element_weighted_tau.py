"""Extended Kendall tau with item weights, as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.kendall.element_weighted import element_weighted_tau
from monitor.metrics.metric import Metric, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWeightedTau(Metric):
    """Order and membership together, an item of weight w counting as w items.

    See `monitor.kernels.kendall.element_weighted.element_weighted_tau`.
    """

    name: ClassVar[str] = "element_weighted_tau"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = -1.0
    one_empty: ClassVar[float] = -1.0
    uneven: ClassVar[str] = "exact: a universe of as much weight as both lists have; a proper prefix scores under 1"
    need: ClassVar[Need | None] = Need.ITEM_WEIGHTS
    source: ClassVar[str] = "Kumar and Vassilvitskii, Generalized distances between rankings (2010); van der Geer (2016)"

    def measure(self, alignment: Alignment) -> Floats:
        """Element-weighted extended tau of each pair."""
        return element_weighted_tau(alignment)
