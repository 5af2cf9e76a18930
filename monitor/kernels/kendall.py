"""Kendall's tau between top-k lists that hold different items."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.kernels.alignment import Alignment, Floats


def extended_tau(alignment: Alignment) -> Floats:
    """Extended Kendall tau of each pair, scaled to [-1, 1]: float64 (n,).

    Lists of lengths a and b are rankings of a universe of a + b members, in which every absent member ranks tied last; tau-b of
    the two rankings, mapped linearly so that disjoint lists give -1 and identical ones 1. With z common items and K0 the
    strictly discordant pairs of Fagin, Kumar and Sivakumar's top-k distance (p = 0)::

        S = a b + z (z - 1) / 2 - 2 K0        D = sqrt((a b + a (a - 1) / 2) (a b + b (b - 1) / 2))
        tau_b = S / D        disjoint: -a b / D        scaled = (2 S + a b - D) / (D + a b)

    Identical lists: exactly 1. Disjoint: exactly -1. One empty: -1. Both empty: NaN. A proper prefix scores under 1.
    Symmetric. Lists of one length l: D = l (3 l - 1) / 2, disjoint -2 l / (3 l - 1) before scaling.

    Source: van der Geer et al., extended Kendall tau; Fagin, Kumar, Sivakumar, Comparing Top k Lists (2003), section 3.
    """
    if alignment.is_full:
        k = alignment.k
        return _scale(_surplus(alignment, k * k), float(k * k), float(k * (3 * k - 1) // 2))
    a = alignment.baseline_lengths.astype(np.int64)
    b = alignment.candidate_lengths.astype(np.int64)
    product = (a * b).astype(np.float64)
    norm = np.sqrt((product + a * (a - 1) // 2) * (product + b * (b - 1) // 2))
    with np.errstate(invalid="ignore"):  # 0 / 0 where a list is empty
        tau = _scale(_surplus(alignment, a * b), product, norm)
    tau[alignment.short == 0] = -1.0
    tau[alignment.long == 0] = np.nan
    return tau


def _surplus(alignment: Alignment, product: int | npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """2 S, an integer, from the lengths' product.

    K0 counts a pair of members once: both in the baseline's list, in wrong order or the first one absent from the other list
    (`Alignment.inversions`); both in the candidate's and the first one absent from the baseline's (positions of the common
    items, less what they would be without absent ones); one only here and the other only there ((a - z) (b - z)).
    """
    k = alignment.k
    wide = np.int32 if k < 2**13 else np.int64
    z: npt.NDArray[Any] = alignment.common.astype(wide)
    positions = np.add.reduce(alignment.positions, axis=0, dtype=np.min_scalar_type(k * k)) - k * (k - z)
    ahead: npt.NDArray[Any] = alignment.inversions + positions
    lengths = 2 * k if alignment.is_full else alignment.baseline_lengths + alignment.candidate_lengths
    surplus: npt.NDArray[Any] = z * (4 * lengths - z - 3) - 4 * ahead - 2 * product
    return surplus


def _scale(surplus: npt.NDArray[Any], product: float | Floats, norm: float | Floats) -> Floats:
    scaled: Floats = np.add(surplus, product - norm, dtype=np.float64) / (norm + product)
    return scaled
