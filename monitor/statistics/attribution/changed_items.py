"""Tests whether items disappeared, are new, or are in far more or far fewer lists."""

import math
from dataclasses import replace

import numpy as np

from monitor.measures.kernels.exposure import weigh_exclusive
from monitor.model.arrays import Codes, Flags, Integers
from monitor.model.explanation import FaultKind
from monitor.model.rankings import Arm
from monitor.statistics.attribution.change_features import ChangeFeature
from monitor.statistics.attribution.changes import (
    STILL_LISTED,
    ItemCounts,
    OwnLists,
    PairChanges,
    RemovedItems,
)
from monitor.statistics.attribution.scene import (
    LEAST_AFFECTED_USERS,
    MORE_SDS,
    Hypothesis,
    Scene,
    mean_of_bins,
    usual_shares,
)

# Items count as removed if they filled at least this share of all places in the former lists.
_LEAST_REMOVED = 0.02
# Only items that were in at least this many lists are counted for this share.
_LEAST_LISTS_OF_ITEM = 10
# A single item may disappear on any day, so at least this many must have disappeared.
_LEAST_ITEMS = 2
# If such items were removed, rarer items are searched too. They must have been in at least this
# many lists. An item of five lists disappears by chance in fewer than 1 of 100 cases (Poisson). In
# `incidents` seed 57006 this search finds 410 of 428 users. Without it 325 users are found.
_RARELY_LISTED = 5
# Rare new items fill at most this share of the places of the lists that have them. Otherwise the
# lists are random, or another model has other items.
_RARE_PLACES = 0.25
# Some items disappear every day. So the share of the places that the removed items filled must also
# exceed this multiple of the same share in the other arm.
_TIMES_USUAL = 3
# Lists that lost only removed items keep at least this share of the other items that they usually
# keep.
_KEPT_OF_USUAL = 0.8


def find_removed_items(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users whose former lists had items that hardly any user gets now.

    None if there are fewer than `_LEAST_ITEMS` such items, or if they filled few places of the
    former lists. None also if other items changed too.
    """
    lists = changes.lists[arm]
    removed = _find_many_removed(lists, changes.lists[arm.other])
    if removed is None:
        return None
    removed_in_list = np.isin(lists.former, removed.items).sum(axis=1)
    # If the lists lost many other items too, they changed for another reason.
    if not are_other_items_kept(scene, changes, arm, changes.is_known, removed_in_list):
        return None
    return Hypothesis(
        kind=FaultKind.ITEMS_GONE,
        arm=arm,
        affected=changes.is_known & (removed_in_list > 0),
        judged=changes.is_known,
        detail={"items": float(len(removed.items)), "exposure": removed.share_of_places},
    )


def find_new_items(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users whose lists have items that hardly any user had before.

    None if there are fewer than `_LEAST_ITEMS` such items, or if they fill few places of the lists.
    None also if other items of these users' lists changed too.
    """
    # New items are those that would be removed if both runs changed places.
    backwards = changes.lists[arm].backwards
    new = _find_many_removed(backwards, changes.lists[arm.other].backwards)
    return None if new is None else _make_new(scene, changes, arm, new)


def find_rare_new_items(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users with new items that few users have each, such as another item for each user.

    None if the number of users with such items rose little, or if they fill much of these users'
    lists. None also if other items of these lists changed too.
    """
    # Without an earlier list, each of a user's rare items would seem to be new.
    lists = changes.lists[arm].select(changes.is_known)
    new = _find_rare_removed(lists.backwards)
    removed = _find_rare_removed(lists)
    users_before = int(np.isin(lists.former, removed.items).any(axis=1).sum())
    is_new = np.isin(lists.present, new.items)
    has_new = is_new.any(axis=1)
    users_now = int(has_new.sum())
    weight = weigh_exclusive(users_before, users_now)
    least_change = _least_item_change(scene, changes, arm, ChangeFeature.ITEM_MOVED)
    if users_now < users_before or weight < least_change:
        return None
    if is_new[has_new].sum() > _RARE_PLACES * lists.present_lengths[has_new].sum():
        return None
    return _make_new(scene, changes, arm, new, usual=users_before / len(lists.present))


def _find_rare_removed(lists: OwnLists) -> RemovedItems:
    """Return the items that few users had, and that hardly any user has now."""
    frequent = lists.find_removed(_LEAST_LISTS_OF_ITEM)
    return lists.find_removed(1, ignored=frequent.items)


def _make_new(
    scene: Scene, changes: PairChanges, arm: Arm, new: RemovedItems, usual: float = 0.0
) -> Hypothesis | None:
    """Return the hypothesis that users got the ``new`` items. None if other items changed too."""
    lists = changes.lists[arm]
    affected = changes.is_known & np.isin(lists.present, new.items).any(axis=1)
    # Each new item that at least one list has is no other item.
    all_new = lists.backwards.find_removed(1)
    new_in_list = np.isin(lists.present, all_new.items).sum(axis=1)
    has_others = affected & (new_in_list < lists.present_lengths)
    if has_others.any() and not are_other_items_kept(scene, changes, arm, has_others, new_in_list):
        return None
    return Hypothesis(
        kind=FaultKind.ITEMS_NEW,
        arm=arm,
        affected=affected,
        judged=changes.is_known,
        usual=usual,
        detail={"items": float(len(new.items)), "exposure": new.share_of_places},
    )


def _find_many_removed(lists: OwnLists, other_lists: OwnLists) -> RemovedItems | None:
    """Return the items that hardly any user has now. None if hardly more were removed than usual.

    The items that the other arm's lists lost in this run show how many usually disappear. Items
    that both arms lost do not count for this, because both arms may have the fault.
    """
    frequent = lists.find_removed(_LEAST_LISTS_OF_ITEM)
    removed_by_other = other_lists.find_removed(_LEAST_LISTS_OF_ITEM, ignored=frequent.items)
    least_share = _LEAST_REMOVED + _TIMES_USUAL * removed_by_other.share_of_places
    if len(frequent.items) < _LEAST_ITEMS or frequent.share_of_places < least_share:
        return None
    # Items in few lists may disappear by chance. So they count only if more frequent items were
    # removed too.
    return lists.find_removed(_RARELY_LISTED)


def find_risen_or_fallen(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users who got or lost items that are in far more or far fewer lists than before.

    The change of an item's number of users is weighed by `weigh_changes`, so that it counts little
    if all items change. If some items rose and others fell, only the direction of the item with the
    largest weighed change is used. None if no item changed enough, or if the affected lists changed
    in other items too.
    """
    return _find_moved(scene, changes, arm, changes.lists[arm], ChangeFeature.ITEM_MOVED)


# In a list in random order, this share of the pairs of items is in reversed order.
REVERSED_AT_RANDOM = 0.5


def find_first_item(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users who got or lost a first item that is first in far more or far fewer lists.

    The conditions are those of `find_risen_or_fallen`. Also, the other items of these lists must be
    nearer to their usual order than to a random order.
    """
    lists = changes.lists[arm]
    first_items = lists.first_items
    hypothesis = _find_moved(scene, changes, arm, first_items, ChangeFeature.FIRST_ITEM_MOVED)
    if hypothesis is None:
        return None
    # Items that are not in the former list do not count for the order.
    absent = 1 + max(lists.former.max(), lists.present.max())
    was_first = lists.present == first_items.former
    is_first = lists.present == first_items.present
    others = replace(lists, present=np.where(was_first | is_first, absent, lists.present))
    reversed_share = others.reversed_share[hypothesis.affected].mean()
    usual_share = mean_of_bins(usual_shares(scene, arm, ChangeFeature.REORDERED))
    return hypothesis if reversed_share <= (usual_share + REVERSED_AT_RANDOM) / 2 else None


def _find_moved(
    scene: Scene, changes: PairChanges, arm: Arm, lists: OwnLists, feature: ChangeFeature
) -> Hypothesis | None:
    """Find users whose ``lists`` got or lost items. These are the arm's lists or their first items."""
    counts = lists.item_counts
    weighed = counts.weighed_changes
    least_change = _least_item_change(scene, changes, arm, feature)
    if weighed.max(initial=0.0) < least_change:
        return None
    most_moved_index = int(np.argmax(weighed))
    rises = counts.now > counts.before
    has_risen = bool(rises[most_moved_index])
    is_moved = (weighed >= least_change) & (rises == has_risen)
    gained = _count_gained(lists, counts.items[is_moved])
    # How many of these items each list gained, or how many it lost if the items fell.
    moved = gained if has_risen else -gained
    affected = changes.is_known & (moved > 0)
    # An item that only moves to the first place, or from it, stays in the user's list.
    gained_by_list = gained
    if feature is ChangeFeature.FIRST_ITEM_MOVED:
        gained_by_list = _count_gained(changes.lists[arm], counts.items[is_moved])
    if not are_other_items_kept(scene, changes, arm, affected, np.abs(gained_by_list)):
        return None
    users = int(changes.is_known.sum())
    # Healthy lists gain and lose such items about equally often. So the number of healthy users
    # that look affected is about the number of users whose lists changed in the other direction.
    changed_opposite = changes.is_known & (moved < 0)
    kind, detail = _describe_moved(counts, is_moved, most_moved_index, users, feature)
    return Hypothesis(
        kind=kind,
        arm=arm,
        affected=affected,
        judged=changes.is_known,
        usual=float(changed_opposite.sum()) / users,
        detail=detail,
    )


def _describe_moved(
    counts: ItemCounts, is_moved: Flags, most_moved_index: int, users: int, feature: ChangeFeature
) -> tuple[FaultKind, dict[str, float]]:
    """Return the kind and the ``detail`` of a fault that moved items into lists or out of lists.

    If hardly any list still has the items, they are gone. Then ``exposure`` is the share of all
    places that they filled before. Otherwise, ``before`` and ``now`` are the shares of users that
    got the most moved item, or that got it first.
    """
    items = float(is_moved.sum())
    share_before = float(counts.before[most_moved_index] / users)
    share_now = float(counts.now[most_moved_index] / users)
    detail = {"items": items, "before": share_before, "now": share_now}
    if feature is ChangeFeature.FIRST_ITEM_MOVED:
        return FaultKind.FIRST_ITEM, detail
    places_before = counts.before[is_moved].sum()
    if counts.now[is_moved].sum() <= STILL_LISTED * places_before:
        share_of_places = float(places_before / max(1, counts.before.sum()))
        return FaultKind.ITEMS_GONE, {"items": items, "exposure": share_of_places}
    if share_now > share_before:
        return FaultKind.ITEMS_RISEN, detail
    return FaultKind.ITEMS_FALLEN, detail


# An item counts as moved if the weighed change of the number of its lists is at least this multiple
# of the usual change of the item that changed most.
_TIMES_MOVED = 1.5


def _least_item_change(
    scene: Scene, changes: PairChanges, arm: Arm, feature: ChangeFeature
) -> float:
    """Return the smallest weighed change for which an item counts as moved."""
    # Bin 0 has the users whose lists neither gain nor lose the item that moves most.
    _, *usual_share_moved = usual_shares(scene, arm, feature)
    usual_users = int(changes.is_known.sum()) * sum(usual_share_moved)
    return max(_TIMES_MOVED * usual_users, LEAST_AFFECTED_USERS + MORE_SDS * math.sqrt(usual_users))


def _count_gained(lists: OwnLists, items: Codes) -> Integers:
    """Return how many of these items each user's list gained, (n,). Lost items count as -1."""
    count_before = np.isin(lists.former, items).sum(axis=1)
    count_now = np.isin(lists.present, items).sum(axis=1)
    return np.asarray(count_now - count_before)


def are_other_items_kept(
    scene: Scene, changes: PairChanges, arm: Arm, affected: Flags, items_by_fault: Integers | int
) -> bool:
    """Whether the ``affected`` users kept about as many of their other items as usual.

    ``items_by_fault`` is how many items the fault added to a list or removed from it: (n,), or one
    number for all lists. The remaining items of a list are the other items. False if no affected
    user has lists of both runs.
    """
    lists = changes.lists[arm]
    length = np.maximum(lists.present_lengths, lists.former_lengths)
    # Items that the fault added or removed are in one list only. So all kept items are other items.
    kept_items = lists.kept_share * length
    kept_share_of_others = kept_items / np.maximum(1, length - items_by_fault)
    kept_by_affected = kept_share_of_others[affected & changes.is_known].clip(0, 1)
    if not len(kept_by_affected):
        return False
    return bool(kept_by_affected.mean() >= _KEPT_OF_USUAL * usually_kept(scene, changes, arm))


def usually_kept(scene: Scene, changes: PairChanges, arm: Arm) -> float:
    """Return the mean share of items that the arm's lists usually keep.

    If it is not known, the mean share that the other arm's lists kept in this run is returned.
    """
    shares = scene.usual_histograms.get(arm, {}).get(ChangeFeature.REPLACED)
    if shares is None:
        return float(np.nanmean(changes.lists[arm.other].kept_share))
    return 1 - mean_of_bins(shares)
