"""Kendall's metrics with weights of items and ranks."""

from collections.abc import Callable, Mapping

import numpy as np

from monitor.measures.kernels.alignment import (
    Alignment,
    count_shared,
    divide,
    measure_both_ways,
    rank_shared,
    sum_ranks,
)
from monitor.measures.kernels.engines.positions import sum_earlier_larger
from monitor.model.arrays import Floats, Integers
from monitor.model.rankings import ByArm


def _discount_as_dcg(rank: Floats) -> Floats:
    return 1 / np.log2(rank + 1)


def _discount_as_weighted_tau(rank: Floats) -> Floats:
    return 1 / rank


DISCOUNTS: Mapping[str, Callable[[Floats], Floats]] = {
    "dcg": _discount_as_dcg,
    "hyperbolic": _discount_as_weighted_tau,
}
"""Functions that give the value of a rank: the discounts of DCG and of weighted tau.

The first rank has the number 1.
"""


def element_weighted_tau(alignment: Alignment) -> Floats:
    """Extended Kendall tau with item weights: float64 (n,) in [-1, 1].

    It is `extended_tau` of lists in which each item of weight w is replaced by w tied copies. So
    the pair of the items i and j is counted w_i w_j times. A and B are the weights of the lists. Z
    is the weight of the common items. e(X) is the sum of w_i w_j over the pairs of items in X. K0
    is the sum of w_i w_j over the pairs that the lists order in opposite ways::

        S = A B + e(Z) - 2 K0        D = sqrt((A B + e(A)) (A B + e(B)))
        scaled = (2 S + A B - D) / (D + A B)

    The result depends only on the ratios of the weights. Weights need not be integers. If all
    weights are equal, this is `extended_tau`. Identical lists score exactly 1. Disjoint lists and
    one empty list score exactly -1. For two empty lists, the score is NaN. A proper prefix scores
    below 1. The metric is symmetric. Ties are ignored. Cost: k² multiplications for each pair, 2 k
    log² k for long lists. Source: van der Geer (2016) for the universe; Kumar and Vassilvitskii,
    Generalized distances between rankings (WWW 2010) for the weights.
    """
    tau = np.clip(measure_both_ways(_extended_one_way, alignment), -1.0, 1.0)
    # An item without a weight makes the weight of its list NaN.
    weights = item_weights_by_rank(alignment)
    is_weighed = ~np.isnan(sum_ranks(weights.baseline) + sum_ranks(weights.candidate))
    tau[(alignment.short == 0) & is_weighed] = -1.0
    tau[alignment.long == 0] = np.nan
    return tau


def element_weighted_kendall_distance(alignment: Alignment) -> Floats:
    """The sum of w_i w_j over the pairs of common items in opposite order: float64 (n,), >= 0.

    Identical lists have distance 0. Reversed lists have the maximum, which is the sum over all
    pairs. Fewer than two common items give NaN. If all weights are 1, this is `kendall_distance`.
    The metric is symmetric. Ties are ignored.
    Source: Kumar and Vassilvitskii (2010), element weights.
    """
    return generalized_kendall_distance(alignment, None)


def element_weighted_kendall_distance_normalized(alignment: Alignment) -> Floats:
    """`element_weighted_kendall_distance` divided by its maximum: float64 (n,) in [0, 1].

    The maximum is the sum over all pairs of common items. Identical lists score 0 and reversed
    lists score 1. Fewer than two common items give NaN. If all weights are equal, this is
    `kendall_distance_normalized`. The metric is symmetric.
    """

    def measure(one_way: Alignment) -> Floats:
        weights = weigh_shared(one_way, None)
        return divide(_distance(one_way, weights), sum_pairs(weights))

    return np.minimum(measure_both_ways(measure, alignment), 1.0)


def position_weighted_kendall_distance(alignment: Alignment, discount: str) -> Floats:
    """Kendall's distance of the common items, with higher costs at the top: float64 (n,), >= 0.

    A move of an item between the neighbouring ranks r - 1 and r costs delta_r. This is the
    difference between the values of the two ranks (`DISCOUNTS`). The costs are scaled so that a
    move between the first two ranks costs 1. Let a and b be an item's two ranks among the common
    items. Then p is the mean cost of a step between them: the sum of delta between a and b, divided
    by |a - b|. p is 1 if the ranks are equal. The distance is the sum of p_i p_j over the pairs in
    opposite order.

    Identical lists have distance 0. Fewer than two common items give NaN. If every delta is 1, this
    is `kendall_distance`. The metric is symmetric. Ties are ignored.
    Source: Kumar and Vassilvitskii (2010), position weights. The cost 1 for equal ranks is from van
    Doorn et al., Using the weighted Kendall distance to analyze rank data in psychology (2021).
    """

    def measure(one_way: Alignment) -> Floats:
        shared = rank_shared(one_way)
        costs = average_step_costs(shared.baseline, shared.candidate, discount)
        return _distance(one_way, costs * shared.is_common)

    return measure_both_ways(measure, alignment)


def generalized_kendall_distance(alignment: Alignment, discount: str | None) -> Floats:
    """The sum of w_i w_j p_i p_j over pairs of common items in opposite order: float64 (n,), >= 0.

    w is an item's weight. `position_weighted_kendall_distance` defines p, which is 1 if
    ``discount`` is None. Identical lists have distance 0. Fewer than two common items give NaN. The
    metric is symmetric.
    Source: Kumar and Vassilvitskii (2010), both kinds of weights combined.
    """

    def measure(one_way: Alignment) -> Floats:
        return _distance(one_way, weigh_shared(one_way, discount))

    return measure_both_ways(measure, alignment)


def item_weights_by_rank(alignment: Alignment) -> ByArm:
    """The weights of the items. A place after the end of a list has the weight 0.

    An item without a weight has NaN. So each score of its pair becomes NaN. Raises ValueError if
    the alignment has no weights.
    """
    if alignment.weights is None:
        raise ValueError("the alignment has no item weights: give the batch item weights")
    ranks = np.arange(alignment.k)[:, None]
    return ByArm(
        baseline=np.where(ranks < alignment.baseline_lengths, alignment.weights.baseline, 0.0),
        candidate=np.where(ranks < alignment.candidate_lengths, alignment.weights.candidate, 0.0),
    )


def weigh_shared(alignment: Alignment, discount: str | None) -> Floats:
    """The weights of the baseline's items, with 0 for each item that is not common: (k, n).

    With a ``discount``, each weight is multiplied by the mean cost of a step of its item.
    """
    shared = rank_shared(alignment)
    weights: Floats = item_weights_by_rank(alignment).baseline * shared.is_common
    if discount is not None:
        weights *= average_step_costs(shared.baseline, shared.candidate, discount)
    return weights


def sum_ahead(weights: Floats) -> Floats:
    """For each rank, the sum of the weights at the ranks before it: (k, n)."""
    ahead = np.zeros_like(weights)
    np.cumsum(weights[:-1], axis=0, out=ahead[1:])
    return ahead


def sum_pairs(weights: Floats) -> Floats:
    """For each column, the sum of w_i w_j over all pairs of its items."""
    # All terms are added. The formula (sum w)² - sum w² is not used, because its rounding error
    # could exceed the products of small weights.
    return sum_ranks(weights * sum_ahead(weights))


def expect_position_weighted(most: int, discount: str) -> Floats:
    """The mean `position_weighted_kendall_distance` of z items in random order.

    The result has one value for each z from 0 to ``most``: float64 (most + 1,). An item's p depends
    only on its two ranks. Two items at the ranks i < j move to the ranks a > b with probability 1 /
    (z (z - 1)). So the mean is a sum of p(i, a) p(j, b) over a square of ranks. If z grows by one,
    this square grows by one row and one column. Time and memory are O(most²).
    """
    ranks = np.arange(most)
    costs = average_step_costs(ranks[:, None], ranks[None], discount)
    above = np.cumsum(costs, axis=0) - costs
    left = np.cumsum(costs, axis=1) - costs
    sums = np.cumsum(np.cumsum(above * left, axis=0), axis=1).diagonal()
    return np.append(0.0, sums / np.maximum(ranks * (ranks + 1), 1))


def average_step_costs(ours: Integers, theirs: Integers, discount: str) -> Floats:
    """The mean cost of a step between two ranks of an item. It is 1 if the ranks are equal.

    The first rank has the number 0. All ranks are below the length of ``ours``.
    """
    rank_values = DISCOUNTS[discount](np.arange(1.0, len(ours) + 2))
    cost_from_top = (rank_values[0] - rank_values) / (rank_values[0] - rank_values[1])
    steps = (ours - theirs).astype(np.float64)
    mean_costs = np.ones(steps.shape)
    total_costs = cost_from_top[ours] - cost_from_top[theirs]
    np.divide(total_costs, steps, out=mean_costs, where=steps != 0)
    return mean_costs


def _distance(alignment: Alignment, weights: Floats) -> Floats:
    """The sum of the products of both items' weights, over the pairs in opposite order.

    NaN for fewer than two common items. Items that are not common must have the weight 0.
    """
    distance = sum_ranks(weights * sum_earlier_larger(alignment.positions, weights))
    distance[count_shared(alignment) <= 1] = np.nan
    return distance


def _extended_one_way(alignment: Alignment) -> Floats:
    """`element_weighted_tau` with sums that are added in the order of the baseline's list."""
    k = alignment.k
    weights = item_weights_by_rank(alignment)
    ours = weights.baseline
    theirs = weights.candidate
    only_ours = ours * (alignment.positions >= k)
    only_theirs = theirs * (alignment.candidate_positions >= k)
    # Pairs of our items, pairs of their items, and pairs with one item of each list.
    misordered = sum_ranks(ours * sum_earlier_larger(alignment.positions, ours))
    misordered += sum_ranks((theirs - only_theirs) * sum_ahead(only_theirs))
    misordered += sum_ranks(only_ours) * sum_ranks(only_theirs)
    product = sum_ranks(ours) * sum_ranks(theirs)
    surplus = product + sum_pairs(ours - only_ours) - 2 * misordered
    norm = np.sqrt((product + sum_pairs(ours)) * (product + sum_pairs(theirs)))
    return divide((surplus - norm) + (surplus + product), norm + product)
