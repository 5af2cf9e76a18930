"""NDCG of the candidate in the baseline's eyes as a metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.relevance.gains import GAINS, LINEAR, expected_ndcg_vs_baseline, ndcg_vs_baseline
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class NdcgVsBaseline(Metric):
    """NDCG of the candidate's list, the baseline's ranks being the grades.

    ``gain``: grades l down to 1 (``linear``) or 2**grade - 1 (``exponential``). No labels needed, and none replaced: a
    candidate better than its baseline loses by it like one that is worse.
    """

    gain: str = LINEAR

    name: ClassVar[str] = "ndcg_vs_baseline"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: a candidate cut short loses what it lacks; items beyond the baseline's length add nothing"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"gain": GAINS}
    source: ClassVar[str] = "NDCG of Järvelin and Kekäläinen (2002) with the baseline's ranks as grades"

    def measure(self, alignment: Alignment) -> Floats:
        """NDCG of each candidate's list against the baseline's."""
        return ndcg_vs_baseline(alignment, self.gain)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Exact: the mean of a ratio whose denominator is fixed."""
        return expected_ndcg_vs_baseline(k, catalogue, self.gain)
