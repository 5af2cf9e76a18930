"""Put an explanation together: of one metric in one run against runs of the past."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from monitor.attribution.causes import find_leader, narrow, rank_causes
from monitor.attribution.decomposition import MeanDrop, SegmentDrop, decompose_all
from monitor.attribution.groups import Group, classify, group_users
from monitor.attribution.item_shifts import ExposureShift, compare_exposure
from monitor.attribution.parts import Parts
from monitor.attribution.rises import Missing, Rises, bound_missing, find_rises
from monitor.attribution.sentences import write_distance, write_sentence
from monitor.model import ALL, Cause, Change, PairBatch, PartMeans
from monitor.model.arrays import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedExplanation:
    """Why a mean fell, with items as codes and users as rows: one sentence, and what stands behind it.

    ``segment``: the one that leads, or two joined by `AND`, ``all`` when none does; ``items`` (by code, from baseline to
    candidate) and ``groups`` (rows of the batch) are of its users, of all when none of its has lists. ``causes`` are the drop
    in ranked pieces that sum to it; ``drops`` the drop over each dimension, ``drop`` the first of them.
    """

    sentence: str
    segment: str
    causes: tuple[Cause, ...]
    drops: tuple[MeanDrop, ...]
    missing: Missing
    rises: Mapping[Change, Rises]
    items: ExposureShift
    groups: tuple[Group, ...]

    @property
    def drop(self) -> MeanDrop:
        """The drop over the dimension that explains most of it."""
        return self.drops[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRun:
    """One metric in this run: its pairs, their parts, rows by segment (``all`` among them), and the means by segment."""

    batch: PairBatch
    parts: Parts
    segments: Mapping[str, Rows]
    means: Sequence[PartMeans]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """What earlier healthy runs left: means of the parts, pooled, and shares of the kinds of change by segment."""

    means: Sequence[PartMeans]
    kinds: Mapping[str, Mapping[Change, float]] = field(default_factory=dict)


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


def explain_metric(
    present: CurrentRun, past: PastRuns, *, farthest: float = math.inf, top: int = 10, examples: int = 10
) -> CodedExplanation | None:
    """The explanation of one metric's drop; None when either side has no user whose parts are known.

    ``farthest``: the metric's greatest distance from identical lists, infinite where it has none. ``top``: items listed that
    gained and that lost; ``examples``: medoids of a kind of change.
    """
    drops = decompose_all(present.means, past.means)
    missing = bound_missing(present.means, past.means, farthest=farthest)
    if not drops or missing is None:
        return None
    drop = drops[0]
    leader, users, rows = _find_users(drop, present, past)
    batch, kinds = present.batch.take(rows), classify(present.batch)
    items = compare_exposure(batch.baseline, batch.candidate, top)
    segment = ALL if leader is None else leader.segment
    rises = find_rises(kinds, present.segments, past.kinds)
    left = items.left if users == segment else 0
    return CodedExplanation(
        sentence=write_sentence(drop, leader, left=left, rises=rises, missing=missing, farthest=farthest),
        segment=segment,
        causes=rank_causes(drop, leader),
        drops=drops,
        missing=missing,
        rises=rises,
        items=items,
        groups=group_users(kinds, present.parts, rows, before=past.kinds.get(users), medoids=examples),
    )


def _find_users(drop: MeanDrop, present: CurrentRun, past: PastRuns) -> tuple[SegmentDrop | None, str, Rows]:
    """The segment that leads, as narrow as can be, and the users to look at: its own by name and rows, or else all."""
    leader = find_leader(drop)
    if leader is None or not len(rows := present.segments.get(leader.segment, _NOBODY)):
        return leader, ALL, present.segments[ALL]
    narrowed = narrow(leader, present.parts, present.segments, past.means)
    if narrowed is None:
        return leader, leader.segment, rows
    return narrowed.drop, narrowed.drop.segment, narrowed.rows


_NOBODY: Rows = np.empty(0, dtype=np.intp)
