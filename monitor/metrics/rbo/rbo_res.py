"""What rank-biased overlap may still gain, as a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats
from monitor.kernels.chance import common_by_chance
from monitor.kernels.rbo.bounds import rbo_res, residual_by_common
from monitor.metrics.rbo.persistent import Persistent, align_full


@dataclass(frozen=True, slots=True, kw_only=True)
class RboRes(Persistent):
    """How much of RBO is still open below the lists, `rbo_max` - `rbo_min`; see `monitor.kernels.rbo.bounds.rbo_res`.

    No similarity: it falls as lists grow and as they share more items. Read it as the width of what `rbo` guesses in.
    """

    name: ClassVar[str] = "rbo_res"
    higher_is_more_alike: ClassVar[bool] = False
    identical: ClassVar[None] = None
    disjoint: ClassVar[None] = None
    one_empty: ClassVar[float] = 1.0
    uneven: ClassVar[str] = "exact, by equation 30: lengths and the number of common items decide"
    source: ClassVar[str] = "Webber, Moffat and Zobel (2010), equation 30"

    def bounds(self, k: int) -> tuple[float, float]:
        """What two identical lists of k items leave open, and 1, as an empty list does."""
        return float(self.measure(align_full(min(k, self.depth or k), is_same=True))[0]), 1.0

    def measure(self, alignment: Alignment) -> Floats:
        """Residual of RBO of each pair."""
        return rbo_res(alignment, self.p)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean over the number of common items of two random lists, which is hypergeometric."""
        return float(common_by_chance(k, catalogue) @ residual_by_common(self.p, k))
