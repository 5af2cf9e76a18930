"""Extended Kendall tau, scaled and as published, and tau with mismatches appended."""

from __future__ import annotations

import numpy as np

from monitor.kernels.alignment import Alignment, derive_once
from monitor.kernels.shared import count_shared, divide, pairs
from monitor.model.arrays import Floats, Integers


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
    a, b, _ = _lengths(alignment)
    product = (a * b).astype(np.float64)
    # Where a list is empty all else is 0: -1 / 1.
    norm = _norm(a, b) + (product == 0)
    tau: Floats = (2 * _surplus(alignment) + (product - norm)) / (norm + product)
    tau[alignment.long == 0] = np.nan
    return tau


@derive_once
def count_misordered(alignment: Alignment) -> Integers:
    """K0, Fagin, Kumar and Sivakumar's top-k Kendall distance with p = 0: int64 (n,).

    Pairs that the lists order in opposite ways, each counted once: both in the baseline's list, in wrong order or the first one
    absent from the other list (`Alignment.inversions`); both in the candidate's and the first one absent from the baseline's
    (positions of the common items, less what they would be without absent ones); one only here and the other only there.
    """
    a, b, z = _lengths(alignment)
    behind_absent = alignment.position_sums.astype(np.int64) - alignment.k * (alignment.k - z) - pairs(z)
    misordered: Integers = alignment.inversions + behind_absent + (a - z) * (b - z)
    return misordered


def _surplus(alignment: Alignment) -> Integers:
    """S of `extended_tau`."""
    a, b, z = _lengths(alignment)
    surplus: Integers = a * b + pairs(z) - 2 * count_misordered(alignment)
    return surplus


def _norm(a: Integers, b: Integers) -> Floats:
    """D of `extended_tau`."""
    norm: Floats = np.sqrt((a * b + pairs(a)).astype(np.float64) * (a * b + pairs(b)))
    return norm


def extended_tau_unscaled(alignment: Alignment) -> Floats:
    """Extended Kendall tau as published: float64 (n,) in [-1, 1], but the lowest value depends on the lengths.

    tau_b = S / D as in `extended_tau`, of a universe that is filled up with dummies, absent from both lists.

    Identical: exactly 1. Disjoint: -a b / D, for lists of one length l -2 l / (3 l - 1): -0.69 at 10, -2/3 for long ones, which
    is why `extended_tau` scales it. A list or both empty: NaN, tau-b of a ranking that is one tie.
    A proper prefix scores under 1. Symmetric. Cost: that of the inversions.

    Source: Rogier van der Geer, Using Kendall's tau to compare recommendations (GoDataDriven, 14 July 2016).
    """
    a, b, _ = _lengths(alignment)
    return divide(_surplus(alignment), _norm(a, b))


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
