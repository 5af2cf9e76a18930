"""Shares of common items: of full lists, averaged over depths, and of random lists."""

import math
from functools import lru_cache

import numpy as np

from monitor.measures.kernels.alignment import Alignment, divide
from monitor.model.arrays import Floats


def overlap(alignment: Alignment) -> Floats:
    """The number of common items divided by the longer length: float64 (n,) in [0, 1].

    For two lists A and B of k items this is overlap@k, |A ∩ B| / k. A prefix of a list scores below
    1 against the full list. The order is ignored. Identical lists score 1. Disjoint lists and one
    empty list score 0. For two empty lists, the score is NaN. The metric is symmetric.
    """
    return divide(alignment.common, alignment.long)


def jaccard(alignment: Alignment) -> Floats:
    """The share of common items among all distinct items: float64 (n,) in [0, 1].

    For two lists of k items with overlap o, this is o / (2 - o). The first s of l items score s / l
    against all l items. The order is ignored. Identical lists score 1. Disjoint lists and one empty
    list score 0. For two empty lists, the score is NaN. The metric is symmetric. 1 - jaccard is a
    metric in the mathematical sense. Source: Jaccard (1901), Étude comparative de la distribution
    florale.
    """
    common = alignment.common.astype(np.int64)
    return divide(common, alignment.short.astype(np.int64) + alignment.long - common)


def average_overlap(alignment: Alignment) -> Floats:
    """The mean of the overlaps of the first 1 to l places: float64 (n,) in [0, 1].

    l is the length of the longer list. X_d is the number of common items in the first d places of
    both lists. The mean is ``1/l sum_{d=1..l} X_d / d``. For two lists of k items, this is the
    average overlap of Webber, Moffat and Zobel, and the average accuracy of Wu and Crestani. It is
    also 1 minus the intersection metric of Fagin, Kumar and Sivakumar.

    These papers assume lists of equal length. Here a list has no items after its end, as in
    `overlap`. So a prefix scores below 1. Nothing is extrapolated. Unlike RBO, the score depends on
    where the lists were cut. Let m be the larger of a common item's two positions, counted from 0.
    The item adds sum_{d=m+1..l} 1/d / l.

    Identical lists score exactly 1. Disjoint lists and one empty list score exactly 0. For two
    empty lists, the score is NaN. The metric is symmetric. Cost: O(k) for each pair. Source:
    Webber, Moffat and Zobel (2010), section 3.3; Wu and Crestani, Methods for ranking information
    retrieval systems without relevance judgments (2003); Fagin, Kumar and Sivakumar (2003), section
    3.1.
    """
    # All terms are multiples of one unit, so the sum is exact. The unit is 2**-52 times the next
    # power of two above k. So every order of the sum gives the same bits.
    below, residue = _harmonic(alignment.k)
    long = alignment.long
    total = alignment.sum_by_depth(below[:-1]) - alignment.common * below.take(long)
    # Identical lists must score exactly 1. So the rounding error is corrected at the first rank,
    # where identical lists have the same item.
    total += (alignment.positions[0] == 0) * residue.take(long)
    return divide(total, long)


@lru_cache(maxsize=32)
def _harmonic(k: int) -> tuple[Floats, Floats]:
    """The sum of 1/e over d < e <= k for each d from 0 to k, and the rounding errors.

    The rounding error for length l is the difference between l and the computed sum for two
    identical lists of length l.
    """
    unit = 2.0**-52 * 2 ** int(k).bit_length()
    exact_below = np.append(np.cumsum(1.0 / np.arange(k, 0, -1))[::-1], 0.0)
    below = np.round(exact_below / unit) * unit
    lengths = np.arange(k + 1)
    sums_of_identical = np.append(0.0, np.cumsum(below[:-1])) - lengths * below
    return below, lengths - sums_of_identical


def common_by_chance(k: int, catalogue: int) -> Floats:
    """The probability that two random lists of k items share z items, for z = 0 to k.

    The result is float64 (k + 1,). The lists are drawn from ``catalogue`` items. The distribution
    is hypergeometric.
    """
    least = max(0, 2 * k - catalogue)
    z = np.arange(least, k, dtype=np.float64)
    # The number of items in neither list, if the lists share z + 1 items.
    in_no_list = float(catalogue - 2 * k) + z + 1.0
    # The logarithms of the ratios of neighbouring probabilities are added up. Other ways fail: the
    # numbers of possible lists overflow, and lgamma loses digits.
    log_ratios = 2 * np.log(k - z) - np.log(z + 1) - np.log(in_no_list)
    logs = np.concatenate(([0.0], np.cumsum(log_ratios)))
    multiples = np.exp(logs - logs.max())
    return np.concatenate((np.zeros(least), multiples / multiples.sum()))


def expect_over_shared(
    k: int,
    catalogue: int,
    values: Floats,
    least: int = 0,
) -> float | None:
    """The mean of ``values[z]``, where z is the number of items that two random lists share.

    The lists have k items, and ``values`` has k + 1 values. The mean is over the cases in which z
    is at least ``least``. The result is None if there are no such cases.
    """
    probabilities = common_by_chance(k, catalogue)[least:]
    if not probabilities.any():
        return None
    return float(probabilities @ values[least:] / probabilities.sum())


def draw_twice(k: int, catalogue: int) -> float:
    """The probability that two given items are both drawn, if k items of a catalogue are drawn."""
    if catalogue <= 1:
        return 0.0
    return k * (k - 1) / (catalogue * (catalogue - 1))


def expect_extended_surplus(k: int, catalogue: int) -> float:
    """The mean of S of extended tau for two random lists of k items.

    S is the number of concordant pairs minus the number of discordant pairs. If the universe were
    the full catalogue of N items, the mean would be 0. In the catalogue, N - 2 k + z items are in
    no list. The universe of extended tau has only z dummy items instead. Each item in no list is
    concordant with each of the z common items. So E[S] = E[z] (2 k - N), and E[z] = k² / N.
    """
    return math.fsum([2 * k**3 / catalogue, -(k**2)])


def expect_topk_kendall(k: int, catalogue: int, penalty: float) -> float:
    """The mean of Fagin, Kumar and Sivakumar's K^(p) for two random lists of k items.

    K0 is (k² + z (z - 1) / 2 - S) / 2. S is defined in `expect_extended_surplus`. K^(p) adds the
    penalty for each pair of items that one list contains and the other list lacks. The other list
    lacks N - k items of the catalogue. So the probability of such a pair is the probability that
    both items are among these N - k items.
    """
    shared_pairs = k * (k - 1) * draw_twice(k, catalogue) / 2
    missing_pairs = k * (k - 1) * draw_twice(catalogue - k, catalogue)
    misordered = (k * k + shared_pairs - expect_extended_surplus(k, catalogue)) / 2
    return misordered + penalty * missing_pairs
