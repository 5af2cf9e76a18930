"""Measures the lists of one arm for all users together. Each metric is an `ArmMetric`."""

import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from operator import attrgetter

import numpy as np

from monitor.measures.kernels import PAD, exposure, item_codes, list_traits
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows
from monitor.model.errors import MetricError
from monitor.model.immutable import immutable
from monitor.model.rankings import Arm, ByArm, PairBatch
from monitor.model.runs import ArmScore
from monitor.model.statistics import CHURN, ListTrait


@immutable
class LastLists:
    """The lists that one arm gave in its last run to the n users of this run's batch.

    Items that are in the batch keep the batch's codes. Other items have other codes, which are at
    least 0.
    """

    codes: Codes  # (n, k), cut to the k of this run, padded with -1
    lengths: Codes  # (n,), 0 for a user who was not in the last run
    exposed: Codes  # all items that the arm listed to any user. An item may occur more than once


@immutable
class RunPair:
    """The lists of users before the firing alerts and now, for users with lists in both runs."""

    # Item codes (n, k) below ``items``, padded with -1. Other users have no codes
    before: Codes
    now: Codes
    items: int
    has_gone: Flags  # (n,), whether the list before has an item that nobody gets now
    has_new: Flags  # (n,), whether the list now has an item that nobody got before


@immutable
class ArmLists:
    """The lists that one arm gave to n users."""

    codes: Codes  # (n, k), item codes from 0 to ``items`` - 1, padded with -1
    items: int
    catalogue: int  # number of items that can be listed
    repeated: Integers  # (n,), see `number_repeated`: equal for users with the same list, or -1
    # One value for each user (n,), by the name of the metric that is their mean. NaN is unknown
    traits: Mapping[str, Floats]
    weights: Floats | None  # (n, k), of the items at each rank. NaN is unknown
    scores: ByArm | None  # of both arms
    is_new: Flags | None  # (items,), true if no user had the item in the last run
    runs: RunPair | None


class Listing:
    """The lists that one arm gave to the users of one segment.

    ``rows`` are the rows of these users. All segments have the same ``catalogue`` and ``is_new``.
    """

    def __init__(self, lists: ArmLists, rows: Rows) -> None:
        self._lists = lists
        self._rows = rows
        self.catalogue = lists.catalogue
        self.is_new = lists.is_new

    @cached_property
    def n(self) -> int:
        """The number of lists that are not empty."""
        return int((self._lists.codes[self._rows, 0] >= 0).sum())

    @cached_property
    def exposure(self) -> tuple[Integers, Integers]:
        """The m listed item codes, ascending, and how often each is listed: integers (m,)."""
        return exposure.count_items(self._lists.codes, self._rows, self._lists.items)

    @property
    def counts(self) -> Integers:
        """How often each of the m listed items is listed: integers (m,), at least 1."""
        return self.exposure[1]

    @cached_property
    def has_both(self) -> Integers:
        """The rows of the users that also have a list from before the firing alerts."""
        if self._lists.runs is None:
            return self._rows[:0]
        rows: Integers = self._rows[self._lists.runs.before[self._rows, 0] >= 0]
        return rows

    @property
    def runs(self) -> RunPair | None:
        """The lists of these users. None if there are none."""
        rows = self.has_both
        runs = self._lists.runs
        if runs is None or not len(rows):
            return None
        return RunPair(
            before=runs.before[rows],
            now=runs.now[rows],
            items=runs.items,
            has_gone=runs.has_gone[rows],
            has_new=runs.has_new[rows],
        )

    @property
    def largest_group(self) -> int:
        """The number of users who got the most common list."""
        return list_traits.largest_group(self._lists.repeated[self._rows])

    # The following arrays (m,) have only values that are known. They may be empty.

    def trait(self, name: str) -> Floats:
        """The users' values for this metric."""
        return self._known(self._lists.traits.get(name))

    @property
    def weights(self) -> Floats:
        """The weights of all items in the lists."""
        return self._known(self._lists.weights)

    @property
    def scores(self) -> ByArm | None:
        """The scores of all items in both arms' lists. None if the lists have no scores."""
        return self._lists.scores and self._lists.scores.map(self._known)

    def _known(self, values: Floats | None) -> Floats:
        if values is None:
            return np.empty(0)
        values = values[self._rows]
        return values[~np.isnan(values)]


class ArmNeed(StrEnum):
    """The data that a metric needs in addition to the lists.

    Each value is the configuration key that provides the data.
    """

    SCORES = "scores"
    ITEM_WEIGHTS = "item_weights"
    KEEP_LISTS = "keep_lists"


@immutable
class ArmMetric:
    """A metric of the lists that one arm gave to all users of a segment. It has no parameters."""

    name: str
    meaning: str  # what the metric measures, and what a high value means
    source: str
    # Returns the metric's value for a listing with at least one item. Returns None if the value is
    # undefined, or if its data are missing
    measure: Callable[[Listing], float | None]
    count: Callable[[Listing], int] = attrgetter("n")  # number of lists that the value is based on
    low: float = 0.0
    high: float = 1.0  # infinite if the value has no upper limit
    need: ArmNeed | None = None
    arms: tuple[Arm, ...] = tuple(Arm)  # the arms for which the metric is measured

    def __str__(self) -> str:
        return self.name


def _catalogue_coverage(listing: Listing) -> float:
    return exposure.catalogue_coverage(listing.counts, listing.catalogue)


def _gini(listing: Listing) -> float:
    return exposure.gini(listing.counts, listing.catalogue)


def _shared_list_share(listing: Listing) -> float:
    return listing.largest_group / listing.n


def _exposure_jump(listing: Listing) -> float | None:
    runs = listing.runs
    if runs is None:
        return None
    of_one_item = exposure.largest_jump(runs.before, runs.now, runs.items)
    of_others = exposure.weigh_exclusive(int(runs.has_gone.sum()), int(runs.has_new.sum()))
    return max(of_one_item, of_others) / len(runs.now)


def _count_both(listing: Listing) -> int:
    return len(listing.has_both)


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
    return _mean(listing.weights)


def _novelty(listing: Listing) -> float | None:
    if listing.is_new is None:
        return None
    items, counts = listing.exposure
    return float(counts[listing.is_new[items]].sum() / counts.sum())


def _score_shift(listing: Listing) -> float | None:
    scores = listing.scores
    if scores is None or not len(scores.baseline) or not len(scores.candidate):
        return None
    return exposure.kolmogorov_smirnov(scores.baseline, scores.candidate)


def _mean_over_users(
    name: str,
    *,
    meaning: str,
    source: str,
    arms: tuple[Arm, ...] = tuple(Arm),
    need: ArmNeed | None = None,
) -> ArmMetric:
    """A metric that is the mean of the users' known values."""

    def measure(listing: Listing) -> float | None:
        return _mean(listing.trait(name))

    def count(listing: Listing) -> int:
        return len(listing.trait(name))

    return ArmMetric(
        name=name,
        measure=measure,
        count=count,
        meaning=meaning,
        source=source,
        arms=arms,
        need=need,
    )


def _share_of_both(
    name: str, count: Callable[[Codes, Codes], int], *, meaning: str, source: str
) -> ArmMetric:
    """A metric that is the share of users that ``count`` finds in the lists before and now.

    The lists before are from before the firing alerts. So the value stays high while the fault
    lasts, and it is low again as soon as the fault is over.
    """

    def measure(listing: Listing) -> float | None:
        runs = listing.runs
        if runs is None:
            return None
        return count(runs.before, runs.now) / len(runs.now)

    return ArmMetric(
        name=name,
        measure=measure,
        count=_count_both,
        meaning=meaning,
        source=source,
        need=ArmNeed.KEEP_LISTS,
    )


_REPLACED = 0.8
"""A list is replaced if more than this part is new. In real lists of 10 items, a training replaces
one list of 150, and 93 % of the lists of mixed-up users are replaced."""
_MEASURES = (
    _mean_over_users(
        ListTrait.ALIKE.value,
        meaning=(
            "Share of the users with nearly the same list in both arms: for each ten places, "
            "beginning with one, one item or one pair of items in another order may differ; high: "
            "possibly the experiment is not applied"
        ),
        arms=(Arm.CANDIDATE,),
        source="Kendall's distance plus the number of items of one list only",
    ),
    ArmMetric(
        name="catalogue_coverage",
        measure=_catalogue_coverage,
        meaning="Share of the catalogue's items that are in any list; high: many items are shown",
        source=(
            "Ge, Delgado-Battenfeld and Jannach (2010), Beyond accuracy, RecSys: catalogue coverage"
        ),
    ),
    ArmMetric(
        name="exposure_entropy",
        measure=_entropy,
        high=math.inf,
        meaning=(
            "Variety of the listed items, in bits; one bit more is as if twice as many items were "
            "listed equally often"
        ),
        source="Shannon (1948), A mathematical theory of communication, section 6",
    ),
    ArmMetric(
        name="exposure_entropy_normalized",
        measure=_normalized_entropy,
        meaning=(
            "Variety of the listed items, divided by the variety if all items of the catalogue "
            "were listed equally often; high: items are listed about equally often"
        ),
        source=(
            "Shannon (1948), A mathematical theory of communication, section 7: relative entropy"
        ),
    ),
    ArmMetric(
        name="exposure_gini",
        measure=_gini,
        meaning=(
            "Inequality of how often the catalogue's items are listed; high: few items have most "
            "places of the lists"
        ),
        source="Gini (1912); Fleder and Hosanagar (2009), Blockbuster culture's next rise or fall",
    ),
    # The value compares with lists from before the firing alerts. So it stays high while the fault
    # lasts, and it is low again as soon as the fault is over.
    ArmMetric(
        name=ListTrait.EXPOSURE.value,
        measure=_exposure_jump,
        count=_count_both,
        meaning=(
            "Share of the users by which the lists or the first places of one item became more or "
            "fewer, beyond the changes of other items, for the item that changed most since the "
            "last run, or since the last run before the firing alerts. Items that nobody got "
            "before count as one item, with those that nobody gets any more; high: items are "
            "suddenly everywhere, or gone"
        ),
        need=ArmNeed.KEEP_LISTS,
        source="the largest term of the triangular discrimination, Topsøe (2000), of two runs",
    ),
    # This metric compares both arms. Its value is stored for the candidate.
    _mean_over_users(
        ListTrait.FIRST_DIFFERS.value,
        meaning=(
            "Share of the users whose first item differs between the arms; high: another item on "
            "top"
        ),
        arms=(Arm.CANDIDATE,),
        source="overlap at depth 1, Webber, Moffat and Zobel (2010), equation 1",
    ),
    _mean_over_users(
        ListTrait.IDENTICAL.value,
        meaning=(
            "Share of the users with the same list in both arms, item by item; high: possibly "
            "the candidate's model is not in use"
        ),
        arms=(Arm.CANDIDATE,),
        source="the discrete metric on lists",
    ),
    _mean_over_users(
        ListTrait.INTERLEAVED.value,
        meaning=(
            "Share of the users whose candidate list may be another list that took turns with the "
            "baseline's list: each baseline item is above the place that the turns before it "
            "reached, or at most one place below; high: the candidate's lists are mixed with the "
            "baseline's"
        ),
        arms=(Arm.CANDIDATE,),
        source="interleaving, Joachims (2002), Optimizing search engines using clickthrough data",
    ),
    ArmMetric(
        name="mean_popularity",
        measure=_mean_weight,
        high=math.inf,
        meaning=(
            "Mean weight, such as popularity or price, of the items at all listed places; high: "
            "many items with large weights"
        ),
        need=ArmNeed.ITEM_WEIGHTS,
        source=(
            "average recommendation popularity, Yin et al. (2012), Challenging the long tail "
            "recommendation; here the mean is over places"
        ),
    ),
    # A run asks only for the users of the panel. So an item that the arm listed only to other users
    # in its last run looks new. Compare the two arms, because this affects both.
    ArmMetric(
        name="novelty",
        measure=_novelty,
        meaning=(
            "Share of places with an item that the arm listed to no user in its last run; high: "
            "many new items"
        ),
        need=ArmNeed.KEEP_LISTS,
        source=(
            "novelty, Lathia et al. (2010), Temporal diversity in recommender systems, SIGIR; here "
            "an item is new if the arm's last run listed it to no user"
        ),
    ),
    _mean_over_users(
        ListTrait.REPLACED.value,
        meaning=(
            "Share of the users whose list kept fewer than one of five items since the last run, or "
            "since the last run before the firing alerts; high: users get other users' lists, "
            "random lists, or one list for many"
        ),
        need=ArmNeed.KEEP_LISTS,
        source=f"{CHURN} above {_REPLACED:g}",
    ),
    # This metric compares both arms. Its value is stored for the candidate. If the scores of the
    # two models have different scales, the value is 1 in every run. Then only a change of the value
    # is a sign of a fault.
    ArmMetric(
        name="score_shift",
        measure=_score_shift,
        meaning="Distance between the distributions of the two arms' scores; high: scores differ",
        need=ArmNeed.SCORES,
        arms=(Arm.CANDIDATE,),
        source="Smirnov (1939), two-sample statistic",
    ),
    # Only users with a list in this run and in the last run are measured.
    _mean_over_users(
        CHURN,
        meaning=(
            "Mean share of a user's list that the arm replaced since its last run; high: lists "
            "change much"
        ),
        need=ArmNeed.KEEP_LISTS,
        source=(
            "diversity of consecutive lists, Lathia et al. (2010), Temporal diversity in "
            "recommender systems, SIGIR"
        ),
    ),
    ArmMetric(
        name=ListTrait.SHARED.value,
        measure=_shared_list_share,
        meaning=(
            "Share of the users who get the most common list; high: one list for many, such as the "
            "most popular items"
        ),
        source=(
            "Berger and Parker (1970): the largest share, here of lists; Simpson (1949), "
            "Measurement of diversity, Nature 163"
        ),
    ),
    _share_of_both(
        ListTrait.SHIFTED.value,
        list_traits.count_shifted,
        meaning=(
            "Share of the users whose former first item is not in the list any more, or share of "
            "the users whose first item was not in the former list, whichever is larger; high: "
            "items at the top were removed or inserted"
        ),
        source="the discrete metric on first items",
    ),
    _mean_over_users(
        ListTrait.REVERSED.value,
        meaning=(
            "Share of the users with at least two of three pairs in opposite order, among the "
            "users with the same three first items in both arms; high: lists are reordered"
        ),
        arms=(Arm.CANDIDATE,),
        source="Kendall (1938): tau of the first three items is below 0",
    ),
    _share_of_both(
        ListTrait.TURNED.value,
        list_traits.count_turned,
        meaning=(
            "Share of the users whose first three items are the former ones in opposite order, "
            "minus the share that trainings may turn, at least 0; high: the top is reversed"
        ),
        source="Kendall (1938): tau of the first three items is -1",
    ),
    _mean_over_users(
        ListTrait.UNCHANGED.value,
        meaning=(
            "Share of the users whose list equals their list in the arm's last run; high: old "
            "lists are served"
        ),
        need=ArmNeed.KEEP_LISTS,
        source="the discrete metric on lists",
    ),
)
ARM_METRICS: Mapping[str, ArmMetric] = {metric.name: metric for metric in _MEASURES}


def parse_arm_metric(text: object) -> ArmMetric:
    """The arm-wide metric with this name. Raises MetricError with a suggestion if there is none."""
    name = text.strip() if isinstance(text, str) else ""
    if name in ARM_METRICS:
        return ARM_METRICS[name]
    near = get_close_matches(name.lower(), ARM_METRICS, n=1)
    if near:
        advice = f"did you mean {near[0]!r}?"
    else:
        advice = f"use one of: {', '.join(ARM_METRICS)}"
    raise MetricError(f"unknown arm-wide metric {text!r}; {advice}")


def measure_arms(
    batch: PairBatch,
    segments: Mapping[str, Rows],
    metrics: Sequence[ArmMetric],
    *,
    catalogue_size: int | None = None,
    last: Mapping[Arm, LastLists] | None = None,
    former: Mapping[Arm, LastLists] | None = None,
) -> tuple[ArmScore, ...]:
    """Measure each metric for each segment and arm.

    The result is ordered by segment, metric and arm. If a value is undefined or unknown, it is None
    and its ``n`` is 0. ``segments`` has the rows of each segment in the batch. ``catalogue_size``
    is the number of items that can be listed. If it is None, or below the number of listed items,
    the number of listed items is used. ``former`` are the lists of the last run before the firing
    alerts, usually those of ``last``.

    The function reads the places of each segment once, and once more for popularity. It sorts the
    scores for the score shift. It needs memory for one copy of all places.
    """
    # The size of the catalogue is determined once for all segments.
    lists = _arm_lists(batch, catalogue_size, last or {}, former or {})
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
    former: Mapping[Arm, LastLists],
) -> dict[Arm, ArmLists]:
    """The lists of both arms, with the values that metrics read."""
    baseline, candidate, items = item_codes.index_codes(batch.baseline, batch.candidate)
    listed = len(item_codes.distinct_items(batch.baseline, batch.candidate))
    is_alike, is_interleaved = list_traits.flag_similar_lists(batch)
    # Values that compare both arms are stored for the candidate.
    traits_of_both: dict[str, Floats] = {
        ListTrait.REVERSED: list_traits.is_top_reversed(baseline, candidate),
        ListTrait.FIRST_DIFFERS: 1 - list_traits.is_identical(baseline[:, :1], candidate[:, :1]),
        ListTrait.IDENTICAL: list_traits.is_identical(baseline, candidate),
        ListTrait.ALIKE: is_alike,
        ListTrait.INTERLEAVED: is_interleaved,
    }
    traits_of_baseline: dict[str, Floats] = {}
    lists = {}
    for arm, codes, traits in (
        (Arm.BASELINE, baseline, traits_of_baseline),
        (Arm.CANDIDATE, candidate, traits_of_both),
    ):
        is_new = None
        runs = None
        if arm in last:
            codes_before = last[arm].codes
            traits[CHURN] = exposure.churn(*batch.of(arm), codes_before, last[arm].lengths)
            traits[ListTrait.UNCHANGED] = list_traits.is_identical(batch.of(arm)[0], codes_before)
            is_new = ~np.isin(items, last[arm].exposed)
        if arm in former:
            runs = _pair_runs(former[arm].codes, batch.of(arm)[0])
            churn = exposure.churn(*batch.of(arm), former[arm].codes, former[arm].lengths)
            traits[ListTrait.REPLACED] = np.where(np.isnan(churn), churn, churn > _REPLACED)
        lists[arm] = ArmLists(
            codes=codes,
            items=len(items),
            # With a catalogue below the number of listed items, the coverage would be above 1.
            catalogue=max(catalogue_size or 0, listed),
            repeated=list_traits.number_repeated(codes),
            traits=traits,
            weights=batch.weights.of(arm) if batch.weights else None,
            scores=batch.scores,
            is_new=is_new,
            runs=runs,
        )
    return lists


def _pair_runs(before: Codes, now: Codes) -> RunPair:
    has_both = ((before[:, 0] >= 0) & (now[:, 0] >= 0))[:, np.newaxis]
    codes_before, codes_now, items = item_codes.index_codes(before, now)
    codes_before = np.where(has_both, codes_before, PAD)
    codes_now = np.where(has_both, codes_now, PAD)
    has_gone, has_new = exposure.flag_exclusive(codes_before, codes_now, len(items))
    return RunPair(
        before=codes_before,
        now=codes_now,
        items=len(items),
        has_gone=has_gone,
        has_new=has_new,
    )
