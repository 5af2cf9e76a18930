"""Rank-biased overlap (RBO): the extrapolated value, its bounds, and variants for ties."""

from abc import ABC

import numpy as np

from monitor.measures.kernels import Alignment
from monitor.measures.kernels.engines.positions import rank_dtype
from monitor.measures.kernels.rbo.ties import rbo_a, rbo_b, rbo_w
from monitor.measures.kernels.rbo.untied import (
    rbo,
    rbo_max,
    rbo_min,
    rbo_res,
    rbo_truncated,
    rbo_weight,
    residual_by_common,
)
from monitor.measures.kernels.sets import common_by_chance
from monitor.measures.metrics.metric import Need, Similarity
from monitor.model.errors import MetricError
from monitor.model.immutable import immutable


@immutable
class Persistent(Similarity, ABC):
    """A metric in which depth d has the weight (1-p) p^(d-1)."""

    # The probability that a reader looks at the next rank. With p = 0.9 the first ten ranks have
    # 86 % of the weight. `rbo_persistence` computes p from such a share.
    p: float = 0.9

    def __post_init__(self) -> None:
        """Raise MetricError unless 0 < p < 1."""
        Similarity.__post_init__(self)
        if not 0 < self.p < 1:
            raise MetricError(
                f"{self.name}(p={self.p!r}): p must be between 0 and 1, both excluded, such "
                f"as {self.name}(p=0.9)"
            )

    def score_full(self, k: int, *, is_same: bool) -> float:
        """The score of two identical lists of k items, or of two disjoint lists of k items."""
        k = min(k, self.depth or k)
        places = np.arange(k) if is_same else np.full(k, k)
        length = np.array([k], dtype=np.int32)
        alignment = Alignment(places.astype(rank_dtype(k))[:, None], length, length)
        return float(self.measure(alignment)[0])


class TieAware(Persistent, ABC):
    """A metric that uses the ties of the lists."""

    uneven = "it is extrapolated as rbo is; a prefix scores 1 unless its end cuts a tied group"
    need = Need.SCORES


class Rbo(Persistent):
    """Agreement at every depth. The top of the lists has the highest weight."""

    kernel = staticmethod(rbo)
    uneven = (
        "by equation 32: the agreement is assumed to stay the same below the shorter list; a "
        "prefix scores 1"
    )
    source = (
        "Webber, Moffat and Zobel (2010), A similarity measure for indefinite rankings, equation 32"
    )

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean score is (1 - p^k) / (1 - p) / catalogue.

        The mean agreement at depth d is d / catalogue. Below depth k it stays k / catalogue.
        """
        return float((1 - self.p**k) / (1 - self.p) / catalogue)


class RboA(TieAware):
    """RBO for ties that mean an unknown order. The score is the mean over all orders.

    A list with ties scores below 1 if it is compared with itself.
    """

    kernel = staticmethod(rbo_a)
    identical = None
    ties = (
        "the score is the mean over all orders of the tied items; tied items after the cut at k "
        "are ignored"
    )
    source = "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^a"


class RboB(TieAware):
    """RBO for ties that mean an unknown order. The score is normalised in the way of tau-b.

    A list with ties scores 1 if it is compared with itself. The score is never below `rbo_a`.
    """

    kernel = staticmethod(rbo_b)
    ties = (
        "each order of tied items has a probability, and the score is normalised by the ties; tied "
        "items after the cut at k are ignored"
    )
    source = "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^b"


class RboMax(Persistent):
    """The highest RBO that the lists can have if they continue."""

    kernel = staticmethod(rbo_max)
    disjoint = None
    one_empty = 1.0
    uneven = "any item may follow below the end of a list; a prefix scores 1"
    source = (
        "Webber, Moffat and Zobel (2010), section 4.3 and equation 30: the lower bound and the "
        "residual"
    )

    def bounds(self, k: int) -> tuple[float, float]:
        """Ranges from the score of two disjoint lists of k items to 1."""
        return self.score_full(k, is_same=False), 1.0

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The sum of the mean of `rbo_min` and the mean of `rbo_res`."""
        least = RboMin(p=self.p).expected_by_chance(k, catalogue)
        return min(1.0, least + RboRes(p=self.p).expected_by_chance(k, catalogue))


class RboMin(Persistent):
    """The lowest RBO that the lists can have if they continue."""

    kernel = staticmethod(rbo_min)
    identical = None
    uneven = (
        "items below the end of one list are assumed not to be in the other list; a prefix scores "
        "the weight of its ranks"
    )
    source = "Webber, Moffat and Zobel (2010), equation 11"

    def bounds(self, k: int) -> tuple[float, float]:
        """Ranges from 0 to the score of two identical lists of k items."""
        return 0.0, self.score_full(k, is_same=True)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean overlap is d^2 / catalogue at depth d, and k^2 / catalogue below depth k."""
        seen = (1 - self.p**k) / (1 - self.p) - k * self.p**k
        below = k * (rbo_weight(self.p, k) - (1 - self.p**k))
        return float((seen + below) / catalogue)


class RboRes(Persistent):
    """How much RBO can grow if the lists continue: `rbo_max` minus `rbo_min`.

    This is no similarity. It falls if the lists become longer or share more items. `rbo` is always
    between `rbo_min` and `rbo_max`.
    """

    kernel = staticmethod(rbo_res)
    higher_is_more_alike = False
    identical = None
    disjoint = None
    one_empty = 1.0
    uneven = "by equation 30: the value depends on the lengths and on the number of common items"
    source = "Webber, Moffat and Zobel (2010), equation 30"

    def bounds(self, k: int) -> tuple[float, float]:
        """Ranges from the value of two identical lists of k items to 1 for an empty list."""
        return self.score_full(k, is_same=True), 1.0

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean over the number of common items, which has a hypergeometric distribution."""
        return float(common_by_chance(k, catalogue) @ residual_by_common(self.p, k))


class RboTruncated(Persistent):
    """RBO@k: RBO summed only to depth k, without extrapolation. Identical lists score 1 - p^k.

    Other libraries call this RBO. The score depends on the length of the lists, not only on their
    similarity. The score of `rbo` does not depend on the length.
    """

    kernel = staticmethod(rbo_truncated)
    identical = None
    uneven = (
        "summed only to the length s of the shorter list, so a prefix of s items scores 1 - p^s"
    )
    source = "Webber, Moffat and Zobel (2010), equation 4 cut off at the shorter list's end (RBO@k)"

    def bounds(self, k: int) -> tuple[float, float]:
        """Ranges from 0 to the score of two identical lists of k items."""
        return 0.0, self.score_full(k, is_same=True)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean agreement at depth d is d / catalogue. Depths below k add nothing."""
        return float(((1 - self.p**k) / (1 - self.p) - k * self.p**k) / catalogue)


class RboW(TieAware):
    """RBO for ties that mean equality. Tied items share one rank.

    A list with ties scores 1 if it is compared with itself.
    """

    kernel = staticmethod(rbo_w)
    ties = "tied items share one rank; tied items after the cut at k are ignored"
    source = (
        "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^w; Webber, "
        "Moffat and Zobel, equation 28"
    )
