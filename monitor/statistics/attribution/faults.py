"""Finds what happened to lists: the fault that explains a drop best, or users without a list."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from monitor.model.arrays import Flags, Rows
from monitor.model.explanation import FaultKind, Finding
from monitor.model.rankings import ALL, Arm, CoverageReason, CoverageRow
from monitor.statistics.attribution.decomposition import find_place, rows_of_place
from monitor.statistics.attribution.habits import Habit, find_excess, least_share
from monitor.statistics.attribution.hypotheses import (
    Scene,
    Suspicion,
    find_suspicions,
    usual_shares,
)

# Users without a list are reported if they exceed the usual number by this share of all users.
_LEAST_LOST = 0.005
# They must also exceed it by this many standard deviations.
_SURE = 4.0
# A segment is named if it contains at least this share of the users without a list.
_IN_SEGMENT = 0.8

# A more specific kind is reported if it explains at least this share of what the best kind
# explains.
_AS_GOOD = 0.5
# Users without a list are reported instead of a fault that explains less than this share of the
# drop.
_OUTWEIGHS_MISSING = 0.5
# If a fault explains less than this share of the drop, it explains nothing.
_LEAST_EXPLAINED = 0.005
# The other arm has the fault too if its finding explains at least this share of what the best
# finding explains.
_WORTH_NAMING = 0.02
# A worse model causes these kinds too.
_MODEL_KINDS = {FaultKind.REPLACED, FaultKind.REORDERED}
# Two arms have the same fault if their numbers of hit users differ by at most this factor.
_ALIKE = 6
# An arm did not change if at least this share of its lists is unchanged. A few users always get
# new lists.
_UNCHANGED = 0.99
# If at least this share of the users seems to be hit, we assume that all of them are.
_NEARLY_ALL = 0.8
# If this share of usual lists would be outliers when reversed, all reversed lists are outliers.
_APART = 0.95


def find_missing(coverage: Sequence[CoverageRow], usual: float | None) -> Finding | None:
    """The users without a list, in the arm with most of them.

    None if their share hardly exceeds the ``usual`` share. An unknown usual share is taken as 0.
    """
    rows = {row.segment: row for row in coverage}
    everybody = rows.get(ALL)
    if everybody is None or not everybody.asked:
        return None
    arm = max(Arm, key=partial(_count_lost, everybody))
    lost_by_segment = {name: _count_lost(row, arm) for name, row in rows.items()}
    lost = lost_by_segment[ALL]
    users = everybody.asked
    expected = (usual or 0.0) * users
    if lost - expected < max(5, _LEAST_LOST * users, _SURE * math.sqrt(expected)):
        return None

    def evidence(name: str) -> tuple[float, str]:
        lost_there = lost_by_segment[name]
        return lost_there / lost * (lost_there / rows[name].asked), name

    names = [name for name, row in rows.items() if name != ALL and row.asked]
    likeliest = max(names, key=evidence, default=ALL)
    in_segment = lost_by_segment[likeliest] / lost
    share = lost_by_segment[likeliest] / rows[likeliest].asked
    is_place = likeliest != ALL and in_segment >= _IN_SEGMENT and share >= 1.5 * lost / users
    segment = likeliest if is_place else ALL
    detail = {"empty": rows[ALL].users_by_reason.get((arm, CoverageReason.EMPTY), 0) / lost}
    if usual is not None:
        detail["before"] = usual
    return Finding(
        kind=FaultKind.MISSING,
        arms=tuple(each for each in Arm if _count_lost(everybody, each) >= lost / 2),
        segment=segment,
        segment_share=lost_by_segment[segment] / rows[segment].asked,
        users=lost,
        compared=users,
        detail=detail,
        is_exact=is_place and in_segment == share == 1,
    )


def _count_lost(row: CoverageRow, arm: Arm) -> int:
    harmless = (CoverageReason.SHORT, CoverageReason.DUPLICATED)
    lost = 0
    for (reason_arm, reason), count in row.users_by_reason.items():
        if reason_arm is arm and reason not in harmless:
            lost += count
    return lost


def find_fault(scene: Scene) -> tuple[Finding, bool | None] | None:
    """The fault that explains best what happened. None if no hypothesis holds.

    The second value is about the other arm. It is True if that arm did not change, and False if it
    changed no more than usual. It is None if neither is true, or if this is not known.

    We report the most specific kind that explains at least half as much of the drop as the best
    kind. If the drop is not significant, or if no fault explains it, we compare numbers of users
    instead. Then kinds that a worse model causes too are reported only if there is no other kind.
    Only counts decide whether a hypothesis holds.

    More users than usual may be without a list. They are reported instead of a fault that explains
    less than half of the drop, or none of it. This needs a known usual share of such users.
    """
    suspicions = find_suspicions(scene)
    # All suspected arms, before covered suspicions are dropped.
    suspected = {suspicion.arm for suspicion in suspicions}
    suspicions = [each for each in suspicions if not _is_covered(each, suspicions)]
    findings = [_make_finding(suspicion, scene) for suspicion in suspicions]
    weigh = _explained
    if max(map(_explained, findings), default=0.0) < _LEAST_EXPLAINED:
        weigh = _share
        specific = [finding for finding in findings if finding.kind not in _MODEL_KINDS]
        findings = specific or findings
    finding = _select_finding(findings, weigh)
    if scene.usually_missing is not None:
        missing = find_missing(scene.coverage, scene.usually_missing)
        if missing is not None and (finding is None or _explained(finding) < _OUTWEIGHS_MISSING):
            finding = missing
    if finding is None:
        return None
    return finding, _is_other_arm_unchanged(scene, finding, suspected)


def _is_covered(suspicion: Suspicion, suspicions: Sequence[Suspicion]) -> bool:
    """Whether a more specific fault of the arm, such as shorter lists, explains these lists."""
    if suspicion.kind not in _MODEL_KINDS:
        return False
    for other in suspicions:
        is_specific = other.arm is suspicion.arm and other.kind not in _MODEL_KINDS
        if is_specific and other.hit[suspicion.hit].mean() >= _NEARLY_ALL:
            return True
    return False


def _select_finding(
    findings: Sequence[Finding], weigh: Callable[[Finding], float]
) -> Finding | None:
    """The most specific finding that is good enough. It names both arms if both have the fault."""
    if not findings:
        return None
    greatest = max(map(weigh, findings))
    candidates = [finding for finding in findings if weigh(finding) >= _AS_GOOD * greatest]
    kind = candidates[0].kind
    best = max((finding for finding in candidates if finding.kind is kind), key=weigh)
    kin = _MODEL_KINDS if kind in _MODEL_KINDS else {kind}
    for other in findings:
        if other.arms == best.arms or other.kind not in kin:
            continue
        is_alike = best.users <= _ALIKE * other.users <= _ALIKE**2 * best.users
        # For kinds that a worse model causes, it is less certain which segment has the users.
        is_there = other.segment == best.segment or kind in _MODEL_KINDS
        if is_alike and is_there and weigh(other) >= _WORTH_NAMING * greatest:
            return replace(best, arms=tuple(Arm))
    return best


def _explained(finding: Finding) -> float:
    return finding.explained or 0.0


def _share(finding: Finding) -> float:
    return finding.share


def _make_finding(suspicion: Suspicion, scene: Scene) -> Finding:
    """Find a suspicion's segment, its number of users, and how much of the drop it explains."""
    # Users that cannot be judged are assumed to behave like the others.
    judged_rows = {name: rows[suspicion.judged[rows]] for name, rows in scene.segments.items()}
    segment = suspicion.segment
    if segment == ALL:
        segment = find_place(suspicion.hit, suspicion.usual, judged_rows)
    rows = rows_of_place(segment, scene.segments)
    judged = rows_of_place(segment, judged_rows)
    if suspicion.habit is Habit.TURNED and _has_replaced(suspicion.hit, scene):
        suspicion = replace(suspicion, kind=FaultKind.REPLACED, habit=Habit.MOVED)
    if suspicion.habit is None:
        share = float(suspicion.hit[judged].mean())
        users = float(suspicion.hit.sum()) * len(scene.batch) / len(judged_rows[ALL])
    else:
        share = _estimate_share(suspicion.habit, suspicion, scene, judged)
        users = share * len(rows)
    likely_hit = _select_likely_hit(suspicion, scene, rows, share)
    is_order = suspicion.kind is FaultKind.REORDERED
    return Finding(
        kind=suspicion.kind,
        arms=(suspicion.arm,),
        segment=segment,
        segment_share=share,
        users=round(users),
        compared=len(scene.batch),
        explained=_explain(likely_hit, scene, is_order=is_order),
        detail=suspicion.detail,
        is_exact=bool(suspicion.hit[judged].all() and suspicion.hit.sum() == len(judged)),
    )


def _select_likely_hit(suspicion: Suspicion, scene: Scene, rows: Rows, share: float) -> Flags:
    """The users that were probably hit, (n,), if this ``share`` of the users in ``rows`` was hit.

    If nearly all were hit, we return all users in ``rows``. Habits other than `Habit.MOVED` show by
    themselves who was hit. How far a list moved does not show this: healthy lists move as far. But
    hit lists move farther on average. So the lists that moved farthest are the likeliest ones.
    """
    is_nearly_all = share >= _NEARLY_ALL
    if not is_nearly_all and suspicion.habit is not Habit.MOVED:
        return suspicion.hit
    likeliest = rows
    if not is_nearly_all:
        bins = scene.bins[suspicion.arm][Habit.MOVED][rows]
        likeliest = rows[np.argsort(-bins, kind="stable")][: round(share * len(rows))]
    hit = np.zeros(len(scene.batch), dtype=np.bool_)
    hit[likeliest] = True
    return hit


def _estimate_share(
    habit: Habit,
    suspicion: Suspicion,
    scene: Scene,
    rows: Rows,
) -> float:
    """Estimate which share of these users was hit, from how far their lists exceed the habit."""
    bins = scene.bins[suspicion.arm][habit][rows]
    searched = None if suspicion.segment == ALL else rows
    usual = usual_shares(scene, suspicion.arm, habit, searched)
    if habit in {Habit.REPLACED, Habit.TURNED}:
        excess = find_excess(bins, usual)
        # Lists of other users are always outliers. Reversed lists are outliers if usual lists
        # would be outliers when reversed.
        if excess is not None and (habit is Habit.REPLACED or excess.reversed >= _APART):
            return excess.beyond
    hit_share = float(suspicion.hit[rows].mean())
    share = max(least_share(bins, usual), hit_share - suspicion.usual)
    if habit is Habit.FIRST_MOVED:
        # A shuffle moves some items back to the first place. These users look healthy, so the share
        # is corrected for them: items are moved back as often as they are usually moved away.
        first, moved_away = usual[0], sum(usual[1:]) / 2
        if first > 2 * moved_away:
            return min(1.0, share * first / (first - moved_away))
    return share


def _has_replaced(hit: Flags, scene: Scene) -> bool:
    """Whether new items add more to the drop of these users than the changed order does."""
    if scene.changes is None or scene.drop is None:
        return False
    parts = scene.changes.parts
    from_new_items = np.nansum(parts.membership[hit])
    from_order = np.nansum(parts.order[hit])
    return bool(from_new_items > from_order)


def _explain(hit: Flags, scene: Scene, *, is_order: bool) -> float | None:
    """Share of the drop that the hit users explain, 0 to 1. None without a drop.

    Only the part of a hit user's change that exceeds the other users' mean change is used.
    """
    if scene.changes is None or scene.drop is None:
        return None
    parts = scene.changes.parts
    moved = parts.order if is_order else parts.total
    is_known = ~np.isnan(moved)
    hit_moved = moved[is_known & hit]
    other_moved = moved[is_known & ~hit]
    if not len(hit_moved):
        return 0.0
    beyond = hit_moved.mean()
    if len(other_moved):
        beyond -= other_moved.mean()
    share = float(beyond) * len(hit_moved) / (int(is_known.sum()) * scene.drop)
    return min(1.0, max(0.0, share))


def _is_other_arm_unchanged(
    scene: Scene,
    finding: Finding,
    suspected: Collection[Arm],
) -> bool | None:
    """Whether the arm without the fault returned the lists of the earlier run.

    True: nearly all its lists are unchanged. False: they changed no more than usual. None: its
    usual changes are not known, it may have a fault too, or both arms have this one.
    """
    other = finding.arms[0].other
    if scene.changes is None or len(finding.arms) > 1 or other in suspected:
        return None
    is_same = scene.changes.lists[other].is_same
    if is_same[scene.changes.is_known].mean() >= _UNCHANGED:
        return True
    return False if other in scene.habits else None
