"""Spearman's footrule by its largest value, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import expect_over_shared
from monitor.kernels.footrule.plain import footrule_normalized
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class FootruleNormalized(Metric):
    """How far the items in common move among each other, as a share of the most they could.

    See `monitor.kernels.footrule.plain.footrule_normalized`.
    """

    name: ClassVar[str] = "footrule_normalized"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    source: ClassVar[str] = "Diaconis and Graham, Spearman's footrule as a measure of disarray (1977)"

    def measure(self, alignment: Alignment) -> Floats:
        """Normalized footrule of each pair."""
        return footrule_normalized(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """(z² - 1) / 3 by floor(z² / 2) for z items in common, where there are two; None where there cannot be."""
        z = np.arange(k + 1.0)
        return expect_over_shared(k, catalogue, (z * z - 1) / 3 / np.maximum(z * z // 2, 1), least=2)
