"""Arm-wide measures: how much, how evenly and how new an arm lists, and the contract that all of them keep."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar

from monitor.arm_metrics.arm_lists import Listing
from monitor.kernels.exposure import catalogue_coverage, entropy, gini, kolmogorov_smirnov
from monitor.model import Arm


class ArmNeed(StrEnum):
    """What a metric needs to know beside the lists; the word is the configuration key that gives it."""

    SCORES = "scores"
    ITEM_WEIGHTS = "item_weights"
    KEEP_LISTS = "keep_lists"


class ArmMetric(ABC):
    """A named measure of what one arm lists to all users of a segment. Without parameters; ``str`` is its name.

    ``low`` and ``high`` are its range, infinite where it grows with what is listed. It describes an arm and does not
    judge it: ``meaning`` explains a high value. ``arms``: those that it is measured for.
    """

    name: ClassVar[str]
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    meaning: ClassVar[str]
    need: ClassVar[ArmNeed | None] = None
    arms: ClassVar[tuple[Arm, ...]] = tuple(Arm)
    source: ClassVar[str]

    def __str__(self) -> str:
        return self.name

    def lists(self, listing: Listing) -> int:
        """Number of lists behind the value."""
        return listing.n

    @abstractmethod
    def measure(self, listing: Listing) -> float | None:
        """The value; None where it is undefined or what it needs is not known. The listing holds at least one item."""


class CatalogueCoverage(ArmMetric):
    """Distinct items listed, by the size of the catalogue."""

    name = "catalogue_coverage"
    meaning = "Share of the catalogue that is listed to anybody; high: many items get a chance"
    source = "Ge, Delgado-Battenfeld and Jannach (2010), Beyond accuracy, RecSys: catalogue coverage"

    def measure(self, listing: Listing) -> float:
        """Share of the catalogue."""
        return catalogue_coverage(listing.counts, listing.catalogue)


class ExposureGini(ArmMetric):
    """Inequality of exposure over the whole catalogue."""

    name = "exposure_gini"
    meaning = "Inequality of the items' exposure, those never listed included; high: few items have most places"
    source = "Gini (1912); Fleder and Hosanagar (2009), Blockbuster culture's next rise or fall"

    def measure(self, listing: Listing) -> float:
        """Gini coefficient."""
        return gini(listing.counts, listing.catalogue)


class ExposureEntropy(ArmMetric):
    """Shannon entropy of the exposure in bits."""

    name = "exposure_entropy"
    high = math.inf
    meaning = "Variety of what is listed, in bits; one more is twice as many items listed equally often"
    source = "Shannon (1948), A mathematical theory of communication, section 6"

    def measure(self, listing: Listing) -> float:
        """Entropy in bits."""
        return entropy(listing.counts)


class ExposureEntropyNormalized(ArmMetric):
    """Entropy by that of a catalogue listed evenly, log2 N; undefined for a catalogue of one item."""

    name = "exposure_entropy_normalized"
    meaning = "Variety of what is listed, by that of the whole catalogue listed evenly; high: evenly spread"
    source = "Shannon (1948), A mathematical theory of communication, section 7: relative entropy"

    def measure(self, listing: Listing) -> float | None:
        """Entropy by log2 of the catalogue's size."""
        if listing.catalogue < 2:  # noqa: PLR2004 - a single item has nothing to be spread over
            return None
        # Rounding may leave a little above 1.
        return min(1.0, entropy(listing.counts) / math.log2(listing.catalogue))


class MeanPopularity(ArmMetric):
    """Mean weight of the items over all listed places whose item has one."""

    name = "mean_popularity"
    high = math.inf
    meaning = "Mean weight (popularity, price) of the item at a listed place; high: leans to heavy items"
    need = ArmNeed.ITEM_WEIGHTS
    source = "average recommendation popularity, Yin et al. (2012), Challenging the long tail recommendation, over places"

    def measure(self, listing: Listing) -> float | None:
        """Mean weight."""
        weights = listing.weights
        return None if weights is None or not len(weights) else float(weights.mean())


class Novelty(ArmMetric):
    """Share of listed places whose item the arm listed to nobody in its last run.

    Panels of few users reach few items, so that much looks new which was only listed to users not asked: compare the two arms.
    """

    name = "novelty"
    meaning = "Share of places whose item the arm listed to nobody in its last run; high: much is new"
    need = ArmNeed.KEEP_LISTS
    source = (
        "Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR: novelty, against the last run, over places"
    )

    def measure(self, listing: Listing) -> float | None:
        """Share of places."""
        if listing.is_new is None:
            return None
        items, counts = listing.exposure
        return float(counts[listing.is_new[items]].sum() / counts.sum())


class SelfChurn(ArmMetric):
    """Mean over users of 1 - overlap of the arm's list with its own list of the last run.

    Users without a list in one of the two runs do not count.
    """

    name = "self_churn"
    meaning = "Share of a user's list that the arm replaced since its last run; high: restless"
    need = ArmNeed.KEEP_LISTS
    source = "Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR: diversity of consecutive lists"

    def lists(self, listing: Listing) -> int:
        """Number of users with a list in both runs."""
        return 0 if listing.churn is None else len(listing.churn)

    def measure(self, listing: Listing) -> float | None:
        """Mean churn."""
        return None if listing.churn is None or not len(listing.churn) else float(listing.churn.mean())


class ScoreShift(ArmMetric):
    """Kolmogorov and Smirnov's distance between both arms' scores at all places.

    One number for two arms, stored for the candidate. Two models that score on different scales are at 1: then only its
    change means something.
    """

    name = "score_shift"
    meaning = "Distance between the distributions of the two arms' scores; high: scores lie apart"
    need = ArmNeed.SCORES
    arms = (Arm.CANDIDATE,)
    source = "Smirnov (1939), two-sample statistic"

    def measure(self, listing: Listing) -> float | None:
        """Distance of the distribution functions."""
        baseline, candidate = listing.other_scores, listing.scores
        if baseline is None or candidate is None or not len(baseline) or not len(candidate):
            return None
        return kolmogorov_smirnov(baseline, candidate)
