"""Finds the fault that explains a drop best, or reports that users are without a list."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from monitor.model.arrays import Flags, Floats, Rows
from monitor.model.explanation import FaultKind, Finding
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm, CoverageReason, CoverageRow
from monitor.statistics.attribution.change_features import (
    SHARE_BINS,
    ChangeFeature,
    find_clearest_bin,
    find_outlying_bins,
    least_affected_share,
)
from monitor.statistics.attribution.decomposition import find_affected_segment, rows_of_segment
from monitor.statistics.attribution.hypotheses import find_general_change, find_hypotheses
from monitor.statistics.attribution.scene import Hypothesis, Scene, usual_shares

# Users without a list are reported if their number exceeds the usual number clearly enough. The
# excess must be at least this share of all users.
_LEAST_LOST = 0.005
# The excess must also be at least this many standard deviations.
_SURE = 4.0
# The excess must also be at least this many users.
_LEAST_LOST_USERS = 5
# A segment is named if it contains at least this share of the users without a list.
_IN_SEGMENT = 0.8
# The segment's users must also lack lists at least this many times as often as all users.
_TIMES_ALL = 1.5

# A more specific kind is reported instead of the best kind if it explains at least half as much.
_GOOD_ENOUGH = 0.5
# If the fault explains less than this share of the drop, users without a list are reported instead.
_OUTWEIGHS_MISSING = 0.25
# If a fault explains less than this share of the drop, it explains nothing.
_LEAST_EXPLAINED = 0.1
# Both arms are named if the weaker finding explains at least this share of what the best finding
# explains.
_WORTH_NAMING = 0.1
# A second fault is named if at least this share of all users has it and not the first fault.
_LEAST_SECOND = 0.03
# These users must also be at least this share of the users that have the second fault.
_OTHER_USERS = 0.4
# Two arms have the same fault if their numbers of affected users differ by at most this factor.
_ALIKE = 6
# A few shifted lists are not reported if at least this multiple of them changed their order. In
# `incidents` the ratio is at least 5.7 if lists were shuffled, and at most 1 otherwise.
_MANY_MORE = 3
# If at least this share of the users seems to be affected, we assume that all of them are.
_NEARLY_ALL = 0.8
# If at least this share of the healthy lists would become outliers when reversed, we assume that
# all reversed lists are outliers.
_APART = 0.95
# Some affected users look healthy. An estimate is corrected for them if at least this share of the
# affected users looks affected.
_LEAST_SEEN = 0.5
# If the other arm's list of a user looks healthy, the user is this much less likely to look affected
# than a user whose other list looks affected.
_HEALTHY_WEIGHT = 0.05
# `ChangeFeature.FIRST_MOVED` has three places: the first place and these others.
_OTHER_PLACES = 2


def find_missing(coverage: Sequence[CoverageRow], usual_share: float | None) -> Finding | None:
    """Return a finding about users without a list, for the arm with most of them.

    Users without a list are called lost here. The finding also names the other arm if it lost at
    least half as many users. None if hardly more users than usual are lost. ``usual_share`` is the
    usual share of lost users. None means that it is unknown, and then 0 is used.
    """
    rows = {row.segment: row for row in coverage}
    everybody = rows.get(ALL)
    if everybody is None or not everybody.asked:
        return None
    arm = max(Arm, key=everybody.count_lost)
    lost_by_segment = {name: row.count_lost(arm) for name, row in rows.items()}
    lost = lost_by_segment[ALL]
    asked = everybody.asked
    usually_lost = (usual_share or 0.0) * asked
    least_excess = max(_LEAST_LOST_USERS, _LEAST_LOST * asked, _SURE * math.sqrt(usually_lost))
    if lost - usually_lost < least_excess:
        return None
    segment = _find_segment_of_lost(rows, lost_by_segment)
    lost_in_segment = lost_by_segment[segment]
    asked_in_segment = rows[segment].asked
    empty = everybody.users_by_reason.get((arm, CoverageReason.EMPTY), 0)
    # Stored explanations contain these keys. ``empty`` is the share of the lost users that got an
    # empty list. ``before`` is the usual share of lost users.
    detail = {"empty": empty / lost}
    if usual_share is not None:
        detail["before"] = usual_share
    return Finding(
        kind=FaultKind.MISSING,
        arms=tuple(arm for arm in Arm if everybody.count_lost(arm) >= lost / 2),
        segment=segment,
        segment_share=lost_in_segment / asked_in_segment,
        users=lost,
        compared=asked,
        detail=detail,
        # The number of users is exact if all users of the segment are lost, and nobody else.
        is_exact=segment != ALL and lost == lost_in_segment == asked_in_segment,
    )


def _find_segment_of_lost(
    rows: Mapping[str, CoverageRow], lost_by_segment: Mapping[str, int]
) -> str:
    """Return the segment with most lost users, if it also lost users more often than others.

    A user without a list is lost. ``lost_by_segment`` has the number of lost users in each segment.
    Returns ``all`` if there is no such segment.
    """
    lost = lost_by_segment[ALL]

    def part_of_loss(name: str) -> float:
        return lost_by_segment[name] / lost

    def loss_rate(name: str) -> float:
        return lost_by_segment[name] / rows[name].asked

    def evidence(name: str) -> tuple[float, str]:
        # This prefers segments that have much of the loss and also a high loss rate.
        return part_of_loss(name) * loss_rate(name), name

    names = [name for name, row in rows.items() if name != ALL and row.asked]
    if not names:
        return ALL
    likeliest = max(names, key=evidence)
    has_most = part_of_loss(likeliest) >= _IN_SEGMENT
    has_high_rate = loss_rate(likeliest) >= _TIMES_ALL * loss_rate(ALL)
    if has_most and has_high_rate:
        return likeliest
    return ALL


@immutable
class Fault:
    """The fault of a run.

    ``is_other_unchanged`` is True if hardly any list of the arm without the fault changed. It is
    False if lists of this arm changed, but no more than usual. Otherwise it is None.
    """

    finding: Finding
    # Users that look affected. None if the affected users have no lists
    affected: Flags | None = None
    also: Finding | None = None  # another fault, of other users
    is_other_unchanged: bool | None = None


def find_fault(scene: Scene) -> Fault | None:
    """Return the fault that explains best what happened, or that more users than usual lack a list.

    Users without a list are returned if no fault explains half of the drop. They are searched only
    if their usual share is known. None if nothing was found.

    Whether a hypothesis holds depends only on counts of users, and not on the drop.
    """
    all_hypotheses = find_hypotheses(scene)
    hypotheses = [
        hypothesis for hypothesis in all_hypotheses if not _is_redundant(hypothesis, all_hypotheses)
    ]
    findings = [_make_finding(hypothesis, scene) for hypothesis in hypotheses]
    specific = list(zip(hypotheses, findings, strict=True))
    if not any(_is_clear_cause(finding, scene) for finding in findings):
        for arm in Arm:
            general = find_general_change(scene, arm)
            if general is not None:
                findings.append(_make_finding(general, scene))
    findings = [finding for finding in findings if not _is_side_effect(finding, findings)]
    causes = [finding for finding in findings if not _is_harmless(finding, scene)]
    finding = _select_finding(causes)
    explains_enough = finding is not None and _explained(finding) >= _OUTWEIGHS_MISSING
    missing = None
    if scene.usually_missing is not None:
        missing = find_missing(scene.coverage, scene.usually_missing)
    if not explains_enough and missing is not None:
        finding = missing
    if finding is None:
        return None
    # If both arms have the fault, users of either arm are affected.
    affected = None
    for hypothesis in hypotheses:
        if hypothesis.kind is finding.kind and hypothesis.arm in finding.arms:
            affected = hypothesis.affected if affected is None else affected | hypothesis.affected
    also = None if missing is finding else missing
    # The arm of a redundant hypothesis may have a fault too.
    arms_with_hypothesis = {hypothesis.arm for hypothesis in all_hypotheses}
    return Fault(
        finding=finding,
        affected=affected,
        also=also or _find_second(finding, affected, specific),
        is_other_unchanged=_is_other_unchanged(scene, finding, arms_with_hypothesis),
    )


def _find_second(
    first: Finding,
    affected: Flags | None,
    specific: Sequence[tuple[Hypothesis, Finding]],
) -> Finding | None:
    """Return the fault with most users that has another kind and other users than the first one.

    ``affected`` are the users of the first fault. None if they have no lists. None is returned if a
    new model may have caused the first fault, because it may have caused the second one too.
    """
    if first.kind.facts.is_model_change:
        return None
    seconds = []
    for hypothesis, finding in specific:
        facts = finding.kind.facts
        # Healthy lists may also change less than usual, so unchanged lists are no second fault.
        may_be_healthy = facts.is_model_change or finding.kind is FaultKind.UNCHANGED
        if finding.kind is first.kind or facts.is_similarity or may_be_healthy:
            continue
        users = hypothesis.affected
        others = users
        # The lists of the other arm are other lists, even if the same users get them.
        if affected is not None and hypothesis.arm in first.arms:
            others = users & ~affected
        if others.mean() >= max(_LEAST_SECOND, _OTHER_USERS * users.mean()):
            seconds.append(finding)
    return max(seconds, key=_share, default=None)


def _is_redundant(hypothesis: Hypothesis, hypotheses: Sequence[Hypothesis]) -> bool:
    """Whether the hypothesis only repeats a more specific hypothesis.

    A hypothesis is specific if a new model does not cause the same (see `FaultFacts`). There are
    five cases:

    - The lists of both arms became more similar, and both arms have the same specific fault. For
      example, both put one item first.
    - All lists became a little more similar, and a specific fault affected some users. Two good
      trainings also make all lists more similar.
    - Some items are in far more lists, but many more users got other new items.
    - An item is first in far more or far fewer lists, but the lists of nearly all of these users,
      and of many more users, changed in another way too.
    - A new model causes the same, and a specific fault of the same arm affected nearly all of these
      users. For example, if lists became shorter, their items seem to be replaced too.
    """
    specific = [other for other in hypotheses if not other.kind.facts.is_model_change]
    if hypothesis.kind.facts.is_similarity:
        arms_by_kind = defaultdict(set)
        for other in specific:
            arms_by_kind[other.kind].add(other.arm)
        is_only_more_alike = "is_more_alike" in hypothesis.detail
        if is_only_more_alike and any(not kind.facts.is_similarity for kind in arms_by_kind):
            return True
        return any(len(arms) == len(Arm) for arms in arms_by_kind.values())
    of_arm = [other for other in specific if other.arm is hypothesis.arm]
    if hypothesis.kind is FaultKind.FIRST_ITEM:
        others = [
            other
            for other in hypotheses
            if other.arm is hypothesis.arm and not other.kind.facts.is_similarity
        ]
        return any(_has_more_users(other, hypothesis) for other in others)
    if hypothesis.kind is FaultKind.ITEMS_RISEN:
        new_items = [other for other in of_arm if other.kind is FaultKind.ITEMS_NEW]
        return any(_has_more_users(other, hypothesis) for other in new_items)
    if not hypothesis.kind.facts.is_model_change:
        return False
    return any(other.affected[hypothesis.affected].mean() >= _NEARLY_ALL for other in of_arm)


def _has_more_users(other: Hypothesis, hypothesis: Hypothesis) -> bool:
    """Whether the other hypothesis has many more users, and nearly all users of this one.

    The usual number of healthy users that look affected is subtracted.
    """
    affected = hypothesis.affected
    others_share = other.affected.mean() - other.usual
    has_many_more = affected.mean() < _NEARLY_ALL * others_share
    return has_many_more and bool(other.affected[affected].mean() >= _NEARLY_ALL)


def _is_side_effect(finding: Finding, findings: Sequence[Finding]) -> bool:
    """Whether few lists are shifted because many more lists changed their order.

    If the first items of a list are shuffled, the third item may be first now, and it is often new.
    """
    if finding.kind is not FaultKind.SHIFTED:
        return False
    for other in findings:
        if other.kind is FaultKind.REORDERED and other.arms == finding.arms:
            return other.users >= _MANY_MORE * finding.users
    return False


def _is_clear_cause(finding: Finding, scene: Scene) -> bool:
    """Whether the finding is a clear cause, so that no more general change must be searched.

    If a new model may have caused the finding, it must explain at least half of the drop. If not,
    it must explain some of the drop. Without a drop, it is always a clear cause.
    """
    if finding.kind.facts.is_model_change:
        return _explained(finding) >= _GOOD_ENOUGH
    return scene.drop is None or _explained(finding) >= _LEAST_EXPLAINED


def _is_harmless(finding: Finding, scene: Scene) -> bool:
    """Whether a new model may have caused the finding, which explains next to none of the drop."""
    is_model_change = finding.kind.facts.is_model_change
    return is_model_change and scene.drop is not None and _explained(finding) < _LEAST_EXPLAINED


def _select_finding(findings: Sequence[Finding]) -> Finding | None:
    """Select the most specific finding that explains at least half as much as the best finding.

    Findings are compared by the share of the drop that they explain. If no finding explains any of
    it, findings are compared by their shares of affected users.

    None if there are no findings. ``findings`` are ordered from the most to the least specific
    kind. The result names both arms if both have the fault.
    """
    if not findings:
        return None
    rate = _explained
    # If the drop is not significant, no finding explains any of it.
    if max(map(_explained, findings)) < _LEAST_EXPLAINED:
        rate = _share
        # A change that a new model causes too is a fault only if nothing else was found.
        specific = [finding for finding in findings if not finding.kind.facts.is_model_change]
        findings = specific or findings
    greatest = max(map(rate, findings))
    good_enough = [finding for finding in findings if rate(finding) >= _GOOD_ENOUGH * greatest]
    most_specific_kind = good_enough[0].kind
    of_this_kind = [finding for finding in good_enough if finding.kind is most_specific_kind]
    best = max(of_this_kind, key=rate)
    for other in findings:
        if rate(other) >= _WORTH_NAMING * greatest and _is_same_fault(best, other):
            return replace(best, arms=tuple(Arm))
    return best


def _is_same_fault(best: Finding, other: Finding) -> bool:
    """Whether the other finding says that the other arm has the fault of the best finding too."""
    if other.arms == best.arms:
        return False
    if max(best.users, other.users) > _ALIKE * min(best.users, other.users):
        return False
    if best.kind.facts.is_model_change:
        # The segment of such a finding is uncertain, so the segments are not compared.
        return other.kind.facts.is_model_change
    return other.kind is best.kind and other.segment == best.segment


def _explained(finding: Finding) -> float:
    return finding.explained or 0.0


def _share(finding: Finding) -> float:
    return finding.share


def _make_finding(hypothesis: Hypothesis, scene: Scene) -> Finding:
    """Return the finding of a hypothesis: the segment, the users, and the share of the drop."""
    judged_segments = {}
    for name, members in scene.segments.items():
        judged_segments[name] = members[hypothesis.judged[members]]
    segment = hypothesis.segment
    if segment == ALL:
        # All users were searched. The fault may still be in one segment only.
        segment = _find_segment(hypothesis, scene, judged_segments)
    rows = rows_of_segment(segment, scene.segments)
    judged_rows = rows_of_segment(segment, judged_segments)
    # Many new items also change the order of the common items. Then the fault is the new items, and
    # not the order.
    is_reordered = hypothesis.feature is ChangeFeature.REORDERED
    if is_reordered and _new_items_cost_more(hypothesis.affected, scene):
        hypothesis = replace(hypothesis, kind=FaultKind.REPLACED, feature=ChangeFeature.TOTAL)
    # Users that cannot be judged are assumed to be affected as often as judged users.
    if hypothesis.feature is None:
        # ``hypothesis.affected`` is exact. It also has affected users outside of the segment.
        share = float(hypothesis.affected[judged_rows].mean())
        judged_users = len(judged_segments[ALL])
        users = float(hypothesis.affected.sum()) * len(scene.batch) / judged_users
    else:
        share = _estimate_share(hypothesis.feature, hypothesis, scene, judged_rows)
        users = share * len(rows)
    likely_affected = _select_likely_affected(hypothesis, scene, rows, share)
    only_order = hypothesis.kind is FaultKind.REORDERED
    # ``users`` is exact if all judged users of the segment are affected, and nobody else.
    is_all_affected = hypothesis.affected[judged_rows].all()
    is_exact = is_all_affected and hypothesis.affected.sum() == len(judged_rows)
    return Finding(
        kind=hypothesis.kind,
        arms=(hypothesis.arm,),
        segment=segment,
        segment_share=share,
        users=round(users),
        compared=len(scene.batch),
        explained=_share_of_drop(likely_affected, scene, only_order=only_order),
        detail=hypothesis.detail,
        is_exact=bool(is_exact),
    )


def _find_segment(hypothesis: Hypothesis, scene: Scene, segments: Mapping[str, Rows]) -> str:
    """Return the segment that describes best which users were affected, or ``all``.

    The hypothesis marks users whose lists changed more than nearly all healthy lists. If lists
    change to a random degree, these are only a few of the affected users, and may be too few to
    find the segment. Then the users are marked from the bin in which the affected share is clearest.
    """
    feature = hypothesis.feature
    if feature not in {ChangeFeature.TOTAL, ChangeFeature.REORDERED}:
        return find_affected_segment(hypothesis.affected, hypothesis.usual, segments)
    bins = scene.bins[hypothesis.arm][feature]
    lowest_bin = int(bins[hypothesis.affected].min())
    usual = _usual_of_users(scene, hypothesis, feature, lowest_bin, hypothesis.usual)
    segment = find_affected_segment(hypothesis.affected, usual, segments)
    if segment != ALL:
        return segment
    clearest = find_clearest_bin(bins, usual_shares(scene, hypothesis.arm, feature))
    usual = _usual_of_users(scene, hypothesis, feature, clearest.lowest_bin, clearest.usual_share)
    return find_affected_segment(bins >= clearest.lowest_bin, usual, segments)


def _usual_of_users(
    scene: Scene, hypothesis: Hypothesis, feature: ChangeFeature, lowest_bin: int, share: float
) -> Floats:
    """Return how likely each user is in this bin or above it if the user is healthy, (n,).

    The mean is ``share``. The lists of some users usually change more than those of other users,
    for example because the users have little history. The other arm's lists of the same users show
    who they are.
    """
    if not scene.is_paired:
        return np.full(len(scene.batch), share)
    looks_affected = scene.bins[hypothesis.arm.other][feature] >= lowest_bin
    weights = looks_affected + _HEALTHY_WEIGHT
    return np.asarray(np.minimum(1.0, share * weights / weights.mean()))


def _select_likely_affected(
    hypothesis: Hypothesis, scene: Scene, rows: Rows, share: float
) -> Flags:
    """Return which users are probably affected, (n,).

    ``rows`` has the users of the finding's segment. About ``share`` of them are affected, 0 to 1.
    """
    if share >= _NEARLY_ALL:
        likeliest = rows
    elif hypothesis.feature is ChangeFeature.TOTAL:
        # Some healthy lists change as much as affected lists, so this feature shows only roughly
        # who is affected. The users whose lists changed most are selected.
        bins = scene.bins[hypothesis.arm][ChangeFeature.TOTAL][rows]
        most_changed_first = rows[np.argsort(-bins, kind="stable")]
        likeliest = most_changed_first[: round(share * len(rows))]
    else:
        # The hypothesis shows who is affected.
        return hypothesis.affected
    likely_affected = np.zeros(len(scene.batch), dtype=bool)
    likely_affected[likeliest] = True
    return likely_affected


def _estimate_share(
    feature: ChangeFeature,
    hypothesis: Hypothesis,
    scene: Scene,
    rows: Rows,
) -> float:
    """Estimate the share of the users in ``rows`` that was affected, 0 to 1.

    The users' bins of ``feature`` are compared with the usual bins. The hypothesis was found by
    this feature.
    """
    bins = scene.bins[hypothesis.arm][feature][rows]
    # These must be the same usual shares as in `find_by_feature`, which found the hypothesis.
    segment_rows = None if hypothesis.segment == ALL else rows
    usual = usual_shares(scene, hypothesis.arm, feature, segment_rows)
    if feature in {ChangeFeature.REPLACED, ChangeFeature.REORDERED}:
        outliers = find_outlying_bins(bins, usual)
        if outliers is not None:
            # If all affected users are in the outlying bins, their share can be computed directly.
            # `REPLACED` finds unrelated lists and other users' lists. All of them are outliers.
            are_all_outlying = feature is ChangeFeature.REPLACED
            if feature is ChangeFeature.REORDERED:
                # `REORDERED` finds reversed lists. A reversed list gets from bin b into bin
                # SHARE_BINS - b. So it becomes an outlier if b is at most this bin.
                highest_bin = SHARE_BINS - outliers.lowest_bin
                are_all_outlying = sum(usual[: highest_bin + 1]) >= _APART
            if are_all_outlying:
                return outliers.affected_share
    # Both values are lower bounds, so the larger one is nearer to the true share.
    share_above_usual = float(hypothesis.affected[rows].mean()) - hypothesis.usual
    share = max(least_affected_share(bins, usual), share_above_usual)
    if feature is ChangeFeature.FIRST_MOVED:
        return _correct_for_unmoved(share, usual)
    if feature is ChangeFeature.FIRST_GONE:
        # The fault removes the items of the first places of each list. A user looks affected only
        # if the former first item is removed. Without the fault, this item would be in the first,
        # the second or the third place as often as ``shares_by_place`` says.
        shares_by_place = usual_shares(scene, hypothesis.arm, ChangeFeature.FIRST_MOVED)
        dropped_places = round(hypothesis.detail["places"])
        seen_share = sum(shares_by_place[:dropped_places])
        return min(1.0, share / max(_LEAST_SEEN, seen_share))
    return share


def _correct_for_unmoved(share: float, usual: Sequence[float]) -> float:
    """Return the ``share`` of affected users, corrected for affected users that look healthy.

    If lists are shuffled, the first item of some users stays in the first place. These users look
    healthy. ``usual`` has the usual shares of `ChangeFeature.FIRST_MOVED`. The first item usually
    stays in its place for the share ``unmoved`` of the users. It moves to the second place, and to
    the third place, for the share ``moved`` on average. A shuffle is assumed to leave it in its
    place for the share ``moved`` too. So ``seen_share`` of the affected users looks affected.

    If ``seen_share`` is at most 1/2, the correction would at least double the share. Then the share
    is not corrected.
    """
    unmoved = usual[0]
    moved = sum(usual[1:]) / _OTHER_PLACES
    seen_share = (unmoved - moved) / unmoved if unmoved else 0.0
    if seen_share <= _LEAST_SEEN:
        return share
    return min(1.0, share / seen_share)


def _new_items_cost_more(affected: Flags, scene: Scene) -> bool:
    """Whether new items add more to the drop of these users than the changed order does."""
    if scene.changes is None or scene.drop is None:
        return False
    parts = scene.changes.parts
    from_new_items = np.nansum(parts.membership[affected])
    from_order = np.nansum(parts.order[affected])
    return bool(from_new_items > from_order)


def _share_of_drop(affected: Flags, scene: Scene, *, only_order: bool) -> float | None:
    """Return the share of the drop that the affected users explain, 0 to 1. None without a drop.

    The mean score drops because the distances of users' lists grow. Without the fault, the affected
    users' distances are assumed to grow as much as the other users' distances. Only the growth
    beyond that is explained. With ``only_order``, only the part ``order`` of the distances counts.
    """
    if scene.changes is None or scene.drop is None:
        return None
    parts = scene.changes.parts
    growth = parts.order if only_order else parts.total
    is_known = ~np.isnan(growth)
    growth_of_affected = growth[is_known & affected]
    growth_of_others = growth[is_known & ~affected]
    if not len(growth_of_affected):
        return 0.0
    growth_by_fault = growth_of_affected.mean()
    if len(growth_of_others):
        growth_by_fault -= growth_of_others.mean()
    explained_growth = float(growth_by_fault) * len(growth_of_affected)
    # The mean score drops by as much as the mean distance grows. So the drop is the mean growth.
    total_growth = int(is_known.sum()) * scene.drop
    return min(1.0, max(0.0, explained_growth / total_growth))


def _is_other_unchanged(
    scene: Scene,
    finding: Finding,
    arms_with_hypothesis: Collection[Arm],
) -> bool | None:
    """Whether hardly any list changed in the arm that does not have the fault.

    This arm is called the other arm. False if lists of the other arm changed, as they usually do.
    None if lists changed and the usual changes are not known. None also if the other arm may have a
    fault too, or if there are no earlier lists.
    """
    other = finding.arms[0].other
    if scene.changes is None or len(finding.arms) > 1 or other in arms_with_hypothesis:
        return None
    if scene.changes.is_arm_unchanged(other):
        return True
    if other not in scene.usual_histograms:
        return None
    # A change of the other arm may be too small for a finding, and still similar to this one.
    total = scene.bins[other][ChangeFeature.TOTAL]
    changed = least_affected_share(total, usual_shares(scene, other, ChangeFeature.TOTAL))
    is_similar = finding.kind.facts.is_model_change and changed >= finding.share / 2
    return None if is_similar else False
