"""How heavy the items are that an arm lists."""

from __future__ import annotations

import math
from typing import ClassVar

from monitor.arm_metrics.arm_metric import ArmMetric, ArmNeed
from monitor.arm_metrics.listing import Listing


class MeanPopularity(ArmMetric):
    """Mean weight of the items over all listed places whose item has one."""

    name: ClassVar[str] = "mean_popularity"
    high: ClassVar[float] = math.inf
    meaning: ClassVar[str] = "Mean weight (popularity, price) of the item at a listed place; high: leans to heavy items"
    need: ClassVar[ArmNeed | None] = ArmNeed.ITEM_WEIGHTS
    source: ClassVar[str] = (
        "average recommendation popularity, Yin et al. (2012), Challenging the long tail recommendation, over places"
    )

    def measure(self, listing: Listing) -> float | None:
        """Mean weight."""
        weights = listing.weights
        return None if weights is None or not len(weights) else float(weights.mean())
