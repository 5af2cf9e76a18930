"""Kendall's distance with item and position weights, as a metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.kendall.element_weighted import DISCOUNTS, generalized_kendall_distance
from monitor.metrics.metric import Metric, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneralizedKendallDistance(Metric):
    """Pairs of common items in opposite order, weighted by the items and by how near the top they move.

    See `monitor.kernels.kendall.element_weighted.generalized_kendall_distance`.

    ``discount``: what a rank is worth, 1 / log2(rank + 1) for ``dcg`` and 1 / rank for ``hyperbolic``; moving between two ranks
    costs the difference.
    """

    discount: str = "dcg"

    name: ClassVar[str] = "generalized_kendall_distance"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    need: ClassVar[Need | None] = Need.ITEM_WEIGHTS
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"discount": tuple(DISCOUNTS)}
    source: ClassVar[str] = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"

    def measure(self, alignment: Alignment) -> Floats:
        """Generalized Kendall distance of each pair."""
        return generalized_kendall_distance(alignment, self.discount)
