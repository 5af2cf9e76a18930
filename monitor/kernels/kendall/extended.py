"""Extended Kendall tau, scaled and as published, and tau with mismatches appended."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.kernels.alignment import Alignment, derive_once
from monitor.kernels.shared import count_absent_ahead, count_discordant, count_shared, divide, pairs
from monitor.model.arrays import Floats, Integers

_NARROW_K = 2**13  # shorter lists' counts fit 32 bits, and those cost half


def extended_tau(alignment: Alignment) -> Floats:
    """Extended Kendall tau of each pair, scaled to [-1, 1]: float64 (n,).

    Lists of lengths a and b are rankings of a universe of a + b members, in which every absent member ranks tied last; tau-b of
    the two rankings, mapped linearly so that disjoint lists give -1 and identical ones 1. With z common items and K0 the
    strictly discordant pairs of Fagin, Kumar and Sivakumar's top-k distance (p = 0)::

        S = a b + z (z - 1) / 2 - 2 K0        D = sqrt((a b + a (a - 1) / 2) (a b + b (b - 1) / 2))
        tau_b = S / D        disjoint: -a b / D        scaled = (2 S + a b - D) / (D + a b)

    Identical lists: exactly 1. Disjoint: exactly -1. One empty: -1. Both empty: NaN. A proper prefix scores under 1.
    Symmetric. Lists of one length l: D = l (3 l - 1) / 2, disjoint -2 l / (3 l - 1) before scaling.

    Source: Rogier van der Geer, Using Kendall's tau to compare recommendations (GoDataDriven, 14 July 2016); Fagin, Kumar,
    Sivakumar, Comparing Top k Lists (2003), section 3.
    """
    if alignment.is_full:
        k = alignment.k
        return _scale(_surplus(alignment, k * k), float(k * k), float(k * (3 * k - 1) // 2))
    a, b = (lengths.astype(np.float64) for lengths in (alignment.baseline_lengths, alignment.candidate_lengths))
    product = a * b
    norm = np.sqrt((product + 0.5 * a * (a - 1)) * (product + 0.5 * b * (b - 1)))
    norm += product == 0  # where a list is empty all else is 0: -1 / 1
    tau = _scale(_surplus(alignment, product.astype(np.int32 if alignment.k < _NARROW_K else np.int64)), product, norm)
    tau[alignment.long == 0] = np.nan
    return tau


def _surplus(alignment: Alignment, product: int | npt.NDArray[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    """2 S, an integer, from the lengths' product.

    K0 counts a pair of members once: both in the baseline's list, in wrong order or the first one absent from the other list
    (`Alignment.inversions`); both in the candidate's and the first one absent from the baseline's (positions of the common
    items, less what they would be without absent ones); one only here and the other only there ((a - z) (b - z)).
    """
    k = alignment.k
    wide = np.int32 if k < _NARROW_K else np.int64
    z: npt.NDArray[Any] = alignment.common.astype(wide)
    ahead: npt.NDArray[Any] = alignment.inversions + (alignment.position_sums - k * (k - z))
    lengths = 2 * k if alignment.is_full else alignment.baseline_lengths + alignment.candidate_lengths
    surplus: npt.NDArray[Any] = z * (4 * lengths - z - 3) - 4 * ahead - 2 * product
    return surplus


def _scale(surplus: npt.NDArray[Any], product: float | Floats, norm: float | Floats) -> Floats:
    scaled: Floats = np.add(surplus, product - norm, dtype=np.float64) / (norm + product)
    return scaled


@derive_once
def count_misordered(alignment: Alignment) -> Integers:
    """K0, Fagin, Kumar and Sivakumar's top-k Kendall distance with p = 0: int64 (n,).

    Pairs that the lists order in opposite ways: both items in common; one in common and behind the other, which only one list
    holds; one only here and the other only there.
    """
    a, b, z = _lengths(alignment)
    ahead = count_absent_ahead(alignment.positions) + count_absent_ahead(alignment.candidate_positions)
    misordered: Integers = count_discordant(alignment) + ahead + (a - z) * (b - z)
    return misordered


def extended_tau_unscaled(alignment: Alignment) -> Floats:
    """Extended Kendall tau as published: float64 (n,) in [-1, 1], but the lowest value depends on the lengths.

    Lists of lengths a and b are rankings of a universe of a + b members, in which every absent member (a dummy is absent from
    both) ranks tied last; tau-b of the two rankings. With z common items and K0 as in `count_misordered`::

        tau = S / D    S = a b + z (z - 1) / 2 - 2 K0    D = sqrt((a b + a (a - 1) / 2) (a b + b (b - 1) / 2))

    Identical: exactly 1. Disjoint: -a b / D, for lists of one length l -2 l / (3 l - 1): -0.69 at 10, -2/3 for long ones, which
    is why `extended_tau` scales it. A list or both empty: NaN, tau-b of a ranking that is one tie.
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
    return divide(surplus, np.sqrt((whole - pairs(a - z)).astype(np.float64) * (whole - pairs(b - z))))


def _lengths(alignment: Alignment) -> tuple[Integers, Integers, Integers]:
    a, b = (lengths.astype(np.int64) for lengths in (alignment.baseline_lengths, alignment.candidate_lengths))
    return a, b, count_shared(alignment)
