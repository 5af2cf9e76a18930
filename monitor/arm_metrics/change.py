"""How an arm differs from its own last run."""

from __future__ import annotations

from typing import ClassVar

from monitor.arm_metrics.arm_metric import ArmMetric, ArmNeed
from monitor.arm_metrics.listing import Listing


class Novelty(ArmMetric):
    """Share of listed places whose item the arm listed to nobody in its last run.

    Panels of few users reach few items, so that much looks new which was only listed to users not asked: compare the two arms.
    """

    name: ClassVar[str] = "novelty"
    meaning: ClassVar[str] = "Share of places whose item the arm listed to nobody in its last run; high: much is new"
    need: ClassVar[ArmNeed | None] = ArmNeed.KEEP_LISTS
    source: ClassVar[str] = (
        "Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR: novelty, against the last run, over places"
    )

    def measure(self, listing: Listing) -> float | None:
        """Share of places."""
        if listing.is_new is None:
            return None
        items, counts = listing.exposure
        return float(counts[listing.is_new[items]].sum() / counts.sum())


class SelfChurn(ArmMetric):
    """Mean over users of 1 - overlap of the arm's list with its own list of the last run; see `monitor.kernels.sets.overlap`.

    Users without a list in one of the two runs do not count.
    """

    name: ClassVar[str] = "self_churn"
    meaning: ClassVar[str] = "Share of a user's list that the arm replaced since its last run; high: restless"
    need: ClassVar[ArmNeed | None] = ArmNeed.KEEP_LISTS
    source: ClassVar[str] = (
        "Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR: diversity of consecutive lists"
    )

    def lists(self, listing: Listing) -> int:
        """Number of users with a list in both runs."""
        return 0 if listing.churn is None else len(listing.churn)

    def measure(self, listing: Listing) -> float | None:
        """Mean churn."""
        return None if listing.churn is None or not len(listing.churn) else float(listing.churn.mean())
