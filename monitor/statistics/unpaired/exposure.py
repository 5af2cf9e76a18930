"""Finds the items that one arm lists more often than the other arm."""

from collections.abc import Callable

import numpy as np

from monitor.model.rankings import Arm
from monitor.model.unpaired import ItemExposure
from monitor.statistics.unpaired.between import ListCounts

MOST_EXPOSED_ITEMS = 50


def find_moved_items(
    baseline: ListCounts,
    candidate: ListCounts,
    name: Callable[[int], str] = str,
    most: int = MOST_EXPOSED_ITEMS,
) -> tuple[ItemExposure, ...]:
    """The items whose exposure differs most between the arms, the largest difference first.

    The arms are compared by the share of lists with the item, and by the share of lists with the
    item in the first place. The larger difference counts. Items with equal differences are ordered
    by code. Items without a difference are left out, so the result may have fewer than ``most``
    items. The result is empty if an arm has no users. ``name`` returns the id of a code.
    """
    if not baseline.users or not candidate.users:
        return ()
    arms = (baseline, candidate)
    lists = np.stack([arm.counts.sum(axis=1) for arm in arms])
    firsts = np.stack([arm.counts[:, 0] for arm in arms])
    # The differences of shares are multiplied by the numbers of users of both arms. So they are
    # whole numbers, without rounding errors.
    of_lists = lists[0] * candidate.users - lists[1] * baseline.users
    of_firsts = firsts[0] * candidate.users - firsts[1] * baseline.users
    difference = np.maximum(np.abs(of_lists), np.abs(of_firsts))
    order = np.argsort(-difference, kind="stable")[:most]
    moved = []
    for code in order[difference[order] > 0].tolist():
        item = ItemExposure(
            item=name(code),
            lists=dict(zip(Arm, lists[:, code].tolist(), strict=True)),
            first=dict(zip(Arm, firsts[:, code].tolist(), strict=True)),
        )
        moved.append(item)
    return tuple(moved)
