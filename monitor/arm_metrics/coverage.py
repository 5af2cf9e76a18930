"""How much of the catalogue an arm lists."""

from __future__ import annotations

from typing import ClassVar

from monitor.arm_metrics.arm_metric import ArmMetric
from monitor.arm_metrics.listing import Listing
from monitor.kernels.arms.exposure import coverage


class CatalogueCoverage(ArmMetric):
    """Distinct items listed, by the size of the catalogue; see `monitor.kernels.arms.exposure.coverage`."""

    name: ClassVar[str] = "catalogue_coverage"
    meaning: ClassVar[str] = "Share of the catalogue that is listed to anybody; high: many items get a chance"
    source: ClassVar[str] = "Ge, Delgado-Battenfeld and Jannach (2010), Beyond accuracy, RecSys: catalogue coverage"

    def measure(self, listing: Listing) -> float:
        """Share of the catalogue."""
        return coverage(listing.counts, listing.catalogue)
