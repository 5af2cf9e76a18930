"""Put an explanation together: of one metric in one run against the same users' earlier lists, or against earlier means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from monitor.attribution.causes import find_leader, rank_causes, rows_of_place
from monitor.attribution.changes import PairChanges
from monitor.attribution.decomposition import WITHIN, MeanDrop, bound_drop, decompose_all
from monitor.attribution.faults import Scene, find_fault
from monitor.attribution.groups import Group, classify, group_users
from monitor.attribution.habits import Habit, bin_lists
from monitor.attribution.item_shifts import ExposureShift, compare_exposure
from monitor.attribution.parts import Parts, average_parts
from monitor.attribution.sentences import (
    LONGEST_SENTENCE,
    UNEXPLAINED,
    WITHOUT_LISTS,
    is_clear,
    write_distance,
    write_finding,
    write_sentence,
)
from monitor.model import ALL, Arm, Cause, Change, CoverageRow, Finding, PairBatch, PartMeans
from monitor.model.arrays import Integers, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedExplanation:
    """Why a mean fell, with items as codes and users as rows: one sentence, and what stands behind it.

    ``finding``: what happened, None where no kind of fault stands out. ``segment``: its own, else the one that leads the drop,
    ``all`` when none does. ``items`` by code and ``groups`` (rows of the batch) are of its users, of all when none of these has
    lists. ``arm``: whose items of then and now these are; None where they are the baseline's and the candidate's. ``causes``
    are the drop in ranked pieces that sum to it; ``drops`` the drop over each dimension; ``bounds`` of `bound_drop`.
    """

    sentence: str
    segment: str
    causes: tuple[Cause, ...]
    drops: tuple[MeanDrop, ...]
    bounds: tuple[float, float]
    items: ExposureShift
    groups: tuple[Group, ...]
    finding: Finding | None = None
    arm: Arm | None = None

    @property
    def drop(self) -> MeanDrop:
        """The drop over the dimension that explains most of it."""
        return self.drops[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRun:
    """One metric in this run: its pairs, their parts, rows by segment (``all`` among them), and the means by segment.

    ``changes``: how users' lists changed since an earlier run, where their lists of then are known, and in which bin of each
    habit each of these users lies; ``is_older``: whether other runs lie between.
    """

    batch: PairBatch
    parts: Parts
    segments: Mapping[str, Rows]
    means: Sequence[PartMeans]
    coverage: tuple[CoverageRow, ...] = ()
    changes: PairChanges | None = None
    bins: Mapping[Arm, Mapping[Habit, Integers]] = field(default_factory=dict)
    is_older: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """What earlier healthy runs left: means of the parts, kinds of change by segment, and habits by arm, pooled."""

    means: Sequence[PartMeans]
    kinds: Mapping[str, Mapping[Change, float]] = field(default_factory=dict)
    habits: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What sets lists apart, without a past to hold it against: one sentence, and items and groups of all users."""

    sentence: str
    items: ExposureShift
    groups: tuple[Group, ...]


def describe_difference(present: CurrentRun, *, top: int = 10, examples: int = 10) -> Difference:
    """What sets the two arms' lists apart in this run; ``top`` and ``examples`` as in `explain`."""
    batch, rows = present.batch, present.segments[ALL]
    total = next((row for row in present.means if row.segment == ALL), None)
    return Difference(
        sentence=write_distance(total),
        items=compare_exposure(batch.baseline, batch.candidate, top),
        groups=group_users(classify(batch), present.parts, rows, medoids=examples),
    )


def bin_changes(changes: PairChanges) -> dict[Arm, dict[Habit, Integers]]:
    """In which bin of each habit the users of the changes lie, by arm."""
    return {arm: bin_lists(lists, changes.is_still[arm]) for arm, lists in changes.lists.items()}


def explain_metric(
    present: CurrentRun, past: PastRuns, *, farthest: float = math.inf, top: int = 10, examples: int = 10
) -> CodedExplanation | None:
    """The explanation of one metric's drop; None when either side has no user whose parts are known.

    The drop is that since the earlier lists where ``present`` knows of changes, else since the means of ``past``. ``farthest``:
    the metric's greatest distance from identical lists, infinite where it has none. ``top``: items listed that gained and that
    lost; ``examples``: medoids of a kind of change.
    """
    paired, before = _hold_against_pairs(present)
    drops = decompose_all(present.means, before or past.means, paired)
    if not drops:
        return None
    drop = drops[0]
    scene = _draw_scene(present, past, drop)
    finding, has_stood = find_fault(scene) or (None, None)
    leader = find_leader(drop)
    segment = finding.segment if finding is not None else ALL if leader is None else leader.segment
    rows, kinds = rows_of_place(segment, present.segments), classify(present.batch)
    # Those of whom nobody has lists cannot be shown.
    rows = rows if len(rows) else present.segments[ALL]
    arm = _changed_arm(present.changes, finding)
    items = _compare_items(present, rows, arm, top)
    if finding is None:
        left = items.left if leader is None or leader.segment in present.segments else 0
        sentence = write_sentence(drop, leader, left=left)
    else:
        sentence = write_finding(finding, drop, has_stood=has_stood)
    if present.changes is None and len(sentence) + len(WITHOUT_LISTS) < LONGEST_SENTENCE:
        sentence = f"{sentence} {WITHOUT_LISTS}"
    elif present.changes is not None and finding is None and is_clear(drop) and rank_causes(drop, leader)[0].part in WITHIN:
        sentence = f"{UNEXPLAINED} {sentence}"
    return CodedExplanation(
        sentence=sentence,
        segment=segment,
        causes=rank_causes(drop, leader),
        drops=drops,
        bounds=bound_drop(drop, present.means[0], farthest),
        items=items,
        groups=group_users(kinds, present.parts, rows, before=past.kinds.get(segment), medoids=examples),
        finding=finding,
        arm=arm,
    )


def _hold_against_pairs(present: CurrentRun) -> tuple[tuple[PartMeans, ...], tuple[PartMeans, ...]] | tuple[None, None]:
    """Means by segment over the users of the changes, now and before, whose difference is the mean change; None without any."""
    changes = present.changes
    if changes is None:
        return None, None
    is_known = ~np.isnan(changes.parts.whole + present.parts.whole[changes.rows])
    place = np.full(len(present.batch), -1)
    place[changes.rows[is_known]] = np.flatnonzero(is_known)
    among = {name: found[found >= 0] for name, rows in present.segments.items() if len(found := place[rows])}
    change = average_parts(changes.parts, among, {})
    now = average_parts(present.parts.take(changes.rows), among, {})
    # The error of a mean change is that of the changes: who lies far apart does so in both runs.
    paired = tuple(replace(row, spread=moved.spread) for row, moved in zip(now, change, strict=True))
    before = tuple(
        replace(
            row,
            membership=row.membership - moved.membership,
            order=row.order - moved.order,
            length=row.length - moved.length,
            spread=0.0,
        )
        for row, moved in zip(now, change, strict=True)
    )
    return paired, before


def _draw_scene(present: CurrentRun, past: PastRuns, drop: MeanDrop) -> Scene:
    """What hypotheses on the drop are tested on."""
    distance = present.parts.whole.copy()
    if present.changes is not None:
        distance[:] = np.nan
        distance[present.changes.rows] = present.changes.parts.whole
    return Scene(
        batch=present.batch,
        segments=present.segments,
        distance=distance,
        drop=drop.whole if is_clear(drop) else None,
        changes=present.changes,
        bins=present.bins,
        is_older=present.is_older,
        habits=past.habits,
        coverage=present.coverage,
        before=tuple(past.means),
    )


def _changed_arm(changes: PairChanges | None, finding: Finding | None) -> Arm | None:
    """The arm that the finding names, else that which changed the distance more; None where no changes are known."""
    if changes is None:
        return None
    if finding is not None and finding.arms:
        return finding.arms[0]
    return max(reversed(Arm), key=lambda arm: abs(float(np.nansum(changes.by_arm[arm].whole))))


def _compare_items(present: CurrentRun, rows: Rows, arm: Arm | None, top: int) -> ExposureShift:
    """Items of these users that gained and lost, from then to now in the arm that changed, else from arm to arm."""
    if arm is None or present.changes is None:
        batch = present.batch.take(rows)
        return compare_exposure(batch.baseline, batch.candidate, top)
    is_shown = np.isin(present.changes.rows, rows)
    lists = present.changes.lists[arm]
    return compare_exposure(lists.former[is_shown], lists.present[is_shown], top)
