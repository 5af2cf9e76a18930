"""Vigna's weighted tau of lists with ties."""

from __future__ import annotations

import numpy as np

from monitor.kernels.alignment import Floats
from monitor.kernels.finding.positions import rank_dtype
from monitor.kernels.kendall.dominance import count_earlier_larger
from monitor.kernels.kendall.tied import Tied
from monitor.kernels.shared import Integers, divide, sum_ranks


def weighted_tau_of_ties(tied: Tied) -> Floats:
    """`monitor.kernels.kendall.weighted.weighted_tau` where items are tied: float64 (n,) in [-1, 1].

    A pair that is tied in a list is in neither order; with W the weight of all pairs in the same order less that of those in
    opposite order, W1 and W2 the weight of the pairs not tied in either list, tau = W / sqrt(W1 W2). Ranks follow the one
    list, its ties the other, and the results of both are averaged; what is tied in both is alike in all, so that its order
    cannot matter. NaN where all items in common are tied in a list.
    """
    mean: Floats = (_one_way(tied) + _one_way(tied.exchange())) / 2
    return np.clip(mean, -1.0, 1.0)


def _one_way(tied: Tied) -> Floats:
    """Tau with ranks by the baseline, its ties by the candidate: each item's rank weighs the pairs that it is part of."""
    keys, k, z = tied.sort(), len(tied.baseline), tied.count
    ours, theirs = keys // (k + 1), keys % (k + 1)
    weights = np.where(np.arange(k)[:, None] < z, 1.0 / np.arange(1, k + 1)[:, None], 0.0)
    untied_ours, untied_theirs = z - _count_equal(ours), z - _count_equal(theirs)
    untied = untied_ours + untied_theirs - (z - _count_equal(_number(keys)))
    surplus = untied - 2 * _count_opposite(theirs)
    norms = (sum_ranks(weights * part) for part in (untied_ours, untied_theirs))
    return divide(sum_ranks(weights * surplus), np.sqrt(np.prod(list(norms), axis=0)))


def _count_opposite(ranks: Integers) -> Integers:
    """For each, how many stand ahead of it but belong behind it or the other way round."""
    narrow = ranks.astype(rank_dtype(len(ranks)))
    behind = count_earlier_larger(len(ranks) - narrow[::-1])[::-1]
    opposite: Integers = count_earlier_larger(narrow).astype(np.int64) + behind
    return opposite


def _count_equal(ranks: Integers) -> Integers:
    """For each, how many of its column equal it, itself included; values from 0 to k."""
    k, n = ranks.shape
    cells = ranks * n + np.arange(n)
    equal: Integers = np.bincount(cells.ravel(), minlength=(k + 1) * n)[cells]
    return equal


def _number(keys: Integers) -> Integers:
    """Runs of equal keys, numbered from 0 down each column."""
    starts = np.zeros(keys.shape, dtype=np.int64)
    np.not_equal(keys[1:], keys[:-1], out=starts[1:], casting="unsafe")
    return np.cumsum(starts, axis=0)
