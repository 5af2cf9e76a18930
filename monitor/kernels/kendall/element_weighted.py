"""Kendall's measures in which items, and ranks, have weights: generalized distances between rankings."""

from collections.abc import Callable, Mapping

import numpy as np

from monitor.kernels.alignment import (
    Alignment,
    Shared,
    count_shared,
    divide,
    measure_both_ways,
    rank_shared,
    sum_ranks,
)
from monitor.kernels.engines.positions import sum_earlier_larger
from monitor.model.arrays import Floats, Integers
from monitor.model.rankings import ByArm

DISCOUNTS: Mapping[str, Callable[[Floats], Floats]] = {
    "dcg": lambda rank: 1 / np.log2(rank + 1),
    "hyperbolic": lambda rank: 1 / rank,
}
"""What a rank from 1 on is worth: of DCG, and of weighted tau."""


def element_weighted_tau(alignment: Alignment) -> Floats:
    """Extended Kendall tau in which an item of weight w counts as w items, scaled to [-1, 1]: float64 (n,).

    `extended_tau` of lists in which each item is replaced by w copies, tied among themselves, so that the order of two items
    counts w_i w_j times. With A, B, Z the weight of the lists and of the items in common, e(X) the sum of w_i w_j over the
    pairs of X, and K0 the same sum over the pairs that the lists order in opposite ways::

        S = A B + e(Z) - 2 K0        D = sqrt((A B + e(A)) (A B + e(B)))        scaled = (2 S + A B - D) / (D + A B)

    Only ratios of weights count, and they need not be whole. All equal: `extended_tau`. Identical: exactly 1. Disjoint or one
    empty: exactly -1. Both empty: NaN. A proper prefix scores under 1. Symmetric. Ties are not known to it. Cost: k² / 2
    multiplications a pair, k log² k in long lists, and both twice. Source: van der Geer (2016) for the universe; Kumar and
    Vassilvitskii, Generalized distances between rankings (WWW 2010) for the weights.
    """
    tau = np.clip(measure_both_ways(_extended_one_way, alignment), -1.0, 1.0)
    tau[alignment.short == 0] = -1.0
    tau[alignment.long == 0] = np.nan
    return without_unweighted(alignment, tau)


def element_weighted_kendall_distance(alignment: Alignment) -> Floats:
    """Sum of w_i w_j over the pairs of common items in opposite order: float64 (n,), at least 0.

    Identical: 0. Reversed: that over all pairs. Fewer than two items in common: NaN. All weights 1:
        `kendall_distance`.
    Symmetric. Ties are not known to it. Source: Kumar and Vassilvitskii (2010), element weights.
    """
    distance = measure_both_ways(
        lambda one_way: _distance(one_way, weigh_shared(one_way, rank_shared(one_way))), alignment
    )
    return without_unweighted(alignment, distance)


def element_weighted_kendall_distance_normalized(alignment: Alignment) -> Floats:
    """`element_weighted_kendall_distance` as a share of the sum over all pairs of common items: float64 (n,) in [0, 1].

    Identical: 0. Reversed: 1. Fewer than two items in common: NaN. All weights alike: `kendall_distance_normalized`. Symmetric.
    """

    def measure(one_way: Alignment) -> Floats:
        weights = weigh_shared(one_way, rank_shared(one_way))
        return divide(_distance(one_way, weights), sum_pairs(weights))

    return without_unweighted(alignment, np.minimum(measure_both_ways(measure, alignment), 1.0))


def position_weighted_kendall_distance(alignment: Alignment, discount: str) -> Floats:
    """Kendall's distance of the common items in which an exchange at the top costs more: float64 (n,), at least 0.

    Moving an item between the neighbouring ranks r - 1 and r costs delta_r, how much less the lower rank is worth
    (`DISCOUNTS`), the cost between the first two ranks being 1. An item at ranks a and b among the common items pays on
    average p = (sum of delta between a and b) / |a - b| a step, and 1 if it keeps its rank; the distance is the sum of p_i p_j
    over the pairs in opposite order. Identical: 0. Fewer than two items in common: NaN. All delta 1: `kendall_distance`.
    Symmetric. Ties are not known to it. Source: Kumar and Vassilvitskii (2010), position weights; 1 for an item that keeps its
    rank as in van Doorn et al., Using the weighted Kendall distance to analyze rank data in psychology (2021).
    """

    def measure(one_way: Alignment) -> Floats:
        shared = rank_shared(one_way)
        return _distance(
            one_way,
            average_step_costs(shared.baseline, shared.candidate, discount) * shared.is_common,
        )

    return measure_both_ways(measure, alignment)


def generalized_kendall_distance(alignment: Alignment, discount: str) -> Floats:
    """The sum of w_i w_j p_i p_j over pairs of common items in opposite order: float64 (n,), at least 0.

    w as in `element_weighted_kendall_distance`, p as in `position_weighted_kendall_distance`. Identical: 0. Fewer than two
    items in common: NaN. Symmetric. Source: Kumar and Vassilvitskii (2010), both kinds of weights combined.
    """

    def measure(one_way: Alignment) -> Floats:
        shared = rank_shared(one_way)
        costs = average_step_costs(shared.baseline, shared.candidate, discount)
        return _distance(one_way, costs * weigh_shared(one_way, shared))

    return without_unweighted(alignment, measure_both_ways(measure, alignment))


def rank_values(alignment: Alignment) -> ByArm:
    """The items' weights, 0 behind the lists' ends; ValueError when the alignment has none."""
    if alignment.weights is None:
        raise ValueError("the lists come without weights")
    return alignment.weights.map(np.nan_to_num)


def weigh_shared(alignment: Alignment, shared: Shared) -> Floats:
    """The weights of the items in common at the baseline's ranks, 0 at the others'."""
    return rank_values(alignment).baseline * shared.is_common


def without_unweighted(alignment: Alignment, scores: Floats) -> Floats:
    """The scores, NaN for every pair that lists an item whose weight is not known: missing is never 0."""
    if alignment.weights is not None:
        for weights, lengths in (
            (alignment.weights.baseline, alignment.baseline_lengths),
            (alignment.weights.candidate, alignment.candidate_lengths),
        ):
            scores[np.isnan(weights).sum(axis=0) > alignment.k - lengths] = np.nan
    return scores


def sum_ahead(weights: Floats) -> Floats:
    """Sum of the weights above each rank: (k, n)."""
    ahead = np.zeros_like(weights)
    np.cumsum(weights[:-1], axis=0, out=ahead[1:])
    return ahead


def sum_pairs(weights: Floats) -> Floats:
    """Sum of w_i w_j over all pairs of each column."""
    # Adds only, so that small weights survive beside large ones: (sum w)² - sum w² would lose them.
    return sum_ranks(weights * sum_ahead(weights))


def expect_position_weighted(most: int, discount: str) -> Floats:
    """Mean `position_weighted_kendall_distance` of z = 0 to ``most`` common items in random order: float64 (most + 1,).

    An item's ranks alone say what it pays, and two at ranks i < j go to ranks a > b in one of z (z - 1) ways: the sum of
    p(i, a) p(j, b) grows with z by a row and a column. Cost: O(most²), in memory too.
    """
    ranks = np.arange(most)
    costs = average_step_costs(ranks[:, None], ranks[None], discount)
    above, left = (np.cumsum(costs, axis=axis) - costs for axis in (0, 1))
    sums = np.cumsum(np.cumsum(above * left, axis=0), axis=1).diagonal()
    return np.append(0.0, sums / np.maximum(ranks * (ranks + 1), 1))


def average_step_costs(ours: Integers, theirs: Integers, discount: str) -> Floats:
    """Average cost of a step between these ranks from 0, k of them by the first axis.

    1 where they are the same.
    """
    worth = DISCOUNTS[discount](np.arange(1.0, len(ours) + 2))
    potential = (worth[0] - worth) / (worth[0] - worth[1])
    steps = (ours - theirs).astype(np.float64)
    costs = np.ones(steps.shape)
    np.divide(potential[ours] - potential[theirs], steps, out=costs, where=steps != 0)
    return costs


def _distance(alignment: Alignment, weights: Floats) -> Floats:
    """Sum of products over inverted pairs, weights being 0 where there is no common item.

    NaN below two of those.
    """
    distance = sum_ranks(weights * sum_earlier_larger(alignment.positions, weights))
    distance[count_shared(alignment) <= 1] = np.nan
    return distance


def _extended_one_way(alignment: Alignment) -> Floats:
    k = alignment.k
    weights = rank_values(alignment)
    ours, theirs = weights.baseline, weights.candidate
    only_ours, only_theirs = (
        ours * (alignment.positions >= k),
        theirs * (alignment.candidate_positions >= k),
    )
    misordered = (
        sum_ranks(ours * sum_earlier_larger(alignment.positions, ours))
        + sum_ranks((theirs - only_theirs) * sum_ahead(only_theirs))
        + sum_ranks(only_ours) * sum_ranks(only_theirs)
    )
    product = sum_ranks(ours) * sum_ranks(theirs)
    surplus = product + sum_pairs(ours - only_ours) - 2 * misordered
    norm = np.sqrt((product + sum_pairs(ours)) * (product + sum_pairs(theirs)))
    return divide((surplus - norm) + (surplus + product), norm + product)
