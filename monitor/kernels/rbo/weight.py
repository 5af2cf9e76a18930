"""How rank-biased overlap spreads its weight over the ranks, and the persistence that spreads it as wanted."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from monitor.errors import MetricError
from monitor.model.arrays import Floats

DEEPEST = 1_000_000
_UNIT = 2.0**-52


def to_units(values: Floats) -> Floats:
    """The nearest multiples of 2**-52: sums of these that stay below 2 are exact, and the same in any order."""
    rounded: Floats = np.round(values / _UNIT) * _UNIT
    return rounded


def rbo_weight(p: float, d: int) -> float:
    """Share of RBO's weight that the top ``d`` ranks carry at persistence ``p``: 0 to 1, falling in p, rising in d.

    Webber, Moffat and Zobel (2010), equation 21. Rank i takes part in the agreement at every depth from i on, a share of
    1/e in depth e, so that with h_e = (1-p) p^(e-1) / e it weighs sum_{e>=i} h_e, and the top d weigh::

        1 - p^d + d ((1-p)/p ln(1/(1-p)) - sum_{e=1..d} h_e)

    That is also the least RBO of two identical lists of d items, whatever follows (`rbo_min`). Good to about d times 1e-16.
    MetricError unless 0 < p < 1 and d is a whole number from 1 to `DEEPEST`. Cost: O(d).
    """
    if not 0 < p < 1:
        msg = f"p must lie between 0 and 1, both excluded, not {p!r}"
        raise MetricError(msg)
    _check_depth(d)
    rank = np.arange(1, d + 1)
    below = (1 - p) / p * (-math.log1p(-p) - float((p**rank / rank).sum()))
    return min(1.0, -math.expm1(d * math.log(p)) + d * max(0.0, below))


@lru_cache(maxsize=32)
def rbo_persistence(top: float, share: float) -> float:
    """The p at which the top ``top`` ranks carry this ``share`` of RBO's weight: the inverse of `rbo_weight`.

    Found by halving down to neighbouring floats. MetricError unless 0 < share < 1, ``top`` is a whole number from 1 to
    `DEEPEST`, and such a p differs from 1 as a float.
    """
    _check_depth(top)
    if not 0 < share < 1:
        msg = f"share must lie between 0 and 1, both excluded, not {share!r}"
        raise MetricError(msg)
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if rbo_weight(middle, int(top)) > share else (low, middle)
    if high == 1.0:
        msg = f"no p gives the top {top:g} ranks a share as small as {share!r}"
        raise MetricError(msg)
    return low


def _check_depth(depth: float) -> None:
    if not (1 <= depth <= DEEPEST and depth == int(depth)):
        msg = f"top must be a whole number of ranks from 1 to {DEEPEST}, not {depth:g}"
        raise MetricError(msg)
