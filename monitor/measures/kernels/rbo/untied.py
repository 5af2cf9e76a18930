"""Rank-biased overlap (RBO) without ties: extrapolated, truncated, and its two bounds."""

import math
from functools import lru_cache

import numpy as np

from monitor.measures.kernels.alignment import Alignment
from monitor.model.arrays import Floats, Integers
from monitor.model.errors import MetricError
from monitor.model.immutable import immutable

DEEPEST = 1_000_000
"""The largest depth of `rbo_weight` and `rbo_persistence`."""
_UNIT = 2.0**-52
# Terms are rounded to multiples of this value before they are added. At most so many are added.
_FINEST = 2.0**-62
_LONGEST_SUM = 1 << 16
_Counts = Integers


def to_units(values: Floats) -> Floats:
    """The nearest multiples of 2**-52. Their sums are exact in any order, if they are below 2."""
    rounded: Floats = np.round(values / _UNIT) * _UNIT
    return rounded


def rbo_weight(p: float, d: int) -> float:
    """The share of RBO's weight at the top ``d`` ranks for the persistence ``p``: in (0, 1].

    The share falls if p rises, and rises if d rises. Let h_e be (1-p) p^(e-1) / e. Rank i has the
    weight sum_{e>=i} h_e. The share is::

        1 - p^d + d ((1-p)/p ln(1/(1-p)) - sum_{e=1..d} h_e)

    This is also `rbo_min` of two identical lists of d items. The error is about d times 1e-16.
    Raises MetricError unless 0 < p < 1 and d is an integer from 1 to `DEEPEST`.
    Cost: O(d).
    Source: Webber, Moffat and Zobel (2010), equation 21.
    """
    if not 0 < p < 1:
        raise MetricError(f"p is {p!r}: give a number between 0 and 1, both excluded")
    _check_depth(d)
    rank = np.arange(1, d + 1)
    # The sum of h_e over all e > d.
    h_below = (1 - p) / p * (-math.log1p(-p) - float((p**rank / rank).sum()))
    return min(1.0, -math.expm1(d * math.log(p)) + d * max(0.0, h_below))


@lru_cache(maxsize=32)
def rbo_persistence(top: float, share: float) -> float:
    """The persistence p that gives the first ``top`` ranks this ``share`` of RBO's weight.

    This is the inverse of `rbo_weight`, found by bisection. Raises MetricError unless
    0 < share < 1 and ``top`` is an integer from 1 to `DEEPEST`. It also raises MetricError if p
    would be so near 1 that no float below 1 is near enough.
    """
    _check_depth(top)
    if not 0 < share < 1:
        raise MetricError(f"share is {share!r}: give a number between 0 and 1, both excluded")
    low = 0.0
    middle = 0.5
    high = 1.0
    while low < middle < high:
        if rbo_weight(middle, int(top)) > share:
            low = middle
        else:
            high = middle
        middle = (low + high) / 2
    if high == 1.0:
        raise MetricError(
            f"share is {share!r}: no p gives the first {top:g} ranks a share that "
            "small. Increase share"
        )
    return low


def _check_depth(depth: float) -> None:
    if not (1 <= depth <= DEEPEST and depth == int(depth)):
        raise MetricError(f"top is {depth:g}: give a whole number of ranks from 1 to {DEEPEST}")


def rbo_truncated(alignment: Alignment, p: float) -> Floats:
    """RBO summed only to the end of the shorter list: float64 (n,) in [0, 1 - p^s].

    This is equation 4 of Webber, Moffat and Zobel (2010), cut off at the length s of the shorter
    list. They call it RBO@k. X_d is the overlap of the first d places of both lists::

        (1-p) sum_{d=1..s} p^(d-1) X_d/d

    The depths below s have the weight p^s, and their agreement is taken as 0. So identical lists
    score 1 - p^s, not 1. A prefix scores 1 - p^s too. The value is at most `rbo_min`.

    Items of the longer list below depth s are ignored. Disjoint lists and one empty list score 0.
    For two empty lists, the score is NaN. The metric is symmetric. Cost: O(k) for each pair.
    """
    # The sum is exact in units of 2**-52. So every order of the sum gives the same bits.
    h = _tables(p, alignment.k).h[: alignment.k + 1]
    if alignment.is_full:
        return alignment.sum_by_depth(h[-1] - h[:-1])
    ranks = np.arange(alignment.k, dtype=alignment.positions.dtype)[:, None]
    depths = np.maximum(alignment.positions, ranks)
    short = alignment.short
    score: Floats = np.where(depths < short, h.take(short) - h.take(depths), 0.0).sum(axis=0)
    score[alignment.long == 0] = np.nan
    return score


def rbo_min(alignment: Alignment, p: float) -> Floats:
    """The lowest RBO that the lists can have if they continue: float64 (n,) in [0, 1].

    The maximum is ``rbo_weight(p, k)``. This is equation 11 of Webber, Moffat and Zobel (2010). It
    is used for lists of unequal length too. An item below the end of one list is assumed not to be
    in the other list. X_d is the overlap of the first d places of both lists. l is the length of
    the longer list::

        (1-p)/p (sum_{d=1..l} X_d/d p^d + X_l sum_{d>l} p^d/d),    sum_{d>=1} p^d/d = ln(1/(1-p))

    The bound is tight, because lists that continue with different items reach it. Let m be the
    larger of an item's two positions, counted from 0. A common item adds sum_{d>m} (1-p) p^(d-1) /
    d. Identical lists score ``rbo_weight(p, length)``. Disjoint lists and one empty list score
    exactly 0. For two empty lists, the score is NaN. The metric is symmetric. Cost: O(k) for each
    pair.
    """
    table = _tables(p, alignment.k)
    score = np.minimum(alignment.sum_by_depth(table.below[: alignment.k]), 1.0)
    score[alignment.long == 0] = np.nan
    return score


def rbo_res(alignment: Alignment, p: float) -> Floats:
    """How much RBO can grow if the lists continue: float64 (n,) in [0, 1].

    It is `rbo_max` minus `rbo_min`. This is equation 30 of Webber, Moffat and Zobel (2010). s is
    the length of the shorter list, and l is the length of the longer list. X_l is the number of
    common items. At depth d, at most ``min(d - X_l, (d-s)+ + (d-l)+)`` more items can be common. At
    depth f = l + s - X_l and below, the agreement can be complete. The value depends only on s, l
    and X_l. It falls if any of the three rises.

    One empty list scores exactly 1. For two empty lists, the score is NaN. Identical lists score
    ``1 - rbo_weight(p, length)``. Disjoint lists score more. The metric is symmetric. The error is
    about k times 1e-16. Cost: O(1) for each pair.
    """
    most = 1.0 - rbo_min(alignment, p)
    common = alignment.common.astype(np.int64)
    short = alignment.short.astype(np.int64)
    long = alignment.long.astype(np.int64)
    residual = _compute_residual(_tables(p, alignment.k), short, long, common)
    return np.minimum(residual, most, out=residual)


def rbo_max(alignment: Alignment, p: float) -> Floats:
    """The highest RBO that the lists can have if they continue: float64 (n,) in [0, 1].

    It is `rbo_min` plus `rbo_res`, to the last bit. See Webber, Moffat and Zobel (2010), section
    4.3 and equation 30. The bound is tight, because lists that continue with each other's items
    reach it. Identical lists, a prefix and one empty list score exactly 1, because the full lists
    may be equal. Disjoint lists score above 0. Shorter disjoint lists score more than longer ones.
    For two empty lists, the score is NaN. The metric is symmetric.
    """
    score: Floats = rbo_min(alignment, p) + rbo_res(alignment, p)
    return score


def residual_by_common(p: float, k: int) -> Floats:
    """`rbo_res` of two lists of k items, for each number of common items: float64 (k + 1,)."""
    length = np.full(k + 1, k)
    return _compute_residual(_tables(p, k), length, length, np.arange(k + 1))


@immutable
class _Tables:
    """Numbers for each depth d from 0 to 2k. ``residue`` has one for each length s from 0 to k."""

    power: Floats  # p^d
    h: Floats  # sum_{e<=d} (1-p) p^(e-1) / e
    below: Floats  # the same sum, but over e > d
    residue: Floats  # 1 minus the computed `rbo_max` of identical lists of length s


@lru_cache(maxsize=32)
def _tables(p: float, k: int) -> _Tables:
    """The tables for lists of at most k items."""
    depth = np.arange(2 * k + 1)
    power = to_units(p ** depth.astype(np.float64))
    below = _sum_below(p, 2 * k)
    h = below[0] - below
    min_of_identical = np.concatenate(([0.0], np.cumsum(below[:k])))
    max_of_identical = min_of_identical + power[: k + 1] - depth[: k + 1] * below[: k + 1]
    return _Tables(power=power, h=h, below=below, residue=1.0 - max_of_identical)


def _sum_below(p: float, deepest: int) -> Floats:
    """For each d from 0 to ``deepest``, the sum of (1-p) p^(e-1) / e over e > d.

    Each sum is rounded to the nearest unit, 2**-52.
    """
    # The terms are rounded to integers, and added until a term is 0. With floats, the total would
    # have a rounding error. Scores would then contain this error once for each common item, and
    # there can be a million.
    last_term = min(math.ceil(-math.log(_FINEST / 2) / -math.log(p)), _LONGEST_SUM)
    depth = np.arange(1.0, max(deepest, last_term) + 1)
    terms = np.rint((1 - p) * p ** (depth - 1) / depth / _FINEST).astype(np.int64)
    sums = np.append(0, np.cumsum(terms))
    total = sums[-1]
    if terms[-1] != 0:
        # Terms are missing, so the sum of all terms is computed by its formula.
        total = max(total, round((1 - p) * (-math.log1p(-p) / p) / _FINEST))
    return to_units((total - sums[: deepest + 1]) * _FINEST)


def _compute_residual(
    table: _Tables,
    short: _Counts,
    long: _Counts,
    common: _Counts,
) -> Floats:
    """`rbo_res` by equation 30, from the lengths of both lists and the number of common items."""
    distinct = long + short - common
    residual = table.power.take(distinct) - common * table.below.take(distinct)
    for length in (short, long):
        residual += table.power.take(length) - table.power.take(distinct)
        residual -= length * (table.below.take(length) - table.below.take(distinct))
    # The rounding error of identical lists is corrected.
    residual += np.where(common == short, table.residue.take(short), 0.0)
    return np.maximum(residual, 0.0)


def rbo(alignment: Alignment, p: float) -> Floats:
    """RBO_ext of each pair with persistence 0 < p < 1: float64 (n,) in [0, 1].

    This is equation 32 of Webber, Moffat and Zobel, A similarity measure for indefinite rankings,
    TOIS 28(4), 2010. The agreement is assumed to stay the same below both lists. X_d is the overlap
    of the first d places of both lists. s is the length of the shorter list, and l is the length of
    the longer list::

        (1-p)/p (sum_{d=1..l} X_d/d p^d + sum_{d=s+1..l} X_s (d-s)/(s d) p^d)
            + ((X_l - X_s)/l + X_s/s) p^l

    Let m be the larger of a common item's two positions, counted from 0. The item adds ``g[s if m <
    s else l] - h[m]``. Here h[d] is (1-p)/p sum_{e=1..d} p^e/e, and g[d] is p^d/d + h[d]. Identical
    lists and a prefix score exactly 1. Disjoint lists and one empty list score exactly 0. For two
    empty lists, the score is NaN. The metric is symmetric.
    """
    # Weights are multiples of 2**-52 and partial sums are below 2. So every sum is exact in any
    # order.
    table = _weights(p, alignment.k)
    if alignment.is_full:
        return alignment.sum_by_depth(table.full)
    short = alignment.short.astype(np.intp)
    long = alignment.long.astype(np.intp)
    score = alignment.sum_by_depth(table.h_below)
    g_short = table.g.take(short)
    g_long = table.g.take(long)
    score += alignment.common * (g_long - table.h[-1])
    score += alignment.common_within(short) * (g_short - g_long)
    score += (alignment.positions[0] == 0) * table.residue.take(short)
    score[long == 0] = np.nan
    return score


@immutable
class _Weights:
    """Weights for depths and lengths up to k, as `rbo` uses them."""

    g: Floats
    h: Floats
    h_below: Floats  # [m]: h[k] - h[m]
    full: Floats  # [m]: g[k] - h[m], for pairs of two lists of k items
    # [s]: 1 minus the computed score of identical lists of length s. This rounding error is
    # corrected at the first rank.
    residue: Floats


@lru_cache(maxsize=32)
def _weights(p: float, k: int) -> _Weights:
    """Compute the weights for lists of at most k items. `rbo` defines g and h."""
    depth = np.arange(1, k + 1)
    power = p ** (depth - 1.0)
    h = to_units(np.concatenate(([0.0], np.cumsum((1 - p) * power / depth))))
    g = h + to_units(np.concatenate(([0.0], p * power / depth)))
    h_below = h[-1] - h[:-1]
    score_of_identical = np.cumsum(h_below) + depth * (g[1:] - h[-1])
    residue = np.concatenate(([0.0], 1 - score_of_identical))
    full = g[-1] - h[:-1]
    full[0] += residue[-1]
    return _Weights(g=g, h=h, h_below=h_below, full=full, residue=residue)
