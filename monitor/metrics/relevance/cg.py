"""Cumulative gain as a metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.relevance.gains import ARMS, DIFFERENCE, cg, of_arm
from monitor.metrics.metric import Metric, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Cg(Metric):
    """Sum of the grades of the items listed; see `monitor.kernels.relevance.gains.cg`.

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE

    name: ClassVar[str] = "cg"
    low: ClassVar[float] = -math.inf
    high: ClassVar[float] = math.inf
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: a place without an item adds nothing"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS}
    source: ClassVar[str] = "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques, equation 1"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 or more for one arm, without upper end."""
        del k
        return (-math.inf if self.arm == DIFFERENCE else 0.0), math.inf

    def measure(self, alignment: Alignment) -> Floats:
        """Cumulative gain of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, _: cg(grades))
