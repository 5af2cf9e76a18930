"""AP correlation of the items in common, as a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.kendall.weighted import tau_ap
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class TauAp(Metric):
    """Order alone, the baseline taken as the truth, errors at the candidate's top costing most.

    See `monitor.kernels.kendall.weighted.tau_ap`.
    """

    name: ClassVar[str] = "tau_ap"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = math.nan
    one_empty: ClassVar[float] = math.nan
    uneven: ClassVar[str] = "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
    source: ClassVar[str] = "Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information retrieval (2008)"

    def measure(self, alignment: Alignment) -> Floats:
        """AP correlation of each pair."""
        return tau_ap(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """0: the order of the items in common is random. None where there cannot be two."""
        del catalogue
        return 0.0 if k > 1 else None
