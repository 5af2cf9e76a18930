"""Kendall's tau and distance of the items in common, and Fagin's distance between top-k lists."""

from __future__ import annotations

import numpy as np

from monitor.kernels.alignment import Alignment
from monitor.kernels.engines.inversions import inversions
from monitor.kernels.engines.positions import rank_dtype
from monitor.kernels.kendall.extended import count_misordered
from monitor.kernels.kendall.ties import Tied, find_tied, rank_tied
from monitor.kernels.shared import count_discordant, count_shared, divide, pairs
from monitor.model.arrays import Floats, Integers


def kendall_tau(alignment: Alignment) -> Floats:
    """Tau-b of the items in common: float64 (n,) in [-1, 1].

    With n0 pairs of common items, n1 of them tied in the baseline, n2 in the candidate, n3 in both, and D in opposite order::

        tau_b = (n0 - n1 - n2 + n3 - 2 D) / sqrt((n0 - n1) (n0 - n2))

    Where the lists come with scores, items that hold a run of equal scores in a list are tied in it; without scores, or
    with NaN for a score, nothing is tied and tau is 1 - 2 D / n0. What only one list holds plays no part: lists that share
    their two last items may score 1.

    Identical: 1. Reversed: -1. Fewer than two items in common, or all of them tied in a list: NaN. Symmetric. Cost: that of the
    inversions, and a sort where there are ties.

    Source: Kendall, The treatment of ties in ranking problems (Biometrika 33, 1945); scipy.stats.kendalltau.
    """
    n0 = pairs(count_shared(alignment))
    if not find_tied(alignment).any():
        return divide(n0 - 2 * count_discordant(alignment), n0)
    n1, n2, n3, discordant = _count_tied(rank_tied(alignment, np.arange(len(n0))))
    return divide(n0 - n1 - n2 + n3 - 2 * discordant, np.sqrt((n0 - n1).astype(np.float64) * (n0 - n2)))


def kendall_distance(alignment: Alignment) -> Floats:
    """Number of pairs of common items in opposite order: float64 (n,) from 0 to z (z - 1) / 2, z the items in common.

    Identical: 0. Reversed: z (z - 1) / 2. Fewer than two items in common: NaN, since there is no order to compare. Symmetric.
    Ties are not known to it. Source: Kendall, A new measure of rank correlation (Biometrika 30, 1938).
    """
    discordant = count_discordant(alignment).astype(np.float64)
    discordant[count_shared(alignment) <= 1] = np.nan
    return discordant


def kendall_distance_normalized(alignment: Alignment) -> Floats:
    """`kendall_distance` as the share of all pairs of common items, (1 - tau) / 2: float64 (n,) in [0, 1].

    Identical: 0. Reversed: 1. Fewer than two items in common: NaN. Symmetric.
    """
    return divide(count_discordant(alignment), pairs(count_shared(alignment)))


def _count_tied(tied: Tied) -> tuple[Integers, Integers, Integers, Integers]:
    """n1, n2, n3 and D."""
    # Knight's way: in order of the baseline, its ties in order of the candidate, D counts inversions.
    keys, k, z = tied.sort(), len(tied.baseline), tied.count
    candidate = keys % (k + 1)
    counted = [_count_runs(ranks, z) for ranks in (keys // (k + 1), np.sort(candidate, axis=0), keys)]
    return counted[0], counted[1], counted[2], inversions(candidate.astype(rank_dtype(k))).astype(np.int64)


def _count_runs(ordered: Integers, count: Integers) -> Integers:
    """Pairs of equal values among the first ``count`` of each sorted column: each value pairs with its run's earlier ones."""
    index = np.arange(len(ordered))[:, None]
    starts = np.zeros(ordered.shape, dtype=np.int64)
    np.multiply(index[1:], ordered[1:] != ordered[:-1], out=starts[1:])
    earlier: Integers = np.where(index < count, index - np.maximum.accumulate(starts, axis=0), 0).sum(axis=0)
    return earlier


def topk_kendall(alignment: Alignment, penalty: float) -> Floats:
    """K^(p) of each pair, pairs of items that the lists order in opposite ways: float64 (n,), at least 0.

    Over all pairs of distinct items of either list: 1 where both lists hold both in opposite order (case 1); 1 where one list
    holds both and the other only the one it ranks lower (case 2); 1 where each list holds one of them only (case 3);
    ``penalty`` where one list holds both and the other neither (case 4), as nothing is known of the order there. p = 0 is
    the optimistic view, p = 1/2 the neutral one, what is to be expected of a random order.

    Identical: 0. Disjoint, lengths a and b: a b + p (C(a,2) + C(b,2)), the largest value of such lengths. One or
    both empty: NaN, since by the cases an empty list would be near to anything. Unequal lengths: the cases as they stand; at
    p = 0 a prefix has distance 0. Symmetric. Ties are not known to it. Cost: that of the inversions.

    Source: Fagin, Kumar and Sivakumar, Comparing Top k Lists (SIAM J. Discrete Math. 17, 2003), K^(p).
    """
    z = count_shared(alignment)
    untold = pairs(alignment.baseline_lengths - z) + pairs(alignment.candidate_lengths - z)
    distance: Floats = count_misordered(alignment) + float(penalty) * untold
    distance[alignment.short == 0] = np.nan
    return distance


def topk_kendall_normalized(alignment: Alignment, penalty: float) -> Floats:
    """`topk_kendall` divided by its value on disjoint lists of the same lengths: float64 (n,) in [0, 1].

    Identical: 0. Disjoint or one empty: exactly 1. Both empty: NaN. Symmetric. Some packages divide by the square of the
    number of distinct items instead, which disjoint lists do not reach.
    """
    a, b = (lengths.astype(np.int64) for lengths in (alignment.baseline_lengths, alignment.candidate_lengths))
    share = divide(topk_kendall(alignment, penalty), a * b + float(penalty) * (pairs(a) + pairs(b)))
    share[(alignment.short == 0) & (alignment.long > 0)] = 1.0
    return share
