"""A changed spelling of ids, told from other items: what became of a fault whose new items are old ones in other words."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from monitor.attribution.changes import PairChanges
from monitor.attribution.decomposition import find_place, rows_of_place
from monitor.attribution.hypotheses import Scene
from monitor.kernels.exposure import distinct_items
from monitor.model.explanation import FaultKind, Finding
from monitor.model.id_mismatches import IdKind, IdMismatch
from monitor.model.rankings import ALL, Arm
from monitor.pairing.id_mismatches import find_mismatch

_OF_ITEMS = (FaultKind.NOISE, FaultKind.MIXED_UP, FaultKind.REPLACED, FaultKind.ITEMS_GONE)
"""What a changed spelling looks like while nobody reads the ids."""
_MOST = 0.5


def find_respelled(
    scene: Scene,
    finding: Finding | None,
    name: Callable[[int], str],
    between_arms: Sequence[IdMismatch],
) -> Finding | None:
    """The same finding as a changed spelling where that is what happened.

    ``between_arms``: what is odd in this run.
    """
    if finding is not None and finding.kind not in _OF_ITEMS:
        return None
    if scene.changes is not None:
        for arm in finding.arms if finding is not None else Arm:
            found = _respelled_since(scene, scene.changes, arm, finding, name)
            if found is not None:
                return found
    spelling = next(
        (each for each in between_arms if each.is_spelling and each.ids is IdKind.ITEM), None
    )
    if spelling is None:
        return None
    users = len(scene.batch)
    everybody = Finding(
        kind=FaultKind.RESPELLED,
        arms=tuple(Arm),
        segment=ALL,
        segment_share=1.0,
        users=users,
        compared=users,
        spelling=spelling,
    )
    # What is no cause of a drop cannot be one because the arms differ, too.
    return everybody if finding is None else replace(everybody, explained=finding.explained)


def _respelled_since(
    scene: Scene,
    changes: PairChanges,
    arm: Arm,
    finding: Finding | None,
    name: Callable[[int], str],
) -> Finding | None:
    """The arm's new items and those that it no longer shows, if most of them are the same in another spelling."""
    lists = changes.lists[arm]
    rows = (
        scene.segments[ALL] if finding is None else rows_of_place(finding.segment, scene.segments)
    )
    rows = rows[changes.is_known[rows]]
    new = np.setdiff1d(
        distinct_items(lists.present[rows]), distinct_items(lists.former), assume_unique=True
    )
    old = np.setdiff1d(
        distinct_items(lists.former[rows]), distinct_items(lists.present[rows]), assume_unique=True
    )
    if not len(new) or not len(old):
        return None
    spelling = find_mismatch(
        [name(code) for code in old.tolist()],
        [name(code) for code in new.tolist()],
        IdKind.ITEM,
        common=0,
        is_many=False,
    )
    if (
        spelling is None
        or not spelling.is_spelling
        or spelling.would_match < _MOST * spelling.tried
    ):
        return None
    others = np.isin(lists.present, new).sum(axis=1)
    hit = changes.is_known & (2 * others > lists.lengths)
    if not hit.any():
        return None
    segment = find_place(hit, 0.0, scene.segments)
    of_segment = hit[rows_of_place(segment, scene.segments)]
    return Finding(
        kind=FaultKind.RESPELLED,
        arms=(arm,),
        segment=segment,
        segment_share=float(of_segment.mean()),
        users=int(hit.sum()),
        compared=len(scene.batch),
        explained=None if finding is None else finding.explained,
        is_exact=bool(of_segment.all() and of_segment.sum() == hit.sum()),
        spelling=spelling,
    )


def hide_examples(mismatches: Sequence[IdMismatch]) -> tuple[IdMismatch, ...]:
    """The same without ids of items."""
    return tuple(each.without_examples if each.ids is IdKind.ITEM else each for each in mismatches)
