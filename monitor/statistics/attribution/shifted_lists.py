"""Tests whether lists are shifted: items were removed or added in front."""

from dataclasses import replace

import numpy as np

from monitor.measures.kernels import PAD
from monitor.measures.kernels.engines.positions import find_positions
from monitor.model.arrays import Codes, Flags
from monitor.model.explanation import FaultKind
from monitor.model.rankings import Arm
from monitor.statistics.attribution.change_features import ChangeFeature
from monitor.statistics.attribution.changed_items import (
    REVERSED_AT_RANDOM,
    are_other_items_kept,
)
from monitor.statistics.attribution.changes import PairChanges
from monitor.statistics.attribution.scene import (
    Hypothesis,
    Scene,
    find_by_feature,
    mean_of_bins,
    usual_shares,
)

# The share of users with another item in front must also exceed the largest usual share by this
# factor, because a training often changes the first item of users with little history.
_TIMES_SHIFTED = 2
# The other items must have moved by at least this part of the number of items in front. It is 1/3,
# because in a list of 5 items of which 3 are gone, new items come between the other items.
_LEAST_MOVE = 1 / 3
# At most about this many lists are read to find by how many places lists are shifted.
_SAMPLE = 2000


def find_shifted(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users whose first items are gone, or who have new items in front of the former items.

    The other items must have moved up or down, and must be nearly the same in the same order. None
    if there are hardly more such users than usual, or if the items in front are the same for many
    users.
    """
    lists = changes.lists[arm]
    for feature in (ChangeFeature.FIRST_GONE, ChangeFeature.FIRST_NEW):
        hypothesis = find_by_feature(
            scene, arm, feature, FaultKind.SHIFTED, least_ratio=_TIMES_SHIFTED
        )
        if hypothesis is None:
            continue
        affected = hypothesis.affected
        if feature is ChangeFeature.FIRST_GONE:
            with_front, without_front = lists.former[affected], lists.present[affected]
        else:
            with_front, without_front = lists.present[affected], lists.former[affected]
        if _has_common_first(with_front):
            continue
        step = max(1, len(with_front) // _SAMPLE)
        places = find_positions(with_front[::step], without_front[::step]).astype(np.intp)
        is_absent = places == len(places)  # the item is not in the user's other list
        front_items = _count_in_front(is_absent)
        # How many places higher each common item is in the other list.
        moves = (np.arange(len(places))[:, np.newaxis] - places)[~is_absent]
        has_moved = (np.median(moves) if len(moves) else 0.0) >= _LEAST_MOVE * front_items
        is_rest_kept = are_other_items_kept(scene, changes, arm, affected, front_items)
        if has_moved and is_rest_kept and _keeps_order(scene, changes, hypothesis, front_items):
            has_moved_up = feature is ChangeFeature.FIRST_GONE
            detail = {"places": float(front_items), "up": float(has_moved_up)}
            return replace(hypothesis, detail=detail)
    return None


# If new items take every second place, the former items are twice as far down. In real lists the
# median of the factor is 2 then. It is at most 1.3 for other faults that leave the first item.
_MIXED_IN = 1.5


def are_new_mixed_in(scene: Scene, changes: PairChanges, hypothesis: Hypothesis) -> bool:
    """Whether new items are between the former items, which are still in their former order.

    The former first item must be first or second. The others must be about twice as far down as
    before. Only the first half of a former list can be, so the other half is left out.
    """
    lists = changes.lists[hypothesis.arm]
    affected = hypothesis.affected
    all_places = find_positions(lists.former[affected], lists.present[affected])
    places = all_places[: len(all_places) // 2].astype(np.intp)
    is_kept = places < len(all_places)
    if not is_kept[0].any() or not is_kept[1:].any() or np.median(places[0, is_kept[0]]) > 1:
        return False
    factors = places[1:] / np.arange(1, len(places))[:, np.newaxis]
    has_moved = np.median(factors[is_kept[1:]]) >= _MIXED_IN
    return bool(has_moved) and _keeps_order(scene, changes, hypothesis, 0)


# Lists are shifted only if the items that were added or removed in front differ from user to user.
# So no item may be the first item of more than this share of the lists.
_MOST_COMMON = 0.5


def _has_common_first(lists: Codes) -> bool:
    """Whether more than `_MOST_COMMON` of the lists have the same first item."""
    _, users_by_first = np.unique(lists[:, 0], return_counts=True)
    return bool(users_by_first.max() > _MOST_COMMON * users_by_first.sum())


def _keeps_order(
    scene: Scene, changes: PairChanges, hypothesis: Hypothesis, front_items: int
) -> bool:
    """Whether the common items of the affected users are still nearly in their former order.

    The share of pairs of items in reversed order must be nearer to the usual share than to the
    share in random lists. Items at the end of a list usually change their order more than items at
    its top. The other arm's items behind the first ``front_items`` items show how much.
    """
    arm = hypothesis.arm
    usual_share = mean_of_bins(usual_shares(scene, arm, ChangeFeature.REORDERED))
    other = changes.lists[arm.other]
    behind = replace(
        other,
        former=np.pad(
            other.former[:, front_items:], ((0, 0), (0, front_items)), constant_values=PAD
        ),
        former_lengths=np.maximum(other.former_lengths - front_items, 0),
    )
    usual_share = max(usual_share, float(behind.reversed_share[changes.is_known].mean()))
    reversed_share = float(np.nanmean(changes.lists[arm].reversed_share[hypothesis.affected]))
    return reversed_share <= (usual_share + REVERSED_AT_RANDOM) / 2


def _count_in_front(is_absent: Flags) -> int:
    """Return the 75th percentile of how many first items of a list are not in the other list."""
    absent_in_front = np.logical_and.accumulate(is_absent, axis=0).sum(axis=0)
    return int(np.percentile(absent_in_front, 75, method="nearest"))
