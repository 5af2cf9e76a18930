"""Tau with mismatches appended, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import expect_over_shared
from monitor.kernels.kendall.appended import appended_tau
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedTau(Metric):
    """Tau-b over the items of both lists, each list's mismatches tied behind the other's end.

    See `monitor.kernels.kendall.appended.appended_tau`.
    """

    name: ClassVar[str] = "appended_tau"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = (
        "exact, but a list that lacks only the last item of the other scores 1; NaN for identical lists of one item"
    )
    source: ClassVar[str] = "Rogier van der Geer, Using Kendall's tau to compare recommendations (2016), Appending mismatches"

    def measure(self, alignment: Alignment) -> Floats:
        """Appended tau of each pair."""
        return appended_tau(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: with z items in common only the (k - z)² pairs of one item here and the other there are out of balance."""
        if k == 1:
            return -1.0 if catalogue > 1 else None
        z = np.arange(k + 1.0)
        universe = 2 * k - z
        norm = (universe * (universe - 1) - (k - z) * (k - z - 1)) / 2
        return expect_over_shared(k, catalogue, -((k - z) ** 2) / norm)
