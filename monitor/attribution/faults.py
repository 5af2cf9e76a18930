"""Kinds of fault, each a hypothesis about whose lists broke and how: tested on every arm, and the best of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.attribution.causes import Place, find_place
from monitor.attribution.changes import ArmLists, PairChanges
from monitor.attribution.habits import NEARLY_ALL, Excess, Habit, find_excess, share_bins, widest
from monitor.model import ALL, Arm, CoverageReason, CoverageRow, FaultKind, Finding, PairBatch, PartMeans
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows

_LEAST_USERS = 5
_LEAST_SHARE = 0.001

# Standard deviations of a count, so that the same list for 7 of 1,500 users is told and for 5 instead of 4 is not.
_MORE = 2.5

# Times that an item was listed, at least, before its absence says something, and share of it that may be left.
_LISTED = 10
_LEFT = 0.02
_LEAST_GONE = 0.02

# Share of users without a list beyond what is usual, and of them that a segment must hold to be named.
_LEAST_LOST = 0.005
_SURE = 4.0
_HELD = 0.8

# Of what the best hypothesis explains another one must explain at least so much to be told in its place.
_AS_GOOD = 0.5

# Share of an arm's lists that are the same where it did not change: a few users are always told anew.
_STOOD = 0.99

# Share of all lists that must have changed somewhere before others count as stale.
_MOSTLY = 0.9

# Lists that others' lists are compared with, to see whether they are anybody's.
_MODELS = 500
_LOOKED_AT = 300


@dataclass(frozen=True, kw_only=True)
class Scene:
    """All that hypotheses are tested on: n pairs, rows by segment, and what is known of the past.

    ``changes`` None where no earlier lists are known, with ``bins`` of its users by arm and habit; ``is_older``: whether runs
    lie between. ``habits``: usual shares of these, empty where none are known.
    ``distance`` float64 (n,): how much farther apart each pair lies than before, or without earlier lists how far; NaN where
    it is not known. ``drop`` of the mean, None where it is not beyond doubt. ``before`` by segment and ``coverage`` are for
    users without a list.
    """

    batch: PairBatch
    segments: Mapping[str, Rows]
    distance: Floats
    drop: float | None
    changes: PairChanges | None = None
    bins: Mapping[Arm, Mapping[Habit, Integers]] = field(default_factory=dict)
    is_older: bool = False
    habits: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    coverage: tuple[CoverageRow, ...] = ()
    before: tuple[PartMeans, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """A fault that one arm may have, and whose lists have it: ``hit`` (n,).

    Where ordinary lists look alike, ``usual`` is the share of users that is hit anyhow, ``bins`` (n,) where each user lies, -1
    where it is not known, and ``ordinary`` the usual shares by bin.
    """

    kind: FaultKind
    arm: Arm
    hit: Flags
    usual: float = 0.0
    bins: Integers | None = None
    ordinary: tuple[float, ...] = ()
    segment: str | None = None  # that they were searched for in, where it is not everybody
    detail: Mapping[str, float] = field(default_factory=dict)


def find_fault(scene: Scene) -> tuple[Finding, bool | None] | None:
    """The fault that explains best what happened, and whether the other arm stood still; None where no hypothesis holds.

    The other arm stood still (True), changed no more than usual (False), or it is not known or not so (None).

    Kinds are tried from the most specific to the least; the first one is told that explains at least half of what the best
    one explains of the drop, or the first at all where there is no drop beyond doubt. Counts alone decide whether a kind is
    there: what is usual comes from the arm's own past, else from the other arm.
    """
    suspected = list(_suspect(scene))
    found = [_tell(each, scene) for each in suspected]
    best = max((each.explained or 0.0 for each in found), default=0.0)
    told = next((each for each in found if (each.explained or 0.0) >= _AS_GOOD * best), None)
    missing = _find_missing(scene)
    is_hidden = missing is not None and (told is None or (told.explained or 0.0) < _AS_GOOD)
    finding = missing if is_hidden else told
    return None if finding is None else (finding, _has_stood(scene, finding, {each.arm for each in suspected}))


def _suspect(scene: Scene) -> Iterator[Suspicion]:
    """Every fault that is there, the most specific kinds first."""
    for kind_of in (_share_a_list, _are_cut_short, _stand_still, _lack_items, _are_replaced, _are_turned):
        for arm in Arm:
            yield from kind_of(scene, arm)


def _share_a_list(scene: Scene, arm: Arm) -> Iterator[Suspicion]:
    """Users who share their list with many others and did not before."""
    codes, lengths = _lists_of(scene.batch, arm)
    n = len(codes)
    is_shared, group = _find_shared(codes, lengths)
    if scene.changes is not None:
        lists = scene.changes.lists[arm]
        was_shared = np.zeros(n, dtype=np.bool_)
        was_shared[scene.changes.rows] = _find_shared(lists.former, lists.former_lengths)[0]
    else:
        was_shared = _find_shared(*_lists_of(scene.batch, _other(arm)))[0]
    hit, less = is_shared & ~was_shared, int((was_shared & ~is_shared).sum())
    count = int(hit.sum())
    # Two models' lists differ in more than what one run adds to another.
    least = _LEAST_USERS if scene.changes is not None else 2 * _LEAST_USERS
    if count - less < max(least, _MORE * math.sqrt(count + less)):
        return
    # The other arm's lists may be shared by right: items that everybody is to see.
    first = int(np.flatnonzero(hit & (group == np.bincount(group[hit]).argmax()))[0])
    detail = {"lists": float(len(np.unique(group[hit]))), "popular": _popularity(codes[first], scene, arm)}
    yield Suspicion(kind=FaultKind.SHARED_LIST, arm=arm, hit=hit, detail=detail)


def _find_shared(codes: Codes, lengths: Codes) -> tuple[Flags, Integers]:
    """Whether so many users have the list that it is nobody's own, and a number for each different list: (n,) both."""
    weights = np.random.default_rng(0).integers(1, 2**63, size=codes.shape[1], dtype=np.uint64) | np.uint64(1)
    group, _ = pd.factorize(((codes.astype(np.int64).astype(np.uint64) + np.uint64(2)) * weights).sum(axis=1, dtype=np.uint64))
    many = max(_LEAST_USERS, _LEAST_SHARE * len(codes))
    return (np.bincount(group, minlength=1)[group] >= many) & (lengths > 0), group


def _popularity(codes: Codes, scene: Scene, arm: Arm) -> float:
    """Share of these items that are among the most listed ones: of the arm before, else of the other arm."""
    others = _lists_of(scene.batch, _other(arm))[0] if scene.changes is None else scene.changes.lists[arm].former
    items, counts = np.unique(others[others >= 0], return_counts=True)
    most = items[np.argsort(-counts, kind="stable")[: 2 * codes.size]]
    return float(np.isin(codes[codes >= 0], most).mean())


def _are_cut_short(scene: Scene, arm: Arm) -> Iterator[Suspicion]:
    """Users whose lists are shorter than they were, or without a past than the other arm's."""
    _, lengths = _lists_of(scene.batch, arm)
    if scene.changes is None:
        usual = _lists_of(scene.batch, _other(arm))[1]
    else:
        usual = np.zeros(len(lengths), dtype=np.int32)
        usual[scene.changes.rows] = scene.changes.lists[arm].former_lengths
    hit, less = (lengths < usual) & (lengths > 0), int(((lengths > usual) & (usual > 0)).sum())
    if (count := int(hit.sum())) - less >= max(_LEAST_USERS, _MORE * math.sqrt(count + less)):
        detail = {"now": float(np.median(lengths[hit])), "before": float(np.median(usual[hit]))}
        yield Suspicion(kind=FaultKind.CUT_SHORT, arm=arm, hit=hit, detail=detail)


def _stand_still(scene: Scene, arm: Arm) -> Iterator[Suspicion]:
    """Users whose lists are those of the last run, while most others' are not."""
    for found in _exceed(scene, arm, Habit.STILL):
        # Where nobody's lists changed, there was nothing to change them for.
        if min(scene.bins[each][Habit.STILL].mean() for each in Arm) < _MOSTLY:
            yield replace(found, kind=FaultKind.STALE)


def _lack_items(scene: Scene, arm: Arm) -> Iterator[Suspicion]:
    """Users whose former lists held items that nobody is shown any more."""
    if scene.changes is None:
        return
    gone, share = _find_gone(scene.changes.lists[arm])
    _, usual = _find_gone(scene.changes.lists[_other(arm)])
    if share < _LEAST_GONE + 3 * usual or len(gone) < 2:  # noqa: PLR2004 - one item leaves every day
        return
    lists = scene.changes.lists[arm]
    is_gone = np.isin(lists.former, gone)
    # Who lost more beside them has other lists for another reason.
    left = np.maximum(1, lists.former_lengths - is_gone.sum(axis=1))
    kept_else = float((np.nan_to_num(lists.kept) * lists.former_lengths / left).clip(0, 1).mean())
    others = float(np.nanmean(scene.changes.lists[_other(arm)].kept))
    if kept_else >= 0.8 * _usually_kept(scene, arm, others):
        hit = np.zeros(len(scene.batch), dtype=np.bool_)
        hit[scene.changes.rows] = is_gone.any(axis=1)
        yield Suspicion(kind=FaultKind.ITEMS_GONE, arm=arm, hit=hit, detail={"items": float(len(gone)), "exposure": share})


def _usually_kept(scene: Scene, arm: Arm, otherwise: float) -> float:
    usual = scene.habits.get(arm, {}).get(Habit.REPLACED)
    return otherwise if usual is None else 1 - float(np.arange(len(usual)) @ np.array(usual)) / 10


def _find_gone(lists: ArmLists) -> tuple[Codes, float]:
    """Items that were listed often and hardly are, and what share of all places they had."""
    items, before = np.unique(lists.former[lists.former >= 0], return_counts=True)
    listed, counts = np.unique(lists.present[lists.present >= 0], return_counts=True)
    after = np.zeros(len(items))
    after[np.isin(items, listed)] = counts[np.isin(listed, items)]
    is_gone = (before >= _LISTED) & (after <= _LEFT * before)
    return items[is_gone], float(before[is_gone].sum() / max(1, before.sum()))


def _are_replaced(scene: Scene, arm: Arm) -> Iterator[Suspicion]:
    """Users who were shown other items than the arm is used to change: somebody else's, nobody's, or others."""
    for found in _exceed(scene, arm, Habit.REPLACED):
        if scene.changes is not None:
            yield replace(found, kind=_whose(scene.changes.lists[arm], found.hit[scene.changes.rows]))


def _whose(lists: ArmLists, hit: Flags) -> FaultKind:
    """Whether these lists are other users', nobody's, or just others than before."""
    rows, n = np.flatnonzero(hit), len(hit)
    rows = rows[:: max(1, len(rows) // _LOOKED_AT)]
    models = np.arange(0, n, max(1, n // _MODELS))
    former, present = (
        _count_common(codes[rows], lists.former[models], rows, models) for codes in (lists.former, lists.present)
    )
    own = float(np.nanmean(lists.kept[rows]))
    k = max(1.0, float(lists.former_lengths[rows].mean()))
    strangers, usual = former.mean() / k, float(np.nanmean(lists.kept[~hit])) if (~hit).any() else 1.0
    # Lists of other users are as far from one's own former list as any two users' lists are.
    if own > strangers + 0.25 * (usual - strangers):
        return FaultKind.REPLACED
    is_somebodys = present.max(axis=1).mean() >= 0.75 * former.max(axis=1).mean() and present.mean() >= 0.6 * former.mean()
    return FaultKind.MIXED_UP if is_somebodys else FaultKind.NOISE


def _count_common(codes: Codes, models: Codes, rows: Rows, places: Rows) -> npt.NDArray[np.float32]:
    """Items in common of each of these lists with each model, 0 with a user's own: (m, models)."""
    items = np.unique(models[models >= 0])
    held = np.zeros((len(items), len(models)), dtype=np.float32)
    where = models >= 0
    held[np.searchsorted(items, models[where]), np.nonzero(where)[0]] = 1
    found = np.searchsorted(items, codes).clip(0, max(0, len(items) - 1))
    is_there = (codes >= 0) & (items[found] == codes)
    common = np.zeros((len(codes), len(models)), dtype=np.float32)
    for place in range(codes.shape[1]):
        common += np.where(is_there[:, place, None], held[found[:, place]], 0)
    common[rows[:, None] == places] = 0
    return common


def _are_turned(scene: Scene, arm: Arm) -> Iterator[Suspicion]:
    """Users whose items stand in another order than the arm is used to change, all of them or the first three."""
    for habit in (Habit.TURNED, Habit.TOP_TURNED):
        for found in _exceed(scene, arm, habit):
            yield replace(found, detail={"top": float(habit is Habit.TOP_TURNED)})
            return


def _exceed(scene: Scene, arm: Arm, habit: Habit) -> Iterator[Suspicion]:
    """Users whose lists lie beyond the arm's habit, of all or else of the segment that has most; none where none do."""
    if scene.changes is None:
        return
    ordinary = _usual(scene, arm, habit)
    bins = np.full(len(scene.batch), -1)
    bins[scene.changes.rows] = scene.bins[arm][habit]

    def search(segment: str) -> tuple[float, str, Excess | None]:
        rows = scene.segments[segment]
        excess = find_excess(bins[rows], ordinary)
        return 0.0 if excess is None else excess.concerned * len(rows), segment, excess

    everybody = search(ALL)
    # A few users among many that look alike stand out only among their own.
    _, segment, excess = everybody if everybody[2] is not None else max(map(search, scene.segments), key=lambda each: each[0])
    if excess is not None:
        hit = np.zeros(len(bins), dtype=np.bool_)
        hit[scene.segments[segment]] = bins[scene.segments[segment]] >= excess.least
        yield Suspicion(
            kind=FaultKind.REORDERED,
            arm=arm,
            hit=hit,
            usual=excess.usual,
            bins=bins,
            ordinary=ordinary,
            segment=None if segment == ALL else segment,
        )


def _usual(scene: Scene, arm: Arm, habit: Habit) -> tuple[float, ...]:
    """How the arm's own lists change from run to run, or where that is not known the other arm's in this run."""
    own, others = scene.habits.get(arm, {}).get(habit), share_bins(scene.bins[_other(arm)][habit])
    if own is None:
        return others
    # Over more than one run lists change more, as the other arm's do.
    return widest(own, others) if scene.is_older else own


def _tell(suspicion: Suspicion, scene: Scene) -> Finding:
    """The finding that a suspicion amounts to: where, how many, and what it explains."""
    if suspicion.segment is None:
        place = find_place(suspicion.hit, suspicion.usual, scene.segments)
    else:
        place = Place(segment=suspicion.segment, rows=scene.segments[suspicion.segment])
    if suspicion.bins is None:
        users, share = int(suspicion.hit.sum()), float(suspicion.hit[place.rows].mean())
    else:
        excess = find_excess(suspicion.bins[place.rows], suspicion.ordinary)
        share = excess.concerned if excess is not None else float(suspicion.hit[place.rows].mean())
        users = round(share * len(place.rows))
    concerned = suspicion.hit
    if share >= NEARLY_ALL:
        concerned = np.zeros(len(scene.batch), dtype=np.bool_)
        concerned[place.rows] = True
    return Finding(
        kind=suspicion.kind,
        arms=(suspicion.arm,),
        segment=place.segment,
        segment_share=share,
        users=users,
        compared=len(scene.batch),
        explained=_explain(concerned, scene),
        detail=suspicion.detail,
    )


def _explain(concerned: Flags, scene: Scene) -> float | None:
    """Share of the drop that these users' lists add beyond what others' do, 0 to 1; None without a drop."""
    if scene.drop is None:
        return None
    is_known = ~np.isnan(scene.distance)
    ours, others = scene.distance[is_known & concerned], scene.distance[is_known & ~concerned]
    if not len(ours):
        return 0.0
    beyond = float(ours.mean() - (others.mean() if len(others) else 0.0))
    return min(1.0, max(0.0, beyond * len(ours) / (int(is_known.sum()) * scene.drop)))


def _find_missing(scene: Scene) -> Finding | None:
    """Users who got no list, by the arm that more of them lack than before; None where no more do."""
    rows = {row.segment: row for row in scene.coverage}
    if ALL not in rows or not rows[ALL].asked:
        return None
    before = {row.segment: 1 - row.n / row.asked for row in scene.before if row.asked}
    counts = {arm: {name: _count_lost(row, arm) for name, row in rows.items()} for arm in Arm}
    arm = max(Arm, key=lambda each: counts[each][ALL])
    lost, asked = counts[arm][ALL], rows[ALL].asked
    usual = before.get(ALL, 0.0)
    if lost - usual * asked < max(_LEAST_USERS, _LEAST_LOST * asked, _SURE * math.sqrt(usual * asked)):
        return None
    held = {name: lost_there / lost for name, lost_there in counts[arm].items() if name != ALL and rows[name].asked}
    shares = {name: counts[arm][name] / rows[name].asked for name in held}
    likeliest = max(held, key=lambda name: (held[name] * shares[name], name), default=ALL)
    is_there = likeliest != ALL and held[likeliest] >= _HELD and shares[likeliest] >= 1.5 * lost / asked
    segment = likeliest if is_there else ALL
    return Finding(
        kind=FaultKind.MISSING,
        arms=tuple(each for each in Arm if counts[each][ALL] >= _AS_GOOD * lost),
        segment=segment,
        segment_share=counts[arm][segment] / rows[segment].asked,
        users=lost,
        compared=asked,
        detail={"before": usual},
    )


def _count_lost(row: CoverageRow, arm: Arm) -> int:
    harmless = (CoverageReason.SHORT, CoverageReason.DUPLICATED)
    return sum(count for (of, reason), count in row.reasons.items() if of is arm and reason not in harmless)


def _has_stood(scene: Scene, finding: Finding, suspects: Collection[Arm]) -> bool | None:
    others = [arm for arm in Arm if arm not in finding.arms]
    if scene.changes is None or len(others) != 1 or others[0] in suspects:
        return None
    if scene.changes.lists[others[0]].is_same.mean() >= _STOOD:
        return True
    return False if others[0] in scene.habits else None


def _lists_of(batch: PairBatch, arm: Arm) -> tuple[Codes, Codes]:
    is_baseline = arm is Arm.BASELINE
    return (batch.baseline, batch.baseline_lengths) if is_baseline else (batch.candidate, batch.candidate_lengths)


def _other(arm: Arm) -> Arm:
    return Arm.CANDIDATE if arm is Arm.BASELINE else Arm.BASELINE
