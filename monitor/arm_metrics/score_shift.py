"""How far the models' own scores lie apart."""

from __future__ import annotations

from typing import ClassVar

from monitor.arm_metrics.arm_metric import ArmMetric, ArmNeed
from monitor.arm_metrics.listing import Listing
from monitor.kernels.arms.exposure import kolmogorov_smirnov
from monitor.model import Arm


class ScoreShift(ArmMetric):
    """Kolmogorov and Smirnov's distance between both arms' scores at all places; see `monitor.kernels.arms.exposure`.

    One number for two arms, told of the candidate. Two models that score on different scales are at 1: then only its change
    says something.
    """

    name: ClassVar[str] = "score_shift"
    meaning: ClassVar[str] = "Distance between the distributions of the two arms' scores; high: scores lie apart"
    need: ClassVar[ArmNeed | None] = ArmNeed.SCORES
    arms: ClassVar[tuple[Arm, ...]] = (Arm.CANDIDATE,)
    source: ClassVar[str] = "Smirnov (1939), two-sample statistic"

    def measure(self, listing: Listing) -> float | None:
        """Distance of the distribution functions."""
        baseline, candidate = listing.other_scores, listing.scores
        if baseline is None or candidate is None or not len(baseline) or not len(candidate):
            return None
        return kolmogorov_smirnov(baseline, candidate)
