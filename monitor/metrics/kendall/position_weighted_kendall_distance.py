"""Kendall's distance with position weights, as a metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import common_by_chance, expect_over_shared
from monitor.kernels.kendall.element_weighted import DISCOUNTS, expect_position_weighted, position_weighted_kendall_distance
from monitor.metrics.metric import Metric

_MOST_SHARED = 2000
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionWeightedKendallDistance(Metric):
    """Pairs of common items in opposite order, those that move at the top counting most.

    See `monitor.kernels.kendall.element_weighted.position_weighted_kendall_distance`.

    ``discount``: what a rank is worth, 1 / log2(rank + 1) for ``dcg`` and 1 / rank for ``hyperbolic``; moving between two ranks
    costs the difference.
    """

    discount: str = "dcg"

    name: ClassVar[str] = "position_weighted_kendall_distance"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"discount": tuple(DISCOUNTS)}
    source: ClassVar[str] = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to all pairs of k items: no step costs more than the first, 1."""
        return 0.0, max(1.0, k * (k - 1) / 2)

    def measure(self, alignment: Alignment) -> Floats:
        """Position-weighted discordant pairs of each pair of lists."""
        return position_weighted_kendall_distance(alignment, self.discount)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact where lists share no more than `_MOST_SHARED` items or so; None, so that it is simulated, where they do."""
        most = min(k, _MOST_SHARED)
        if common_by_chance(k, catalogue)[most + 1 :].sum() > _NEGLIGIBLE:
            return None
        values = np.zeros(k + 1)
        values[: most + 1] = expect_position_weighted(most, self.discount)
        return expect_over_shared(k, catalogue, values, least=2)
