"""Kendall's distance with item weights by its largest value, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.kendall.element_weighted import element_weighted_kendall_distance_normalized
from monitor.metrics.metric import Metric, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWeightedKendallDistanceNormalized(Metric):
    """Share of the weight of pairs of common items that stands in opposite order.

    See `monitor.kernels.kendall.element_weighted.element_weighted_kendall_distance_normalized`.
    """

    name: ClassVar[str] = "element_weighted_kendall_distance_normalized"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    need: ClassVar[Need | None] = Need.ITEM_WEIGHTS
    source: ClassVar[str] = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"

    def measure(self, alignment: Alignment) -> Floats:
        """Share of weighted discordant pairs of each pair of lists."""
        return element_weighted_kendall_distance_normalized(alignment)
