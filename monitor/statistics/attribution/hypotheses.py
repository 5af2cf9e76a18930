"""Tests which faults can explain the lists of a run. Each kind of fault has one function."""

from dataclasses import replace

import numpy as np

from monitor.model.explanation import SIMILAR_FAULTS, FaultKind
from monitor.model.rankings import ALL, Arm, CoverageReason
from monitor.statistics.attribution.change_features import (
    ChangeFeature,
    least_affected_share,
    share_bins,
)
from monitor.statistics.attribution.changed_items import (
    find_first_item,
    find_new_items,
    find_rare_new_items,
    find_removed_items,
    find_risen_or_fallen,
)
from monitor.statistics.attribution.changes import PairChanges
from monitor.statistics.attribution.origins import find_origin
from monitor.statistics.attribution.scene import (
    Hypothesis,
    Scene,
    find_by_feature,
    is_increase,
    lists_before,
    mean_of_bins,
    usual_shares,
)
from monitor.statistics.attribution.shared_lists import (
    find_few_sharing,
    find_shared_list,
    find_unchanged,
)
from monitor.statistics.attribution.shifted_lists import are_new_mixed_in, find_shifted
from monitor.statistics.attribution.similar_lists import MANY_ALIKE, find_all_alike, find_similar


def find_hypotheses(scene: Scene) -> list[Hypothesis]:
    """Find the faults whose hypothesis holds. The most specific kinds come first."""
    hypotheses = [find_shared_list(scene, arm) for arm in Arm]
    if scene.changes is not None and scene.is_paired:
        similar = [find_similar(scene, kind) for kind in SIMILAR_FAULTS]
        hypotheses += similar
        shares_affected = [
            hypothesis.affected.mean() for hypothesis in similar if hypothesis is not None
        ]
        # If few users have similar lists, the lists of all users may be a little more alike.
        if max(shares_affected, default=0.0) < MANY_ALIKE:
            hypotheses.append(find_all_alike(scene, scene.changes))
    hypotheses += [_find_cut_short(scene, arm) for arm in Arm]
    if scene.changes is not None:
        for find in (
            find_unchanged,
            find_removed_items,
            find_risen_or_fallen,
            find_new_items,
            find_shifted,
            find_rare_new_items,
            find_first_item,
            _find_replaced,
            _find_reordered,
        ):
            hypotheses += [find(scene, scene.changes, arm) for arm in Arm]
    if not any(hypotheses):
        # No hypothesis holds. Only then are a few users with one list searched. They prove little.
        hypotheses = [find_few_sharing(scene, arm) for arm in Arm]
    return [hypothesis for hypothesis in hypotheses if hypothesis is not None]


def _find_cut_short(scene: Scene, arm: Arm) -> Hypothesis | None:
    """Find users whose lists are shorter than before.

    Without earlier lists, find users whose lists are shorter than the other arm's lists. None if
    there are hardly more such users than users with longer lists.

    The result's ``detail`` has the median length of the shorter lists, now and before. Lists also
    become shorter because duplicates are removed from them. ``duplicated`` is the share of the
    shorter lists for which this is possible.
    """
    _, lengths = scene.batch.of(arm)
    _, lengths_before = lists_before(scene, arm)
    is_judged = lengths_before > 0
    is_shorter = is_judged & (lengths > 0) & (lengths < lengths_before)
    is_longer = is_judged & (lengths > lengths_before)
    if not is_increase(is_shorter, is_longer):
        return None
    # It is not known which lists had duplicates. Each of them is assumed to be a shorter list.
    share_shorter = float(is_shorter.mean())
    duplicated = min(1.0, _share_duplicated(scene, arm) / share_shorter)
    detail = {
        "now": float(np.median(lengths[is_shorter])),
        "before": float(np.median(lengths_before[is_shorter])),
        "duplicated": duplicated,
    }
    return Hypothesis(
        kind=FaultKind.CUT_SHORT, arm=arm, affected=is_shorter, judged=is_judged, detail=detail
    )


def _share_duplicated(scene: Scene, arm: Arm) -> float:
    """Return the share of the users whose lists had an item more than once."""
    for row in scene.coverage:
        asked = row.asked_of(arm)
        if row.segment == ALL and asked:
            return row.users_by_reason.get((arm, CoverageReason.DUPLICATED), 0) / asked
    return 0.0


def _find_replaced(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users with more new items than usual. Find out where the new items come from.

    In the result's ``detail``, ``mixed_in`` is 1 if they are between the former items.
    None if the arm's lists have hardly more new items than usual.
    """
    by_new_items = find_by_feature(scene, arm, ChangeFeature.REPLACED, FaultKind.REPLACED)
    if by_new_items is None:
        return None
    affected_by_arm = {
        arm: by_new_items.affected,
        arm.other: np.zeros(len(scene.batch), dtype=bool),
    }
    of_other = find_by_feature(scene, arm.other, ChangeFeature.REPLACED, FaultKind.REPLACED)
    if of_other is not None:
        affected_by_arm[arm.other] = of_other.affected
    kind = find_origin(scene, changes, arm, affected_by_arm)
    # Nearly all items of other users' lists and of unrelated lists are new. So the number of new
    # items is enough to recognize the affected users.
    if kind is not FaultKind.REPLACED:
        return replace(by_new_items, kind=kind)
    # A user's own new list may also have few new items. `ChangeFeature.TOTAL` counts new items and
    # changed order, so it finds more of these users.
    by_total = find_by_feature(scene, arm, ChangeFeature.TOTAL, kind)
    # `find_fault` estimates the share of affected users from the bins of the feature. With the
    # feature `REPLACED`, users with few new items would not count as affected.
    replaced = by_total or replace(by_new_items, feature=ChangeFeature.TOTAL)
    is_mixed_in = are_new_mixed_in(scene, changes, replaced)
    return replace(replaced, detail={"mixed_in": 1.0}) if is_mixed_in else replaced


# The lists of all users changed more than usual if at least this share of the users is affected. In
# 60 healthy days of real lists the share is at most 0.57. It is 0.6 to 1 if the model's weights are
# rounded, if items are sorted by another key, or if one place in ten has another item.
_ALL_CHANGED = 0.6
# For a change of order the share is above 0.6 if half of the users are concerned (incidents seed
# 91002), and above 0.7 if items are sorted by another key.
_ALL_REORDERED = 0.7
# If users have lists of both arms, the arm must also explain at least this part of the drop.
_LEAST_OF_DROP = 0.25
# If not, its lists must also have changed by at least this multiple of the usual change.
_TIMES_CHANGED = 1.2
# The change is one of order if the change of order exceeds the usual one by this multiple of what
# the share of new items exceeds the usual share by. One new item also moves other items.
_MOSTLY_ORDER = 2


def find_general_change(scene: Scene, arm: Arm) -> Hypothesis | None:
    """Return the hypothesis that an arm's lists changed a little more than usual for all users.

    Then hardly any list is an outlier, but few lists changed as little as they usually do. None if
    the lists did not change in this way. If users have lists of both arms, there must be a drop.
    """
    changes = scene.changes
    if changes is None or (scene.is_paired and scene.drop is None):
        return None
    bins = scene.bins[arm][ChangeFeature.TOTAL]
    usual = usual_shares(scene, arm, ChangeFeature.TOTAL)
    if scene.drop is not None:
        growth = float(np.nanmean(changes.by_arm[arm].total))
        has_changed_more = growth >= _LEAST_OF_DROP * scene.drop
    else:
        change = mean_of_bins(share_bins(bins))
        has_changed_more = change >= _TIMES_CHANGED * mean_of_bins(usual)
    if not has_changed_more:
        return None
    least_share = _ALL_CHANGED
    kind = FaultKind.REPLACED
    detail = {"is_general": 1.0}
    more_replaced = _exceed_usual(scene, arm, ChangeFeature.REPLACED)
    if _exceed_usual(scene, arm, ChangeFeature.REORDERED) >= _MOSTLY_ORDER * more_replaced:
        least_share = _ALL_REORDERED
        kind = FaultKind.REORDERED
        detail["top"] = 0.0
    if least_affected_share(bins, usual) < least_share:
        return None
    is_judged = bins >= 0
    return Hypothesis(kind=kind, arm=arm, affected=is_judged, judged=is_judged, detail=detail)


def _exceed_usual(scene: Scene, arm: Arm, feature: ChangeFeature) -> float:
    """Return by how much the mean of a feature is above the usual mean."""
    mean = mean_of_bins(share_bins(scene.bins[arm][feature]))
    return mean - mean_of_bins(usual_shares(scene, arm, feature))


# If at least this share of the reordered lists keeps its first three items, only the order of these
# three changed. The share is at least 0.13 in `incidents` seeds 51002, 13072 and 57030. For
# reversed lists (seeds 17043 and 57057) it is 0.02.
_KEPT_TOP = 0.1


def _find_reordered(scene: Scene, changes: PairChanges, arm: Arm) -> Hypothesis | None:
    """Find users whose items changed their order more than usual.

    Two features are searched. `REORDERED` counts the pairs of items in reversed order.
    `FIRST_MOVED` is the place of the former first item. It judges only users that still have this
    item among the first three. The hypothesis with the larger share of affected users among the
    judged users is returned. None if neither feature finds users.

    In the result's ``detail``, ``top`` is 1 if enough affected lists still have the same first
    three items. Then probably only the order of these three changed. Otherwise ``top`` is 0.
    """
    hypotheses = []
    for feature in (ChangeFeature.REORDERED, ChangeFeature.FIRST_MOVED):
        hypothesis = find_by_feature(scene, arm, feature, FaultKind.REORDERED)
        if hypothesis is not None:
            same_top_share = changes.lists[arm].has_same_top_items[hypothesis.affected].mean()
            detail = {"top": float(same_top_share >= _KEPT_TOP)}
            hypotheses.append(replace(hypothesis, detail=detail))
    return max(hypotheses, key=_share_of_judged, default=None)


def _share_of_judged(hypothesis: Hypothesis) -> float:
    return float(hypothesis.affected.sum() / hypothesis.judged.sum())
