"""Kendall's tau and distance of the items in common, Fagin's distance between top-k lists, and extended tau."""

from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.kernels.alignment import (
    Alignment,
    count_discordant,
    count_shared,
    derive_once,
    divide,
    pairs,
)
from monitor.kernels.engines.positions import inversions, rank_dtype
from monitor.kernels.kendall.weighted import Tied, find_tied, rank_tied
from monitor.model.arrays import Floats, Integers

_NARROW_K = 2**13  # shorter lists' counts fit 32 bits, and those cost half


def extended_tau(alignment: Alignment) -> Floats:
    """Extended Kendall tau of each pair, scaled to [-1, 1]: float64 (n,).

    Lists of lengths a and b are rankings of a universe of a + b members, in which every absent
    member ranks tied last; tau-b of the two rankings, mapped linearly so that disjoint lists give
    -1 and identical ones 1. With z common items and K0 as in `count_misordered`::

        S = a b + z (z - 1) / 2 - 2 K0        D = sqrt((a b + a (a - 1) / 2) (a b + b (b - 1) / 2))
        tau_b = S / D        disjoint: -a b / D        scaled = (2 S + a b - D) / (D + a b)

    Identical: exactly 1. Disjoint or one empty: exactly -1. Both empty: NaN. A proper prefix scores
        under 1. Symmetric. Lists
    of one length l: D = l (3 l - 1) / 2, disjoint -2 l / (3 l - 1) before scaling. Source: Rogier
        van der Geer, Using Kendall's
    tau to compare recommendations (GoDataDriven, 14 July 2016); Fagin, Kumar, Sivakumar, Comparing
        Top k Lists (2003), section
    3.
    """
    if alignment.is_full:
        k = alignment.k
        return _scale(_surplus(alignment, k * k), float(k * k), float(k * (3 * k - 1) // 2))
    a, b = (
        lengths.astype(np.float64)
        for lengths in (alignment.baseline_lengths, alignment.candidate_lengths)
    )
    product = a * b
    norm = np.sqrt((product + 0.5 * a * (a - 1)) * (product + 0.5 * b * (b - 1)))
    norm += product == 0  # where a list is empty all else is 0: -1 / 1
    tau = _scale(
        _surplus(alignment, product.astype(np.int32 if alignment.k < _NARROW_K else np.int64)),
        product,
        norm,
    )
    tau[alignment.long == 0] = np.nan
    return tau


def _surplus(
    alignment: Alignment, product: int | npt.NDArray[np.signedinteger[Any]]
) -> npt.NDArray[Any]:
    """2 S, an integer, from the lengths' product.

    K0 counts a pair of members once: both in the baseline's list, in wrong order or the first one
    absent from the other list (`Alignment.inversions`); both in the candidate's and the first one
    absent from the baseline's (positions of the common items, less what they would be without
    absent ones); one only here and the other only there ((a - z) (b - z))."""
    k = alignment.k
    wide = np.int32 if k < _NARROW_K else np.int64
    z: npt.NDArray[Any] = alignment.common.astype(wide)
    ahead: npt.NDArray[Any] = alignment.inversions + (alignment.position_sums - k * (k - z))
    lengths = (
        2 * k if alignment.is_full else alignment.baseline_lengths + alignment.candidate_lengths
    )
    surplus: npt.NDArray[Any] = z * (4 * lengths - z - 3) - 4 * ahead - 2 * product
    return surplus


def _scale(surplus: npt.NDArray[Any], product: float | Floats, norm: float | Floats) -> Floats:
    scaled: Floats = np.add(surplus, product - norm, dtype=np.float64) / (norm + product)
    return scaled


@derive_once
def count_misordered(alignment: Alignment) -> Integers:
    """K0, Fagin, Kumar and Sivakumar's top-k Kendall distance with p = 0, pairs in opposite order: int64 (n,).

    Both items in common; one in common and behind the other, which only one list holds; one only here, the other only there.
    """
    a, b, z = _lengths(alignment)
    misordered: Integers = (2 * a * b + z * (z - 1) - _surplus(alignment, a * b)) // 4
    return misordered


def extended_tau_unscaled(alignment: Alignment) -> Floats:
    """Extended Kendall tau as published: float64 (n,) in [-1, 1], but the lowest value depends on the lengths.

    S / D of `extended_tau`. Identical: exactly 1. Disjoint: -a b / D, for lists of one length l -2 l / (3 l - 1): -0.69 at 10,
    -2/3 for long ones, which is why `extended_tau` scales it. A list or both empty: NaN, tau-b of a ranking that is one tie.
    A proper prefix scores under 1. Symmetric. Cost: that of the inversions.
    Source: Rogier van der Geer, Using Kendall's tau to compare recommendations (GoDataDriven, 14 July 2016).
    """
    a, b, z = _lengths(alignment)
    surplus = a * b + pairs(z) - 2 * count_misordered(alignment)
    norm = np.sqrt((a * b + pairs(a)).astype(np.float64) * (a * b + pairs(b)))
    return divide(surplus, norm)


def appended_tau(alignment: Alignment) -> Floats:
    """Tau-b after each list's mismatches are appended to the other list, tied behind its end: float64 (n,) in [-1, 1].

    The universe is the items of both lists and no dummies, u = a + b - z of them, K0 as in `count_misordered`::

        tau = (C(u,2) - C(a-z,2) - C(b-z,2) - 2 K0) / sqrt((C(u,2) - C(a-z,2)) (C(u,2) - C(b-z,2)))

    Identical: 1, NaN for lists of one item. Reversed: -1, below disjoint lists (-2 l / (3 l - 1) for lists of one length l):
    that, and the universe that shrinks as lists grow alike, is why van der Geer went on to add dummies. A list that lacks only
    the last item of the other scores 1, since it is appended right there. A list or both empty: NaN. Symmetric.
    Source: van der Geer (2016), as `extended_tau_unscaled`, section Appending mismatches.
    """
    a, b, z = _lengths(alignment)
    whole = pairs(a + b - z)
    surplus = whole - pairs(a - z) - pairs(b - z) - 2 * count_misordered(alignment)
    return divide(
        surplus, np.sqrt((whole - pairs(a - z)).astype(np.float64) * (whole - pairs(b - z)))
    )


def _lengths(alignment: Alignment) -> tuple[Integers, Integers, Integers]:
    a, b = (
        lengths.astype(np.int64)
        for lengths in (alignment.baseline_lengths, alignment.candidate_lengths)
    )
    return a, b, count_shared(alignment)


def kendall_tau(alignment: Alignment) -> Floats:
    """Tau-b of the items in common: float64 (n,) in [-1, 1].

    With n0 pairs of common items, n1 of them tied in the baseline, n2 in the candidate, n3 in both,
    and D in opposite order::

        tau_b = (n0 - n1 - n2 + n3 - 2 D) / sqrt((n0 - n1) (n0 - n2))

    Where the lists come with scores, items that hold a run of equal scores in a list are tied in
        it; without scores, or
    with NaN for a score, nothing is tied and tau is 1 - 2 D / n0. What only one list holds plays no
        part: lists that share
    their two last items may score 1. Identical: 1. Reversed: -1. Fewer than two items in common, or
        all tied in a list: NaN.
    Symmetric. Cost: that of the inversions, and a sort where there are ties.
    Source: Kendall, The treatment of ties in ranking problems (Biometrika 33, 1945);
        scipy.stats.kendalltau.
    """
    n0 = pairs(count_shared(alignment))
    if not find_tied(alignment).any():
        return divide(n0 - 2 * count_discordant(alignment), n0)
    n1, n2, n3, discordant = _count_tied(rank_tied(alignment, np.arange(len(n0))))
    return divide(
        n0 - n1 - n2 + n3 - 2 * discordant, np.sqrt((n0 - n1).astype(np.float64) * (n0 - n2))
    )


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
    # Knight's way: in order of the baseline, its ties in order of the candidate, D counts
    # inversions.
    keys, k, z = tied.sort(), len(tied.baseline), tied.count
    candidate = keys % (k + 1)
    counted = [
        _count_runs(ranks, z) for ranks in (keys // (k + 1), np.sort(candidate, axis=0), keys)
    ]
    return (
        counted[0],
        counted[1],
        counted[2],
        inversions(candidate.astype(rank_dtype(k))).astype(np.int64),
    )


def _count_runs(ordered: Integers, count: Integers) -> Integers:
    """Pairs of equal values among the first ``count`` of each sorted column: each value pairs with its run's earlier ones."""
    index = np.arange(len(ordered))[:, None]
    starts = np.zeros(ordered.shape, dtype=np.int64)
    np.multiply(index[1:], ordered[1:] != ordered[:-1], out=starts[1:])
    earlier: Integers = np.where(
        index < count, index - np.maximum.accumulate(starts, axis=0), 0
    ).sum(axis=0)
    return earlier


def topk_kendall(alignment: Alignment, penalty: float) -> Floats:
    """K^(p) of each pair, pairs of items that the lists order in opposite ways: float64 (n,), at least 0.

    Over all pairs of distinct items of either list: 1 where both lists hold both in opposite order (case 1); 1 where one list
    holds both and the other only the one it ranks lower (case 2); 1 where each list holds one of them only (case 3);
    ``penalty`` where one list holds both and the other neither (case 4): p = 0 is the optimistic view, p = 1/2 the neutral one.

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
    """`topk_kendall` divided by its value on disjoint lists of the same lengths: float64 (n,) in [0, 1]. Symmetric.

    Identical: 0. Disjoint or one empty: exactly 1. Both empty: NaN. Some packages divide by the square of the number of
    distinct items instead, which disjoint lists do not reach.
    """
    a, b = (
        lengths.astype(np.int64)
        for lengths in (alignment.baseline_lengths, alignment.candidate_lengths)
    )
    share = divide(topk_kendall(alignment, penalty), a * b + float(penalty) * (pairs(a) + pairs(b)))
    share[(alignment.short == 0) & (alignment.long > 0)] = 1.0
    return share
