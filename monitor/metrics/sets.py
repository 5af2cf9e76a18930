"""Measures of the items that two lists have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from monitor.kernels import Alignment
from monitor.kernels.chance import common_by_chance
from monitor.kernels.sets import average_overlap, jaccard, overlap
from monitor.metrics.metric import Metric
from monitor.model.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class AverageOverlap(Metric):
    """Overlap averaged over the depths, so that the top counts more; see `monitor.kernels.sets.average_overlap`."""

    name: ClassVar[str] = "average_overlap"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: the mean of overlap@1 to overlap@l of the longer list's length l; a prefix scores under 1"
    source: ClassVar[str] = "Wu and Crestani (2003), average accuracy; Webber, Moffat and Zobel (2010), section 3.3"

    def measure(self, alignment: Alignment) -> Floats:
        """Average overlap of each pair."""
        return average_overlap(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean of d / catalogue over the depths d = 1 to k."""
        return (k + 1) / (2 * catalogue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jaccard(Metric):
    """Membership alone: common items by the items of both lists together; see `monitor.kernels.sets.jaccard`."""

    name: ClassVar[str] = "jaccard"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: common items by all items; a prefix scores its share of the longer list"
    source: ClassVar[str] = "Jaccard (1901), Étude comparative de la distribution florale"

    def measure(self, alignment: Alignment) -> Floats:
        """Jaccard's index of each pair."""
        return jaccard(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The mean of x / (2k - x), x the common items of two random lists, which is hypergeometric."""
        common = np.arange(k + 1)
        return float(common_by_chance(k, catalogue) @ (common / (2 * k - common)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap(Metric):
    """Membership alone: common items by the length of the longer list; see `monitor.kernels.sets.overlap`."""

    name: ClassVar[str] = "overlap"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: common items by the longer length; a prefix scores under 1"
    source: ClassVar[str] = "overlap@k, |A ∩ B| / k"

    def measure(self, alignment: Alignment) -> Floats:
        """Overlap of each pair."""
        return overlap(alignment)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Each of the k items is in the other list with chance k / catalogue."""
        return k / catalogue
