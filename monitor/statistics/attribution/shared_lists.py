"""Tests whether users share lists, or have the same lists as in the last run."""

from dataclasses import replace

import numpy as np

from monitor.model.arrays import Codes, Integers
from monitor.model.explanation import FaultKind
from monitor.model.rankings import Arm
from monitor.statistics.attribution.change_features import (
    ChangeFeature,
    flag_shared_lists,
)
from monitor.statistics.attribution.changes import PairChanges
from monitor.statistics.attribution.scene import (
    LEAST_AFFECTED_USERS,
    Hypothesis,
    Scene,
    find_by_feature,
    is_increase,
    lists_before,
)


def find_shared_list(scene: Scene, arm: Arm) -> Hypothesis | None:
    """Find users of the arm with a list that many users have. None if there are no such users.

    There are two tests. The test that finds more users is used.

    - Since the earlier run, clearly more users got such a list than lost one. Without earlier
      lists, the other arm's lists are used in their place.
    - More users than usual have such a list. This test also finds a slow rise, which adds few users
      each day. It needs earlier lists.
    """
    codes, _ = scene.batch.of(arm)
    is_shared, list_numbers = flag_shared_lists(codes)
    if not is_shared.any():
        return None
    codes_before, _ = lists_before(scene, arm)
    was_shared, _ = flag_shared_lists(codes_before)
    # In a comparison with the other arm, the limit is higher, because two models differ more than
    # two runs of one model.
    least_increase = LEAST_AFFECTED_USERS
    if scene.changes is None:
        least_increase = 2 * LEAST_AFFECTED_USERS
    hypotheses = []
    newly_shared = is_shared & ~was_shared
    no_longer_shared = was_shared & ~is_shared
    if is_increase(newly_shared, no_longer_shared, least_increase):
        everybody = np.ones(len(codes), dtype=bool)
        hypothesis = Hypothesis(
            kind=FaultKind.SHARED_LIST, arm=arm, affected=newly_shared, judged=everybody
        )
        hypotheses.append(hypothesis)
    if scene.changes is not None:
        above_usual = find_by_feature(scene, arm, ChangeFeature.SHARED, FaultKind.SHARED_LIST)
        if above_usual is not None:
            hypotheses.append(above_usual)
    if not hypotheses:
        return None
    largest = max(hypotheses, key=lambda hypothesis: int(hypothesis.affected.sum()))
    return _describe_shared(scene, largest, list_numbers)


# A list of so many users is reported if nothing else is found, and if nobody shared a list before.
_LEAST_SHARING_USERS = 3


# At least this share of the items of such a list must have been in most lists before.
_LEAST_POPULAR = 0.5


def find_few_sharing(scene: Scene, arm: Arm) -> Hypothesis | None:
    """Find a few users with one list of popular items. None if any users shared a list before."""
    if scene.changes is None:
        return None
    codes, _ = scene.batch.of(arm)
    codes_before, _ = lists_before(scene, arm)
    is_shared, list_numbers = flag_shared_lists(codes, _LEAST_SHARING_USERS)
    was_shared, _ = flag_shared_lists(codes_before, _LEAST_SHARING_USERS)
    if not is_shared.any() or was_shared.any():
        return None
    everybody = np.ones(len(codes), dtype=bool)
    few = Hypothesis(kind=FaultKind.SHARED_LIST, arm=arm, affected=is_shared, judged=everybody)
    hypothesis = _describe_shared(scene, few, list_numbers)
    return hypothesis if hypothesis.detail["popular"] >= _LEAST_POPULAR else None


def _describe_shared(scene: Scene, hypothesis: Hypothesis, list_numbers: Integers) -> Hypothesis:
    """Return the hypothesis with a ``detail`` that describes the shared lists.

    The detail has how many different lists are shared, and the share of popular items in the most
    common one. ``list_numbers`` has the same number for users with the same list.
    """
    codes, _ = scene.batch.of(hypothesis.arm)
    affected_numbers = list_numbers[hypothesis.affected]
    most_common_number = np.bincount(affected_numbers).argmax()
    has_most_common = hypothesis.affected & (list_numbers == most_common_number)
    first_user = int(np.argmax(has_most_common))
    detail = {
        "lists": float(len(np.unique(affected_numbers))),
        "popular": _share_popular(codes[first_user], scene, hypothesis.arm),
    }
    return replace(hypothesis, kind=FaultKind.SHARED_LIST, detail=detail)


def _share_popular(codes: Codes, scene: Scene, arm: Arm) -> float:
    """Return the share of one list's items that are popular.

    If the list has k places, the 2 k most frequent items of the earlier lists are popular.
    """
    former_lists, _ = lists_before(scene, arm)
    items, counts = np.unique(former_lists[former_lists >= 0], return_counts=True)
    most_listed = items[np.argsort(-counts, kind="stable")[: 2 * codes.size]]
    return float(np.isin(codes[codes >= 0], most_listed).mean())


# If at least this share of the unchanged lists are lists that many users have, they are shared
# lists. Otherwise the fault is that the lists are unchanged.
_MOST_SHARED = 0.5
# If at least this share of the lists is unchanged in both arms, there were no new data. Then
# unchanged lists are no fault.
_NO_NEW_DATA = 0.9


def find_unchanged(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users whose lists are unchanged, if more lists than usual are unchanged.

    If most of these users share a list, the fault is a shared list that began in an earlier run.
    None if hardly more lists than usual are unchanged, if the arm's past runs are not known, or if
    neither arm had new data.
    """
    hypothesis = find_by_feature(scene, arm, ChangeFeature.UNCHANGED, FaultKind.UNCHANGED)
    # Some arms never change. Only past runs show whether this arm is one of them.
    if hypothesis is None or arm not in scene.usual_histograms:
        return None
    unchanged_shares = [changes.is_unchanged[one_arm][changes.is_known].mean() for one_arm in Arm]
    if min(unchanged_shares) >= _NO_NEW_DATA:
        return None
    codes, _ = scene.batch.of(arm)
    is_shared, list_numbers = flag_shared_lists(codes)
    if is_shared[hypothesis.affected].mean() >= _MOST_SHARED:
        # Healthy users may have unchanged lists, but no shared list. So the usual share is 0.
        shared = replace(
            hypothesis, affected=hypothesis.affected & is_shared, feature=None, usual=0.0
        )
        return _describe_shared(scene, shared, list_numbers)
    return hypothesis
