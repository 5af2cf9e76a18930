"""Fagin, Kumar and Sivakumar's F^(l+1), as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.footrule.plain import topk_footrule
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class TopkFootrule(Metric):
    """How far the items of either list move, absent ones ranked right behind the list.

    See `monitor.kernels.footrule.plain.topk_footrule`.
    """

    name: ClassVar[str] = "topk_footrule"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = (
        "each list's own length gives the rank of its absent items; a list that lacks only the last item has distance 0"
    )
    source: ClassVar[str] = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l+1)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to the distance of two disjoint lists of k items."""
        return 0.0, k * (k + 1.0)

    def measure(self, alignment: Alignment) -> Floats:
        """F^(l+1) of each pair."""
        return topk_footrule(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: an item of one list stands at each of the other's ranks with chance 1 / N."""
        return k * (k * k - 1) / (3 * catalogue) + (1 - k / catalogue) * k * (k + 1)
