"""Spearman's footrule of the items in common, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import expect_over_shared
from monitor.kernels.footrule.plain import footrule
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Footrule(Metric):
    """How far the items in common move among each other, summed up; see `monitor.kernels.footrule.plain.footrule`."""

    name: ClassVar[str] = "footrule"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = math.inf
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    source: ClassVar[str] = "Diaconis and Graham, Spearman's footrule as a measure of disarray (1977)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to half the square of k, rounded down."""
        return 0.0, max(1.0, k * k // 2)

    def measure(self, alignment: Alignment) -> Floats:
        """Footrule of each pair."""
        return footrule(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """(z² - 1) / 3 for z items in common, where there are two; None where there cannot be."""
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, (z * z - 1) / 3, least=2)
