"""Spearman's footrule with item weights, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.footrule.weighted import element_weighted_footrule
from monitor.metrics.metric import Metric, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWeightedFootrule(Metric):
    """How much weight the items in common move past, each counting its own weight.

    See `monitor.kernels.footrule.weighted.element_weighted_footrule`.
    """

    name: ClassVar[str] = "element_weighted_footrule"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    need: ClassVar[Need | None] = Need.ITEM_WEIGHTS
    source: ClassVar[str] = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"

    def measure(self, alignment: Alignment) -> Floats:
        """Element-weighted footrule of each pair."""
        return element_weighted_footrule(alignment)
