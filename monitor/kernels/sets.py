"""Shares of items in common: of the whole lists, and on average over the depths."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from monitor.kernels.alignment import Alignment
from monitor.kernels.shared import divide
from monitor.model.arrays import Floats


def overlap(alignment: Alignment) -> Floats:
    """Common items divided by the length of the longer list: float64 (n,) in [0, 1].

    For two lists of k items that is overlap@k, |A ∩ B| / k. A list cut short scores under 1 against its whole, however right
    its items are. Order plays no part. Identical: 1. Disjoint or one empty: 0. Both empty: NaN. Symmetric.
    """
    return divide(alignment.common, alignment.long)


def jaccard(alignment: Alignment) -> Floats:
    """Common items divided by the different items of both lists together: float64 (n,) in [0, 1].

    For two lists of k items with overlap o that is o / (2 - o): half the items in common score 1/3. Order plays no part. A
    prefix of s of l items scores s / l. Identical: 1. Disjoint or one empty: 0. Both empty: NaN. Symmetric. 1 - jaccard is a
    metric.

    Source: Jaccard (1901), Étude comparative de la distribution florale.
    """
    common = alignment.common.astype(np.int64)
    return divide(common, alignment.short.astype(np.int64) + alignment.long - common)


def average_overlap(alignment: Alignment) -> Floats:
    """Mean of overlap@1 to overlap@l, l the length of the longer list: float64 (n,) in [0, 1].

    With X_d the overlap of the top d's, ``1/l sum_{d=1..l} X_d / d``: on two lists of k items the average overlap of Webber,
    Moffat and Zobel, the average accuracy of Wu and Crestani, and 1 less the intersection metric of Fagin, Kumar and Sivakumar.
    Those papers ask for lists of one length. Here a list that has ended holds nothing more, just as `overlap` has it, so that a
    prefix scores under 1; nothing is extrapolated, and unlike RBO the score depends on where the lists were cut.

    Linear in the common items: one whose larger position (from 0) is m adds sum_{d=m+1..l} 1/d / l. Identical: exactly 1.
    Disjoint or one empty: exactly 0. Both empty: NaN. Symmetric. Cost: O(k) a pair.

    Source: Webber, Moffat and Zobel (2010), section 3.3; Wu and Crestani, Methods for ranking information retrieval systems
    without relevance judgments (2003); Fagin, Kumar and Sivakumar (2003), section 3.1.
    """
    # Exact in units of 2**-52 times k, rounded up to a power of two, so that every order of summing gives the same.
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
