"""Finds the items that one arm lists more often than the other arm."""

import numpy as np

from monitor.model.immutable import immutable
from monitor.statistics.unpaired.between import ListCounts

MOST_ITEMS = 50


@immutable
class CodeExposure:
    """How many lists of each arm have an item. The baseline is first."""

    code: int
    lists: tuple[int, int]
    firsts: tuple[int, int]  # lists with the item at the first place


def find_shifted(
    baseline: ListCounts, candidate: ListCounts, most: int = MOST_ITEMS
) -> tuple[CodeExposure, ...]:
    """The items whose exposure differs most between the arms, the largest difference first.

    An item's difference is that of its share of the arms' lists, or that of its share of first
    places. The larger one counts. Items with equal differences are ordered by code. Items without a
    difference are left out, so the result may have fewer than ``most`` items. It is empty if an arm
    has no users.
    """
    if not baseline.users or not candidate.users:
        return ()
    items = max(len(baseline.counts), len(candidate.counts))
    arms = (baseline, candidate)
    lists = np.stack([arm.up_to(items).sum(axis=1) for arm in arms])
    firsts = np.stack([arm.up_to(items)[:, 0] for arm in arms])
    # The differences of shares are multiplied by the numbers of users of both arms. So they are
    # whole numbers, and equal differences are equal.
    of_lists = lists[0] * candidate.users - lists[1] * baseline.users
    of_firsts = firsts[0] * candidate.users - firsts[1] * baseline.users
    difference = np.maximum(np.abs(of_lists), np.abs(of_firsts))
    order = np.argsort(-difference, kind="stable")[:most]
    found = []
    for code in order[difference[order] > 0].tolist():
        item = CodeExposure(
            code=code,
            lists=(int(lists[0, code]), int(lists[1, code])),
            firsts=(int(firsts[0, code]), int(firsts[1, code])),
        )
        found.append(item)
    return tuple(found)
