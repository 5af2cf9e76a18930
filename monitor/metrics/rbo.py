"""Rank-biased overlap: extrapolated, bounds, and its variants for ties."""

from abc import ABC

import numpy as np

from monitor.errors import MetricError
from monitor.immutable import immutable
from monitor.kernels import Alignment
from monitor.kernels.engines.positions import rank_dtype
from monitor.kernels.rbo.ties import rbo_a, rbo_b, rbo_w
from monitor.kernels.rbo.untied import (
    rbo,
    rbo_max,
    rbo_min,
    rbo_res,
    rbo_truncated,
    rbo_weight,
    residual_by_common,
)
from monitor.kernels.sets import common_by_chance
from monitor.metrics.metric import Need, Similarity


@immutable
class Persistent(Similarity, ABC):
    """A metric that weighs depth d with (1-p) p^(d-1)."""

    # Probability of looking at the next rank. At 0.9 the top ten have 86 % of the weight, see
    # `rbo_persistence`.
    p: float = 0.9

    def __post_init__(self) -> None:
        """Raise MetricError unless 0 < p < 1."""
        Similarity.__post_init__(self)
        if not 0 < self.p < 1:
            msg = (
                f"{self.name}(p={self.p!r}): p must be between 0 and 1, both excluded, such "
                f"as {self.name}(p=0.9)"
            )
            raise MetricError(msg)

    def score_full(self, k: int, *, is_same: bool) -> float:
        """Score of two lists of k items, identical or disjoint: the bounds of these metrics."""
        k = min(k, self.depth or k)
        places = np.arange(k) if is_same else np.full(k, k)
        length = np.array([k], dtype=np.int32)
        alignment = Alignment(places.astype(rank_dtype(k))[:, None], length, length)
        return float(self.measure(alignment)[0])


class TieAware(Persistent, ABC):
    """A metric that uses ties."""

    uneven = "exact: extrapolated as rbo is; a prefix scores 1, unless its end cuts a tied group"
    need = Need.SCORES


class Rbo(Persistent):
    """Agreement at every depth, with most weight at the top."""

    kernel = staticmethod(rbo)
    uneven = (
        "exact, by equation 32: the agreement is assumed to stay the same below the shorter "
        "list; a prefix scores 1"
    )
    source = (
        "Webber, Moffat and Zobel (2010), A similarity measure for indefinite rankings, equation 32"
    )

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """(1 - p^k) / (1 - p) / catalogue.

        The mean agreement is d / catalogue at depth d, and k / catalogue below the lists.
        """
        return float((1 - self.p**k) / (1 - self.p) / catalogue)


class RboA(TieAware):
    """RBO where a tie means an unknown order: the mean over all orders.

    A list with ties scores below 1 against itself.
    """

    kernel = staticmethod(rbo_a)
    identical = None
    ties = (
        "the mean over all orders of the tied items; only the part of a tied group before the "
        "cut at k counts"
    )
    source = "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^a"


class RboB(TieAware):
    """RBO where a tie means an unknown order, normalised as tau-b is.

    A list scores 1 against itself, even with ties. The score is never below `rbo_a`.
    """

    kernel = staticmethod(rbo_b)
    ties = (
        "the probability of each order, normalised by the ties; only the part of a tied group "
        "before the cut at k counts"
    )
    source = "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^b"


class RboMax(Persistent):
    """The most RBO that the lists can have if they continue."""

    kernel = staticmethod(rbo_max)
    disjoint = None
    one_empty = 1.0
    uneven = "exact: items below the end of a list may be in the other; a prefix scores 1"
    source = (
        "Webber, Moffat and Zobel (2010), section 4.3 and equation 30: the lower bound and "
        "the residual"
    )

    def bounds(self, k: int) -> tuple[float, float]:
        """The score of two disjoint lists of k items, and 1."""
        return self.score_full(k, is_same=False), 1.0

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The sum of the expected lower bound and the expected residual."""
        least = RboMin(p=self.p).expected_by_chance(k, catalogue)
        return min(1.0, least + RboRes(p=self.p).expected_by_chance(k, catalogue))


class RboMin(Persistent):
    """The least RBO that the lists can have if they continue."""

    kernel = staticmethod(rbo_min)
    identical = None
    uneven = (
        "exact: no item below the end of a list is in the other; a prefix scores the weight of "
        "its ranks"
    )
    source = "Webber, Moffat and Zobel (2010), equation 11"

    def bounds(self, k: int) -> tuple[float, float]:
        """0, and the score of two identical lists of k items."""
        return 0.0, self.score_full(k, is_same=True)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Mean overlap is d^2 / catalogue at depth d, and k^2 / catalogue below the lists."""
        seen = (1 - self.p**k) / (1 - self.p) - k * self.p**k
        below = k * (rbo_weight(self.p, k) - (1 - self.p**k))
        return float((seen + below) / catalogue)


class RboRes(Persistent):
    """How much RBO can still grow below the lists, `rbo_max` - `rbo_min`.

    This is no similarity: it falls as lists become longer and as they share more items. It is the
    width of the range that `rbo` extrapolates in.
    """

    kernel = staticmethod(rbo_res)
    higher_is_more_alike = False
    identical = None
    disjoint = None
    one_empty = 1.0
    uneven = "exact, by equation 30: lengths and the number of common items decide"
    source = "Webber, Moffat and Zobel (2010), equation 30"

    def bounds(self, k: int) -> tuple[float, float]:
        """The value of two identical lists of k items, and 1, the value of an empty list."""
        return self.score_full(k, is_same=True), 1.0

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean over the number of common items of two random lists, which is hypergeometric."""
        return float(common_by_chance(k, catalogue) @ residual_by_common(self.p, k))


class RboTruncated(Persistent):
    """RBO@k, the sum over the depths seen: identical lists score 1 - p^k.

    Other libraries call it RBO. It mixes the similarity of the lists with their length; `rbo` does
    not.
    """

    kernel = staticmethod(rbo_truncated)
    identical = None
    uneven = "exact: depths down to the end of the shorter list; a prefix of s items scores 1 - p^s"
    source = "Webber, Moffat and Zobel (2010), equation 4 cut off at the shorter list's end (RBO@k)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0, and the score of two identical lists of k items."""
        return 0.0, self.score_full(k, is_same=True)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Mean agreement is d / catalogue at depth d. The depths below add nothing."""
        return float(((1 - self.p**k) / (1 - self.p) - k * self.p**k) / catalogue)


class RboW(TieAware):
    """RBO where a tie means equality: tied items share one rank.

    A list scores 1 against itself, even with ties.
    """

    kernel = staticmethod(rbo_w)
    ties = "tied items share one rank; only the part of a tied group before the cut at k counts"
    source = (
        "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^w; "
        "Webber, Moffat and Zobel, equation 28"
    )
