"""Kendall's tau of lists that hold different items, before scaling and without dummies."""

from __future__ import annotations

import numpy as np

from monitor.kernels.alignment import Alignment, Floats, derive_once
from monitor.kernels.shared import Integers, count_absent_ahead, count_discordant, count_shared, divide, pairs


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
    return divide(surplus, np.where(alignment.short > 0, norm, 0.0))


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
