"""Rank correlations of the common items with most weight at the top: weighted tau and tau-AP."""

import numpy as np

from monitor.immutable import immutable
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
from monitor.model.arrays import Flags, Floats, Integers, Rows


@immutable
class Tied:
    """Places from 0 of n pairs' items in either list: int64 (k, n), k for absent items.

    Tied items have equal places.
    """

    baseline: Integers
    candidate: Integers
    count: Integers  # (n,), items in common

    def sort(self) -> Integers:
        """Both places as one number, baseline * (k + 1) + candidate, ascending in each column.

        Absent items are last.
        """
        return np.sort(self.baseline * (len(self.baseline) + 1) + self.candidate, axis=0)

    def exchange(self) -> "Tied":
        """The same items with the arms exchanged."""
        return Tied(baseline=self.candidate, candidate=self.baseline, count=self.count)


def find_tied(alignment: Alignment) -> Flags:
    """Whether a list of the pair has neighbours with equal scores: (n,). NaN ties with nothing."""
    has_ties = np.zeros(alignment.positions.shape[1], dtype=np.bool_)
    if alignment.scores is not None:
        for scores in (alignment.scores.baseline, alignment.scores.candidate):
            has_ties |= (scores[1:] == scores[:-1]).any(axis=0)
    return has_ties


def rank_tied(alignment: Alignment, columns: Rows) -> Tied:
    """The common items of these pairs with their ties. Raises ValueError without scores."""
    if alignment.scores is None:
        raise ValueError("the lists come without scores")
    k = alignment.k
    positions = alignment.positions[:, columns]
    is_common = positions < k
    candidate_runs = _number_runs(alignment.scores.candidate[:, columns])
    places = np.minimum(positions, k - 1).astype(np.intp)
    candidate = np.take_along_axis(candidate_runs, places, axis=0)
    return Tied(
        baseline=np.where(is_common, _number_runs(alignment.scores.baseline[:, columns]), k),
        candidate=np.where(is_common, candidate, k),
        count=np.add.reduce(is_common, axis=0, dtype=np.int64),
    )


def _number_runs(values: Floats | Integers) -> Integers:
    """Runs of equal values, numbered from 0 down each column."""
    starts = np.zeros(values.shape, dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return np.cumsum(starts, axis=0, dtype=np.int64)


def weighted_tau_of_ties(tied: Tied) -> Floats:
    """`weighted_tau` for lists with ties: float64 (n,) in [-1, 1].

    A pair that is tied in a list is in neither order. W is the weight of the pairs in the same
    order minus the weight of the pairs in opposite order. W1 and W2 are the weights of the pairs
    not tied in either list. tau = W / sqrt(W1 W2). Ranks follow one list, and its ties the other
    list. The results of both directions are averaged. The value is NaN if all common items are tied
    in a list.
    """
    # Items tied in both lists have the same places, so their order does not matter.
    mean: Floats = (_tau_one_way(tied) + _tau_one_way(tied.exchange())) / 2
    return np.clip(mean, -1.0, 1.0)


def _tau_one_way(tied: Tied) -> Floats:
    """Tau with ranks by the baseline, its ties by the candidate. A rank weighs an item's pairs."""
    keys = tied.sort()
    k = len(tied.baseline)
    z = tied.count
    ours = keys // (k + 1)
    theirs = keys % (k + 1)
    weights = np.where(np.arange(k)[:, None] < z, 1.0 / np.arange(1, k + 1)[:, None], 0.0)
    untied_ours = z - _count_equal(ours)
    untied_theirs = z - _count_equal(theirs)
    untied = untied_ours + untied_theirs - (z - _count_equal(_number_runs(keys)))
    surplus = untied - 2 * _count_opposite(theirs)
    norm = sum_ranks(weights * untied_ours) * sum_ranks(weights * untied_theirs)
    return divide(sum_ranks(weights * surplus), np.sqrt(norm))


def _count_opposite(ranks: Integers) -> Integers:
    """For each item, how many items are in opposite order to it."""
    narrow = ranks.astype(rank_dtype(len(ranks)))
    behind = count_earlier_larger(len(ranks) - narrow[::-1])[::-1]
    opposite: Integers = count_earlier_larger(narrow).astype(np.int64) + behind
    return opposite


def _count_equal(ranks: Integers) -> Integers:
    """For each value, how many of its column equal it, itself included. Values are from 0 to k."""
    k, n = ranks.shape
    cells = ranks * n + np.arange(n)
    equal: Integers = np.bincount(cells.ravel(), minlength=(k + 1) * n)[cells]
    return equal


def weighted_tau(alignment: Alignment) -> Floats:
    """Additive hyperbolic weighted tau of the items in common: float64 (n,) in [-1, 1].

    The best of the z common items has rank 0. A pair of ranks r and s weighs 1 / (r + 1) + 1 / (s +
    1). tau is the weight of pairs in the same order minus that of pairs in opposite order, as a
    share of all weight. Ranks are those of the baseline, then those of the candidate, and the two
    results are averaged. This is the default of scipy.stats.weightedtau, whose arguments are
    scores: the first item here has the largest score there. With d_i the number of common items in
    opposite order to item i, and a_i and b_i its two ranks::

        tau = 1 - sum_i d_i (1 / (a_i + 1) + 1 / (b_i + 1)) / ((z - 1) H_z)

    In lists with scores, equal scores are tied, as in `weighted_tau_of_ties`. Identical lists score
    1, reversed lists -1. Fewer than two common items give NaN, and so does a list in which all of
    them are tied. The metric is symmetric.
    Cost: k² / 2 comparisons a pair, k log² k in long lists.
    Source: Vigna, A weighted correlation index for rankings with ties (WWW 2015).
    """
    shared = rank_shared(alignment)
    ranks = shared.baseline
    places = shared.candidate
    discordant = np.where(shared.is_common, ranks + places - 2 * _count_ahead_in_both(alignment), 0)
    loss = sum_ranks(discordant / (ranks + 1.0))
    # Each direction is summed in the order of its list, so exchanged arms give the same bits.
    loss += sum_ranks(by_candidate_rank(alignment, discordant / (places + 1.0)))
    harmonic = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, alignment.k + 1))))
    tau: Floats = np.maximum(1.0 - divide(loss, (shared.count - 1) * harmonic[shared.count]), -1.0)
    tied = np.flatnonzero(find_tied(alignment))
    if len(tied):
        tau[tied] = weighted_tau_of_ties(rank_tied(alignment, tied))
    return tau


def tau_ap(alignment: Alignment) -> Floats:
    """AP correlation of the common items: float64 (n,) in [-1, 1].

    The baseline is the truth and the candidate its estimate. C(i) is the number of common items
    above candidate rank i that are above the item in the baseline as well. The score is the mean
    of the shares C(i) / (i - 1) over the ranks from 2 to z, mapped to [-1, 1]::

        tau_ap = 2 / (z - 1) sum_{i=2..z} C(i) / (i - 1) - 1

    Identical lists score 1, reversed lists -1. Fewer than two common items give NaN. The metric is
    NOT symmetric: errors at the top of the candidate's list cost most. `tau_ap_symmetric` is the
    mean of both directions. Ties are ignored. The cost is that of `weighted_tau`.
    Source: Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information
    retrieval (SIGIR 2008).
    """
    shared = rank_shared(alignment)
    shares = _share_ahead(_count_ahead_in_both(alignment), shared.candidate)
    return _to_correlation(by_candidate_rank(alignment, shares), shared)


def tau_ap_symmetric(alignment: Alignment) -> Floats:
    """Mean of `tau_ap` with either list as the truth: float64 (n,) in [-1, 1].

    It is NaN with fewer than two common items.
    """
    shared = rank_shared(alignment)
    backwards = _to_correlation(
        _share_ahead(_count_ahead_in_both(alignment), shared.baseline), shared
    )
    mean: Floats = (tau_ap(alignment) + backwards) / 2
    return mean


@derive_once
def _count_ahead_in_both(alignment: Alignment) -> Integers:
    """For each common item, the common items ahead of it in both lists, else 0."""
    # An earlier baseline item has either a smaller position, and so is common, or a larger one.
    larger = count_earlier_larger(alignment.positions).astype(np.int64)
    ranks = np.arange(alignment.k)[:, None]
    return np.where(alignment.positions < alignment.k, ranks - larger, 0)


def _share_ahead(ahead: Integers, rank: Integers) -> Floats:
    return ahead / np.maximum(rank, 1)


def _to_correlation(shares: Floats, shared: Shared) -> Floats:
    tau: Floats = 2.0 * divide(sum_ranks(shares), shared.count - 1) - 1.0
    return tau
