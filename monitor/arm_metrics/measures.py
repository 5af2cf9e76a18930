"""Arm-wide measures: how much, how evenly and how new an arm lists, and what all of them declare."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from monitor.arm_metrics.arm_lists import Listing
from monitor.kernels.exposure import catalogue_coverage, entropy, gini, kolmogorov_smirnov
from monitor.model import CHURN, Arm, Lack
from monitor.model.arrays import Floats


class ArmNeed(StrEnum):
    """What a metric needs to know beside the lists; the word is the configuration key that gives it."""

    SCORES = "scores"
    ITEM_WEIGHTS = "item_weights"
    KEEP_LISTS = "keep_lists"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmMetric:
    """A named measure of what one arm lists to all users of a segment. Without parameters; ``str`` is its name.

    It describes an arm and does not judge it: ``meaning`` explains a high value.
    """

    name: str
    meaning: str
    source: str
    measure: Callable[[Listing], float | None]  # of at least one item; None where undefined or what it needs is not known
    count: Callable[[Listing], int] = lambda listing: listing.n  # lists behind the value
    low: float = 0.0
    high: float = 1.0  # infinite where it grows with what is listed
    need: ArmNeed | None = None
    arms: tuple[Arm, ...] = tuple(Arm)  # those that it is measured for

    def __str__(self) -> str:
        return self.name


def _normalized_entropy(listing: Listing) -> float | None:
    if listing.catalogue < 2:  # noqa: PLR2004 - a single item has nothing to be spread over
        return None
    # Rounding may leave a little above 1.
    return min(1.0, entropy(listing.counts) / math.log2(listing.catalogue))


def _mean(known: Floats) -> float | None:
    return float(known.mean()) if len(known) else None


def _novelty(listing: Listing) -> float | None:
    if listing.is_new is None:
        return None
    items, counts = listing.exposure
    return float(counts[listing.is_new[items]].sum() / counts.sum())


def _score_shift(listing: Listing) -> float | None:
    baseline, candidate = listing.known("baseline_scores"), listing.known("candidate_scores")
    return kolmogorov_smirnov(baseline, candidate) if len(baseline) and len(candidate) else None


def _mean_over_users(
    name: str, *, meaning: str, source: str, arms: tuple[Arm, ...] = tuple(Arm), need: ArmNeed | None = None
) -> ArmMetric:
    """The mean of what is known of users by this name, over those of whom it is."""
    return ArmMetric(
        name=name,
        measure=lambda listing: _mean(listing.known(name)),
        count=lambda listing: len(listing.known(name)),
        meaning=meaning,
        source=source,
        arms=arms,
        need=need,
    )


MEASURES = (
    ArmMetric(
        name="catalogue_coverage",
        measure=lambda listing: catalogue_coverage(listing.counts, listing.catalogue),
        meaning="Share of the catalogue that is listed to anybody; high: many items get a chance",
        source="Ge, Delgado-Battenfeld and Jannach (2010), Beyond accuracy, RecSys: catalogue coverage",
    ),
    ArmMetric(
        name="exposure_entropy",
        measure=lambda listing: entropy(listing.counts),
        high=math.inf,
        meaning="Variety of what is listed, in bits; one more is twice as many items listed equally often",
        source="Shannon (1948), A mathematical theory of communication, section 6",
    ),
    ArmMetric(
        name="exposure_entropy_normalized",
        measure=_normalized_entropy,
        meaning="Variety of what is listed, by that of the whole catalogue listed evenly; high: evenly spread",
        source="Shannon (1948), A mathematical theory of communication, section 7: relative entropy",
    ),
    ArmMetric(
        name="exposure_gini",
        measure=lambda listing: gini(listing.counts, listing.catalogue),
        meaning="Inequality of the items' exposure, those never listed included; high: few items have most places",
        source="Gini (1912); Fleder and Hosanagar (2009), Blockbuster culture's next rise or fall",
    ),
    # Both arms' lists in one number, stored for the candidate.
    _mean_over_users(
        Lack.FIRST_DIFFERS.value,
        meaning="Share of the users whose first item differs between the arms; high: another item on top",
        arms=(Arm.CANDIDATE,),
        source="overlap at depth 1, Webber, Moffat and Zobel (2010), equation 1",
    ),
    ArmMetric(
        name="mean_popularity",
        measure=lambda listing: _mean(listing.known("weights")),
        high=math.inf,
        meaning="Mean weight (popularity, price) of the item at a listed place; high: leans to heavy items",
        need=ArmNeed.ITEM_WEIGHTS,
        source="average recommendation popularity, Yin et al. (2012), Challenging the long tail recommendation, over places",
    ),
    # Panels of few users reach few items, so that much looks new which was only listed to users not asked: compare the arms.
    ArmMetric(
        name="novelty",
        measure=_novelty,
        meaning="Share of places whose item the arm listed to nobody in its last run; high: much is new",
        need=ArmNeed.KEEP_LISTS,
        source=(
            "Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR: novelty, against the last run, over places"
        ),
    ),
    # One number for two arms, stored for the candidate. Models that score on different scales are at 1: only its change counts.
    ArmMetric(
        name="score_shift",
        measure=_score_shift,
        meaning="Distance between the distributions of the two arms' scores; high: scores lie apart",
        need=ArmNeed.SCORES,
        arms=(Arm.CANDIDATE,),
        source="Smirnov (1939), two-sample statistic",
    ),
    # Of those with a list in both runs.
    _mean_over_users(
        CHURN,
        meaning="Share of a user's list that the arm replaced since its last run; high: restless",
        need=ArmNeed.KEEP_LISTS,
        source="Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR: diversity of consecutive lists",
    ),
    ArmMetric(
        name=Lack.SHARED.value,
        measure=lambda listing: listing.largest_group / listing.n,
        meaning="Share of the users who get the most common list; high: one list for many, such as the most popular items",
        source="Simpson (1949), Measurement of diversity, Nature 163; of lists, by Berger and Parker (1970): the largest share",
    ),
    _mean_over_users(
        Lack.REVERSED.value,
        meaning="Of the users with the same three first items in both arms, the share for whom at least two of the three pairs "
        "stand the other way round; high: lists are reordered",
        arms=(Arm.CANDIDATE,),
        source="Kendall (1938): tau of the three items below 0",
    ),
    _mean_over_users(
        Lack.UNCHANGED.value,
        meaning="Share of the users whose list is that of the arm's last run, item by item; high: old lists are served",
        need=ArmNeed.KEEP_LISTS,
        source="the discrete metric on lists",
    ),
)
"""All of them, by name."""
