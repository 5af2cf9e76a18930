"""Spearman's footrule with item weights by what a reversal would cost, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.footrule.weighted import element_weighted_footrule_normalized
from monitor.metrics.metric import Metric, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWeightedFootruleNormalized(Metric):
    """How much weight the items in common move past, as a share of the most they could.

    See `monitor.kernels.footrule.weighted.element_weighted_footrule_normalized`.
    """

    name: ClassVar[str] = "element_weighted_footrule_normalized"
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
        """Normalized element-weighted footrule of each pair."""
        return element_weighted_footrule_normalized(alignment)
