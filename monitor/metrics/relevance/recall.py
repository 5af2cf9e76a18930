"""Recall as a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.relevance.gains import ARMS, DIFFERENCE, of_arm, recall
from monitor.metrics.metric import Metric, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall(Metric):
    """Share of the user's relevant items that are listed; see `monitor.kernels.relevance.gains.recall`.

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE

    name: ClassVar[str] = "recall"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: a shorter list has fewer places to be right in"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS}
    source: ClassVar[str] = "recall@k, relevant items listed / relevant items"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to 1 for one arm, -1 to 1 for the difference."""
        del k
        return (-1.0 if self.arm == DIFFERENCE else 0.0), 1.0

    def measure(self, alignment: Alignment) -> Floats:
        """Recall of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, labels: recall(grades, labels.relevant))
