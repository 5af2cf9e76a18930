"""Spearman's footrule: how far items move between two lists.

There are three kinds. The first measures only the common items. The second measures top-k lists.
The third has weights of items and ranks.
"""

import numpy as np

from monitor.measures.kernels.alignment import (
    Alignment,
    by_baseline_rank,
    by_candidate_rank,
    count_pairs,
    divide,
    measure_both_ways,
    rank_shared,
    sum_ranks,
)
from monitor.measures.kernels.kendall.element_weighted import (
    sum_ahead,
    weigh_shared,
)
from monitor.model.arrays import Floats


def footrule(alignment: Alignment) -> Floats:
    """The sum of the distances that the common items move: float64 (n,), even integers.

    Ranks are counted among the z common items. The range is 0 to floor(z² / 2). Identical lists
    have distance 0 and reversed lists have distance floor(z² / 2). Fewer than two common items give
    NaN. Items of only one list are ignored. Ties are ignored. The metric is symmetric.
    Cost: O(k) for each pair.
    Source: Spearman (1906); Diaconis and Graham, Spearman's footrule as a measure of disarray
    (JRSS B 39, 1977).
    """
    shared = rank_shared(alignment)
    steps = np.abs(shared.baseline - shared.candidate)
    distance: Floats = steps.sum(axis=0, dtype=np.int64).astype(np.float64)
    distance[shared.count <= 1] = np.nan
    return distance


def footrule_normalized(alignment: Alignment) -> Floats:
    """`footrule` divided by its maximum: float64 (n,) in [0, 1].

    The maximum is floor(z² / 2) for z common items. Identical lists score 0. Reversed lists score
    1. Any other order in which every item crosses the middle scores 1 too. Fewer than two common
    items give NaN. The metric is symmetric.
    """
    return divide(footrule(alignment), rank_shared(alignment).count ** 2 // 2)


def topk_footrule(alignment: Alignment) -> Floats:
    """F^(l+1), the footrule of lists with different items: float64 (n,), at least 0.

    Each item of either list adds the distance between its two ranks. An item that is absent from a
    list of length l has rank l + 1 there. Each list has its own length l. So two lists have
    distance 0 if one of them lacks only the last item of the other list. Identical lists have
    distance 0. Disjoint lists have the maximum, s t + s + C(t - s, 2). s is the length of the
    shorter list and t the length of the longer list. If both have length l, the maximum is
    l (l + 1). An empty list gives NaN. The metric is symmetric. Ties are ignored.
    Cost: O(k) for each pair.
    Source: Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l) at l = k + 1.
    """
    k = alignment.k
    our_length = alignment.baseline_lengths
    their_length = alignment.candidate_lengths
    rank = np.arange(k, dtype=np.int64)[:, None]
    their_rank = np.minimum(alignment.positions.astype(np.int64), their_length)
    moves_of_ours = np.where(rank < our_length, np.abs(rank - their_rank), 0)
    is_only_theirs = (alignment.candidate_positions >= k) & (rank < their_length)
    moves_of_theirs = np.where(is_only_theirs, np.abs(rank - our_length), 0)
    distance: Floats = moves_of_ours.sum(axis=0).astype(np.float64)
    distance += moves_of_theirs.sum(axis=0)
    distance[alignment.short == 0] = np.nan
    return distance


def topk_footrule_normalized(alignment: Alignment) -> Floats:
    """`topk_footrule` divided by its maximum for these lengths: float64 (n,) in [0, 1].

    The maximum is the value for disjoint lists. One empty list scores 1. For two empty lists, the
    score is NaN.
    """
    short = alignment.short.astype(np.int64)
    long = alignment.long.astype(np.int64)
    share = divide(topk_footrule(alignment), short * long + short + count_pairs(long - short))
    share[(alignment.short == 0) & (alignment.long > 0)] = 1.0
    return share


def element_weighted_footrule(alignment: Alignment) -> Floats:
    """The footrule of the common items with item weights: float64 (n,), at least 0.

    An item's place in a list is the sum of the weights of the common items before it. Each item
    adds its weight times the distance between its two places. Identical lists have distance 0.
    Fewer than two common items give NaN. If all weights are 1, this is `footrule`. The metric is
    symmetric. Ties are ignored.
    Cost: O(k) for each pair.
    Source: Kumar and Vassilvitskii, Generalized distances between rankings (WWW 2010), element
    weights.
    """
    return generalized_footrule(alignment, None)


def element_weighted_footrule_normalized(alignment: Alignment) -> Floats:
    """`element_weighted_footrule` divided by its maximum: float64 (n,) in [0, 1].

    The maximum is the mean of two distances: of the baseline's list from its reversal, and of the
    candidate's list from its reversal. Let W be the weight of a list. Let c and c' be the middles
    of an item in the two lists. A reversal moves the item by 2 |c - W / 2|. |c - c'| is at most
    |c - W / 2| + |c' - W / 2|. So the maximum is reached if every item crosses the middle of the
    list. Identical lists score 0 and reversed lists score 1. Fewer than two common items give NaN.
    If all weights are equal, this is `footrule_normalized`. The metric is symmetric.
    """

    def measure(one_way: Alignment) -> Floats:
        moved, most = _sum_moves(one_way, None)
        return divide(moved, most)

    return np.minimum(measure_both_ways(measure, alignment), 1.0)


def generalized_footrule(alignment: Alignment, discount: str | None) -> Floats:
    """The footrule of the common items with weights of items and ranks: float64 (n,), at least 0.

    It is `element_weighted_footrule` with the weight w p for each item. w is the item's weight.
    `position_weighted_kendall_distance` defines p, which is 1 if ``discount`` is None. Identical
    lists have distance 0. Fewer than two common items give NaN. The metric is symmetric.
    Source: Kumar and Vassilvitskii (2010), both kinds of weights combined.
    """

    def measure(one_way: Alignment) -> Floats:
        moved, _ = _sum_moves(one_way, discount)
        return moved

    return measure_both_ways(measure, alignment)


def _sum_moves(alignment: Alignment, discount: str | None) -> tuple[Floats, Floats]:
    """The sum of the weighted distances that the common items move, and its maximum.

    If ``discount`` is None, only the item weights count, see `weigh_shared`.
    """
    shared = rank_shared(alignment)
    weights = weigh_shared(alignment, discount)
    ours = sum_ahead(weights)
    theirs_by_rank = sum_ahead(by_candidate_rank(alignment, weights))
    theirs = by_baseline_rank(alignment.positions, theirs_by_rank)
    distance = sum_ranks(weights * np.abs(ours - theirs))
    # The maximum is explained in `element_weighted_footrule_normalized`.
    from_middle = (weights - sum_ranks(weights)) / 2
    most = sum_ranks(weights * (np.abs(ours + from_middle) + np.abs(theirs + from_middle)))
    distance[shared.count <= 1] = np.nan
    return distance, most
