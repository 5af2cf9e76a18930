"""Weighted tau and tau-AP: rank correlations of the common items with more weight at the top."""

import numpy as np

from monitor.measures.kernels.alignment import (
    Alignment,
    Shared,
    by_baseline_rank,
    by_candidate_rank,
    derive_once,
    divide,
    rank_shared,
    sum_ranks,
)
from monitor.measures.kernels.engines.positions import count_earlier_larger, rank_dtype
from monitor.model.arrays import Flags, Floats, Integers, Rows
from monitor.model.immutable import immutable


@immutable
class Tied:
    """The places of the common items in both lists, for n pairs: int64 (k, n).

    The first place is 0. Tied items have equal places. Absent items have place k.
    """

    baseline: Integers
    candidate: Integers
    count: Integers  # (n,), the number of common items

    def sort(self) -> Integers:
        """Both places of each item as one number: baseline * (k + 1) + candidate.

        The numbers ascend in each column. Absent items are last.
        """
        return np.sort(self.baseline * (len(self.baseline) + 1) + self.candidate, axis=0)

    def exchange(self) -> "Tied":
        """The same items with the arms exchanged."""
        return Tied(baseline=self.candidate, candidate=self.baseline, count=self.count)


def find_tied(alignment: Alignment) -> Flags:
    """Whether a list of the pair has neighbours with equal scores: (n,). NaN is never equal."""
    has_ties = np.zeros(alignment.positions.shape[1], dtype=np.bool_)
    if alignment.scores is not None:
        for scores in (alignment.scores.baseline, alignment.scores.candidate):
            has_ties |= (scores[1:] == scores[:-1]).any(axis=0)
    return has_ties


def rank_tied(alignment: Alignment, columns: Rows) -> Tied:
    """The places of the common items, for the pairs in these columns.

    Raises ValueError if the alignment has no scores.
    """
    if alignment.scores is None:
        raise ValueError("the alignment has no scores: give the batch scores")
    k = alignment.k
    positions = alignment.positions[:, columns]
    is_common = positions < k
    candidate_runs = number_runs(alignment.scores.candidate[:, columns])
    candidate = by_baseline_rank(positions, candidate_runs)
    return Tied(
        baseline=np.where(is_common, number_runs(alignment.scores.baseline[:, columns]), k),
        candidate=np.where(is_common, candidate, k),
        count=np.add.reduce(is_common, axis=0, dtype=np.int64),
    )


def number_runs(values: Floats | Integers) -> Integers:
    """Number the runs of equal values in each column from 0, from the top down."""
    starts = np.zeros(values.shape, dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return np.cumsum(starts, axis=0, dtype=np.int64)


def weighted_tau_of_ties(tied: Tied) -> Floats:
    """`weighted_tau` for lists with ties: float64 (n,) in [-1, 1].

    tau is W / sqrt(W1 W2). W is the weight of the pairs in the same order minus the weight of the
    pairs in opposite order. A pair that is tied in a list has neither order. W1 is the weight of
    the pairs that are not tied in the baseline's list. W2 is the weight of the pairs that are not
    tied in the candidate's list. The weight of a pair depends on the ranks of the two items. tau is
    computed with the ranks in the baseline's list, and with the ranks in the candidate's list. The
    result is the mean of both. Items that are tied in one list are ranked by the other list. If all
    common items are tied in a list, the result is NaN.
    """
    # Items that are tied in both lists have equal places. So their order does not matter.
    mean: Floats = (_tau_one_way(tied) + _tau_one_way(tied.exchange())) / 2
    return np.clip(mean, -1.0, 1.0)


def _tau_one_way(tied: Tied) -> Floats:
    """Compute tau with weights by the ranks in the baseline's list.

    Items that are tied in the baseline's list are ranked by the candidate's list.
    """
    keys = tied.sort()
    k = len(tied.baseline)
    z = tied.count
    ours = keys // (k + 1)
    theirs = keys % (k + 1)
    weights = np.where(np.arange(k)[:, None] < z, 1.0 / np.arange(1, k + 1)[:, None], 0.0)
    # For each item, the number of items with which it is not tied.
    untied_ours = z - count_equal(ours)
    untied_theirs = z - count_equal(theirs)
    untied_in_any = z - count_equal(number_runs(keys))
    untied_in_both = untied_ours + untied_theirs - untied_in_any
    # The number of pairs in the same order, minus the number of pairs in opposite order.
    surplus = untied_in_both - 2 * _count_opposite(theirs)
    norm = sum_ranks(weights * untied_ours) * sum_ranks(weights * untied_theirs)
    return divide(sum_ranks(weights * surplus), np.sqrt(norm))


def _count_opposite(ranks: Integers) -> Integers:
    """For each item, the number of items with which it forms a pair in opposite order."""
    narrow = ranks.astype(rank_dtype(len(ranks)))
    earlier_larger = count_earlier_larger(narrow).astype(np.int64)
    # In the reversed order and with reversed ranks, later smaller items are earlier larger items.
    later_smaller = count_earlier_larger(len(ranks) - narrow[::-1])[::-1]
    opposite: Integers = earlier_larger + later_smaller
    return opposite


def count_equal(ranks: Integers) -> Integers:
    """For each value, how often the value occurs in its column.

    Values are from 0 to k.
    """
    k, n = ranks.shape
    cells = ranks * n + np.arange(n)
    equal: Integers = np.bincount(cells.ravel(), minlength=(k + 1) * n)[cells]
    return equal


def weighted_tau(alignment: Alignment) -> Floats:
    """Additive hyperbolic weighted tau of the common items: float64 (n,) in [-1, 1].

    The best of the z common items has rank 0. A pair of items with the ranks r and s has the weight
    1 / (r + 1) + 1 / (s + 1). Take the weight of the pairs in the same order minus the weight of
    the pairs in opposite order. tau is this difference divided by the weight of all pairs. It is
    computed once with the baseline's ranks and once with the candidate's ranks. The result is the
    mean. This is the default of scipy.stats.weightedtau. That function takes scores instead of
    ranks, and the first item of a list must have the largest score. Let d_i be the number of common
    items in opposite order to item i, and let a_i and b_i be the item's two ranks::

        tau = 1 - sum_i d_i (1 / (a_i + 1) + 1 / (b_i + 1)) / ((z - 1) H_z)

    If the lists have scores, neighbours with equal scores are tied. `weighted_tau_of_ties` computes
    this case. Identical lists score 1 and reversed lists score -1. Fewer than two common items give
    NaN. A list in which all common items are tied also gives NaN. The metric is symmetric.
    Cost: k² / 2 comparisons for each pair, k log² k for long lists.
    Source: Vigna, A weighted correlation index for rankings with ties (WWW 2015).
    """
    shared = rank_shared(alignment)
    ranks = shared.baseline
    places = shared.candidate
    discordant = np.where(shared.is_common, ranks + places - 2 * _count_ahead_in_both(alignment), 0)
    loss = sum_ranks(discordant / (ranks + 1.0))
    # Each of the two sums is added in the order of its list, so that exchanging the arms does not
    # change any bit.
    loss += sum_ranks(by_candidate_rank(alignment, discordant / (places + 1.0)))
    harmonic = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, alignment.k + 1))))
    tau: Floats = np.maximum(1.0 - divide(loss, (shared.count - 1) * harmonic[shared.count]), -1.0)
    tied = np.flatnonzero(find_tied(alignment))
    if len(tied):
        tau[tied] = weighted_tau_of_ties(rank_tied(alignment, tied))
    return tau


def tau_ap(alignment: Alignment) -> Floats:
    """The AP correlation of the common items: float64 (n,) in [-1, 1].

    The baseline's list is the truth. The candidate's list is its estimate. The z common items have
    the ranks 1 to z in the candidate's list. Take the item at rank i. C(i) is the number of common
    items that are above this item in both lists. The score is the mean of the shares
    C(i) / (i - 1) over the ranks from 2 to z, scaled to [-1, 1]::

        tau_ap = 2 / (z - 1) sum_{i=2..z} C(i) / (i - 1) - 1

    Identical lists score 1 and reversed lists score -1. Fewer than two common items give NaN. The
    metric is NOT symmetric, because errors at the top of the candidate's list cost most.
    `tau_ap_symmetric` is the mean of both directions. Ties are ignored. The cost is the same as for
    `weighted_tau`.
    Source: Yilmaz, Aslam and Robertson, A new rank correlation coefficient for information
    retrieval (SIGIR 2008).
    """
    shared = rank_shared(alignment)
    shares = _share_ahead(_count_ahead_in_both(alignment), shared.candidate)
    return _to_correlation(by_candidate_rank(alignment, shares), shared)


def tau_ap_symmetric(alignment: Alignment) -> Floats:
    """The mean of `tau_ap` and of `tau_ap` with exchanged arms: float64 (n,) in [-1, 1].

    Fewer than two common items give NaN.
    """
    shared = rank_shared(alignment)
    shares = _share_ahead(_count_ahead_in_both(alignment), shared.baseline)
    mean: Floats = (tau_ap(alignment) + _to_correlation(shares, shared)) / 2
    return mean


@derive_once
def _count_ahead_in_both(alignment: Alignment) -> Integers:
    """For each common item, how many items are above it in both lists. 0 for any other item."""
    # An item is above this one in both lists if it has an earlier rank and a smaller position. So
    # subtract the earlier items with larger positions from all earlier items.
    larger = count_earlier_larger(alignment.positions).astype(np.int64)
    ranks = np.arange(alignment.k)[:, None]
    return np.where(alignment.positions < alignment.k, ranks - larger, 0)


def _share_ahead(ahead: Integers, rank: Integers) -> Floats:
    """The share of the items above an item that are above it in both lists. Ranks start at 0."""
    return ahead / np.maximum(rank, 1)


def _to_correlation(shares: Floats, shared: Shared) -> Floats:
    """The mean of the shares of all common items but the first, scaled to [-1, 1]."""
    tau: Floats = 2.0 * divide(sum_ranks(shares), shared.count - 1) - 1.0
    return tau
