"""Normalized discounted cumulative gain as a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.relevance.gains import ARMS, DIFFERENCE, GAINS, LINEAR, ndcg, of_arm
from monitor.metrics.metric import Metric, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Ndcg(Metric):
    """DCG by that of the user's best possible list; see `monitor.kernels.relevance.gains.ndcg`.

    ``gain``: the grade g (``linear``) or 2**g - 1 (``exponential``). The ideal holds the user's best items, listed or not.

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE
    gain: str = LINEAR

    name: ClassVar[str] = "ndcg"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: the ideal is as deep as the metric, so that a list too short loses by it"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS, "gain": GAINS}
    source: ClassVar[str] = (
        "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques; gain 2**g - 1: Burges et al. (2005)"
    )

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to 1 for one arm, -1 to 1 for the difference."""
        del k
        return (-1.0 if self.arm == DIFFERENCE else 0.0), 1.0

    def measure(self, alignment: Alignment) -> Floats:
        """NDCG of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, labels: ndcg(grades, labels.ideal, self.gain))
