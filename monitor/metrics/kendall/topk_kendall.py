"""Fagin, Kumar and Sivakumar's K^(p), as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from monitor.errors import MetricError
from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import expect_topk_kendall
from monitor.kernels.kendall.topk import topk_kendall
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class TopkKendall(Metric):
    """Pairs of items of either list that the lists order in opposite ways; see `monitor.kernels.kendall.topk.topk_kendall`.

    ``penalty``: p from 0 to 1, what two items count that one list holds and the other has neither of; 0 is optimistic,
    0.5 neutral.
    """

    penalty: float = 0.0

    name: ClassVar[str] = "topk_kendall"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact, by the four cases; at penalty 0 a prefix has distance 0"
    source: ClassVar[str] = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), K^(p)"

    def __post_init__(self) -> None:
        """MetricError unless 0 <= penalty <= 1."""
        Metric.__post_init__(self)
        if not 0 <= self.penalty <= 1:
            msg = f"topk_kendall(penalty={self.penalty!r}): penalty must lie between 0 and 1, such as topk_kendall(penalty=0.5)"
            raise MetricError(msg)

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to the distance of two disjoint lists of k items."""
        return 0.0, k * k + self.penalty * k * (k - 1)

    def measure(self, alignment: Alignment) -> Floats:
        """K^(p) of each pair."""
        return topk_kendall(alignment, self.penalty)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the distance is a sum over pairs of items."""
        return expect_topk_kendall(k, catalogue, self.penalty)
