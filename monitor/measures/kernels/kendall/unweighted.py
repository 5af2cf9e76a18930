"""Kendall's tau and distance, Fagin's distance between top-k lists, and extended tau."""

from typing import Any

import numpy as np

from monitor.measures.kernels.alignment import (
    Alignment,
    count_discordant,
    count_pairs,
    count_shared,
    derive_once,
    divide,
)
from monitor.measures.kernels.engines.positions import count_inversions, rank_dtype
from monitor.measures.kernels.kendall.weighted import (
    Tied,
    count_equal,
    find_tied,
    number_runs,
    rank_tied,
)
from monitor.model.arrays import Array, Floats, Integers

_NARROW_K = 2**13  # 32 bits are enough for shorter lists, and take half the time


def extended_tau(alignment: Alignment) -> Floats:
    """Extended Kendall tau of each pair, scaled to [-1, 1]: float64 (n,).

    Two lists of the lengths a and b are read as rankings of a universe of a + b members. The
    members that a list does not have are tied at its end. For disjoint lists, the tau-b of these
    rankings is above -1. So it is scaled linearly. Then disjoint lists score -1 and identical lists
    score 1. z is the number of common items. K0 is defined in `count_misordered`::

        S = a b + z (z - 1) / 2 - 2 K0        D = sqrt((a b + a (a - 1) / 2) (a b + b (b - 1) / 2))
        tau_b = S / D        disjoint: -a b / D        scaled = (2 S + a b - D) / (D + a b)

    Identical lists score exactly 1. Disjoint lists and one empty list score exactly -1. For two
    empty lists, the score is NaN. A proper prefix scores below 1. The metric is symmetric. If both
    lists have length l, D is l (3 l - 1) / 2. Then the tau-b of disjoint lists is -2 l / (3 l - 1).
    Source: Rogier van der Geer, Using Kendall's tau to compare recommendations (GoDataDriven, 14
    July 2016); Fagin, Kumar, Sivakumar, Comparing Top k Lists (2003), section 3.
    """
    if alignment.is_full:
        k = alignment.k
        return _scale(_compute_surplus(alignment, k * k), float(k * k), float(k * (3 * k - 1) // 2))
    a = alignment.baseline_lengths.astype(np.float64)
    b = alignment.candidate_lengths.astype(np.float64)
    product = a * b
    norm = np.sqrt((product + 0.5 * a * (a - 1)) * (product + 0.5 * b * (b - 1)))
    norm += product == 0  # if one list is empty, all other terms are 0 and the score is -1 / 1
    tau = _scale(_compute_surplus(alignment, product.astype(_wide(alignment.k))), product, norm)
    tau[alignment.long == 0] = np.nan
    return tau


def _wide(k: int) -> type[np.signedinteger[Any]]:
    """The integer type for counts in lists of k items."""
    return np.int32 if k < _NARROW_K else np.int64


def _compute_surplus(alignment: Alignment, product: int | Integers) -> Array:
    """2 S of `extended_tau` as an integer. ``product`` is the product of the two lengths.

    K0 counts three kinds of pairs of members, each pair once:

    - Both members are in the baseline's list. They are in opposite order, or the candidate's list
      lacks the first member. `Alignment.inversions` counts these pairs.
    - Both members are in the candidate's list, and the baseline's list lacks the first member. To
      count these pairs, add up the positions of the common items. Then subtract the positions that
      they would have without the absent items.
    - Each member is in one list only. There are (a - z) (b - z) such pairs.
    """
    k = alignment.k
    z: Array = alignment.common.astype(_wide(k))
    # The first kind of pairs, and the sum of the positions of the common items.
    counted: Array = alignment.inversions + (alignment.position_sums - k * (k - z))
    lengths: Any = 2 * k
    if not alignment.is_full:
        lengths = alignment.baseline_lengths + alignment.candidate_lengths
    surplus: Array = z * (4 * lengths - z - 3) - 4 * counted - 2 * product
    return surplus


def _scale(surplus: Array, product: float | Floats, norm: float | Floats) -> Floats:
    """The value that `extended_tau` calls scaled. ``surplus`` is 2 S, and ``norm`` is D."""
    scaled: Floats = np.add(surplus, product - norm, dtype=np.float64) / (norm + product)
    return scaled


@derive_once
def count_misordered(alignment: Alignment) -> Integers:
    """K0, the number of misordered pairs: int64 (n,). It is the top-k Kendall distance with p = 0.

    A pair of items is misordered in three cases:

    - Both items are common, and the lists have them in opposite order.
    - One item is common, and it comes after the other item in the only list that has both.
    - Each list contains exactly one of the two items.

    Source: Fagin, Kumar and Sivakumar.
    """
    a, b, z = _lengths(alignment)
    # By the definition of S in `extended_tau`, 2 S is 2 a b + z (z - 1) - 4 K0.
    misordered: Integers = (2 * a * b + z * (z - 1) - _compute_surplus(alignment, a * b)) // 4
    return misordered


def extended_tau_unscaled(alignment: Alignment) -> Floats:
    """Extended Kendall tau as published: float64 (n,) in [-1, 1].

    It is S / D of `extended_tau`. Its minimum depends on the lengths. Identical lists score exactly
    1. Disjoint lists score -a b / D. If both lists have length l, this is -2 l / (3 l - 1). So it
    is -0.69 for 10 items, and -2/3 for long lists. Therefore `extended_tau` scales the value. An
    empty list gives NaN, because all its members are tied. A proper prefix scores below 1. The
    metric is symmetric.
    Cost: the same as for counting the inversions.
    Source: Rogier van der Geer, Using Kendall's tau to compare recommendations (GoDataDriven, 14
    July 2016).
    """
    a, b, z = _lengths(alignment)
    surplus = a * b + count_pairs(z) - 2 * count_misordered(alignment)
    norm = np.sqrt((a * b + count_pairs(a)).astype(np.float64) * (a * b + count_pairs(b)))
    return divide(surplus, norm)


def appended_tau(alignment: Alignment) -> Floats:
    """Tau-b after the missing items are appended to each list: float64 (n,) in [-1, 1].

    Items of only one list are appended to the other list, with a tie between them. The universe has
    only the u = a + b - z items of both lists. a and b are the lengths of the lists, and z is the
    number of common items. K0 is defined in `count_misordered`::

        tau = (C(u,2) - C(a-z,2) - C(b-z,2) - 2 K0)
            / sqrt((C(u,2) - C(a-z,2)) (C(u,2) - C(b-z,2)))

    Identical lists score 1, or NaN if they have one item. Reversed lists score -1. Disjoint lists
    score higher: two disjoint lists of length l score -2 l / (3 l - 1). The universe also shrinks
    as the lists become more similar. For these two reasons van der Geer later added dummy items.
    Two lists score 1 if one of them lacks only the last item of the other list, because the item is
    appended at the right place. An empty list gives NaN. The metric is symmetric.
    Source: van der Geer (2016), see `extended_tau_unscaled`, section Appending mismatches.
    """
    a, b, z = _lengths(alignment)
    all_pairs = count_pairs(a + b - z)
    # The pairs that are not tied after the items of one list are appended to the other list.
    untied_a = all_pairs - count_pairs(a - z)
    untied_b = all_pairs - count_pairs(b - z)
    surplus = untied_a + untied_b - all_pairs - 2 * count_misordered(alignment)
    return divide(surplus, np.sqrt(untied_a.astype(np.float64) * untied_b))


def _lengths(alignment: Alignment) -> tuple[Integers, Integers, Integers]:
    """The lengths of both lists and the number of common items, as int64."""
    a = alignment.baseline_lengths
    b = alignment.candidate_lengths
    return a.astype(np.int64), b.astype(np.int64), count_shared(alignment)


def kendall_tau(alignment: Alignment) -> Floats:
    """Tau-b of the common items: float64 (n,) in [-1, 1].

    There are n0 pairs of common items. n1 pairs are tied in the baseline's list, n2 pairs in the
    candidate's list, and n3 pairs in both lists. D pairs are in opposite order::

        tau_b = (n0 - n1 - n2 + n3 - 2 D) / sqrt((n0 - n1) (n0 - n2))

    Neighbours with equal scores are tied. An item without a score is never tied. If no items are
    tied, tau is 1 - 2 D / n0. Items of only one list are ignored. So two lists that share only
    their last two items can score 1. Identical lists score 1 and reversed lists score -1. Fewer
    than two common items give NaN. A list in which all common items are tied also gives NaN. The
    metric is symmetric.
    Cost: the same as for counting the inversions. Lists with ties are also sorted.
    Source: Kendall, The treatment of ties in ranking problems (Biometrika 33, 1945);
    scipy.stats.kendalltau.
    """
    n0 = count_pairs(count_shared(alignment))
    if not find_tied(alignment).any():
        return divide(n0 - 2 * count_discordant(alignment), n0)
    n1, n2, n3, discordant = _count_tied(rank_tied(alignment, np.arange(len(n0))))
    norm = np.sqrt((n0 - n1).astype(np.float64) * (n0 - n2))
    return divide(n0 - n1 - n2 + n3 - 2 * discordant, norm)


def kendall_distance(alignment: Alignment) -> Floats:
    """The number of pairs of common items in opposite order: float64 (n,).

    With z common items, the range is 0 to z (z - 1) / 2. Identical lists have distance 0. Reversed
    lists have the maximum. Fewer than two common items give NaN, because they have no order to
    compare. The metric is symmetric. Ties are ignored.
    Source: Kendall, A new measure of rank correlation (Biometrika 30, 1938).
    """
    discordant = count_discordant(alignment).astype(np.float64)
    discordant[count_shared(alignment) <= 1] = np.nan
    return discordant


def kendall_distance_normalized(alignment: Alignment) -> Floats:
    """`kendall_distance` divided by the number of pairs of common items: float64 (n,) in [0, 1].

    It is (1 - tau) / 2. Identical lists score 0 and reversed lists score 1. Fewer than two common
    items give NaN. The metric is symmetric.
    """
    return divide(count_discordant(alignment), count_pairs(count_shared(alignment)))


def _count_tied(tied: Tied) -> tuple[Integers, Integers, Integers, Integers]:
    """The numbers n1, n2, n3 and D that `kendall_tau` defines."""
    # Knight's algorithm sorts the items by their places in the baseline's list. Items that are tied
    # there are sorted by their places in the candidate's list. Then D is the number of inversions
    # of the candidate's places.
    keys = tied.sort()
    k = len(tied.baseline)
    z = tied.count
    baseline = keys // (k + 1)
    candidate = keys % (k + 1)
    n1 = _count_equal_pairs(baseline, z)
    n2 = _count_equal_pairs(np.sort(candidate, axis=0), z)
    n3 = _count_equal_pairs(keys, z)
    discordant = count_inversions(candidate.astype(rank_dtype(k))).astype(np.int64)
    return n1, n2, n3, discordant


def _count_equal_pairs(ordered: Integers, count: Integers) -> Integers:
    """The number of pairs of equal values among the first ``count`` values of each sorted column.

    The other values differ from these values.
    """
    is_counted = np.arange(len(ordered))[:, None] < count
    pairs: Integers = (
        np.where(is_counted, count_equal(number_runs(ordered)) - 1, 0).sum(axis=0) // 2
    )
    return pairs


def topk_kendall(alignment: Alignment, penalty: float) -> Floats:
    """K^(p), the number of pairs that the lists order in opposite ways: float64 (n,), at least 0.

    Each pair of distinct items of either list adds a cost:

    - 1 if both lists contain both items, but in opposite order (case 1);
    - 1 if one list contains both items, and the other list contains only the lower-ranked item
      (case 2);
    - 1 if each list contains exactly one of the two items, and the other list lacks it (case 3);
    - p, the ``penalty``, if one list contains both items and the other list contains neither
      (case 4). p = 0 is the optimistic choice. p = 1/2 is the neutral choice.

    Identical lists have distance 0. Disjoint lists of the lengths a and b have the maximum,
    a b + p (C(a,2) + C(b,2)). An empty list gives NaN, because by the four cases its distance to
    any list would be small. The cases also apply to lists of unequal length. So a prefix has
    distance 0 if p is 0. The metric is symmetric. Ties are ignored.
    Cost: the same as for counting the inversions.
    Source: Fagin, Kumar and Sivakumar, Comparing Top k Lists (SIAM J. Discrete Math. 17, 2003),
    K^(p).
    """
    a, b, z = _lengths(alignment)
    penalized_pairs = count_pairs(a - z) + count_pairs(b - z)
    distance: Floats = count_misordered(alignment) + float(penalty) * penalized_pairs
    distance[alignment.short == 0] = np.nan
    return distance


def topk_kendall_normalized(alignment: Alignment, penalty: float) -> Floats:
    """`topk_kendall` divided by its maximum for these lengths: float64 (n,) in [0, 1].

    The maximum is the value for disjoint lists. Identical lists score 0. Disjoint lists and one
    empty list score exactly 1. For two empty lists, the score is NaN. The metric is symmetric. Some
    packages divide by the squared number of distinct items instead. Then disjoint lists score below
    1.
    """
    a, b, _ = _lengths(alignment)
    most = a * b + penalty * (count_pairs(a) + count_pairs(b))
    share = divide(topk_kendall(alignment, penalty), most)
    share[(alignment.short == 0) & (alignment.long > 0)] = 1.0
    return share
