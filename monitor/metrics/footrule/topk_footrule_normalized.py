"""F^(l+1) by its largest value, as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.footrule.plain import topk_footrule_normalized
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class TopkFootruleNormalized(Metric):
    """`topk_footrule` divided by its value on disjoint lists of the same lengths.

    See `monitor.kernels.footrule.plain.topk_footrule_normalized`.
    """

    name: ClassVar[str] = "topk_footrule_normalized"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[float] = 0.0
    disjoint: ClassVar[float] = 1.0
    one_empty: ClassVar[float] = 1.0
    uneven: ClassVar[str] = (
        "each list's own length gives the rank of its absent items; a list that lacks only the last item has distance 0"
    )
    source: ClassVar[str] = "Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l+1)"

    def measure(self, alignment: Alignment) -> Floats:
        """Normalized F^(l+1) of each pair."""
        return topk_footrule_normalized(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:
        """Exact: an item of one list stands at each of the other's ranks with chance 1 / N."""
        return (k - 1) / (3 * catalogue) + 1 - k / catalogue
