"""Rank correlations of the items in common in which the top counts most: Vigna's weighted tau, with ties too, and tau-AP."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.kernels.alignment import (
    Alignment,
    Shared,
    by_candidate_rank,
    derive_once,
    divide,
    rank_shared,
    sum_ranks,
)
from monitor.kernels.engines.positions import count_earlier_larger, rank_dtype
from monitor.model.arrays import Floats, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """Places from 0 of n pairs' items in either list, equal where tied: int64 (k, n), k where absent."""

    baseline: Integers
    candidate: Integers
    count: Integers  # (n,), items in common

    def sort(self) -> Integers:
        """Both places in one number, baseline * (k + 1) + candidate, ascending down each column.

        Absent items last.
        """
        return np.sort(self.baseline * (len(self.baseline) + 1) + self.candidate, axis=0)

    def exchange(self) -> "Tied":
        """The same items with the arms exchanged."""
        return Tied(baseline=self.candidate, candidate=self.baseline, count=self.count)


def find_tied(alignment: Alignment) -> npt.NDArray[np.bool_]:
    """Whether a list of the pair has items of equal scores: (n,).

    Scores that are NaN tie with nothing.
    """
    found = np.zeros(alignment.positions.shape[1], dtype=np.bool_)
    if alignment.scores is not None:
        for scores in (alignment.scores.baseline, alignment.scores.candidate):
            found |= (scores[1:] == scores[:-1]).any(axis=0)
    return found


def rank_tied(alignment: Alignment, columns: npt.NDArray[np.intp]) -> Tied:
    """The items in common of these pairs with their ties.

    ValueError when the alignment has no scores.
    """
    if alignment.scores is None:
        raise ValueError("the lists come without scores")
    k = alignment.k
    positions = alignment.positions[:, columns]
    is_common = positions < k
    theirs = _number(alignment.scores.candidate[:, columns])
    found = np.take_along_axis(theirs, np.minimum(positions, k - 1).astype(np.intp), axis=0)
    return Tied(
        baseline=np.where(is_common, _number(alignment.scores.baseline[:, columns]), k),
        candidate=np.where(is_common, found, k),
        count=np.add.reduce(is_common, axis=0, dtype=np.int64),
    )


def _number(values: Floats | Integers) -> Integers:
    """Runs of equal values, numbered from 0 down each column."""
    starts = np.zeros(values.shape, dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return np.cumsum(starts, axis=0, dtype=np.int64)


def weighted_tau_of_ties(tied: Tied) -> Floats:
    """`weighted_tau` where items are tied: float64 (n,) in [-1, 1].

    A pair that is tied in a list is in neither order; with W the weight of all pairs in the same
    order less that of those in opposite order, W1 and W2 the weight of the pairs not tied in either
    list, tau = W / sqrt(W1 W2). Ranks follow the one list, its ties the other, and the results of
    both are averaged. NaN where all items in common are tied in a list."""
    # What is tied in both is alike in all, so that its order cannot matter.
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


def weighted_tau(alignment: Alignment) -> Floats:
    """Additive hyperbolic weighted tau of the items in common: float64 (n,) in [-1, 1].

    The best of the z common items has rank 0. A pair of ranks r and s weighs 1 / (r + 1) + 1 / (s +
    1); tau is the weight of pairs in the same order less that of pairs in opposite order, as a
    share of all weight. Ranks are taken by the baseline, then by the candidate, and the two results
    averaged, as scipy.stats.weightedtau does by default: its argument is a score, so that what
    stands first here is largest there. With d_i the common items in opposite order to item i::

        tau = 1 - sum_i d_i (1 / (a_i + 1) + 1 / (b_i + 1)) / ((z - 1) H_z)        a, b the item's two ranks

    Where the lists come with scores, equal ones are tied, as in `weighted_tau_of_ties`. Identical:
        1. Reversed: -1. Fewer than
    two items in common, or all of them tied in a list: NaN. Symmetric. Cost: k² / 2 comparisons a
        pair, k log² k in long lists.
    Source: Vigna, A weighted correlation index for rankings with ties (WWW 2015).
    """
    shared = rank_shared(alignment)
    ranks, places = shared.baseline, shared.candidate
    discordant = np.where(shared.is_common, ranks + places - 2 * _count_ahead_in_both(alignment), 0)
    lost = sum_ranks(discordant / (ranks + 1.0))
    # Each direction is summed down its own list, so that the arms can change places to the last
    # bit.
    lost += sum_ranks(by_candidate_rank(alignment, discordant / (places + 1.0)))
    harmonic = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, alignment.k + 1))))
    tau: Floats = np.maximum(1.0 - divide(lost, (shared.count - 1) * harmonic[shared.count]), -1.0)
    tied = np.flatnonzero(find_tied(alignment))
    if len(tied):
        tau[tied] = weighted_tau_of_ties(rank_tied(alignment, tied))
    return tau


def tau_ap(alignment: Alignment) -> Floats:
    """AP correlation of the items in common, the baseline taken as the truth and the candidate as its estimate: float64 (n,).

    Down the z common items in the candidate's order, from the second on: the share of those above that the baseline has
    above as well, C(i) / (i - 1) at rank i; the mean of the shares, mapped to [-1, 1]::

        tau_ap = 2 / (z - 1) sum_{i=2..z} C(i) / (i - 1) - 1

    Identical: 1. Reversed: -1. Fewer than two items in common: NaN. NOT symmetric: errors at the top of the candidate's list
    cost most; `tau_ap_symmetric` is the mean of both directions. Ties are not known to it. Cost as `weighted_tau`.
    Source: Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information retrieval (SIGIR 2008).
    """
    shared = rank_shared(alignment)
    return _map(
        by_candidate_rank(alignment, _share(_count_ahead_in_both(alignment), shared.candidate)),
        shared,
    )


def tau_ap_symmetric(alignment: Alignment) -> Floats:
    """Mean of `tau_ap` with either list as the truth: float64 (n,) in [-1, 1].

    NaN with fewer than two items in common.
    """
    shared = rank_shared(alignment)
    ahead = _count_ahead_in_both(alignment)
    there = _map(by_candidate_rank(alignment, _share(ahead, shared.candidate)), shared)
    mean: Floats = (there + _map(_share(ahead, shared.baseline), shared)) / 2
    return mean


@derive_once
def _count_ahead_in_both(alignment: Alignment) -> Integers:
    """For each common item, the common items ahead of it in both lists; 0 for the others."""
    # What stands earlier in the baseline has either a smaller position, and so is common, or a
    # larger one.
    earlier = np.arange(alignment.k)[:, None] - count_earlier_larger(alignment.positions).astype(
        np.int64
    )
    return np.where(alignment.positions < alignment.k, earlier, 0)


def _share(ahead: Integers, rank: Integers) -> Floats:
    return ahead / np.maximum(rank, 1)


def _map(shares: Floats, shared: Shared) -> Floats:
    tau: Floats = 2.0 * divide(sum_ranks(shares), shared.count - 1) - 1.0
    return tau
