"""K^(p) by its largest value, as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.errors import MetricError
from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import expect_topk_kendall
from monitor.kernels.kendall.topk import topk_kendall_normalized
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class TopkKendallNormalized(Metric):
    """`topk_kendall` divided by its value on disjoint lists of the same lengths.

    See `monitor.kernels.kendall.topk.topk_kendall_normalized`.

    ``penalty``: p from 0 to 1, what two items count that one list holds and the other has neither of; 0 is optimistic,
    0.5 neutral.
    """

    penalty: float = 0.0

    name: ClassVar[str] = "topk_kendall_normalized"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = 1.0
    one_empty: ClassVar[float] = 1.0
    uneven: ClassVar[str] = "exact, by the four cases; at penalty 0 a prefix has distance 0"
    source: ClassVar[str] = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), K^(p)"

    def __post_init__(self) -> None:
        """MetricError unless 0 <= penalty <= 1."""
        Metric.__post_init__(self)
        if not 0 <= self.penalty <= 1:
            msg = f"topk_kendall_normalized(penalty={self.penalty!r}): penalty must lie between 0 and 1"
            raise MetricError(msg)

    def measure(self, alignment: Alignment) -> Floats:
        """Normalized K^(p) of each pair."""
        return topk_kendall_normalized(alignment, self.penalty)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: the distance is a sum over pairs of items."""
        return expect_topk_kendall(k, catalogue, self.penalty) / (k * k + self.penalty * k * (k - 1))
