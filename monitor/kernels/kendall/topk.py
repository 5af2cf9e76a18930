"""Kendall's distance between top-k lists: Fagin, Kumar and Sivakumar."""

from __future__ import annotations

import numpy as np

from monitor.kernels.alignment import Alignment, Floats
from monitor.kernels.kendall.appended import count_misordered
from monitor.kernels.shared import count_shared, divide, pairs


def topk_kendall(alignment: Alignment, penalty: float) -> Floats:
    """K^(p) of each pair, pairs of items that the lists order in opposite ways: float64 (n,), at least 0.

    Over all pairs of distinct items of either list: 1 where both lists hold both in opposite order (case 1); 1 where one list
    holds both and the other only the one it ranks lower (case 2); 1 where each list holds one of them only (case 3);
    ``penalty`` where one list holds both and the other neither (case 4), as nothing is known of the order there. p = 0 is
    the optimistic view, p = 1/2 the neutral one, what is to be expected of a random order.

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
    """`topk_kendall` divided by its value on disjoint lists of the same lengths: float64 (n,) in [0, 1].

    Identical: 0. Disjoint or one empty: exactly 1. Both empty: NaN. Symmetric. Some packages divide by the square of the
    number of distinct items instead, which disjoint lists do not reach.
    """
    a, b = (lengths.astype(np.int64) for lengths in (alignment.baseline_lengths, alignment.candidate_lengths))
    share = divide(topk_kendall(alignment, penalty), a * b + float(penalty) * (pairs(a) + pairs(b)))
    share[(alignment.short == 0) & (alignment.long > 0)] = 1.0
    return share
