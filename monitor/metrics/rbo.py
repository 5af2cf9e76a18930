"""Rank-biased overlap: extrapolated, bounds, and its variants for ties."""

from abc import ABC
from dataclasses import dataclass

import numpy as np

from monitor.errors import MetricError
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistent(Similarity, ABC):
    """A measure that weighs depth d with (1-p) p^(d-1)."""

    # Chance to look at the next rank; at 0.9 the top ten carry 86 % of the weight, see
    # `rbo_persistence`
    p: float = 0.9

    def __post_init__(self) -> None:
        """MetricError unless 0 < p < 1."""
        Similarity.__post_init__(self)
        if not 0 < self.p < 1:
            msg = (
                f"{self.name}(p={self.p!r}): p must lie between 0 and 1, both excluded, such "
                f"as {self.name}(p=0.9)"
            )
            raise MetricError(msg)

    def score_full(self, k: int, *, is_same: bool) -> float:
        """Score of two lists of k items, identical or disjoint: where the bounds of these measures are attained."""
        k = min(k, self.depth or k)
        places = np.arange(k) if is_same else np.full(k, k)
        length = np.array([k], dtype=np.int32)
        return float(
            self.measure(Alignment(places.astype(rank_dtype(k))[:, None], length, length))[0]
        )


class TieAware(Persistent, ABC):
    """A measure that knows which items are tied."""

    uneven = (
        "exact: extrapolated as rbo is; a prefix scores 1, unless a tied group reaches over its end"
    )
    need = Need.SCORES


class Rbo(Persistent):
    """Agreement at every depth, the top weighing most."""

    kernel = staticmethod(rbo)
    uneven = (
        "exact, by equation 32: agreement seen is taken to go on below the shorter list; a "
        "prefix scores 1"
    )
    source = (
        "Webber, Moffat and Zobel (2010), A similarity measure for indefinite rankings, equation 32"
    )

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Agreement at depth d is d / catalogue on average, k / catalogue below: together (1 - p^k) / (1 - p) / catalogue."""
        return float((1 - self.p**k) / (1 - self.p) / catalogue)


class RboA(TieAware):
    """RBO where a tie leaves the order open: the mean over all orders.

    A list with ties scores under 1 against itself.
    """

    kernel = staticmethod(rbo_a)
    identical = None
    ties = (
        "the mean over all orders of the tied items; the part of a tied group that the cut at "
        "k leaves is the group"
    )
    source = "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^a"


class RboB(TieAware):
    """RBO where a tie leaves the order open, normalised as tau-b is.

    A list scores 1 against itself, ties and all; never below `rbo_a`.
    """

    kernel = staticmethod(rbo_b)
    ties = (
        "chances of each order, normalised by the ties; the part of a tied group that the cut "
        "at k leaves is the group"
    )
    source = "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^b"


class RboMax(Persistent):
    """The most RBO that the lists can have, however they go on."""

    kernel = staticmethod(rbo_max)
    disjoint = None
    one_empty = 1.0
    uneven = "exact: what is below either list may be in the other; a prefix scores 1"
    source = (
        "Webber, Moffat and Zobel (2010), section 4.3 and equation 30: the lower bound and "
        "the residual"
    )

    def bounds(self, k: int) -> tuple[float, float]:
        """The score of two disjoint lists of k items, and 1."""
        return self.score_full(k, is_same=False), 1.0

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The sum of what chance gives of the lower bound and of the residual."""
        return min(
            1.0,
            RboMin(p=self.p).expected_by_chance(k, catalogue)
            + RboRes(p=self.p).expected_by_chance(k, catalogue),
        )


class RboMin(Persistent):
    """The least RBO that the lists can have, however they go on."""

    kernel = staticmethod(rbo_min)
    identical = None
    uneven = (
        "exact: nothing below either list is in the other; a prefix scores the weight of its ranks"
    )
    source = "Webber, Moffat and Zobel (2010), equation 11"

    def bounds(self, k: int) -> tuple[float, float]:
        """0, and the score of two identical lists of k items."""
        return 0.0, self.score_full(k, is_same=True)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Overlap at depth d is d^2 / catalogue on average, and stays k^2 / catalogue below the lists."""
        seen = (1 - self.p**k) / (1 - self.p) - k * self.p**k
        below = k * (rbo_weight(self.p, k) - (1 - self.p**k))
        return float((seen + below) / catalogue)


class RboRes(Persistent):
    """How much of RBO is still open below the lists, `rbo_max` - `rbo_min`.

    No similarity: it falls as lists grow and as they share more items. Read it as the width of what
    `rbo` guesses in."""

    kernel = staticmethod(rbo_res)
    higher_is_more_alike = False
    identical = None
    disjoint = None
    one_empty = 1.0
    uneven = "exact, by equation 30: lengths and the number of common items decide"
    source = "Webber, Moffat and Zobel (2010), equation 30"

    def bounds(self, k: int) -> tuple[float, float]:
        """What two identical lists of k items leave open, and 1, as an empty list does."""
        return self.score_full(k, is_same=True), 1.0

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean over the number of common items of two random lists, which is hypergeometric."""
        return float(common_by_chance(k, catalogue) @ residual_by_common(self.p, k))


class RboTruncated(Persistent):
    """RBO@k, the sum over the depths seen: identical lists score 1 - p^k.

    Known elsewhere as plain RBO. It mixes how alike lists are with how long they are; `rbo` does
    not."""

    kernel = staticmethod(rbo_truncated)
    identical = None
    uneven = "exact: depths down to the end of the shorter list; a prefix of s items scores 1 - p^s"
    source = "Webber, Moffat and Zobel (2010), equation 4 cut off at the shorter list's end (RBO@k)"

    def bounds(self, k: int) -> tuple[float, float]:
        """0, and the score of two identical lists of k items."""
        return 0.0, self.score_full(k, is_same=True)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Agreement at depth d is d / catalogue on average, and the depths below count nothing."""
        return float(((1 - self.p**k) / (1 - self.p) - k * self.p**k) / catalogue)


class RboW(TieAware):
    """RBO where a tie means equality: tied items share one rank.

    A list scores 1 against itself, ties and all.
    """

    kernel = staticmethod(rbo_w)
    ties = (
        "tied items share one rank; the part of a tied group that the cut at k leaves is the group"
    )
    source = (
        "Corsi and Urbano (2024), The treatment of ties in rank-biased overlap, RBO^w; "
        "Webber, Moffat and Zobel, equation 28"
    )
