"""Metrics of what one arm lists to all users together, each an `ArmMetric` with a name."""

import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from operator import attrgetter

import numpy as np

from monitor.errors import MetricError
from monitor.immutable import immutable
from monitor.kernels import exposure
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows
from monitor.model.rankings import Arm, PairBatch
from monitor.model.runs import ArmScore
from monitor.model.statistics import CHURN, Lack


@immutable
class LastLists:
    """What one arm listed in its last run, as codes of the batch of this run's n users.

    A negative code is an item that is not in the batch.
    """

    codes: Codes  # (n, any width), cut to this run's k
    lengths: Codes  # (n,), 0 for a user who was not in that run
    exposed: Codes  # what the arm listed to any user, in any order, possibly repeated


@immutable
class ArmLists:
    """One arm's lists of n users."""

    codes: Codes  # (n, k) >= 0, below ``items``, padded with -1
    items: int
    catalogue: int  # how many items can be listed
    repeated: Integers  # (n,), a number for each list that several users have, -1 for other lists
    values: Mapping[str, Floats]  # by name, (n,) of users or (n, k) of places, NaN if unknown
    is_new: Flags | None  # (items,), not listed to any user in the last run


class Listing:
    """What an arm lists to a segment's users (``rows``).

    ``catalogue`` and ``is_new`` are those of all users.
    """

    def __init__(self, lists: ArmLists, rows: Rows) -> None:
        self._lists = lists
        self._rows = rows
        self.catalogue = lists.catalogue
        self.is_new = lists.is_new

    @cached_property
    def n(self) -> int:
        """Number of lists that contain an item."""
        return int((self._lists.codes[self._rows, 0] >= 0).sum())

    @cached_property
    def exposure(self) -> tuple[Integers, Integers]:
        """The m listed items, ascending, and how often each is listed: two integer arrays (m,)."""
        return exposure.count_items(self._lists.codes, self._rows, self._lists.items)

    @property
    def counts(self) -> Integers:
        """How often each item of ``exposure`` is listed: integers (m,), at least 1."""
        return self.exposure[1]

    @property
    def largest_group(self) -> int:
        """How many users have the most common list."""
        return exposure.largest_group(self._lists.repeated[self._rows])

    def values(self, name: str) -> Floats:
        """The known values of that name: float64, flat, possibly empty."""
        if name not in self._lists.values:
            return np.empty(0)
        values = self._lists.values[name][self._rows]
        return values[~np.isnan(values)]


class ArmNeed(StrEnum):
    """The data that a metric needs in addition to the lists.

    The value is the name of the configuration key.
    """

    SCORES = "scores"
    ITEM_WEIGHTS = "item_weights"
    KEEP_LISTS = "keep_lists"


@immutable
class ArmMetric:
    """A named metric of what one arm lists to all users of a segment.

    It has no parameters. ``str`` is its name.
    """

    name: str
    meaning: str  # of a high value, without a judgement
    source: str
    # Of at least one item; None if undefined or its data are unknown
    measure: Callable[[Listing], float | None]
    count: Callable[[Listing], int] = attrgetter("n")  # number of lists in the value
    low: float = 0.0
    high: float = 1.0  # infinite if it grows with what is listed
    need: ArmNeed | None = None
    arms: tuple[Arm, ...] = tuple(Arm)  # the arms that it is measured for

    def __str__(self) -> str:
        return self.name


def _catalogue_coverage(listing: Listing) -> float:
    return exposure.catalogue_coverage(listing.counts, listing.catalogue)


def _gini(listing: Listing) -> float:
    return exposure.gini(listing.counts, listing.catalogue)


def _shared_list_share(listing: Listing) -> float:
    return listing.largest_group / listing.n


def _entropy(listing: Listing) -> float:
    return exposure.entropy(listing.counts)


def _normalized_entropy(listing: Listing) -> float | None:
    if listing.catalogue < 2:  # noqa: PLR2004 - the entropy of a single item is always 0
        return None
    # Rounding may give a value a little above 1.
    return min(1.0, exposure.entropy(listing.counts) / math.log2(listing.catalogue))


def _mean(values: Floats) -> float | None:
    if not len(values):
        return None
    return float(values.mean())


def _mean_weight(listing: Listing) -> float | None:
    return _mean(listing.values("weights"))


def _novelty(listing: Listing) -> float | None:
    if listing.is_new is None:
        return None
    items, counts = listing.exposure
    return float(counts[listing.is_new[items]].sum() / counts.sum())


def _score_shift(listing: Listing) -> float | None:
    baseline = listing.values("baseline_scores")
    candidate = listing.values("candidate_scores")
    if not len(baseline) or not len(candidate):
        return None
    return exposure.kolmogorov_smirnov(baseline, candidate)


def _mean_over_users(
    name: str,
    *,
    meaning: str,
    source: str,
    arms: tuple[Arm, ...] = tuple(Arm),
    need: ArmNeed | None = None,
) -> ArmMetric:
    """The mean of the users' known values of this name."""

    def measure(listing: Listing) -> float | None:
        return _mean(listing.values(name))

    def count(listing: Listing) -> int:
        return len(listing.values(name))

    return ArmMetric(
        name=name,
        measure=measure,
        count=count,
        meaning=meaning,
        source=source,
        arms=arms,
        need=need,
    )


_MEASURES = (
    ArmMetric(
        name="catalogue_coverage",
        measure=_catalogue_coverage,
        meaning="Share of the catalogue that is listed to any user; high: many items are shown",
        source=(
            "Ge, Delgado-Battenfeld and Jannach (2010), Beyond accuracy, RecSys: catalogue coverage"
        ),
    ),
    ArmMetric(
        name="exposure_entropy",
        measure=_entropy,
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
            "Variety of what is listed, divided by that of the full catalogue listed evenly; "
            "high: evenly spread"
        ),
        source=(
            "Shannon (1948), A mathematical theory of communication, section 7: relative entropy"
        ),
    ),
    ArmMetric(
        name="exposure_gini",
        measure=_gini,
        meaning=(
            "Inequality of the items' exposure, including items never listed; high: few items "
            "have most places"
        ),
        source="Gini (1912); Fleder and Hosanagar (2009), Blockbuster culture's next rise or fall",
    ),
    # One number for both arms, stored for the candidate.
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
        measure=_mean_weight,
        high=math.inf,
        meaning=(
            "Mean weight (popularity, price) of the item at a listed place; high: many items "
            "with large weights"
        ),
        need=ArmNeed.ITEM_WEIGHTS,
        source=(
            "average recommendation popularity, Yin et al. (2012), Challenging the long tail "
            "recommendation, over places"
        ),
    ),
    # A small panel sees few items. Items that were only listed to other users look new, so compare
    # the arms.
    ArmMetric(
        name="novelty",
        measure=_novelty,
        meaning=(
            "Share of places whose item the arm listed to no user in its last run; high: much is "
            "new"
        ),
        need=ArmNeed.KEEP_LISTS,
        source=(
            "Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR: novelty, "
            "against the last run, over places"
        ),
    ),
    # One number for both arms, stored for the candidate. For models with scores on different scales
    # it is 1, so only its change matters.
    ArmMetric(
        name="score_shift",
        measure=_score_shift,
        meaning="Distance between the distributions of the two arms' scores; high: scores differ",
        need=ArmNeed.SCORES,
        arms=(Arm.CANDIDATE,),
        source="Smirnov (1939), two-sample statistic",
    ),
    # Of users with a list in both runs.
    _mean_over_users(
        CHURN,
        meaning="Share of a user's list that the arm replaced since its last run; high: unstable",
        need=ArmNeed.KEEP_LISTS,
        source=(
            "Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR: "
            "diversity of consecutive lists"
        ),
    ),
    ArmMetric(
        name=Lack.SHARED.value,
        measure=_shared_list_share,
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
        meaning=(
            "Of the users with the same three first items in both arms, the share with at least "
            "two of the three pairs in opposite order; high: lists are reordered"
        ),
        arms=(Arm.CANDIDATE,),
        source="Kendall (1938): tau of the three items below 0",
    ),
    _mean_over_users(
        Lack.UNCHANGED.value,
        meaning=(
            "Share of the users whose list is exactly that of the arm's last run; high: old "
            "lists are served"
        ),
        need=ArmNeed.KEEP_LISTS,
        source="the discrete metric on lists",
    ),
)
ARM_METRICS: Mapping[str, ArmMetric] = {metric.name: metric for metric in _MEASURES}


def parse_arm_metric(text: object) -> ArmMetric:
    """The arm-wide metric of that name. Raises MetricError, with a suggestion, if there is none."""
    name = text.strip() if isinstance(text, str) else ""
    if name in ARM_METRICS:
        return ARM_METRICS[name]
    near = get_close_matches(name.lower(), ARM_METRICS, n=1)
    if near:
        advice = f"did you mean {near[0]!r}?"
    else:
        advice = f"known: {', '.join(ARM_METRICS)}"
    raise MetricError(f"unknown arm-wide metric {text!r}; {advice}")


def measure_arms(
    batch: PairBatch,
    segments: Mapping[str, Rows],
    metrics: Sequence[ArmMetric],
    *,
    catalogue_size: int | None = None,
    last: Mapping[Arm, LastLists] | None = None,
) -> tuple[ArmScore, ...]:
    """Each metric of each arm over each segment, in the order segment, metric, arm.

    ``segments`` are rows of the batch. ``catalogue_size`` is the number of items that can be
    listed. The number of items in either arm's lists replaces it if it is missing or smaller. The
    value is None, and ``n`` is 0, if a value is undefined or unknown.

    Cost: one pass over the places of each segment, one more for popularity, and a sort for score
    shift. Memory: a copy of the places.
    """
    # The catalogue is computed once for all segments.
    lists = _arm_lists(batch, catalogue_size, last or {})
    scores: list[ArmScore] = []
    for segment, rows in segments.items():
        listings = {arm: Listing(lists[arm], rows) for arm in lists}
        for metric in metrics:
            scores += [_score(segment, arm, metric, listings[arm]) for arm in metric.arms]
    return tuple(scores)


def _score(segment: str, arm: Arm, metric: ArmMetric, listing: Listing) -> ArmScore:
    value = None
    n = 0
    if listing.n:
        value = metric.measure(listing)
    if value is not None:
        n = metric.count(listing)
    return ArmScore(segment=segment, arm=arm, metric=metric.name, value=value, n=n)


def _arm_lists(
    batch: PairBatch,
    catalogue_size: int | None,
    last: Mapping[Arm, LastLists],
) -> dict[Arm, ArmLists]:
    baseline, candidate, items = exposure.compact_codes(batch.baseline, batch.candidate)
    # Values of both arms together are stored for the candidate.
    values: dict[Arm, dict[str, Floats]] = {
        Arm.BASELINE: {},
        Arm.CANDIDATE: {
            Lack.REVERSED: exposure.is_top_reversed(baseline, candidate),
            Lack.FIRST_DIFFERS: exposure.first_differs(baseline, candidate),
            Lack.IDENTICAL: exposure.is_identical(baseline, candidate),
        },
    }
    if batch.scores:
        values[Arm.CANDIDATE]["baseline_scores"] = batch.scores.baseline
        values[Arm.CANDIDATE]["candidate_scores"] = batch.scores.candidate
    lists = {}
    for arm, codes in ((Arm.BASELINE, baseline), (Arm.CANDIDATE, candidate)):
        of_arm = values[arm]
        is_new = None
        if batch.weights:
            of_arm["weights"] = batch.weights.of(arm)
        if arm in last:
            pair = *batch.of(arm), last[arm].codes, last[arm].lengths
            of_arm[CHURN] = exposure.churn(*pair)
            of_arm[Lack.UNCHANGED] = exposure.is_unchanged(*pair)
            is_new = ~np.isin(items, last[arm].exposed)
        lists[arm] = ArmLists(
            codes=codes,
            items=len(items),
            # A catalogue that is smaller than what is listed would give a coverage above 1.
            catalogue=max(catalogue_size or 0, len(items)),
            repeated=exposure.number_repeated(codes),
            values=of_arm,
            is_new=is_new,
        )
    return lists
