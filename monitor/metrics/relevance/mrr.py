"""Reciprocal rank as a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.relevance.gains import ARMS, DIFFERENCE, of_arm, reciprocal_rank
from monitor.metrics.metric import Metric, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Mrr(Metric):
    """1 / rank of the first relevant item, whose mean is the MRR; see `monitor.kernels.relevance.gains.reciprocal_rank`.

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE

    name: ClassVar[str] = "mrr"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: a list that ends before its first relevant item scores 0"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS}
    source: ClassVar[str] = "Voorhees (1999), The TREC-8 question answering track report"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to 1 for one arm, -1 to 1 for the difference."""
        del k
        return (-1.0 if self.arm == DIFFERENCE else 0.0), 1.0

    def measure(self, alignment: Alignment) -> Floats:
        """Reciprocal rank of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, _: reciprocal_rank(grades))
