"""Average precision as a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.relevance.gains import ARMS, DIFFERENCE, average_precision, of_arm
from monitor.metrics.metric import Metric, Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Metric):
    """Average precision, whose mean is the MAP; see `monitor.kernels.relevance.gains.average_precision`.

    Divided by the number of the user's relevant items, as trec_eval does, not by min(that, k).

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE

    name: ClassVar[str] = "map"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: a relevant item that a short list lacks adds nothing"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS}
    source: ClassVar[str] = "Buckley and Voorhees (2000), Evaluating evaluation measure stability; trec_eval, map_cut"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to 1 for one arm, -1 to 1 for the difference."""
        del k
        return (-1.0 if self.arm == DIFFERENCE else 0.0), 1.0

    def measure(self, alignment: Alignment) -> Floats:
        """Average precision of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, labels: average_precision(grades, labels.relevant))
