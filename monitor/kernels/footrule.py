"""Spearman's footrule: plain, between top-k lists, and with weights of items and ranks."""

from collections.abc import Callable

import numpy as np

from monitor.kernels.alignment import (
    Alignment,
    Shared,
    by_candidate_rank,
    divide,
    measure_both_ways,
    pairs,
    rank_shared,
    sum_ranks,
)
from monitor.kernels.kendall.element_weighted import (
    average_step_costs,
    sum_ahead,
    weigh_shared,
    without_unweighted,
)
from monitor.model.arrays import Floats

Weigh = Callable[[Alignment, Shared], Floats]


def footrule(alignment: Alignment) -> Floats:
    """Sum over the items in common of how far each moves, ranks counted among them: float64 (n,), even whole numbers.

    With z common items, from 0 to floor(z² / 2). Identical: 0. Reversed: floor(z² / 2). Fewer than two in common: NaN.
    What only one list holds plays no part. Symmetric. Ties are not known to it. Cost: O(k) a pair.
    Source: Spearman (1906); Diaconis and Graham, Spearman's footrule as a measure of disarray (JRSS B 39, 1977).
    """
    shared = rank_shared(alignment)
    moved: Floats = (
        np.abs(shared.baseline - shared.candidate).sum(axis=0, dtype=np.int64).astype(np.float64)
    )
    moved[shared.count <= 1] = np.nan
    return moved


def footrule_normalized(alignment: Alignment) -> Floats:
    """`footrule` divided by its largest value, floor(z² / 2) for z common items: float64 (n,) in [0, 1]. Symmetric.

    Identical: 0. Reversed: 1, as any order in which every item crosses the middle. Fewer than two items in common: NaN.
    """
    return divide(footrule(alignment), rank_shared(alignment).count ** 2 // 2)


def topk_footrule(alignment: Alignment) -> Floats:
    """F^(l+1), the footrule of lists that hold different items: float64 (n,), at least 0.

    Sum over all items of either list of the distance between their two ranks, an item being ranked
        l + 1 in the list of length
    l that it is absent from. Identical: 0. Disjoint, s the shorter length and t the longer: s t + s
        + C(t - s, 2), which is
    l (l + 1) for one length l, and the largest value of such lengths. One or both empty: NaN.
        Unequal lengths: l is each
    list's own, so that a list that lacks only the last item of the other has distance 0. Symmetric.
        Ties are not known to it.
    Cost: O(k) a pair. Source: Fagin, Kumar and Sivakumar, Comparing Top k Lists (2003), F^(l) at l
        = k + 1.
    """
    k = alignment.k
    a, b = alignment.baseline_lengths, alignment.candidate_lengths
    rank = np.arange(k, dtype=np.int64)[:, None]
    places = np.minimum(alignment.positions.astype(np.int64), b)
    moved = np.where(rank < a, np.abs(rank - places), 0).sum(axis=0)
    moved += np.where((alignment.candidate_positions >= k) & (rank < b), np.abs(rank - a), 0).sum(
        axis=0
    )
    distance: Floats = moved.astype(np.float64)
    distance[alignment.short == 0] = np.nan
    return distance


def topk_footrule_normalized(alignment: Alignment) -> Floats:
    """`topk_footrule` by its value on disjoint lists of such lengths: float64 (n,) in [0, 1].

    One empty: 1, both: NaN.
    """
    short, long = alignment.short.astype(np.int64), alignment.long.astype(np.int64)
    share = divide(topk_footrule(alignment), short * long + short + pairs(long - short))
    share[(alignment.short == 0) & (alignment.long > 0)] = 1.0
    return share


def element_weighted_footrule(alignment: Alignment) -> Floats:
    """Sum over the items in common of w times how much weight each moves past: float64 (n,), at least 0.

    An item stands, in either list, where the weight of the common items ahead of it has summed up to; w times the distance
    between its two places is added up. Identical: 0. Fewer than two items in common: NaN. All weights 1: `footrule`. Symmetric.
    Ties are not known to it. Cost: O(k) a pair. Source: Kumar and Vassilvitskii, Generalized distances between rankings (WWW
    2010), element weights.
    """
    return without_unweighted(
        alignment, measure_both_ways(lambda one_way: _move(one_way, weigh_shared)[0], alignment)
    )


def element_weighted_footrule_normalized(alignment: Alignment) -> Floats:
    """`element_weighted_footrule` divided by the mean of what reversing either list would cost: float64 (n,) in [0, 1].

    An item of weight w whose middle stands c into a list of weight W can move 2 |c - W / 2| by a reversal; |c - c'| is at most
    |c - W / 2| + |c' - W / 2|, so 1 is the most, reached when every item crosses the middle. Identical: 0. Reversed: 1. Fewer
    than two items in common: NaN. All weights alike: `footrule_normalized`. Symmetric.
    """

    def measure(one_way: Alignment) -> Floats:
        moved, most = _move(one_way, weigh_shared)
        return divide(moved, most)

    return without_unweighted(alignment, np.minimum(measure_both_ways(measure, alignment), 1.0))


def generalized_footrule(alignment: Alignment, discount: str) -> Floats:
    """Element and position weights together: `element_weighted_footrule` with weights w p: float64 (n,), at least 0.

    p as in `position_weighted_kendall_distance`. Identical: 0. Fewer than two items in common: NaN. Symmetric. Source: Kumar
    and Vassilvitskii (2010), both kinds of weights combined.
    """

    def by_element_and_position(one_way: Alignment, shared: Shared) -> Floats:
        return weigh_shared(one_way, shared) * average_step_costs(
            shared.baseline, shared.candidate, discount
        )

    moved = measure_both_ways(lambda one_way: _move(one_way, by_element_and_position)[0], alignment)
    return without_unweighted(alignment, moved)


def _move(alignment: Alignment, weigh_items: Weigh) -> tuple[Floats, Floats]:
    """What the common items move, and the most that they could."""
    shared = rank_shared(alignment)
    weights = weigh_items(alignment, shared)
    ours = sum_ahead(weights)
    theirs = _at_baseline(alignment, sum_ahead(by_candidate_rank(alignment, weights)))
    moved = sum_ranks(weights * np.abs(ours - theirs))
    # The most that an item can move is the mean of what reversing either list would cost it.
    from_middle = (weights - sum_ranks(weights)) / 2
    most = sum_ranks(weights * (np.abs(ours + from_middle) + np.abs(theirs + from_middle)))
    moved[shared.count <= 1] = np.nan
    return moved, most


def _at_baseline(alignment: Alignment, values: Floats) -> Floats:
    """Values at the candidate's ranks moved to the ranks that the items hold in the baseline."""
    return np.take_along_axis(
        values, np.minimum(alignment.positions, alignment.k - 1).astype(np.intp), axis=0
    )
