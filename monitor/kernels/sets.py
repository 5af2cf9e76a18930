"""Shares of items in common: of the full lists, averaged over the depths, and by chance."""

import math
from functools import lru_cache

import numpy as np

from monitor.kernels.alignment import Alignment, divide
from monitor.model.arrays import Floats


def overlap(alignment: Alignment) -> Floats:
    """Common items divided by the length of the longer list: float64 (n,) in [0, 1].

    For two lists of k items this is overlap@k, |A ∩ B| / k. A list that was cut short scores below
    1 against the full list, even if all its items are right. The order is ignored. Identical lists
    score 1. Disjoint lists and one empty list score 0. Two empty lists score NaN. The metric is
    symmetric.
    """
    return divide(alignment.common, alignment.long)


def jaccard(alignment: Alignment) -> Floats:
    """Common items divided by the distinct items of both lists: float64 (n,) in [0, 1].

    For two lists of k items with overlap o this is o / (2 - o). A prefix of s of l items scores s /
    l. The order is ignored. Identical lists score 1. Disjoint lists and one empty list score 0. Two
    empty lists score NaN. It is symmetric, and 1 - jaccard is a metric.
    Source: Jaccard (1901), Étude comparative de la distribution florale.
    """
    common = alignment.common.astype(np.int64)
    return divide(common, alignment.short.astype(np.int64) + alignment.long - common)


def average_overlap(alignment: Alignment) -> Floats:
    """Mean of overlap@1 to overlap@l, l the length of the longer list: float64 (n,) in [0, 1].

    With X_d the overlap of the top d's: ``1/l sum_{d=1..l} X_d / d``. For two lists of k items this
    is the average overlap of Webber, Moffat and Zobel, and the average accuracy of Wu and Crestani.
    It is also 1 minus the intersection metric of Fagin, Kumar and Sivakumar.

    Those papers assume lists of equal length. Here a list contains nothing after its end, as in
    `overlap`, so a prefix scores below 1. Nothing is extrapolated. Unlike RBO, the score depends on
    where the lists were cut. A common item whose larger position (from 0) is m adds
    sum_{d=m+1..l} 1/d / l.

    Identical lists score exactly 1. Disjoint lists and one empty list score exactly 0. Two empty
    lists score NaN. The metric is symmetric. Cost: O(k) a pair.
    Source: Webber, Moffat and Zobel (2010), section 3.3; Wu and Crestani, Methods for ranking
    information retrieval systems without relevance judgments (2003); Fagin, Kumar and Sivakumar
    (2003), section 3.1.
    """
    # Exact in units of 2**-52 times k, rounded up to a power of two. So every order of the sum
    # gives the same bits.
    below, residue = _harmonic(alignment.k)
    long = alignment.long
    total = alignment.sum_by_depth(below[:-1]) - alignment.common * below.take(long)
    # Lists that score 1 have the same first item, so the first rank corrects the rounding error.
    total += (alignment.positions[0] == 0) * residue.take(long)
    return divide(total, long)


@lru_cache(maxsize=32)
def _harmonic(k: int) -> tuple[Floats, Floats]:
    """Sums of 1/e over d < e <= k for d = 0 to k, and the rounding error of identical lists.

    The error at l is l minus the sum over identical lists of length l.
    """
    unit = 2.0**-52 * 2 ** int(k).bit_length()
    below = np.round(np.append(np.cumsum(1.0 / np.arange(k, 0, -1))[::-1], 0.0) / unit) * unit
    lengths = np.arange(k + 1)
    seen = np.append(0.0, np.cumsum(below[:-1]))
    return below, lengths - (seen - lengths * below)


def common_by_chance(k: int, catalogue: int) -> Floats:
    """Probabilities that two random k-subsets share 0 to k items: float64 (k + 1,).

    ``catalogue`` is the number of items that the subsets are drawn from. The distribution is
    hypergeometric.
    """
    least = max(0, 2 * k - catalogue)
    x = np.arange(least, k, dtype=np.float64)
    strangers = float(catalogue - 2 * k) + x + 1.0
    # Logarithms of the ratios of neighbours: the counts would overflow, and lgamma loses digits.
    steps = 2 * np.log(k - x) - np.log(x + 1) - np.log(strangers)
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    likely = np.exp(logs - logs.max())
    return np.concatenate((np.zeros(least), likely / likely.sum()))


def expect_over_shared(
    k: int,
    catalogue: int,
    values: Floats,
    least: int = 0,
) -> float | None:
    """Mean of ``values[z]`` (k + 1) over the number z of items that two random k-subsets share.

    Only z >= ``least`` count. None if such a z is impossible.
    """
    odds = common_by_chance(k, catalogue)[least:]
    if not odds.any():
        return None
    return float(odds @ values[least:] / odds.sum())


def draw_twice(k: int, catalogue: int) -> float:
    """Probability that two given items are both among k items drawn from a catalogue."""
    return k * (k - 1) / (catalogue * (catalogue - 1)) if catalogue > 1 else 0.0


def expect_extended_surplus(k: int, catalogue: int) -> float:
    """Mean of S, the concordant minus the discordant pairs of extended tau, for random lists.

    Both lists have k items. Tau over the full catalogue of N items is 0. The z dummies represent
    N - 2 k + z other items, each concordant with each of the z common ones. So
    E[S] = E[z] (2 k - N), E[z] = k² / N.
    """
    return math.fsum([2 * k**3 / catalogue, -(k**2)])


def expect_topk_kendall(k: int, catalogue: int, penalty: float) -> float:
    """Mean of Fagin, Kumar and Sivakumar's K^(p) for two random lists of k items.

    K0 = (k² + z (z - 1) / 2 - S) / 2, S as in `expect_extended_surplus`. A pair of one list is
    missing from the other if both items are among the N - k items not drawn.
    """
    shared = k * (k - 1) * draw_twice(k, catalogue) / 2
    missing = k * (k - 1) * draw_twice(catalogue - k, catalogue)
    return (k * k + shared - expect_extended_surplus(k, catalogue)) / 2 + penalty * missing
