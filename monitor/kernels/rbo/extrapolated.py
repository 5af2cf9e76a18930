"""Rank-biased overlap, extrapolated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from monitor.kernels.alignment import Alignment
from monitor.kernels.rbo.weight import to_units
from monitor.model.arrays import Floats


def rbo(alignment: Alignment, p: float) -> Floats:
    """RBO_ext of each pair with persistence 0 < p < 1: float64 (n,) in [0, 1].

    Webber, Moffat and Zobel, A similarity measure for indefinite rankings, TOIS 28(4), 2010, equation 32: agreement seen is
    taken to go on below both lists. With X_d the overlap of the top d's, s and l the lengths of the shorter and longer list::

        (1-p)/p (sum_{d=1..l} X_d/d p^d + sum_{d=s+1..l} X_s (d-s)/(s d) p^d) + ((X_l - X_s)/l + X_s/s) p^l

    This is linear in the common items: one whose larger position (from 0) is m adds ``g[s if m < s else l] - h[m]``, where
    h[d] = (1-p)/p sum_{e=1..d} p^e/e and g[d] = p^d/d + h[d].

    Identical lists and a prefix against its whole: exactly 1. Disjoint or one empty: exactly 0. Both empty: NaN. Symmetric.
    """
    # Weights are multiples of 2**-52 and partial sums stay below 2, so that every sum is exact, and the same in any order.
    table = _weights(p, alignment.k)
    if alignment.is_full:
        return alignment.sum_by_depth(table.even)
    short, long = alignment.short.astype(np.intp), alignment.long.astype(np.intp)
    score = alignment.sum_by_depth(table.seen)
    g_short, g_long = table.g.take(short), table.g.take(long)
    score += alignment.common * (g_long - table.h[-1])
    score += alignment.common_within(short) * (g_short - g_long)
    score += (alignment.positions[0] == 0) * table.residue.take(short)
    score[long == 0] = np.nan
    return score


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """``g`` and ``h`` for d = 0 to k; ``seen[m]`` = h[k] - h[m]; ``even[m]`` = g[k] - h[m], for pairs of two full lists.

    ``residue[s]``: what rounding leaves between 1 and the score of identical lists of length s; the first rank carries it.
    """

    g: Floats
    h: Floats
    seen: Floats
    even: Floats
    residue: Floats


@lru_cache(maxsize=32)
def _weights(p: float, k: int) -> _Weights:
    depth = np.arange(1, k + 1)
    power = p ** (depth - 1.0)
    h = to_units(np.concatenate(([0.0], np.cumsum((1 - p) * power / depth))))
    g = h + to_units(np.concatenate(([0.0], p * power / depth)))
    seen = h[-1] - h[:-1]
    identical = np.cumsum(seen) + depth * (g[1:] - h[-1])
    residue = np.concatenate(([0.0], 1 - identical))
    even = g[-1] - h[:-1]
    even[0] += residue[-1]
    return _Weights(g=g, h=h, seen=seen, even=even, residue=residue)
