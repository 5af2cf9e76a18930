"""Kinds of fault, each a hypothesis about whose lists broke and how, tested on every arm.

And users without a list.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from monitor.attribution.changes import PairChanges
from monitor.attribution.decomposition import find_place, rows_of_place
from monitor.attribution.habits import (
    Habit,
    bin_lists,
    find_excess,
    find_shared,
    judge_lists,
    least_share,
    share_bins,
    widest,
)
from monitor.model.arrays import Codes, Flags, Integers, Rows
from monitor.model.explanation import FaultKind, Finding
from monitor.model.rankings import ALL, Arm, CoverageReason, CoverageRow, PairBatch

# Share of users without a list beyond what is usual, and of them that a segment must hold to be
# named.
_LEAST_LOST = 0.005
_SURE = 4.0
_HELD = 0.8

_LEAST_USERS = 5
# Largest segments that are searched by themselves.
_SEARCHED = 100
# Standard deviations of a count, so that the same list for 5 users instead of none is told and for
# 8 instead of 4 is not.
_MORE = 2.2
# Share of all that was listed that must be gone.
_LEAST_GONE = 0.02
# Of what the best hypothesis explains another one must explain at least so much to be told in its
# place.
_AS_GOOD = 0.5
_SOME = 0.02
# What worse models do, and how many times as many users one arm may have as the other, to be one
# fault of both.
_OF_MODELS, _ALIKE = {FaultKind.REPLACED, FaultKind.REORDERED}, 6
# Share of an arm's lists that are the same where it did not change: a few users are always told
# anew.
_STOOD = 0.99
# Share of users from which on all of them are said to be hit.
_NEARLY_ALL = 0.8
# Share of lists that would lie beyond the usual ones if they were reversed, so that all that are
# there are counted there.
_APART = 0.95
# Pairs of three items from which on they are turned far, and how many of their orders are.
_FAR, _FAR_ORDERS = 2, 3
# Share of all lists that must have changed somewhere before others count as stale.
_MOSTLY = 0.9


def find_missing(coverage: Sequence[CoverageRow], usual: float | None) -> Finding | None:
    """Users without a list, in the arm with most of them.

    None where hardly more than the ``usual`` share has none.

    Where that share is unknown it is taken to be 0.
    """
    rows = {row.segment: row for row in coverage}
    if ALL not in rows or not rows[ALL].asked:
        return None
    counts = {arm: {name: _count_lost(row, arm) for name, row in rows.items()} for arm in Arm}
    arm = max(Arm, key=lambda each: counts[each][ALL])
    lost, asked = counts[arm][ALL], rows[ALL].asked
    before = usual or 0.0
    if lost - before * asked < max(5, _LEAST_LOST * asked, _SURE * math.sqrt(before * asked)):
        return None
    held = {
        name: lost_there / lost
        for name, lost_there in counts[arm].items()
        if name != ALL and rows[name].asked
    }
    shares = {name: counts[arm][name] / rows[name].asked for name in held}
    likeliest = max(held, key=lambda name: (held[name] * shares[name], name), default=ALL)
    is_there = (
        likeliest != ALL and held[likeliest] >= _HELD and shares[likeliest] >= 1.5 * lost / asked
    )
    segment = likeliest if is_there else ALL
    empty = rows[ALL].reasons.get((arm, CoverageReason.EMPTY), 0)
    return Finding(
        kind=FaultKind.MISSING,
        arms=tuple(each for each in Arm if counts[each][ALL] >= lost / 2),
        segment=segment,
        segment_share=counts[arm][segment] / rows[segment].asked,
        users=lost,
        compared=asked,
        detail={"empty": empty / lost} | ({} if usual is None else {"before": usual}),
        is_exact=is_there and held[segment] == shares[segment] == 1,
    )


def _count_lost(row: CoverageRow, arm: Arm) -> int:
    harmless = (CoverageReason.SHORT, CoverageReason.DUPLICATED)
    return sum(
        count for (of, reason), count in row.reasons.items() if of is arm and reason not in harmless
    )


@dataclass(frozen=True, kw_only=True)
class Scene:
    """All that hypotheses are tested on: n pairs, rows by segment, coverage, and what is known of the past."""

    batch: PairBatch
    segments: Mapping[str, Rows]
    coverage: tuple[CoverageRow, ...]
    changes: PairChanges | None = None  # None where no earlier lists are known
    is_older: bool = False  # runs lie between
    habits: Mapping[str, Mapping[str, tuple[float, ...]]] = field(
        default_factory=dict
    )  # usual shares by arm, habit, bin
    usually_missing: float | None = None  # usual share without a list, None: unknown
    drop: float | None = None  # of the mean, None where it is not beyond doubt

    @cached_property
    def bins(self) -> Mapping[Arm, Mapping[Habit, Integers]]:
        """In which bin of each habit each user lies, by arm; empty without changes."""
        if self.changes is None:
            return {}
        return {
            arm: bin_lists(lists, self.changes.is_still[arm])
            for arm, lists in self.changes.lists.items()
        }


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """A fault that one arm may have, and whose lists have it."""

    kind: FaultKind
    arm: Arm
    hit: Flags  # (n,), of those who are judged
    judged: Flags | None = None  # None: all
    usual: float = 0.0  # share of users that is hit anyhow, where ordinary lists look alike,
    habit: Habit | None = None  # by this habit
    segment: str | None = None  # that they were searched for in, where it is not everybody
    detail: Mapping[str, float] = field(default_factory=dict)


def find_fault(scene: Scene) -> tuple[Finding, bool | None] | None:
    """The fault that explains best what happened; None where no hypothesis holds.

    Beside it whether the other arm stood still (True) or changed no more than usual (False); None:
    not known, or neither. The first of the kinds, from most to least specific, that explains at
    least half of what the best one explains of the drop, or without a drop beyond doubt has half as
    many users as any; what worse models do is then told only where nothing else is there. Counts
    alone decide whether a kind is: what is usual comes from the arm's own past, else from the other
    arm.
    """
    suspected = list(_suspect(scene))
    found = [_tell(each, scene) for each in suspected if not _is_covered(each, suspected)]
    if scene.drop is None:
        found = [each for each in found if each.kind not in _OF_MODELS] or found
    weights = [each.share if each.explained is None else each.explained for each in found]
    some = [
        each for each, weight in zip(found, weights, strict=True) if weight >= _SOME * max(weights)
    ]
    good = [
        (each, weight)
        for each, weight in zip(found, weights, strict=True)
        if weight >= _AS_GOOD * max(weights)
    ]
    told = (
        max(
            (entry for entry in good if entry[0].kind is good[0][0].kind),
            key=lambda entry: entry[1],
        )[0]
        if good
        else None
    )
    kin = set() if told is None else _OF_MODELS if told.kind in _OF_MODELS else {told.kind}
    twins = [
        each.users
        for each in some
        if told is not None and each.kind in kin and each.arms != told.arms
    ]
    if told is not None and any(
        told.users <= _ALIKE * users <= _ALIKE**2 * told.users for users in twins
    ):
        told = replace(told, arms=tuple(Arm))
    missing = (
        None
        if scene.usually_missing is None
        else find_missing(scene.coverage, scene.usually_missing)
    )
    is_hidden = missing is not None and (told is None or (told.explained or 0.0) < _AS_GOOD)
    finding = missing if is_hidden else told
    return (
        None
        if finding is None
        else (finding, _has_stood(scene, finding, {each.arm for each in suspected}))
    )


def _suspect(scene: Scene) -> Iterator[Suspicion]:
    """Every fault that is there, the most specific kinds first."""
    for arm in Arm:
        yield from _share_a_list(scene, arm)
    if scene.changes is not None:
        yield from _are_identical(scene.changes)
    for arm in Arm:
        yield from _are_cut_short(scene, arm)
    if scene.changes is not None:
        for kind_since in (_stand_still, _lack_items, _are_replaced, _are_turned):
            for arm in Arm:
                yield from kind_since(scene, scene.changes, arm)


def _is_covered(suspicion: Suspicion, others: Sequence[Suspicion]) -> bool:
    """Whether its lists are other ones because of something more specific, as lists that were cut short are."""
    covered = [
        each.hit for each in others if each.arm is suspicion.arm and each.kind not in _OF_MODELS
    ]
    return suspicion.kind in _OF_MODELS and any(
        hit[suspicion.hit].mean() >= _NEARLY_ALL for hit in covered
    )


def _share_a_list(scene: Scene, arm: Arm) -> Iterator[Suspicion]:
    """Users who share their list with many others and did not before, or far more who do than usually."""
    codes, _ = scene.batch.of(arm)
    is_shared, group = find_shared(codes)
    if not is_shared.any():
        return
    was_shared, _ = find_shared(_lists_before(scene, arm)[0])
    hit, less = is_shared & ~was_shared, int((was_shared & ~is_shared).sum())
    count = int(hit.sum())
    # Two models' lists differ in more than what one run adds to another.
    least = _LEAST_USERS if scene.changes is not None else 2 * _LEAST_USERS
    is_sure = count - less >= max(least, _MORE * math.sqrt(count + less))
    found = [Suspicion(kind=FaultKind.SHARED_LIST, arm=arm, hit=hit)] if is_sure else []
    # A few more a day are many in the end, while each day adds next to nobody.
    found += _exceed(scene, arm, Habit.SHARED) if scene.bins else ()
    if found:
        most = max(found, key=lambda each: int(each.hit.sum()))
        lists = group[most.hit]
        first = int(np.argmax(most.hit & (group == np.bincount(lists).argmax())))
        detail = {
            "lists": float(len(np.unique(lists))),
            "popular": _popularity(codes[first], scene, arm),
        }
        yield replace(most, kind=FaultKind.SHARED_LIST, detail=detail)


def _popularity(codes: Codes, scene: Scene, arm: Arm) -> float:
    """Share of these items that are among the most listed ones: of the arm before, else of the other arm."""
    others, _ = _lists_before(scene, arm)
    items, counts = np.unique(others[others >= 0], return_counts=True)
    most = items[np.argsort(-counts, kind="stable")[: 2 * codes.size]]
    return float(np.isin(codes[codes >= 0], most).mean())


def _are_identical(changes: PairChanges) -> Iterator[Suspicion]:
    """Users who get the other arm's list and did not before, in the arm whose own lists changed more."""
    baseline, candidate = changes.lists.values()
    is_equal = (baseline.present == candidate.present).all(axis=1) & (baseline.lengths > 0)
    was_equal = (baseline.former == candidate.former).all(axis=1)
    hit = is_equal & ~was_equal & changes.is_known
    count, less = int(hit.sum()), int((was_equal & ~is_equal & changes.is_known).sum())
    if count - less >= max(_LEAST_USERS, _MORE * math.sqrt(count + less)):
        moved = [
            (1 - lists.kept[hit] + lists.turned[hit]).mean() for lists in (baseline, candidate)
        ]
        arm = Arm.BASELINE if moved[0] > moved[1] else Arm.CANDIDATE
        yield Suspicion(kind=FaultKind.IDENTICAL, arm=arm, hit=hit, judged=changes.is_known)


def _are_cut_short(scene: Scene, arm: Arm) -> Iterator[Suspicion]:
    """Users whose lists are shorter than they were, or without a past than the other arm's."""
    (_, lengths), (_, usual) = scene.batch.of(arm), _lists_before(scene, arm)
    hit, less = (lengths < usual) & (lengths > 0), int(((lengths > usual) & (usual > 0)).sum())
    if (count := int(hit.sum())) - less >= max(_LEAST_USERS, _MORE * math.sqrt(count + less)):
        detail = {"now": float(np.median(lengths[hit])), "before": float(np.median(usual[hit]))}
        yield Suspicion(kind=FaultKind.CUT_SHORT, arm=arm, hit=hit, judged=usual > 0, detail=detail)


def _stand_still(scene: Scene, changes: PairChanges, arm: Arm) -> Iterator[Suspicion]:
    """Users whose lists are those of the last run, while most others' are not."""
    for found in _exceed(scene, arm, Habit.STILL):
        # An arm may never have changed; and where nobody's lists did, there was nothing to change
        # them for.
        if (
            arm in scene.habits
            and min(changes.is_still[each][changes.is_known].mean() for each in Arm) < _MOSTLY
        ):
            yield replace(found, kind=FaultKind.STALE)


def _lack_items(scene: Scene, changes: PairChanges, arm: Arm) -> Iterator[Suspicion]:
    """Users whose former lists held items that nobody is shown any more."""
    lists, others = changes.lists[arm], changes.lists[arm.other]
    (gone, share), (_, usual) = lists.gone, others.gone
    if share < _LEAST_GONE + 3 * usual or len(gone) < 2:  # noqa: PLR2004 - one item leaves every day
        return
    is_gone = np.isin(lists.former, gone)
    # Who lost more beside them has other lists for another reason.
    left = np.maximum(1, lists.former_lengths - is_gone.sum(axis=1))
    kept_else = float(np.nanmean((lists.kept * lists.former_lengths / left).clip(0, 1)))
    if kept_else >= 0.8 * _usually_kept(scene, arm, float(np.nanmean(others.kept))):
        detail = {"items": float(len(gone)), "exposure": share}
        hit = np.asarray(is_gone.any(axis=1))
        yield Suspicion(
            kind=FaultKind.ITEMS_GONE, arm=arm, hit=hit, judged=changes.is_known, detail=detail
        )


def _usually_kept(scene: Scene, arm: Arm, otherwise: float) -> float:
    usual = scene.habits.get(arm, {}).get(Habit.REPLACED)
    return otherwise if usual is None else 1 - float(np.arange(len(usual)) @ np.array(usual)) / 10


def _are_replaced(scene: Scene, changes: PairChanges, arm: Arm) -> Iterator[Suspicion]:
    """Users who were shown other items than the arm is used to change: somebody else's, nobody's, or others."""
    for found in _exceed(scene, arm, Habit.REPLACED):
        kind = judge_lists(changes.lists[arm], found.hit)
        # Lists of nobody's own lie far out; where others lie is not known.
        yield replace(
            found, kind=kind, habit=Habit.MOVED if kind is FaultKind.REPLACED else found.habit
        )


def _are_turned(scene: Scene, _: PairChanges, arm: Arm) -> Iterator[Suspicion]:
    """Users whose items stand in another order than the arm is used to change, all of them or the first three."""
    both = {
        habit: found
        for habit in (Habit.TURNED, Habit.TOP_TURNED)
        for found in _exceed(scene, arm, habit)
    }
    if both:
        # Only whose first three items are the same ones can have them turned.
        habit = max(
            both, key=lambda each: both[each].hit.sum() / (scene.bins[arm][each] >= 0).sum()
        )
        yield replace(both[habit], detail={"top": float(habit is Habit.TOP_TURNED)})


def _exceed(scene: Scene, arm: Arm, habit: Habit) -> Iterator[Suspicion]:
    """Users whose lists lie beyond the arm's habit, of all or else of the segment that has most; none where none do."""
    bins = scene.bins[arm][habit]
    found = [(ALL, find_excess(bins, _usual(scene, arm, habit)))]
    if found[0][1] is None:
        # A few users among many that look alike stand out only among their own, whose lists change
        # by a habit of theirs.
        largest = sorted(scene.segments.items(), key=lambda entry: (-len(entry[1]), entry[0]))[
            :_SEARCHED
        ]
        found = [
            (name, find_excess(bins[rows], _usual(scene, arm, habit, rows)))
            for name, rows in largest
        ]
    segment, excess = max(
        found, key=lambda each: each[1].beyond * len(scene.segments[each[0]]) if each[1] else 0
    )
    if excess is not None:
        hit = np.zeros(len(bins), dtype=np.bool_)
        hit[scene.segments[segment]] = bins[scene.segments[segment]] >= excess.least
        usual, place = excess.usual, None if segment == ALL else segment
        yield Suspicion(
            kind=FaultKind.REORDERED,
            arm=arm,
            hit=hit,
            judged=bins >= 0,
            usual=usual,
            habit=habit,
            segment=place,
        )


def _usual(scene: Scene, arm: Arm, habit: Habit, rows: Rows | None = None) -> tuple[float, ...]:
    """How the arm's own lists change from run to run, or where that is unknown (as of ``rows``) the other arm's in this run."""
    own, others = scene.habits.get(arm, {}).get(habit), scene.bins[arm.other][habit]
    if own is None:
        own = share_bins(others)
    elif scene.is_older:
        # Over more than one run lists change more, as the other arm's do.
        own = widest(own, share_bins(others))
    return own if rows is None else widest(own, share_bins(others[rows]))


def _tell(suspicion: Suspicion, scene: Scene) -> Finding:
    """The finding that a suspicion amounts to: where, how many, and what it explains."""
    judged, segments = suspicion.judged, scene.segments
    # Who cannot be judged is taken to be as others are.
    known = (
        segments
        if judged is None
        else {name: rows[judged[rows]] for name, rows in segments.items()}
    )
    segment = suspicion.segment or find_place(suspicion.hit, suspicion.usual, known)
    rows, seen = rows_of_place(segment, segments), rows_of_place(segment, known)
    if (
        suspicion.kind is FaultKind.REORDERED
        and suspicion.habit is Habit.TURNED
        and _has_replaced(suspicion.hit, scene)
    ):
        suspicion = replace(suspicion, kind=FaultKind.REPLACED, habit=Habit.MOVED)
    share = (
        float(suspicion.hit[seen].mean())
        if suspicion.habit is None
        else _estimate(suspicion.habit, suspicion, scene, seen)
    )
    users = (
        float(suspicion.hit.sum()) * len(scene.batch) / len(known[ALL])
        if suspicion.habit is None
        else share * len(rows)
    )
    concerned = (
        np.isin(np.arange(len(scene.batch)), rows) if share >= _NEARLY_ALL else suspicion.hit
    )
    if share < _NEARLY_ALL and suspicion.habit is Habit.MOVED:
        farthest = rows[np.argsort(-scene.bins[suspicion.arm][Habit.MOVED][rows], kind="stable")][
            : round(users)
        ]
        concerned = np.isin(np.arange(len(scene.batch)), farthest)
    return Finding(
        kind=suspicion.kind,
        arms=(suspicion.arm,),
        segment=segment,
        segment_share=share,
        users=round(users),
        compared=len(scene.batch),
        explained=_explain(concerned, scene, is_order=suspicion.kind is FaultKind.REORDERED),
        detail=suspicion.detail,
        is_exact=bool(suspicion.hit[seen].all() and suspicion.hit.sum() == len(seen)),
    )


def _estimate(habit: Habit, suspicion: Suspicion, scene: Scene, rows: Rows) -> float:
    """Share of these users that were hit, from how their lists differ by the habit."""
    bins = scene.bins[suspicion.arm][habit][rows]
    usual = _usual(scene, suspicion.arm, habit, None if suspicion.segment is None else rows)
    excess = find_excess(bins, usual) if habit in {Habit.REPLACED, Habit.TURNED} else None
    # Strangers' lists lie beyond, and lists in a wholly other order where the usual ones would if
    # they were reversed.
    if excess is not None and (habit is Habit.REPLACED or excess.reversed >= _APART):
        return excess.beyond
    share = max(least_share(bins, usual), float(suspicion.hit[rows].mean()) - suspicion.usual)
    # Three items that were put in another order stand as before where they had turned by
    # themselves, as far as any do.
    stood, turned = sum(usual[:1]), sum(usual[_FAR:]) / _FAR_ORDERS
    return (
        min(1.0, share * stood / (stood - turned))
        if habit is Habit.TOP_TURNED and stood > _FAR * turned
        else share
    )


def _has_replaced(concerned: Flags, scene: Scene) -> bool:
    """Whether a drop is more of other items than of another order where these users' lists turned."""
    if scene.changes is None or scene.drop is None:
        return False
    membership, order = (
        np.nansum(each[concerned])
        for each in (scene.changes.parts.membership, scene.changes.parts.order)
    )
    return bool(membership > order)


def _explain(concerned: Flags, scene: Scene, *, is_order: bool) -> float | None:
    """Share of the drop that these users' lists (or their order) add beyond what others' do, 0 to 1; None without a drop."""
    if scene.changes is None or scene.drop is None:
        return None
    moved = scene.changes.parts.order if is_order else scene.changes.parts.whole
    is_known = ~np.isnan(moved)
    ours, others = moved[is_known & concerned], moved[is_known & ~concerned]
    if not len(ours):
        return 0.0
    beyond = float(ours.mean() - (others.mean() if len(others) else 0.0))
    return min(1.0, max(0.0, beyond * len(ours) / (int(is_known.sum()) * scene.drop)))


def _has_stood(scene: Scene, finding: Finding, suspects: Collection[Arm]) -> bool | None:
    others = [arm for arm in Arm if arm not in finding.arms]
    if scene.changes is None or len(others) != 1 or others[0] in suspects:
        return None
    if scene.changes.lists[others[0]].is_same[scene.changes.is_known].mean() >= _STOOD:
        return True
    return False if others[0] in scene.habits else None


def _lists_before(scene: Scene, arm: Arm) -> tuple[Codes, Codes]:
    """The arm's lists in the earlier run, or without a past the other arm's."""
    if scene.changes is None:
        return scene.batch.of(arm.other)
    lists = scene.changes.lists[arm]
    return lists.former, lists.former_lengths
