"""Kinds of change: every pair falls into one by a fixed rule, and its most central users stand for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from monitor.attribution.parts import Parts
from monitor.kernels import blocks
from monitor.model import Change, PairBatch
from monitor.model.arrays import Floats, Rows

Kinds: TypeAlias = npt.NDArray[np.int8]


CHANGES = tuple(Change)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Users whose lists changed in the same way. ``share`` of the users, 0 to 1; ``share_before`` None where unknown.

    ``distance``: what they add to the mean distance of all users. ``medoids``: rows of those most like all others, best first.
    """

    change: Change
    users: int
    share: float
    share_before: float | None
    distance: float
    medoids: tuple[int, ...]


def classify(batch: PairBatch) -> Kinds:
    """Place in `CHANGES` of each pair's kind of change, int8 (n,): the first of these rules that holds.

    ``unchanged``: the same list; two empty lists are. ``replaced``: no item in common. ``cut_short``, ``lengthened``: the
    candidate's list is shorter, longer. ``mostly_replaced``: fewer than half of the items in common; ``partly_replaced``: at
    least half, not all. ``reordered``: the same items in another order. Costs an alignment, in blocks.
    """
    kinds = np.empty(len(batch), dtype=np.int8)
    for rows, alignment in blocks(batch):
        common, ours, theirs = alignment.common.astype(np.int64), alignment.baseline_lengths, alignment.candidate_lengths
        is_same = (batch.baseline[rows] == batch.candidate[rows]).all(axis=1)
        rules = {
            Change.UNCHANGED: is_same,
            Change.REPLACED: common == 0,
            Change.CUT_SHORT: theirs < ours,
            Change.LENGTHENED: theirs > ours,
            Change.MOSTLY_REPLACED: 2 * common < ours,
            Change.PARTLY_REPLACED: common < ours,
        }
        places = [CHANGES.index(change) for change in rules]
        kinds[rows] = np.select(list(rules.values()), places, CHANGES.index(Change.REORDERED))
    return kinds


def share_kinds(kinds: Kinds) -> dict[Change, float]:
    """Share of the users in each kind of change, none left out: what a run keeps of a segment for later ones."""
    counts = np.bincount(kinds, minlength=len(CHANGES))
    return {change: int(count) / max(1, len(kinds)) for change, count in zip(CHANGES, counts, strict=True)}


def pool_kinds(runs: Sequence[Mapping[str, Mapping[Change, float]]]) -> dict[str, dict[Change, float]]:
    """Mean shares by segment over the runs that hold the segment, runs counting alike."""
    by_segment: dict[str, list[Mapping[Change, float]]] = {}
    for run in runs:
        for segment, shares in run.items():
            by_segment.setdefault(segment, []).append(shares)
    return {
        segment: {change: math.fsum(shares.get(change, 0.0) for shares in found) / len(found) for change in Change}
        for segment, found in by_segment.items()
    }


def group_users(
    kinds: Kinds, parts: Parts, rows: Rows, *, before: Mapping[Change, float] | None = None, medoids: int = 1
) -> tuple[Group, ...]:
    """Groups of these rows by kind of change; those that grew most first where the past is known, else those that add most.

    Growth is measured in distance: growth of the share times the group's mean distance. Users whose parts are unknown belong to
    no group, but count among all users.
    """
    known = rows[~np.isnan(parts.whole[rows])]
    found = {change: known[kinds[known] == place] for place, change in enumerate(CHANGES)}
    groups = [
        Group(
            change=change,
            users=len(own),
            share=len(own) / len(rows),
            share_before=None if before is None else before.get(change, 0.0),
            distance=float(parts.whole[own].sum()) / len(rows),
            medoids=tuple(int(row) for row in own[find_medoids(parts, own, medoids)]),
        )
        for change, own in found.items()
        if len(own)
    ]
    # By distance: otherwise a reorder of everybody would hide replaced lists.
    grown = {group: group.distance * (1 - (group.share_before or 0.0) / group.share) for group in groups}
    return tuple(sorted(groups, key=lambda group: (-grown[group], CHANGES.index(group.change))))


def find_medoids(parts: Parts, rows: Rows, count: int) -> Rows:
    """Places in ``rows`` of the ``count`` users with the least sum of distances to all others of them; equals go by place.

    The distance of two users is the sum over the three parts of how far they lie apart: O(m log m) (medoid: Kaufman and
    Rousseeuw 1987).
    """
    # Sums of such distances come apart by part, so that sorting gives all of them exactly; others would cost O(m²).
    spread = sum(_sum_differences(values[rows]) for values in (parts.membership, parts.order, parts.length))
    # Rounded, so that equal sums stay equal whatever the order in which they were added.
    return np.argsort(np.round(spread, 9), kind="stable")[: max(0, count)]


def _sum_differences(values: Floats) -> Floats:
    """Sum of |x_i - x_j| over all j, for each i."""
    order = np.argsort(values, kind="stable")
    ordered, m = values[order], len(values)
    below = np.concatenate(([0.0], np.cumsum(ordered)))
    rank = np.arange(m)
    sums = np.empty(m)
    sums[order] = ordered * (2 * rank - m) + below[-1] - 2 * below[:-1]
    return sums
