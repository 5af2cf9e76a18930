"""Tests which faults can explain the lists of a run. Each kind of fault has one function."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from monitor.measures.kernels import list_traits
from monitor.model.arrays import Codes, Flags, Integers, Rows
from monitor.model.explanation import SIMILAR_FAULTS, FaultKind
from monitor.model.rankings import ALL, Arm, CoverageReason, CoverageRow, PairBatch
from monitor.statistics.attribution.changes import STILL_LISTED, ItemCounts, OwnLists, PairChanges
from monitor.statistics.attribution.habits import (
    SHARE_BINS,
    Habit,
    Outliers,
    bin_lists,
    find_outlying_bins,
    judge_lists,
    least_share,
    number_common_lists,
    share_bins,
    widest_shares,
)

# A fault is found only if it hit at least this many users.
_LEAST_USERS = 5
# Nearly the same lists and interleaved lists are reported for at least this share of the users of a
# segment, because in some healthy runs both trainings happen to be alike.
_LEAST_ALIKE = 0.05
# If at least this share of the users has lists that are like the other arm's, these users explain
# why lists became more alike. If fewer do, the lists of all users are compared.
_MANY_ALIKE = 0.25
# If the lists of at least this share of the users became more alike, those of all users did.
# Between two healthy runs of real lists the share is at most 0.42. It is 1 if the candidate's lists
# are mixed with the baseline's.
_ALL_ALIKE = 0.6
# If at least this share of the lists look interleaved then, they are.
_ALL_INTERLEAVED = 0.99
# If both arms now have the same lists, the baseline is named only if its lists changed by more than
# this multiple of the candidate's change. Two trainings of one model differ by less.
_CLEARLY_MORE = 1.25
# At most this many segments are searched one by one. These are the largest segments, and the
# segment of all users is one of them.
_SEARCHED = 100
# A number of users must grow by this many standard deviations. A growth from 0 to 5 users is
# reported. A growth from 4 to 8 users is not.
_MORE = 2.2
# An item is at fault if the weighed change of the number of its lists is more than this multiple of
# the usual change of the item that changed most.
_TIMES_MOVED = 1.5
# The share of users with another item in front must also exceed the largest usual share by this
# factor, because a training often changes the first item of users with little history.
_TIMES_SHIFTED = 2
# Lists are shifted only if the items that were added or removed in front differ from user to user.
# So no item is that of more than this share of the users.
_MOST_COMMON = 0.5
# The other items must have moved by at least this part of the number of items in front. It is 1/3,
# because in a list of 5 items of which 3 are gone, new items come between the other items.
_LEAST_MOVE = 1 / 3
# In a list in random order, this share of the pairs of items is in reversed order.
_TURNED_AT_RANDOM = 0.5
# At most about this many lists are read to find by how many places lists are shifted.
_SAMPLE = 2000
# A list of so many users is reported if nothing else is found, and if nobody shared a list before.
_FEW = 3
# Items count as removed if they filled at least this share of all places in the former lists.
_LEAST_REMOVED = 0.02
# Only items that were in at least this many lists are counted for this share.
_LEAST_LISTS_OF_ITEM = 10
# A single item may disappear on any day, so at least this many must have disappeared.
_LEAST_ITEMS = 2
# If such items were removed, rarer items are searched too. They must have been in at least this
# many lists. An item of five lists disappears by chance in fewer than 1 of 100 cases (Poisson). In
# `incidents` seed 57006 this search finds 410 of 428 users. Without it 325 users are found.
_RARELY_LISTED = 5
# If at least this share of the reordered lists keeps its first three items, only the order of these
# three changed. The share is at least 0.13 in `incidents` seeds 51002, 13072 and 57030. For
# reversed lists (seeds 17043 and 57057) it is 0.02.
_KEPT_TOP = 0.1
# If at least this share of the unchanged lists are lists that many users have, they are shared
# lists. Otherwise the lists are stale.
_MOST_SHARED = 0.5
# If at least this share of the lists is unchanged in both arms, there were no new data. Then no
# list is stale.
_NO_NEW_DATA = 0.9
# Some items disappear every day. So the share of the places that the removed items filled must also
# exceed this multiple of the same share in the other arm.
_TIMES_USUAL = 3
# Lists that lost only removed items keep at least this share of the other items that they usually
# keep.
_KEPT_OF_USUAL = 0.8


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The data of one run and of the past, on which hypotheses are tested. There are n pairs."""

    batch: PairBatch
    segments: Mapping[str, Rows]
    coverage: tuple[CoverageRow, ...]
    changes: PairChanges | None = None  # None if there are no earlier lists
    # Whether the earlier lists are older than those of the last run, because runs were skipped
    is_older: bool = False
    # Usual shares of users by arm, habit and bin.
    habits: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    usually_missing: float | None = None  # usual share of users without a list, None if unknown
    drop: float | None = None  # the drop of the mean, None if it is not significant
    is_rise: bool = False  # whether the mean rose significantly

    @cached_property
    def bins(self) -> Mapping[Arm, Mapping[Habit, Integers]]:
        """The bin of each user, by arm and habit. Empty if there are no earlier lists."""
        if self.changes is None:
            return {}
        is_still = self.changes.is_still
        bins = {arm: bin_lists(lists, is_still[arm]) for arm, lists in self.changes.lists.items()}
        bins[Arm.CANDIDATE] |= _bin_similar(self.batch, self.changes.is_known)
        return bins

    @cached_property
    def bins_before(self) -> Mapping[Habit, Integers]:
        """The bins in the earlier run, for habits of both arms. Empty without earlier lists."""
        if self.changes is None:
            return {}
        return _bin_similar(self.changes.former, self.changes.is_known)


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A fault that one arm may have, and the users that it hit."""

    kind: FaultKind
    arm: Arm
    hit: Flags  # (n,), False for users that cannot be judged
    judged: Flags  # (n,), whether the user can be judged
    usual: float = 0.0  # share of healthy users that look as if they were hit
    habit: Habit | None = None  # the habit by which users look hit, if there is one
    segment: str = ALL  # the segment that was searched
    detail: Mapping[str, float] = field(default_factory=dict)


def find_hypotheses(scene: Scene) -> list[Hypothesis]:
    """Find the faults whose hypothesis holds. The most specific kinds come first."""
    hypotheses = [_find_shared_list(scene, arm) for arm in Arm]
    if scene.changes is not None:
        similar = [_find_similar(scene, kind) for kind in SIMILAR_FAULTS]
        hypotheses += similar
        if not any(each is not None and each.hit.mean() >= _MANY_ALIKE for each in similar):
            hypotheses.append(_find_all_alike(scene, scene.changes))
    hypotheses += [_find_cut_short(scene, arm) for arm in Arm]
    if scene.changes is not None:
        for find in (
            _find_stale,
            _find_removed_items,
            _find_moved_items,
            _find_shifted,
            _find_replaced,
            _find_reordered,
        ):
            hypotheses += [find(scene, scene.changes, arm) for arm in Arm]
    if not any(hypotheses):
        # A few users with one list prove little, so they are searched only if nothing was found.
        hypotheses = [_find_few_sharing(scene, arm) for arm in Arm]
    return [hypothesis for hypothesis in hypotheses if hypothesis is not None]


def _is_increase(gained: Flags, lost: Flags, least: int = _LEAST_USERS) -> bool:
    """Whether significantly more users are in ``gained`` than in ``lost``.

    There must be at least ``least`` more.
    """
    gains, losses = int(gained.sum()), int(lost.sum())
    return gains - losses >= max(least, _MORE * math.sqrt(gains + losses))


def _find_shared_list(scene: Scene, arm: Arm) -> Hypothesis | None:
    """Find users of the arm with a list that many users have.

    There are two tests. The result is that of the test that finds more users. It is None if
    neither test finds any.

    - Since the earlier run, more users got such a list than lost one.
    - More users than usual have such a list. Only this test finds a slow rise, which adds few users
      each day.
    """
    codes, _ = scene.batch.of(arm)
    is_shared, list_numbers = number_common_lists(codes)
    if not is_shared.any():
        return None
    codes_before, _ = _lists_before(scene, arm)
    was_shared, _ = number_common_lists(codes_before)
    # Without earlier lists the arm is compared with the other arm. Then the limit is higher,
    # because two models differ more than two runs of one model.
    least_increase = 2 * _LEAST_USERS if scene.changes is None else _LEAST_USERS
    hypotheses = []
    newly_shared = is_shared & ~was_shared
    no_longer_shared = was_shared & ~is_shared
    if _is_increase(newly_shared, no_longer_shared, least_increase):
        everybody = np.ones(len(codes), dtype=bool)
        hypothesis = Hypothesis(
            kind=FaultKind.SHARED_LIST, arm=arm, hit=newly_shared, judged=everybody
        )
        hypotheses.append(hypothesis)
    if scene.bins:
        above_usual = _find_by_habit(scene, arm, Habit.SHARED, FaultKind.SHARED_LIST)
        if above_usual is not None:
            hypotheses.append(above_usual)
    if not hypotheses:
        return None
    largest = max(hypotheses, key=lambda hypothesis: int(hypothesis.hit.sum()))
    return _describe_shared(scene, largest, list_numbers)


def _find_few_sharing(scene: Scene, arm: Arm) -> Hypothesis | None:
    """Find a few users with one list of popular items. None if any users shared a list before."""
    if scene.changes is None:
        return None
    codes, _ = scene.batch.of(arm)
    codes_before, _ = _lists_before(scene, arm)
    is_shared, list_numbers = number_common_lists(codes, _FEW)
    was_shared, _ = number_common_lists(codes_before, _FEW)
    if not is_shared.any() or was_shared.any():
        return None
    everybody = np.ones(len(codes), dtype=bool)
    few = Hypothesis(kind=FaultKind.SHARED_LIST, arm=arm, hit=is_shared, judged=everybody)
    hypothesis = _describe_shared(scene, few, list_numbers)
    return hypothesis if hypothesis.detail["popular"] >= _MOST_COMMON else None


def _describe_shared(scene: Scene, hypothesis: Hypothesis, list_numbers: Integers) -> Hypothesis:
    """Return the hypothesis of shared lists with its ``detail``, which describes the lists.

    The detail has the number of shared lists, and the share of popular items in the most common
    one. ``list_numbers`` has the number of each user's list (see `number_common_lists`).
    """
    codes, _ = scene.batch.of(hypothesis.arm)
    hit_numbers = list_numbers[hypothesis.hit]
    most_common = np.bincount(hit_numbers).argmax()
    first_user = int(np.argmax(hypothesis.hit & (list_numbers == most_common)))
    detail = {
        "lists": float(len(np.unique(hit_numbers))),
        "popular": _share_popular(codes[first_user], scene, hypothesis.arm),
    }
    return replace(hypothesis, kind=FaultKind.SHARED_LIST, detail=detail)


def _share_popular(codes: Codes, scene: Scene, arm: Arm) -> float:
    """Return the share of one list's items that are popular.

    If the list has k places, the 2 k most frequent items of the earlier lists are popular.
    """
    lists_before, _ = _lists_before(scene, arm)
    items, counts = np.unique(lists_before[lists_before >= 0], return_counts=True)
    most_listed = items[np.argsort(-counts, kind="stable")[: 2 * codes.size]]
    return float(np.isin(codes[codes >= 0], most_listed).mean())


def _find_similar(scene: Scene, kind: FaultKind) -> Hypothesis | None:
    """Find users whose lists are like the other arm's now, and were not in the earlier run.

    The arm whose lists changed more is at fault. None if there are hardly more such users than
    usual.

    The share of such users is compared with their share in healthy runs, or with their share in the
    earlier run if that is larger.
    """
    habit = Habit(kind)  # the fault has the name of its habit
    bins = scene.bins[Arm.CANDIDATE][habit]  # 1 for users with similar lists, and otherwise 0
    bins_before = scene.bins_before[habit]
    in_healthy_runs = scene.habits.get(Arm.CANDIDATE, {}).get(habit)

    def find(segment: str) -> Outliers | None:
        rows = scene.segments[segment]
        usual = share_bins(bins_before[rows])
        if in_healthy_runs is not None:
            usual = widest_shares(usual, in_healthy_runs)
        return find_outlying_bins(bins[rows], usual)

    segment_with_most = _search_segments(scene, find)
    if segment_with_most is None:
        return None
    segment, outliers = segment_with_most
    rows = scene.segments[segment]
    similar = rows[bins[rows] == 1]
    # The users whose lists were not similar in the earlier run come first.
    newly_similar_first = similar[np.argsort(bins_before[similar], kind="stable")]
    hit_count = int((bins_before[similar] != 1).sum())
    if kind is FaultKind.INTERLEAVED:
        # Many healthy lists look as if they were interleaved, so the number is estimated.
        hit_count = round(outliers.hit_share * len(rows))
    hit = np.zeros(len(bins), dtype=bool)
    hit[newly_similar_first[:hit_count]] = True
    if kind is not FaultKind.IDENTICAL and hit[rows].mean() < _LEAST_ALIKE:
        return None
    return Hypothesis(
        kind=kind,
        arm=_changed_more(scene, hit),
        hit=hit,
        judged=bins >= 0,
        segment=segment,
    )


def _find_all_alike(scene: Scene, changes: PairChanges) -> Hypothesis | None:
    """Suspect that both arms' lists became more similar for all users, if they did for most users.

    If nearly all lists look interleaved, the hypothesis is that they are interleaved. None if the
    mean similarity did not rise, or if too few lists became more similar.
    """
    if not scene.is_rise:
        return None
    is_known = changes.is_known
    bins = _bin_likeness(scene.batch, is_known)
    bins_before = _bin_likeness(changes.former, is_known)
    more_alike_share = least_share(bins, share_bins(bins_before))
    if more_alike_share < _ALL_ALIKE:
        return None
    kind = FaultKind.ALIKE
    # The text says that lists are "much more like", and not "nearly like", the other arm's lists.
    detail = {"is_more_alike": 1.0}
    # Habits that compare both arms are stored for the candidate. Users with the habit have bin 1.
    looks_interleaved = scene.bins[Arm.CANDIDATE][Habit.INTERLEAVED] == 1
    if looks_interleaved[is_known].mean() >= _ALL_INTERLEAVED:
        kind = FaultKind.INTERLEAVED
        detail = {}
    return Hypothesis(
        kind=kind,
        arm=_changed_more(scene, is_known),
        hit=is_known,
        judged=is_known,
        detail=detail,
    )


def _bin_likeness(batch: PairBatch, is_known: Flags) -> Integers:
    """Return the bin of each user, (n,): higher for more similar lists of both arms, -1 if unknown.

    `Habit.MOVED` measures how far the candidate's list is from the baseline's, from 0 to
    2 `SHARE_BINS`.
    """
    # `OwnLists` compares any two lists of a user. Here they are those of both arms.
    lists = OwnLists(
        former=batch.baseline,
        former_lengths=batch.baseline_lengths,
        present=batch.candidate,
        present_lengths=batch.candidate_lengths,
    )
    # The second argument, which marks unchanged lists, makes no difference to this habit.
    distances = bin_lists(lists, is_known)[Habit.MOVED]
    return np.where(is_known & (distances >= 0), 2 * SHARE_BINS - distances, -1)


def _changed_more(scene: Scene, hit: Flags) -> Arm:
    """Return the arm whose lists of these users changed more. If in doubt, it is the candidate.

    This is used if the lists of both arms became alike. Usually this happens because the experiment
    is not applied, and then the candidate has the baseline's lists.
    """
    if scene.changes is None:
        return Arm.CANDIDATE
    baseline, candidate = scene.changes.lists.values()
    if _mean_change(baseline, hit) > _CLEARLY_MORE * _mean_change(candidate, hit):
        return Arm.BASELINE
    return Arm.CANDIDATE


def _bin_similar(batch: PairBatch, is_known: Flags) -> dict[Habit, Integers]:
    """The bin of each user, (n,), for each habit: 1 if both lists are so, 0 if not, -1 if unknown."""
    is_alike, is_interleaved = list_traits.flag_similar_lists(batch)
    flags = {
        Habit.IDENTICAL: list_traits.is_identical(batch.baseline, batch.candidate),
        Habit.ALIKE: is_alike,
        Habit.INTERLEAVED: is_interleaved,
    }
    bins = {}
    for habit, values in flags.items():
        bins[habit] = np.where(is_known & ~np.isnan(values), values, -1).astype(np.int64)
    return bins


def _mean_change(lists: OwnLists, hit: Flags) -> float:
    """Return the mean share of removed items plus the mean share of pairs in reversed order."""
    return float((1 - lists.kept_share[hit] + lists.turned_share[hit]).mean())


def _find_cut_short(scene: Scene, arm: Arm) -> Hypothesis | None:
    """Find users whose lists are shorter than before.

    Without earlier lists, find users whose lists are shorter than the other arm's lists. None if
    there are hardly more such users than users with longer lists.

    The result's ``detail`` has the median length of the shorter lists, now and before. Its value
    ``duplicated`` is the largest share of these lists that may be shorter only because duplicates
    were removed.
    """
    _, lengths = scene.batch.of(arm)
    _, lengths_before = _lists_before(scene, arm)
    is_judged = lengths_before > 0
    is_shorter = is_judged & (lengths > 0) & (lengths < lengths_before)
    is_longer = is_judged & (lengths > lengths_before)
    if not _is_increase(is_shorter, is_longer):
        return None
    # It is not known which lists had duplicates, so all of them are assumed to be shorter lists.
    share_shorter = float(is_shorter.mean())
    duplicated = min(1.0, _share_duplicated(scene, arm) / share_shorter)
    detail = {
        "now": float(np.median(lengths[is_shorter])),
        "before": float(np.median(lengths_before[is_shorter])),
        "duplicated": duplicated,
    }
    return Hypothesis(
        kind=FaultKind.CUT_SHORT, arm=arm, hit=is_shorter, judged=is_judged, detail=detail
    )


def _share_duplicated(scene: Scene, arm: Arm) -> float:
    """Return the share of the users whose lists had an item more than once."""
    for row in scene.coverage:
        if row.segment == ALL and row.asked:
            return row.users_by_reason.get((arm, CoverageReason.DUPLICATED), 0) / row.asked
    return 0.0


def _find_stale(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users whose lists are unchanged, if more lists than usual are unchanged.

    If most of these users share a list, the fault is a shared list that began in an earlier run.
    None if hardly more lists than usual are unchanged, if the arm has no known habits, or if
    neither arm had new data.
    """
    hypothesis = _find_by_habit(scene, arm, Habit.STILL, FaultKind.STALE)
    # Some arms never change. Only past runs show whether this arm is one of them.
    if hypothesis is None or arm not in scene.habits:
        return None
    unchanged_shares = [changes.is_still[each][changes.is_known].mean() for each in Arm]
    if min(unchanged_shares) >= _NO_NEW_DATA:
        return None
    codes, _ = scene.batch.of(arm)
    is_shared, list_numbers = number_common_lists(codes)
    if is_shared[hypothesis.hit].mean() >= _MOST_SHARED:
        # Healthy users may have unchanged lists, but they do not have this list. So the usual share
        # is 0.
        shared = replace(hypothesis, hit=hypothesis.hit & is_shared, habit=None, usual=0.0)
        return _describe_shared(scene, shared, list_numbers)
    return hypothesis


def _find_removed_items(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users whose former lists had items that hardly any user gets now.

    None if there are fewer than `_LEAST_ITEMS` such items, or if they filled few places of the
    former lists. None also if other items changed too.
    """
    lists = changes.lists[arm]
    removed_frequent = lists.find_removed(_LEAST_LISTS_OF_ITEM)
    # The items that the other arm's lists lost in this run show how many usually disappear.
    removed_by_other = changes.lists[arm.other].find_removed(_LEAST_LISTS_OF_ITEM)
    least_exposure = _LEAST_REMOVED + _TIMES_USUAL * removed_by_other.exposure
    if removed_frequent.exposure < least_exposure or len(removed_frequent.items) < _LEAST_ITEMS:
        return None
    # Items in few lists may disappear by chance. So they count only if more frequent items were
    # removed too.
    removed = lists.find_removed(_RARELY_LISTED)
    is_removed = np.isin(lists.former, removed.items)
    # If the lists lost many other items too, they changed for another reason.
    kept_share = _share_kept_of_others(lists, is_removed)
    if kept_share < _KEPT_OF_USUAL * _usually_kept(scene, changes, arm):
        return None
    return Hypothesis(
        kind=FaultKind.ITEMS_GONE,
        arm=arm,
        hit=changes.is_known & is_removed.any(axis=1),
        judged=changes.is_known,
        detail={"items": float(len(removed.items)), "exposure": removed.exposure},
    )


def _find_moved_items(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users who got or lost items that are in far more or far fewer lists than before.

    If some items rose and others fell, one direction is used: that of the item with the largest
    weighed change. If hardly any list still has the items, they are gone. None if there are no such
    items, or if other items changed too.
    """
    counts = changes.lists[arm].item_counts
    weighed = counts.weighed_changes
    least_change = _least_item_change(scene, changes, arm)
    if weighed.max(initial=0.0) < least_change:
        return None
    most_moved_index = int(np.argmax(weighed))
    rises = counts.now > counts.before
    has_risen = bool(rises[most_moved_index])
    is_moved = (weighed >= least_change) & (rises == has_risen)
    gained = _count_gained(changes.lists[arm], counts.items[is_moved])
    # How many of these items each list gained, or how many it lost if the items fell.
    moved = gained if has_risen else -gained
    hit = changes.is_known & (moved > 0)
    if not _keep_other_items(scene, changes, arm, hit, np.abs(moved)):
        return None
    users = int(changes.is_known.sum())
    # Healthy lists gain and lose such items about equally often. So the users whose lists changed
    # in the other direction are about as many as healthy users that look hit.
    by_chance = changes.is_known & (moved < 0)
    kind, detail = _describe_moved(counts, is_moved, most_moved_index, users)
    return Hypothesis(
        kind=kind,
        arm=arm,
        hit=hit,
        judged=changes.is_known,
        usual=float(by_chance.sum()) / users,
        detail=detail,
    )


def _describe_moved(
    counts: ItemCounts, is_moved: Flags, most_moved_index: int, users: int
) -> tuple[FaultKind, dict[str, float]]:
    """Return the kind of fault of the moved items, and its ``detail``.

    The detail has the shares of users that got the most moved item, before and now. If the items
    are gone, it has the share of all places that they filled before.
    """
    items = float(is_moved.sum())
    places_before = counts.before[is_moved].sum()
    if counts.now[is_moved].sum() <= STILL_LISTED * places_before:
        exposure = float(places_before / max(1, counts.before.sum()))
        return FaultKind.ITEMS_GONE, {"items": items, "exposure": exposure}
    share_before = float(counts.before[most_moved_index] / users)
    share_now = float(counts.now[most_moved_index] / users)
    kind = FaultKind.ITEMS_RISEN if share_now > share_before else FaultKind.ITEMS_FALLEN
    return kind, {"items": items, "before": share_before, "now": share_now}


def _least_item_change(scene: Scene, changes: PairChanges, arm: Arm) -> float:
    """Return the weighed change from which an item is at fault. It is a number of users."""
    # Bin 0 has the users whose lists neither gain nor lose the item that moves most.
    _, *usual_share_moved = usual_shares(scene, arm, Habit.ITEM_MOVED)
    usual_users = int(changes.is_known.sum()) * sum(usual_share_moved)
    return max(_TIMES_MOVED * usual_users, _LEAST_USERS + _MORE * math.sqrt(usual_users))


def _count_gained(lists: OwnLists, items: Codes) -> Integers:
    """Return how many of these items each user's list gained, (n,). Lost items count as -1."""
    count_before = np.isin(lists.former, items).sum(axis=1)
    count_now = np.isin(lists.present, items).sum(axis=1)
    return np.asarray(count_now - count_before)


def _keep_other_items(
    scene: Scene, changes: PairChanges, arm: Arm, hit: Flags, at_fault: Integers | int
) -> bool:
    """Whether the ``hit`` users kept about as many of the items that are not at fault as usual.

    ``at_fault`` is how many items of a list the fault added or removed: (n,), or one number for all
    lists. False if no hit user has lists of both runs.
    """
    lists = changes.lists[arm]
    length = np.maximum(lists.present_lengths, lists.former_lengths)
    kept_items = lists.kept_share * length
    kept_of_others = kept_items / np.maximum(1, length - at_fault)
    kept_by_hit = kept_of_others[hit & changes.is_known].clip(0, 1)
    if not len(kept_by_hit):
        return False
    return bool(kept_by_hit.mean() >= _KEPT_OF_USUAL * _usually_kept(scene, changes, arm))


def _find_shifted(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users whose items moved up because the first items are gone, or down behind new ones.

    None if there are hardly more such users than usual, or if the items in front are the same for
    many users. None also if the items behind did not move, were replaced, or changed their order.
    """
    lists = changes.lists[arm]
    for habit in (Habit.FIRST_GONE, Habit.FIRST_NEW):
        hypothesis = _find_by_habit(scene, arm, habit, FaultKind.SHIFTED, times=_TIMES_SHIFTED)
        if hypothesis is None:
            continue
        hit = hypothesis.hit
        if habit is Habit.FIRST_GONE:
            with_front, without_front = lists.former[hit], lists.present[hit]
        else:
            with_front, without_front = lists.present[hit], lists.former[hit]
        if _has_common_first(with_front):
            continue
        places = _find_places(with_front, without_front)
        in_front = _count_in_front(places)
        has_moved = _median_move(places) >= _LEAST_MOVE * in_front
        keeps_others = _keep_other_items(scene, changes, arm, hit, in_front)
        if has_moved and keeps_others and _keeps_order(scene, lists, hypothesis):
            detail = {"places": float(in_front), "up": float(habit is Habit.FIRST_GONE)}
            return replace(hypothesis, detail=detail)
    return None


def _has_common_first(lists: Codes) -> bool:
    """Whether more than `_MOST_COMMON` of the lists have the same first item."""
    _, users_by_first = np.unique(lists[:, 0], return_counts=True)
    return bool(users_by_first.max() > _MOST_COMMON * users_by_first.sum())


def _keeps_order(scene: Scene, lists: OwnLists, hypothesis: Hypothesis) -> bool:
    """Whether the common items of the hit users are still nearly in their former order.

    Their order must be nearer to a usual order than to a random order.
    """
    usual = _mean_of_bins(usual_shares(scene, hypothesis.arm, Habit.TURNED))
    turned = float(np.nanmean(lists.turned_share[hypothesis.hit]))
    return turned <= (usual + _TURNED_AT_RANDOM) / 2


def _mean_of_bins(shares: Sequence[float]) -> float:
    """Return the mean of a habit that measures a share, 0 to 1, from its shares of users by bin."""
    return float(np.arange(len(shares)) @ np.array(shares)) / SHARE_BINS


def _count_in_front(places: Integers) -> int:
    """Return how many first items of a list the other list usually lacks (see `_find_places`)."""
    is_absent = places < 0
    in_front = np.logical_and.accumulate(is_absent, axis=1).sum(axis=1)
    return int(np.percentile(in_front, 75, method="nearest"))


def _median_move(places: Integers) -> float:
    """Return by how many places an item is usually higher in the other list (`_find_places`)."""
    moves = np.arange(places.shape[1]) - places
    return float(np.median(moves[places >= 0])) if (places >= 0).any() else 0.0


def _find_places(lists: Codes, other_lists: Codes) -> Integers:
    """Return the place of each item in the user's other list, -1 if it is not there.

    Reads a sample of about `_SAMPLE` users.
    """
    step = max(1, len(lists) // _SAMPLE)
    lists, other_lists = lists[::step], other_lists[::step]
    places = np.full(lists.shape, -1)
    for rank in range(lists.shape[1]):
        items = lists[:, rank, np.newaxis]
        is_equal = (other_lists == items) & (items >= 0)
        places[:, rank] = np.where(is_equal.any(axis=1), is_equal.argmax(axis=1), -1)
    return places


def _share_kept_of_others(lists: OwnLists, is_removed: Flags) -> float:
    """Return which share of their other items the lists kept, as a mean over the lists, 0 to 1.

    ``is_removed`` marks the places of removed items in the former lists, (n, k).
    """
    not_removed = np.maximum(1, lists.former_lengths - is_removed.sum(axis=1))
    kept_share = lists.kept_share * lists.former_lengths / not_removed
    return float(np.nanmean(kept_share.clip(0, 1)))


def _usually_kept(scene: Scene, changes: PairChanges, arm: Arm) -> float:
    """Return the mean share of its items that a list of the arm usually keeps.

    If it is not known, the mean share that the other arm's lists kept in this run is returned.
    """
    shares = scene.habits.get(arm, {}).get(Habit.REPLACED)
    if shares is None:
        return float(np.nanmean(changes.lists[arm.other].kept_share))
    return 1 - _mean_of_bins(shares)


def _find_replaced(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users with more new items than usual. Find out where the new items come from.

    None if the arm's lists have hardly more new items than usual.
    """
    by_new_items = _find_by_habit(scene, arm, Habit.REPLACED, FaultKind.REPLACED)
    if by_new_items is None:
        return None
    kind = judge_lists(changes.lists[arm], by_new_items.hit)
    # Nearly all items of other users' lists and of random lists are new. So the number of new items
    # is enough to recognize the hit users.
    if kind is not FaultKind.REPLACED:
        return replace(by_new_items, kind=kind)
    # A user's own new list may also have few new items. `Habit.MOVED` counts new items and changed
    # order, so it finds more of these users.
    by_moves = _find_by_habit(scene, arm, Habit.MOVED, kind)
    # If it finds no users, the users with new items remain. The share of hit users is estimated by
    # the habit of the result. This must be `Habit.MOVED` in both cases, because few new items do
    # not prove that a user was not hit.
    return by_moves or replace(by_new_items, habit=Habit.MOVED)


def _find_reordered(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users whose items changed their order more than usual.

    Two habits are searched. `TURNED` counts the pairs of items in reversed order. `FIRST_MOVED` is
    the place of the former first item, and judges only users that still have it among the first
    three. The result is the hypothesis that hits the larger share of the users that its habit can
    judge. None if neither habit finds users.

    In the result's ``detail``, ``top`` is 1 if probably only the order of the first three items
    changed, and otherwise 0.
    """
    hypotheses = []
    for habit in (Habit.TURNED, Habit.FIRST_MOVED):
        hypothesis = _find_by_habit(scene, arm, habit, FaultKind.REORDERED)
        if hypothesis is not None:
            same_top_share = changes.lists[arm].has_same_top[hypothesis.hit].mean()
            detail = {"top": float(same_top_share >= _KEPT_TOP)}
            hypotheses.append(replace(hypothesis, detail=detail))
    return max(hypotheses, key=_share_of_judged, default=None)


def _share_of_judged(hypothesis: Hypothesis) -> float:
    return float(hypothesis.hit.sum() / hypothesis.judged.sum())


def _find_by_habit(
    scene: Scene, arm: Arm, habit: Habit, kind: FaultKind, *, times: float = 1.0
) -> Hypothesis | None:
    """Suspect the fault ``kind`` if the arm's lists changed more than usual in the way ``habit``.

    The users in outlying bins are hit. They are searched among all users, or else in each segment.
    The result is that of the segment with most hit users. None if no bin is outlying, or if the
    share of the users in outlying bins is less than ``times`` the largest usual share.
    """
    bins = scene.bins[arm][habit]

    def find(segment: str) -> Outliers | None:
        rows = scene.segments[segment]
        segment_rows = None if segment == ALL else rows
        outliers = find_outlying_bins(bins[rows], usual_shares(scene, arm, habit, segment_rows))
        if outliers is None:
            return None
        share = (bins[rows] >= outliers.least).mean()
        return outliers if share >= times * outliers.usual else None

    segment_with_most = _search_segments(scene, find)
    if segment_with_most is None:
        return None
    segment, outliers = segment_with_most
    rows = scene.segments[segment]
    hit = np.zeros(len(bins), dtype=bool)
    hit[rows] = bins[rows] >= outliers.least
    return Hypothesis(
        kind=kind,
        arm=arm,
        hit=hit,
        judged=bins >= 0,
        usual=outliers.usual,
        habit=habit,
        segment=segment,
    )


def _search_segments(
    scene: Scene, find: Callable[[str], Outliers | None]
) -> tuple[str, Outliers] | None:
    """Search all users together with ``find``. If that finds nothing, search single segments.

    ``find`` gets the name of a segment. At most `_SEARCHED` segments are searched, the largest
    first. Returns the name of the segment with the largest estimated number of hit users, and its
    outliers. None if no segment has outliers. If many healthy users look like hit users, a few hit
    users are outliers only in their segment.
    """
    outliers = find(ALL)
    if outliers is not None:
        return ALL, outliers
    segment_with_most = None
    most_hit_users = 0.0
    by_size = sorted(scene.segments, key=lambda name: (-len(scene.segments[name]), name))
    for name in by_size[:_SEARCHED]:
        if name == ALL:
            continue
        outliers = find(name)
        if outliers is None:
            continue
        hit_users = outliers.hit_share * len(scene.segments[name])
        if hit_users > most_hit_users:
            segment_with_most = name, outliers
            most_hit_users = hit_users
    return segment_with_most


def usual_shares(
    scene: Scene, arm: Arm, habit: Habit, rows: Rows | None = None
) -> tuple[float, ...]:
    """Return the usual share of the arm's users in each bin of the habit.

    1. They are the shares in the arm's past runs. Without past runs they are the other arm's shares
       in this run, because that arm is probably healthy.
    2. If other runs are between the earlier lists and this run, the other arm's shares in this run
       are combined with them. Lists change more over several runs than over one, and the other arm
       shows how much more.
    3. If ``rows`` of a segment are given, the other arm's shares among these users are combined
       with them. The users of a segment may usually change more than all users.

    `widest_shares` combines shares.
    """
    other_bins = scene.bins[arm.other][habit]
    shares = scene.habits.get(arm, {}).get(habit)
    if shares is None:
        shares = share_bins(other_bins)
    elif scene.is_older:
        shares = widest_shares(shares, share_bins(other_bins))
    if rows is None:
        return shares
    return widest_shares(shares, share_bins(other_bins[rows]))


def _lists_before(scene: Scene, arm: Arm) -> tuple[Codes, Codes]:
    """Return codes and lengths of the arm's earlier lists.

    If there are no earlier lists, return codes and lengths of the other arm's lists in this run.
    """
    if scene.changes is None:
        return scene.batch.of(arm.other)
    lists = scene.changes.lists[arm]
    return lists.former, lists.former_lengths
