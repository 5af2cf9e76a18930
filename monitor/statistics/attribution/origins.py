"""Decides where lists with many new items come from."""

from collections.abc import Mapping

import numpy as np

from monitor.model.arrays import Codes, Flags, Floats, Rows
from monitor.model.explanation import FaultKind
from monitor.model.rankings import Arm
from monitor.statistics.attribution.changed_items import usually_kept
from monitor.statistics.attribution.changes import OwnLists, PairChanges
from monitor.statistics.attribution.scene import Scene, is_increase

# About so many affected users are compared with the former lists of all users.
_SAMPLE = 300
# For a mean over all other users, so many affected users are enough.
_SAMPLE_FOR_MEAN = 100

# Lists are still the user's own if they kept enough of the user's former list. The limit lies
# between the share that another user's list has in common with it and the share that lists usually
# keep. It is this part of the way from the first share to the second.
_STILL_OWN = 0.12

# The share that lists usually keep is measured in this run if at least this share of the users is
# not affected. If more users are affected, the few other lists are not typical.
_TYPICAL = 0.25

# A list is close to another user's former list if both have as much in common as lists usually
# keep. Lists with popular items, or of users outside of the run, may be close by chance. If more
# than a tenth of the lists would be close by chance, lists must have more in common.
_CLOSE_BY_CHANCE = 0.1
# Shares may be off by this much, because the mean of equal shares is rounded.
_ROUNDING = 1e-9


def find_origin(
    scene: Scene, changes: PairChanges, arm: Arm, affected_by_arm: Mapping[Arm, Flags]
) -> FaultKind:
    """Decide where an arm's lists of its affected users come from.

    Returns `REPLACED` for the user's own new lists, and `MIXED_UP` for other users' lists. Returns
    `NOISE` if the lists are neither. The arm's affected users must have lists in both runs. The
    lists of the other arm's affected users may be mixed up with theirs.
    """
    lists = changes.lists[arm]
    affected = affected_by_arm[arm]
    sample = _select_evenly(np.flatnonzero(affected), _SAMPLE)
    usual_share = _usual_share(scene, changes, arm, affected)
    # How much of a user's former list is also in the new list, and in the former lists of others.
    kept_share = lists.kept_share[sample].mean()
    with_list = np.flatnonzero(lists.former_lengths)
    own_lists = _FormerLists(lists.former[with_list], with_list)
    few = _select_evenly(sample, _SAMPLE_FOR_MEAN)
    share_in_others = np.mean([own_lists.compare(lists.former[row], row).mean() for row in few])
    if kept_share > share_in_others + _STILL_OWN * (usual_share - share_in_others):
        return FaultKind.REPLACED
    codes = np.vstack([changes.lists[one_arm].former for one_arm in Arm])
    owners = np.tile(np.arange(len(affected)), len(Arm))
    is_affected = np.concatenate([affected_by_arm[one_arm] for one_arm in Arm])
    # If many users have similar lists, many lists are close by chance. Often only the affected
    # users got each other's lists, and fewer lists are close to those.
    for selected in (slice(None), is_affected):
        others = _FormerLists(codes[selected], owners[selected])
        if _are_from(others, lists, sample, usual_share):
            return FaultKind.MIXED_UP
    return FaultKind.NOISE


def _are_from(others: "_FormerLists", lists: OwnLists, sample: Rows, usual_share: float) -> bool:
    """Whether lists of the users in ``sample`` belong to other users.

    Clearly more of these lists than of the same users' former lists must be close to the former
    list of another user.
    """
    nearest_now = [others.compare(lists.present[row], row).max() for row in sample]
    nearest_before = [others.compare(lists.former[row], row).max() for row in sample]
    least_share = max(usual_share, np.quantile(nearest_before, 1 - _CLOSE_BY_CHANCE)) - _ROUNDING
    is_close = np.array(nearest_now) >= least_share
    was_close = np.array(nearest_before) >= least_share
    return is_increase(is_close & ~was_close, was_close & ~is_close)


def _usual_share(scene: Scene, changes: PairChanges, arm: Arm, affected: Flags) -> float:
    """Return how much of a user's former list is in the new list if the user is healthy."""
    kept_share = changes.lists[arm].kept_share
    kept_by_healthy = kept_share[~affected & ~np.isnan(kept_share)]
    if len(kept_by_healthy) >= _TYPICAL * len(kept_share):
        return float(kept_by_healthy.mean())
    return usually_kept(scene, changes, arm)


class _FormerLists:
    """Former lists, sorted by item. ``codes`` has the lists, and ``owners`` the rows of users."""

    def __init__(self, codes: Codes, owners: Rows) -> None:
        self._owners = owners
        self._lengths = (codes >= 0).sum(axis=1)
        order = np.argsort(codes, axis=None, kind="stable")
        self._items = codes.ravel()[order]
        self._rows: Rows = order // codes.shape[1]

    def compare(self, ranking: Codes, user: int) -> Floats:
        """Return the share of common items of one list with each former list, 0 to 1.

        The share is that of the longer list. It is 0 for the former lists of this ``user``.
        """
        items = ranking[ranking >= 0]
        first = np.searchsorted(self._items, items, "left")
        end = np.searchsorted(self._items, items, "right")
        rows = [self._rows[low:high] for low, high in zip(first, end, strict=True)]
        common = np.bincount(np.concatenate(rows), minlength=len(self._owners))
        common[self._owners == user] = 0
        return np.asarray(common / np.maximum(self._lengths, len(items)))


def _select_evenly(rows: Rows, count: int) -> Rows:
    """Select about ``count`` of the rows, evenly spaced."""
    return rows[:: max(1, len(rows) // count)]
