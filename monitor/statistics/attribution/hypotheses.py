"""Tests hypotheses about whose lists broke and how. Each kind of fault has one function."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from monitor.model.arrays import Codes, Flags, Integers, Rows
from monitor.model.explanation import FaultKind
from monitor.model.rankings import ALL, Arm, CoverageReason, CoverageRow, PairBatch
from monitor.statistics.attribution.changes import OwnLists, PairChanges
from monitor.statistics.attribution.habits import (
    BINS,
    Habit,
    bin_lists,
    find_excess,
    find_shared,
    judge_lists,
    share_bins,
    widest,
)

# A fault needs at least this many users.
_LEAST_USERS = 5
# The largest segments, up to this number, are searched one by one.
_SEARCHED = 100
# A count must grow by this many standard deviations. 5 users instead of 0 are reported, 8 instead
# of 4 are not.
_MORE = 2.2
# Items were removed if at least this share of all places belonged to them.
_LEAST_REMOVED = 0.02
# The share is counted over items that were in at least this many lists.
_LISTED = 10
# Once items are known to be removed, rarer items are searched too, down to items of this many
# lists. An item of five lists disappears by chance in fewer than 1 of 100 cases (Poisson).
# In `incidents` seed 57006 this search finds 410 of 428 users. Without it 325 users are found.
_RARELY_LISTED = 5
# If this share of the reordered lists keeps its first three items, only these three were reordered.
# The share is at least 0.13 in `incidents` seeds 51002, 13072 and 57030. For reversed lists
# (seeds 17043 and 57057) it is 0.02.
_KEPT_TOP = 0.1
# If at least this share of the unchanged lists is shared by many users, the fault is a shared list.
_MOST_SHARED = 0.5
# If this share of the lists is unchanged in both arms, there were no new data, and none is stale.
_NO_NEW_DATA = 0.9
# Items disappear every day. Items count as removed if their share of all listed items is this
# multiple of the same share in the other arm.
_TIMES_USUAL = 3
# Lists that lost only removed items keep at least this share of what they usually keep.
_KEPT_OF_USUAL = 0.8


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The data on which hypotheses are tested: n pairs, rows by segment, coverage, and the past."""

    batch: PairBatch
    segments: Mapping[str, Rows]
    coverage: tuple[CoverageRow, ...]
    changes: PairChanges | None = None  # None without earlier lists
    is_older: bool = False  # whether other runs are between the earlier lists and this run
    # Usual shares of users by arm, habit and bin.
    habits: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    usually_missing: float | None = None  # usual share of users without a list, None if unknown
    drop: float | None = None  # the drop of the mean, None if it may be chance

    @cached_property
    def bins(self) -> Mapping[Arm, Mapping[Habit, Integers]]:
        """The bin of each user, by arm and habit. Empty without earlier lists."""
        if self.changes is None:
            return {}
        is_still = self.changes.is_still
        bins = {arm: bin_lists(lists, is_still[arm]) for arm, lists in self.changes.lists.items()}
        bins[Arm.CANDIDATE][Habit.IDENTICAL] = _bin_identical(self.batch, self.changes.is_known)
        return bins


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """A fault that one arm may have, and the users that it hit."""

    kind: FaultKind
    arm: Arm
    hit: Flags  # (n,), False for users that cannot be judged
    judged: Flags  # (n,), whether the user can be judged
    usual: float = 0.0  # share of healthy users that look as if they were hit
    habit: Habit | None = None  # the habit by which users look hit, if there is one
    segment: str = ALL  # the segment that was searched
    detail: Mapping[str, float] = field(default_factory=dict)


def find_suspicions(scene: Scene) -> list[Suspicion]:
    """All faults whose hypothesis holds, the most specific kinds first."""
    suspicions = [_find_shared_list(scene, arm) for arm in Arm]
    if scene.changes is not None:
        suspicions.append(_find_identical(scene, scene.changes))
    suspicions += [_find_cut_short(scene, arm) for arm in Arm]
    if scene.changes is not None:
        for find in (_find_stale, _find_removed_items, _find_replaced, _find_reordered):
            suspicions += [find(scene, scene.changes, arm) for arm in Arm]
    return [suspicion for suspicion in suspicions if suspicion is not None]


def _is_increase(gained: Flags, lost: Flags, least: int = _LEAST_USERS) -> bool:
    """Whether more users have ``gained`` than ``lost``, by more than chance."""
    more, fewer = int(gained.sum()), int(lost.sum())
    return more - fewer >= max(least, _MORE * math.sqrt(more + fewer))


def _find_shared_list(scene: Scene, arm: Arm) -> Suspicion | None:
    """Users with a list that many users have. There are two tests, and the one with more users wins.

    - Since the earlier run, more users got such a list than lost one.
    - More users than usual have such a list. A slow rise adds few users each day, so that only this
      test finds it.
    """
    codes, _ = scene.batch.of(arm)
    is_shared, group = find_shared(codes)
    if not is_shared.any():
        return None
    was_shared, _ = find_shared(_lists_before(scene, arm)[0])
    # Without earlier lists the other arm is compared, and two models differ more than two runs.
    least = 2 * _LEAST_USERS if scene.changes is None else _LEAST_USERS
    suspicions = []
    newly_shared = is_shared & ~was_shared
    if _is_increase(newly_shared, was_shared & ~is_shared, least):
        everybody = np.ones(len(codes), dtype=np.bool_)
        suspicion = Suspicion(
            kind=FaultKind.SHARED_LIST, arm=arm, hit=newly_shared, judged=everybody
        )
        suspicions.append(suspicion)
    if scene.bins:
        beyond_usual = _exceed_habit(scene, arm, Habit.SHARED)
        if beyond_usual is not None:
            suspicions.append(beyond_usual)
    if not suspicions:
        return None
    largest = max(suspicions, key=lambda suspicion: int(suspicion.hit.sum()))
    return _describe_shared(scene, largest, group)


def _describe_shared(scene: Scene, suspicion: Suspicion, group: Integers) -> Suspicion:
    """Add the number of shared lists, and the share of popular items in the most common one.

    ``group`` is a number for each user. Users with the same shared list have the same number.
    """
    codes, _ = scene.batch.of(suspicion.arm)
    groups = group[suspicion.hit]
    first_user = int(np.argmax(suspicion.hit & (group == np.bincount(groups).argmax())))
    detail = {
        "lists": float(len(np.unique(groups))),
        "popular": _popularity(codes[first_user], scene, suspicion.arm),
    }
    return replace(suspicion, kind=FaultKind.SHARED_LIST, detail=detail)


def _popularity(codes: Codes, scene: Scene, arm: Arm) -> float:
    """Share of these items that were among the most listed items before."""
    before, _ = _lists_before(scene, arm)
    items, counts = np.unique(before[before >= 0], return_counts=True)
    most_listed = items[np.argsort(-counts, kind="stable")[: 2 * codes.size]]
    return float(np.isin(codes[codes >= 0], most_listed).mean())


def _find_identical(scene: Scene, changes: PairChanges) -> Suspicion | None:
    """Users who now get the same list from both arms. The arm whose lists changed more is at fault.

    The usual share of such users is that of healthy runs. If their share in the earlier run is
    larger, that share is used.
    """
    bins = scene.bins[Arm.CANDIDATE][Habit.IDENTICAL]
    bins_before = _bin_identical(changes.former, changes.is_known)
    usual = share_bins(bins_before)
    in_healthy_runs = scene.habits.get(Arm.CANDIDATE, {}).get(Habit.IDENTICAL)
    if in_healthy_runs is not None:
        usual = widest(usual, in_healthy_runs)
    if find_excess(bins, usual) is None:
        return None
    hit = (bins == 1) & (bins_before != 1)
    baseline, candidate = changes.lists.values()
    arm = Arm.CANDIDATE
    if _mean_change(baseline, hit) > _mean_change(candidate, hit):
        arm = Arm.BASELINE
    return Suspicion(kind=FaultKind.IDENTICAL, arm=arm, hit=hit, judged=changes.is_known)


def _bin_identical(batch: PairBatch, is_known: Flags) -> Integers:
    """The bin of each user, (n,): 1 if both arms give the same list, 0 if not, -1 if unknown."""
    is_same = (batch.baseline == batch.candidate).all(axis=1) & (batch.baseline_lengths > 0)
    return np.where(is_known, is_same, -1).astype(np.int64)


def _mean_change(lists: OwnLists, hit: Flags) -> float:
    return float((1 - lists.kept_share[hit] + lists.turned_share[hit]).mean())


def _find_cut_short(scene: Scene, arm: Arm) -> Suspicion | None:
    """Users whose lists are shorter than before.

    Without earlier lists: users whose lists are shorter than the other arm's lists.
    """
    (_, lengths), (_, usual) = scene.batch.of(arm), _lists_before(scene, arm)
    hit = (lengths < usual) & (lengths > 0)
    if not _is_increase(hit, (lengths > usual) & (usual > 0)):
        return None
    detail = {
        "now": float(np.median(lengths[hit])),
        "before": float(np.median(usual[hit])),
        "duplicated": min(1.0, _share_duplicated(scene, arm) / float(hit.mean())),
    }
    return Suspicion(kind=FaultKind.CUT_SHORT, arm=arm, hit=hit, judged=usual > 0, detail=detail)


def _share_duplicated(scene: Scene, arm: Arm) -> float:
    """Share of the users whose lists had an item more than once. Only the first one is compared."""
    for row in scene.coverage:
        if row.segment == ALL and row.asked:
            return row.users_by_reason.get((arm, CoverageReason.DUPLICATED), 0) / row.asked
    return 0.0


def _find_stale(scene: Scene, changes: PairChanges, arm: Arm) -> Suspicion | None:
    """Users whose lists are those of the last run, if more lists are than usual.

    If most of these users share a list, the fault is the shared list. It began in an earlier run.
    """
    suspicion = _exceed_habit(scene, arm, Habit.STILL)
    # Some arms never change. Without a known past we cannot know whether this one does.
    if suspicion is None or arm not in scene.habits:
        return None
    if min(changes.is_still[each][changes.is_known].mean() for each in Arm) >= _NO_NEW_DATA:
        return None
    is_shared, group = find_shared(scene.batch.of(arm)[0])
    if is_shared[suspicion.hit].mean() >= _MOST_SHARED:
        # Healthy users may have unchanged lists, but not this list: no usual share applies.
        shared = replace(suspicion, hit=suspicion.hit & is_shared, habit=None, usual=0.0)
        return _describe_shared(scene, shared, group)
    return replace(suspicion, kind=FaultKind.STALE)


def _find_removed_items(scene: Scene, changes: PairChanges, arm: Arm) -> Suspicion | None:
    """Users whose former lists had items that hardly any user gets now."""
    lists = changes.lists[arm]
    removed, share = lists.find_removed(_LISTED)
    _, usual_share = changes.lists[arm.other].find_removed(_LISTED)
    # One item disappears every day.
    if share < _LEAST_REMOVED + _TIMES_USUAL * usual_share or len(removed) < 2:  # noqa: PLR2004
        return None
    # Items in few lists may disappear by chance. They count only now that others were removed.
    removed, share = lists.find_removed(_RARELY_LISTED)
    is_removed = np.isin(lists.former, removed)
    # Lists that lost more items than these have changed for another reason.
    if _kept_of_rest(lists, is_removed) < _KEPT_OF_USUAL * _usually_kept(scene, changes, arm):
        return None
    return Suspicion(
        kind=FaultKind.ITEMS_GONE,
        arm=arm,
        hit=np.asarray(is_removed.any(axis=1)),
        judged=changes.is_known,
        detail={"items": float(len(removed)), "exposure": share},
    )


def _kept_of_rest(lists: OwnLists, is_removed: Flags) -> float:
    """Mean share of the items that were not removed, (n, k), that lists kept: 0 to 1."""
    rest = np.maximum(1, lists.former_lengths - is_removed.sum(axis=1))
    kept = lists.kept_share * lists.former_lengths / rest
    return float(np.nanmean(kept.clip(0, 1)))


def _usually_kept(scene: Scene, changes: PairChanges, arm: Arm) -> float:
    """Mean share of items that lists usually keep, else that the other arm's lists kept now."""
    shares = scene.habits.get(arm, {}).get(Habit.REPLACED)
    if shares is None:
        return float(np.nanmean(changes.lists[arm.other].kept_share))
    return 1 - float(np.arange(len(shares)) @ np.array(shares)) / BINS


def _find_replaced(scene: Scene, changes: PairChanges, arm: Arm) -> Suspicion | None:
    """Users with more new items than usual. Finds out where the new items come from."""
    suspicion = _exceed_habit(scene, arm, Habit.REPLACED)
    if suspicion is None:
        return None
    kind = judge_lists(changes.lists[arm], suspicion.hit)
    if kind is not FaultKind.REPLACED:
        return replace(suspicion, kind=kind)
    # New items and changed order together show more of the hit users than new items alone.
    moved = _exceed_habit(scene, arm, Habit.MOVED)
    # Lists of other users and random lists are in far-out bins, but these lists may be in any bin.
    # So even if `moved` is None, the share of hit users is estimated by `Habit.MOVED`.
    return replace(moved or suspicion, kind=kind, habit=Habit.MOVED)


def _find_reordered(scene: Scene, changes: PairChanges, arm: Arm) -> Suspicion | None:
    """Users whose items changed their order more than usual.

    All items are checked, and the first three items are checked separately.
    """
    suspicions = []
    for habit in (Habit.TURNED, Habit.FIRST_MOVED):
        suspicion = _exceed_habit(scene, arm, habit)
        if suspicion is not None:
            kept_top = float(changes.lists[arm].has_same_top[suspicion.hit].mean())
            detail = {"top": float(kept_top >= _KEPT_TOP)}
            suspicions.append(replace(suspicion, detail=detail))
    return max(suspicions, key=_share_of_judged, default=None)


def _share_of_judged(suspicion: Suspicion) -> float:
    # Only users whose former first item is still among the first three can be judged by its place.
    return float(suspicion.hit.sum() / suspicion.judged.sum())


def _exceed_habit(scene: Scene, arm: Arm, habit: Habit) -> Suspicion | None:
    """Users whose lists changed more than the arm's habit.

    They are searched among all users. If none are found, they are searched in single segments, and
    the segment with most of them is returned.
    """
    bins = scene.bins[arm][habit]
    segment = ALL
    excess = find_excess(bins, usual_shares(scene, arm, habit))
    if excess is None:
        # If similar users are frequent, a few hit users are outliers only within their segment.
        most_users = 0.0
        by_size = sorted(scene.segments, key=lambda name: (-len(scene.segments[name]), name))
        for name in by_size[:_SEARCHED]:
            rows = scene.segments[name]
            candidate = find_excess(bins[rows], usual_shares(scene, arm, habit, rows))
            if candidate is not None and candidate.beyond * len(rows) > most_users:
                segment, excess, most_users = name, candidate, candidate.beyond * len(rows)
    if excess is None:
        return None
    rows = scene.segments[segment]
    hit = np.zeros(len(bins), dtype=np.bool_)
    hit[rows] = bins[rows] >= excess.least
    return Suspicion(
        kind=FaultKind.REORDERED,
        arm=arm,
        hit=hit,
        judged=bins >= 0,
        usual=excess.usual,
        habit=habit,
        segment=segment,
    )


def usual_shares(
    scene: Scene, arm: Arm, habit: Habit, rows: Rows | None = None
) -> tuple[float, ...]:
    """Usual shares of users by bin.

    From the arm's past runs. Without them, from the other arm in this run. If other runs lie
    between the earlier lists and this run, the wider of both. With ``rows``, the shares are at
    least as wide as those of these users in the other arm.
    """
    other_bins = scene.bins[arm.other][habit]
    shares = scene.habits.get(arm, {}).get(habit)
    if shares is None:
        shares = share_bins(other_bins)
    elif scene.is_older:
        # Lists change more over several runs than over one. The other arm shows how much more.
        shares = widest(shares, share_bins(other_bins))
    if rows is None:
        return shares
    return widest(shares, share_bins(other_bins[rows]))


def _lists_before(scene: Scene, arm: Arm) -> tuple[Codes, Codes]:
    """Codes and lengths of the arm's earlier lists. Without them, of the other arm's lists."""
    if scene.changes is None:
        return scene.batch.of(arm.other)
    lists = scene.changes.lists[arm]
    return lists.former, lists.former_lengths
