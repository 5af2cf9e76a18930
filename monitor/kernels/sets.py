"""Share of items in common."""

from __future__ import annotations

import numpy as np

from monitor.kernels.alignment import Alignment, Floats


def overlap(alignment: Alignment) -> Floats:
    """Common items divided by the length of the longer list: float64 (n,) in [0, 1].

    For two lists of k items that is overlap@k, |A ∩ B| / k. A list cut short scores under 1 against its whole, however right
    its items are. Order plays no part. Identical: 1. Disjoint or one empty: 0. Both empty: NaN. Symmetric.
    """
    if alignment.is_full:
        share: Floats = alignment.common / np.float64(alignment.k)
        return share
    share = np.full(len(alignment.long), np.nan)
    np.divide(alignment.common, alignment.long, out=share, where=alignment.long > 0)
    return share
