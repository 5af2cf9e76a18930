"""Measures of the items that two lists have in common."""

import numpy as np

from monitor.kernels.sets import average_overlap, common_by_chance, jaccard, overlap
from monitor.metrics.metric import Similarity


class AverageOverlap(Similarity):
    """Overlap averaged over the depths, so that the top counts more."""

    kernel = staticmethod(average_overlap)
    uneven = (
        "exact: the mean of overlap@1 to overlap@l of the longer list's length l; a prefix "
        "scores under 1"
    )
    source = (
        "Wu and Crestani (2003), average accuracy; Webber, Moffat and Zobel (2010), section 3.3"
    )

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean of d / catalogue over the depths d = 1 to k."""
        return (k + 1) / (2 * catalogue)


class Jaccard(Similarity):
    """Membership alone: common items by the items of both lists together."""

    kernel = staticmethod(jaccard)
    uneven = "exact: common items by all items; a prefix scores its share of the longer list"
    source = "Jaccard (1901), Étude comparative de la distribution florale"

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean of x / (2k - x), x the common items of two random lists, which is hypergeometric."""
        common = np.arange(k + 1)
        return float(common_by_chance(k, catalogue) @ (common / (2 * k - common)))


class Overlap(Similarity):
    """Membership alone: common items by the length of the longer list."""

    kernel = staticmethod(overlap)
    uneven = "exact: common items by the longer length; a prefix scores under 1"
    source = "overlap@k, |A ∩ B| / k"

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Each of the k items is in the other list with chance k / catalogue."""
        return k / catalogue
