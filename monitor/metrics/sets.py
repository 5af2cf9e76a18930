"""Metrics of the items that two lists have in common."""

import numpy as np

from monitor.kernels.sets import average_overlap, common_by_chance, jaccard, overlap
from monitor.metrics.metric import Similarity


class AverageOverlap(Similarity):
    """Overlap averaged over the depths, so the top counts more."""

    kernel = staticmethod(average_overlap)
    uneven = (
        "exact: the mean of overlap@1 to overlap@l, l the length of the longer list; a prefix "
        "scores below 1"
    )
    source = (
        "Wu and Crestani (2003), average accuracy; Webber, Moffat and Zobel (2010), section 3.3"
    )

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean of d / catalogue over the depths d = 1 to k."""
        return (k + 1) / (2 * catalogue)


class Jaccard(Similarity):
    """Membership only: common items divided by the items of both lists together."""

    kernel = staticmethod(jaccard)
    uneven = "exact: common items / all items; a prefix scores its share of the longer list"
    source = "Jaccard (1901), Étude comparative de la distribution florale"

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean of x / (2k - x) over the number x of common items of two random lists."""
        common = np.arange(k + 1)
        return float(common_by_chance(k, catalogue) @ (common / (2 * k - common)))


class Overlap(Similarity):
    """Membership only: common items divided by the length of the longer list."""

    kernel = staticmethod(overlap)
    uneven = "exact: common items / the longer length; a prefix scores below 1"
    source = "overlap@k, |A ∩ B| / k"

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Each of the k items is in the other list with probability k / catalogue."""
        return k / catalogue
