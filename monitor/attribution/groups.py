"""Kinds of change: every pair falls into one by a fixed rule, and its most central users stand for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from monitor.attribution.parts import Parts
from monitor.kernels import blocks
from monitor.model import Change, ExampleLists, PairBatch, UserGroup
from monitor.model.arrays import Rows

Kinds: TypeAlias = npt.NDArray[np.int8]


CHANGES = tuple(Change)


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
    """Share of the users in each kind of change, none left out."""
    counts = np.bincount(kinds, minlength=len(CHANGES))
    return {change: int(count) / max(1, len(kinds)) for change, count in zip(CHANGES, counts, strict=True)}


def group_users(
    kinds: Kinds,
    parts: Parts,
    rows: Rows,
    *,
    before: Mapping[Change, float] | None = None,
    show: Callable[[int], ExampleLists],
    examples: int = 1,
) -> tuple[UserGroup, ...]:
    """Groups of these rows by kind of change; those that grew most first where ``before`` is known, else those that add most.

    Growth is measured in distance: growth of the share times the group's mean distance. Users whose parts are unknown belong to
    no group, but count among all users. ``show``: the lists of a row, of the ``examples`` most central users of each group.
    """
    known = rows[~np.isnan(parts.whole[rows])]
    found = {change: known[kinds[known] == place] for place, change in enumerate(CHANGES)}
    groups = [
        UserGroup(
            change=change,
            users=len(own),
            share=len(own) / len(rows),
            share_before=None if before is None else before[change],
            distance=float(parts.whole[own].sum()) / len(rows),
            examples=tuple(show(int(row)) for row in own[find_central(parts, own)[:examples]]),
        )
        for change, own in found.items()
        if len(own)
    ]

    def grown(group: UserGroup) -> float:
        # By distance: otherwise a reorder of everybody would hide replaced lists.
        return group.distance * (1 - (group.share_before or 0.0) / group.share)

    return tuple(sorted(groups, key=lambda group: (-grown(group), CHANGES.index(group.change))))


def find_central(parts: Parts, rows: Rows) -> Rows:
    """Places in ``rows``, first of the users whose parts lie nearest to the median of each part; equals go by place."""
    values = np.column_stack([parts.membership[rows], parts.order[rows], parts.length[rows]])
    # Rounded, so that equal distances stay equal.
    return np.argsort(np.round(np.abs(values - np.median(values, axis=0)).sum(axis=1), 9), kind="stable")
