"""Shares of items in common: of the whole lists, on average over the depths, and by chance."""

import math
from functools import lru_cache

import numpy as np

from monitor.kernels.alignment import Alignment, divide
from monitor.model.arrays import Floats


def overlap(alignment: Alignment) -> Floats:
    """Common items divided by the length of the longer list: float64 (n,) in [0, 1].

    For two lists of k items that is overlap@k, |A ∩ B| / k. A list cut short scores under 1 against
    its whole, however right its items are. Order plays no part. Identical: 1. Disjoint or one
    empty: 0. Both empty: NaN. Symmetric."""
    return divide(alignment.common, alignment.long)


def jaccard(alignment: Alignment) -> Floats:
    """Common items divided by the different items of both lists together: float64 (n,) in [0, 1].

    For two lists of k items with overlap o that is o / (2 - o); a prefix of s of l items scores s /
        l. Order plays no part.
    Identical: 1. Disjoint or one empty: 0. Both empty: NaN. Symmetric; 1 - jaccard is a metric.
        Source: Jaccard (1901), Étude
    comparative de la distribution florale.
    """
    common = alignment.common.astype(np.int64)
    return divide(common, alignment.short.astype(np.int64) + alignment.long - common)


def average_overlap(alignment: Alignment) -> Floats:
    """Mean of overlap@1 to overlap@l, l the length of the longer list: float64 (n,) in [0, 1].

    With X_d the overlap of the top d's, ``1/l sum_{d=1..l} X_d / d``: on two lists of k items the
        average overlap of Webber,
    Moffat and Zobel, the average accuracy of Wu and Crestani, and 1 less the intersection metric of
        Fagin, Kumar and Sivakumar.
    Those papers ask for lists of one length. Here a list that has ended holds nothing more, just as
        `overlap` has it, so that a
    prefix scores under 1; nothing is extrapolated, and unlike RBO the score depends on where the
        lists were cut.
    A common item whose larger position (from 0) is m adds sum_{d=m+1..l} 1/d / l. Identical:
        exactly 1. Disjoint or one empty:
    exactly 0. Both empty: NaN. Symmetric. Cost: O(k) a pair.
    Source: Webber, Moffat and Zobel (2010), section 3.3; Wu and Crestani, Methods for ranking
        information retrieval systems
    without relevance judgments (2003); Fagin, Kumar and Sivakumar (2003), section 3.1.
    """
    # Exact in units of 2**-52 times k, rounded up to a power of two, so that every order of summing
    # gives the same.
    below, residue = _harmonic(alignment.k)
    long = alignment.long
    total = alignment.sum_by_depth(below[:-1]) - alignment.common * below.take(long)
    # A first item in common is first in every list that scores 1: it carries what rounding leaves.
    total += (alignment.positions[0] == 0) * residue.take(long)
    return divide(total, long)


@lru_cache(maxsize=32)
def _harmonic(k: int) -> tuple[Floats, Floats]:
    """Sums of 1/e over d < e <= k for d = 0 to k, and what rounding leaves between l and the sum over identical lists of l."""
    unit = 2.0**-52 * 2 ** int(k).bit_length()
    below = np.round(np.append(np.cumsum(1.0 / np.arange(k, 0, -1))[::-1], 0.0) / unit) * unit
    lengths = np.arange(k + 1)
    seen = np.append(0.0, np.cumsum(below[:-1]))
    return below, lengths - (seen - lengths * below)


def common_by_chance(k: int, catalogue: int) -> Floats:
    """Chances that two random k-subsets of ``catalogue`` items share 0 to k items, hypergeometric: float64 (k + 1,)."""
    least = max(0, 2 * k - catalogue)
    x = np.arange(least, k, dtype=np.float64)
    strangers = float(catalogue - 2 * k) + x + 1.0
    # By the ratios of neighbours in logarithms: the counts themselves overflow, and lose their
    # digits in lgamma.
    steps = 2 * np.log(k - x) - np.log(x + 1) - np.log(strangers)
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    likely = np.exp(logs - logs.max())
    return np.concatenate((np.zeros(least), likely / likely.sum()))


def expect_over_shared(k: int, catalogue: int, values: Floats, least: int = 0) -> float | None:
    """Mean of ``values[z]`` (k + 1) over the z >= ``least`` items that two random k-subsets share; None where none can."""
    odds = common_by_chance(k, catalogue)[least:]
    return float(odds @ values[least:] / odds.sum()) if odds.any() else None


def draw_twice(k: int, catalogue: int) -> float:
    """Chance that two given items are both among k drawn from a catalogue."""
    return k * (k - 1) / (catalogue * (catalogue - 1)) if catalogue > 1 else 0.0


def expect_extended_surplus(k: int, catalogue: int) -> float:
    """Mean of S, the concordant less the discordant pairs of extended tau, for two random lists of k items.

    Tau over the whole catalogue is 0; z dummies stand for N - 2 k + z other items, each concordant with each of the z common
    ones: E[S] = E[z] (2 k - N), E[z] = k² / N.
    """
    return math.fsum([2 * k**3 / catalogue, -(k**2)])


def expect_topk_kendall(k: int, catalogue: int, penalty: float) -> float:
    """Mean of Fagin, Kumar and Sivakumar's K^(p) for two random lists of k items.

    K0 = (k² + z (z - 1) / 2 - S) / 2, S as in `expect_extended_surplus`; a pair of one list is
    missing from the other if both are among the N - k items not drawn."""
    shared = k * (k - 1) * draw_twice(k, catalogue) / 2
    missing = k * (k - 1) * draw_twice(catalogue - k, catalogue)
    return (k * k + shared - expect_extended_surplus(k, catalogue)) / 2 + penalty * missing
