"""Decides where lists with many new items come from."""

import numpy as np

from monitor.model.arrays import Codes, Flags, Floats, Rows
from monitor.model.explanation import FaultKind
from monitor.model.rankings import Arm
from monitor.statistics.attribution.changed_items import usually_kept
from monitor.statistics.attribution.changes import PairChanges
from monitor.statistics.attribution.scene import Scene, is_increase

# About so many affected users are compared with the former lists of all users.
_SAMPLE = 300

# Lists are still the user's own if they kept enough of the user's former list. The limit lies
# between the share that another user's list has in common with it and the share that lists usually
# keep. It is this part of the way from the first share to the second.
_STILL_OWN = 0.12

# The share that lists usually keep is measured in this run if at least this share of the users is
# not affected. If fewer are not affected, their lists are no typical lists.
_TYPICAL = 0.25

# A list is close to another user's former list if both have as much in common as lists usually
# keep. Lists of users outside of the run, and popular items, are close by chance. If users get the
# lists of other users, at least this multiple of that number is close. In `drift-lists` it is 1.7
# or more for lists of 5 items, and at most 1.4 for lists of popular items.
_TIMES_BY_CHANCE = 1.5


def find_origin(scene: Scene, changes: PairChanges, arm: Arm, affected: Flags) -> FaultKind:
    """Decide where the lists of the affected users come from.

    Returns `REPLACED` for the user's own new lists, and `MIXED_UP` for other users' lists. Returns
    `NOISE` if the lists are neither. The ``affected`` users must have lists in both runs.

    The lists are other users' lists only if clearly more of them than of the same users' former
    lists are close to the former list of another user.
    """
    lists = changes.lists[arm]
    former = _FormerLists(changes)
    sample = _select_evenly(np.flatnonzero(affected), _SAMPLE)
    by_chance = np.array([former.compare(lists.former[user], user) for user in sample])
    now = np.array([former.compare(lists.present[user], user) for user in sample])
    usual_share = _usual_share(scene, changes, arm, affected)
    # How much of a user's former list is also in the new list, and in the former lists of others.
    kept_share = lists.kept_share[sample].mean()
    share_in_others = by_chance.mean()
    if kept_share > share_in_others + _STILL_OWN * (usual_share - share_in_others):
        return FaultKind.REPLACED
    is_close = now.max(axis=1) >= usual_share
    was_close = by_chance.max(axis=1) >= usual_share
    is_clear = is_close.sum() >= _TIMES_BY_CHANCE * was_close.sum()
    if is_clear and is_increase(is_close & ~was_close, was_close & ~is_close):
        return FaultKind.MIXED_UP
    return FaultKind.NOISE


def _usual_share(scene: Scene, changes: PairChanges, arm: Arm, affected: Flags) -> float:
    """Return how much of a user's former list is in the new list if the user is healthy."""
    kept_share = changes.lists[arm].kept_share
    kept_by_healthy = kept_share[~affected & ~np.isnan(kept_share)]
    if len(kept_by_healthy) >= _TYPICAL * len(kept_share):
        return float(kept_by_healthy.mean())
    return usually_kept(scene, changes, arm)


class _FormerLists:
    """The former lists of both arms, sorted by item."""

    def __init__(self, changes: PairChanges) -> None:
        arms = changes.lists.values()
        self._lengths = np.concatenate([lists.former_lengths for lists in arms])
        codes = np.vstack([lists.former for lists in arms])
        order = np.argsort(codes, axis=None, kind="stable")
        self._items = codes.ravel()[order]
        self._rows: Rows = order // codes.shape[1]
        self._users = len(codes) // len(arms)

    def compare(self, ranking: Codes, user: int) -> Floats:
        """Return the share of common items of one list with each former list, 0 to 1.

        The share is that of the longer list. It is 0 for the former lists of this ``user``.
        """
        items = ranking[ranking >= 0]
        first = np.searchsorted(self._items, items, "left")
        end = np.searchsorted(self._items, items, "right")
        rows = [self._rows[low:high] for low, high in zip(first, end, strict=True)]
        common = np.bincount(np.concatenate(rows), minlength=len(self._lengths))
        common[user :: self._users] = 0
        return np.asarray(common / np.maximum(self._lengths, len(items)))


def _select_evenly(rows: Rows, count: int) -> Rows:
    """Select about ``count`` of the rows, evenly spaced."""
    return rows[:: max(1, len(rows) // count)]
