"""Metrics of the items that two lists have in common."""

import numpy as np

from monitor.measures.kernels.sets import average_overlap, common_by_chance, jaccard, overlap
from monitor.measures.metrics.metric import Similarity


class AverageOverlap(Similarity):
    """Mean of the overlaps at all depths. Items at the top have a higher weight."""

    kernel = staticmethod(average_overlap)
    uneven = (
        "the mean of overlap@1 to overlap@l, where l is the length of the longer list; a prefix "
        "scores below 1"
    )
    source = (
        "Wu and Crestani (2003), average accuracy; Webber, Moffat and Zobel (2010), section 3.3"
    )

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean of d / catalogue over the depths d from 1 to k."""
        return (k + 1) / (2 * catalogue)


class Jaccard(Similarity):
    """Membership only: number of common items divided by number of all items of both lists."""

    kernel = staticmethod(jaccard)
    uneven = "a prefix scores its share of the longer list"
    source = "Jaccard (1901), Étude comparative de la distribution florale"

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean of x / (2k - x), where x is the number of common items of two random lists."""
        common = np.arange(k + 1)
        return float(common_by_chance(k, catalogue) @ (common / (2 * k - common)))


class Overlap(Similarity):
    """Membership only: number of common items divided by the length of the longer list."""

    kernel = staticmethod(overlap)
    uneven = "the number of common items is divided by the longer length; a prefix scores below 1"
    source = "overlap@k, |A ∩ B| / k"

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean score. Each item is in the other list with probability k / catalogue."""
        return k / catalogue
