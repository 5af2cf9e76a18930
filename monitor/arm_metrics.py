"""Measures of what one arm lists to all users together, each an `ArmMetric` by name: how much, how evenly, how new."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property

import numpy as np

from monitor.errors import MetricError
from monitor.kernels import exposure
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows
from monitor.model.rankings import Arm, PairBatch
from monitor.model.runs import ArmScore
from monitor.model.statistics import CHURN, Lack


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLists:
    """What one arm listed in its last run, in the codes of the batch of this run's n users.

    Any negative number: not in it.
    """

    codes: Codes  # (n, any width), cut to this run's k
    lengths: Codes  # (n,), 0 for a user who was not in that run
    exposed: Codes  # what the arm listed to anybody, in any order, repeated or not


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLists:
    """One arm's lists of n users."""

    codes: Codes  # (n, k) >= 0, below ``items``, padded with -1
    items: int
    catalogue: int  # how many items could be listed
    repeated: Integers  # (n,), a number for each list that several users have, -1 for others
    known: Mapping[str, Floats]  # by name, (n,) of users or (n, k) of places, NaN where not known
    is_new: Flags | None  # (items,), listed to nobody in the last run


class Listing:
    """What an arm lists to a segment's users (``rows``), cut on demand.

    ``catalogue`` and ``is_new`` stay those of all.
    """

    def __init__(self, whole: ArmLists, rows: Rows) -> None:
        self._whole = whole
        self._rows = rows
        self.catalogue = whole.catalogue
        self.is_new = whole.is_new

    @cached_property
    def n(self) -> int:
        """Number of lists that hold an item."""
        return int((self._whole.codes[self._rows, 0] >= 0).sum())

    @cached_property
    def exposure(self) -> tuple[Integers, Integers]:
        """The m items listed, ascending, and how often each is: two integer arrays (m,), counts at least 1."""
        return exposure.count_items(self._whole.codes, self._rows, self._whole.items)

    @property
    def counts(self) -> Integers:
        """How often each of the m items listed is: integers (m,), at least 1, in the order of ``exposure``."""
        return self.exposure[1]

    @property
    def largest_group(self) -> int:
        """How many users have the most common list."""
        return exposure.largest_group(self._whole.repeated[self._rows])

    def known(self, name: str) -> Floats:
        """The values of that name that are known: float64, flat, none where nothing is."""
        values = self._whole.known.get(name)
        cut = np.empty(0) if values is None else values[self._rows]
        return cut[~np.isnan(cut)]


class ArmNeed(StrEnum):
    """What a metric needs to know beside the lists.

    The word is the configuration key that gives it.
    """

    SCORES = "scores"
    ITEM_WEIGHTS = "item_weights"
    KEEP_LISTS = "keep_lists"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmMetric:
    """A named measure of what one arm lists to all users of a segment.

    Without parameters; ``str`` is its name.
    """

    name: str
    meaning: str  # of a high value; nothing is judged
    source: str
    measure: Callable[
        [Listing], float | None
    ]  # of at least one item; None where undefined or what it needs is not known
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
    return min(1.0, exposure.entropy(listing.counts) / math.log2(listing.catalogue))


def _mean(known: Floats) -> float | None:
    return float(known.mean()) if len(known) else None


def _novelty(listing: Listing) -> float | None:
    if listing.is_new is None:
        return None
    items, counts = listing.exposure
    return float(counts[listing.is_new[items]].sum() / counts.sum())


def _score_shift(listing: Listing) -> float | None:
    baseline, candidate = listing.known("baseline_scores"), listing.known("candidate_scores")
    return (
        exposure.kolmogorov_smirnov(baseline, candidate)
        if len(baseline) and len(candidate)
        else None
    )


def _mean_over_users(
    name: str,
    *,
    meaning: str,
    source: str,
    arms: tuple[Arm, ...] = tuple(Arm),
    need: ArmNeed | None = None,
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


_MEASURES = (
    ArmMetric(
        name="catalogue_coverage",
        measure=lambda listing: exposure.catalogue_coverage(listing.counts, listing.catalogue),
        meaning="Share of the catalogue that is listed to anybody; high: many items get a chance",
        source=(
            "Ge, Delgado-Battenfeld and Jannach (2010), Beyond accuracy, RecSys: catalogue coverage"
        ),
    ),
    ArmMetric(
        name="exposure_entropy",
        measure=lambda listing: exposure.entropy(listing.counts),
        high=math.inf,
        meaning=(
            "Variety of what is listed, in bits; one more is twice as many items listed "
            "equally often"
        ),
        source="Shannon (1948), A mathematical theory of communication, section 6",
    ),
    ArmMetric(
        name="exposure_entropy_normalized",
        measure=_normalized_entropy,
        meaning=(
            "Variety of what is listed, by that of the whole catalogue listed evenly; high: "
            "evenly spread"
        ),
        source="Shannon (1948), A mathematical theory of communication, section 7: relative entropy",
    ),
    ArmMetric(
        name="exposure_gini",
        measure=lambda listing: exposure.gini(listing.counts, listing.catalogue),
        meaning=(
            "Inequality of the items' exposure, those never listed included; high: few items "
            "have most places"
        ),
        source="Gini (1912); Fleder and Hosanagar (2009), Blockbuster culture's next rise or fall",
    ),
    # Both arms' lists in one number, stored for the candidate.
    _mean_over_users(
        Lack.FIRST_DIFFERS.value,
        meaning=(
            "Share of the users whose first item differs between the arms; high: another "
            "item on top"
        ),
        arms=(Arm.CANDIDATE,),
        source="overlap at depth 1, Webber, Moffat and Zobel (2010), equation 1",
    ),
    _mean_over_users(
        Lack.IDENTICAL.value,
        meaning=(
            "Share of the users with the same list in both arms, item by item; high: the "
            "candidate may not be applied"
        ),
        arms=(Arm.CANDIDATE,),
        source="the discrete metric on lists",
    ),
    ArmMetric(
        name="mean_popularity",
        measure=lambda listing: _mean(listing.known("weights")),
        high=math.inf,
        meaning=(
            "Mean weight (popularity, price) of the item at a listed place; high: leans to "
            "heavy items"
        ),
        need=ArmNeed.ITEM_WEIGHTS,
        source=(
            "average recommendation popularity, Yin et al. (2012), Challenging the long tail "
            "recommendation, over places"
        ),
    ),
    # Panels of few users reach few items, so that much looks new which was only listed to users not
    # asked: compare the arms.
    ArmMetric(
        name="novelty",
        measure=_novelty,
        meaning=(
            "Share of places whose item the arm listed to nobody in its last run; high: much is new"
        ),
        need=ArmNeed.KEEP_LISTS,
        source=(
            "Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR: novelty, "
            "against the last run, over places"
        ),
    ),
    # One number for two arms, stored for the candidate. Models that score on different scales are
    # at 1: only its change counts.
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
        source=(
            "Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR: "
            "diversity of consecutive lists"
        ),
    ),
    ArmMetric(
        name=Lack.SHARED.value,
        measure=lambda listing: listing.largest_group / listing.n,
        meaning=(
            "Share of the users who get the most common list; high: one list for many, such "
            "as the most popular items"
        ),
        source=(
            "Simpson (1949), Measurement of diversity, Nature 163; of lists, by Berger and "
            "Parker (1970): the largest share"
        ),
    ),
    _mean_over_users(
        Lack.REVERSED.value,
        meaning="Of the users with the same three first items in both arms, the share for whom at "
        "least two of the three pairs stand the other way round; high: lists are reordered",
        arms=(Arm.CANDIDATE,),
        source="Kendall (1938): tau of the three items below 0",
    ),
    _mean_over_users(
        Lack.UNCHANGED.value,
        meaning=(
            "Share of the users whose list is that of the arm's last run, item by item; "
            "high: old lists are served"
        ),
        need=ArmNeed.KEEP_LISTS,
        source="the discrete metric on lists",
    ),
)
ARM_METRICS: Mapping[str, ArmMetric] = {metric.name: metric for metric in _MEASURES}


def parse_arm_metric(text: object) -> ArmMetric:
    """The arm-wide metric of that name; MetricError, with a suggestion, where there is none."""
    name = text.strip() if isinstance(text, str) else ""
    if name in ARM_METRICS:
        return ARM_METRICS[name]
    near = get_close_matches(name.lower(), ARM_METRICS, n=1)
    known = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(ARM_METRICS)}"
    raise MetricError(f"unknown arm-wide metric {text!r}; {known}")


def measure_arms(
    batch: PairBatch,
    segments: Mapping[str, Rows],
    metrics: Sequence[ArmMetric],
    *,
    catalogue_size: int | None = None,
    last: Mapping[Arm, LastLists] | None = None,
) -> tuple[ArmScore, ...]:
    """Each metric of each arm over each segment, in the order segment, metric, arm.

    ``segments`` hold rows of the batch. ``catalogue_size`` counts the items that could be listed;
    without it, and where more are, it is what either arm lists to anybody. None, and ``n`` 0, where
    a value is undefined or cannot be known. Cost: a pass over the places of each segment, one each
    for popularity and score shift, which sorts; memory for a copy of them.
    """
    # What the catalogue costs is paid once, before the segments.
    whole = _arm_lists(batch, catalogue_size, last or {})
    scores: list[ArmScore] = []
    for segment, rows in segments.items():
        listings = {arm: Listing(lists, rows) for arm, lists in whole.items()}
        scores += (
            _score(segment, arm, metric, listings[arm]) for metric in metrics for arm in metric.arms
        )
    return tuple(scores)


def _score(segment: str, arm: Arm, metric: ArmMetric, listing: Listing) -> ArmScore:
    value = metric.measure(listing) if listing.n else None
    return ArmScore(
        segment=segment,
        arm=arm,
        metric=metric.name,
        value=value,
        n=0 if value is None else metric.count(listing),
    )


def _arm_lists(
    batch: PairBatch, catalogue_size: int | None, last: Mapping[Arm, LastLists]
) -> dict[Arm, ArmLists]:
    baseline, candidate, items = exposure.compact_codes(batch.baseline, batch.candidate)
    scores, weights = batch.scores, batch.weights
    between = {
        Lack.REVERSED: exposure.is_top_reversed(baseline, candidate),
        Lack.FIRST_DIFFERS: exposure.first_differs(baseline, candidate),
        Lack.IDENTICAL: exposure.is_identical(baseline, candidate),
        **(
            {"baseline_scores": scores.baseline, "candidate_scores": scores.candidate}
            if scores
            else {}
        ),
    }
    return {
        arm: ArmLists(
            codes=codes,
            items=len(items),
            # A catalogue smaller than what is listed would give coverage above 1.
            catalogue=max(catalogue_size or 0, len(items)),
            repeated=exposure.number_repeated(codes),
            known={
                **(between if arm is Arm.CANDIDATE else {}),
                **({"weights": weights.of(arm)} if weights else {}),
                **_against_last(*batch.of(arm), last.get(arm)),
            },
            is_new=~np.isin(items, last[arm].exposed) if arm in last else None,
        )
        for arm, codes in ((Arm.BASELINE, baseline), (Arm.CANDIDATE, candidate))
    }


def _against_last(codes: Codes, lengths: Codes, last: LastLists | None) -> dict[str, Floats]:
    if last is None:
        return {}
    lists = codes, lengths, last.codes, last.lengths
    return {CHURN: exposure.churn(*lists), Lack.UNCHANGED: exposure.is_unchanged(*lists)}
