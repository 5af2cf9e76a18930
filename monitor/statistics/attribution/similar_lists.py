"""Tests whether the lists of both arms became alike."""

import numpy as np

from monitor.model.arrays import Flags, Integers
from monitor.model.explanation import FaultKind
from monitor.model.rankings import ALL, Arm, PairBatch
from monitor.statistics.attribution.change_features import (
    SHARE_BINS,
    ChangeFeature,
    Outliers,
    bin_lists,
    find_outlying_bins,
    least_affected_share,
    share_bins,
    widest_shares,
)
from monitor.statistics.attribution.changes import OwnLists, PairChanges
from monitor.statistics.attribution.decomposition import find_affected_segment, rows_of_segment
from monitor.statistics.attribution.scene import (
    Hypothesis,
    Scene,
    search_segments,
)

# Nearly the same lists and interleaved lists are reported for at least this share of the users of a
# segment, because in some healthy runs both trainings happen to be alike.
_LEAST_ALIKE = 0.05


def find_similar(scene: Scene, kind: FaultKind) -> Hypothesis | None:
    """Find users whose two lists are similar now, and were not similar in the earlier run.

    ``kind`` says how similar: identical, nearly the same, or interleaved. The arm whose lists
    changed more is at fault. None if there are hardly more such users than in healthy runs and in
    the earlier run.
    """
    feature = ChangeFeature(kind)  # the fault and its feature have the same name
    bins = scene.bins[Arm.CANDIDATE][feature]  # 1 for users with similar lists, and otherwise 0
    bins_before = scene.bins_before[feature]
    in_healthy_runs = scene.usual_histograms.get(Arm.CANDIDATE, {}).get(feature)

    def find_in_segment(segment: str) -> Outliers | None:
        rows = rows_of_segment(segment, scene.segments)
        usual = share_bins(bins_before[rows])
        if in_healthy_runs is not None:
            usual = widest_shares(usual, in_healthy_runs)
        return find_outlying_bins(bins[rows], usual)

    segment_with_most = search_segments(scene, find_in_segment)
    if segment_with_most is None:
        return None
    segment, outliers = segment_with_most
    if segment == ALL:
        # Many healthy lists may look similar too. So the segment is found by shares of users, before
        # the most likely users are marked.
        affected_segment = find_affected_segment(
            bins == 1, outliers.greatest_normal_share, scene.segments
        )
        outliers_of_segment = find_in_segment(affected_segment)
        if outliers_of_segment is not None:
            segment = affected_segment
            outliers = outliers_of_segment
    rows = rows_of_segment(segment, scene.segments)
    similar = rows[bins[rows] == 1]
    newly_similar_first = similar[np.argsort(bins_before[similar], kind="stable")]
    if kind is FaultKind.IDENTICAL:
        # Users whose lists were identical in the earlier run already are not affected.
        affected_count = int((bins_before[similar] != 1).sum())
    else:
        affected_count = round(outliers.affected_share * len(rows))
    affected = np.zeros(len(bins), dtype=bool)
    affected[newly_similar_first[:affected_count]] = True
    # Identical lists hardly occur by chance, so a few users are enough.
    if kind is not FaultKind.IDENTICAL and affected[rows].mean() < _LEAST_ALIKE:
        return None
    return Hypothesis(
        kind=kind,
        arm=_changed_more(scene, kind, affected),
        affected=affected,
        judged=bins >= 0,
        segment=segment,
    )


# If at least this share of the users has lists that are like the other arm's, these users explain
# why lists became more alike. If fewer do, the lists of all users are compared.
MANY_ALIKE = 0.25
# If the lists of at least this share of the users became more alike, the lists of all users did.
# Between two healthy runs of real lists the share is at most 0.42. It is 1 if the candidate's lists
# are mixed with the baseline's.
_ALL_ALIKE = 0.6
# If at least this share of these lists look interleaved, they are.
_ALL_INTERLEAVED = 0.99


def find_all_alike(scene: Scene, changes: PairChanges) -> Hypothesis | None:
    """Return the hypothesis that both arms' lists became more similar for all users.

    If nearly all lists look interleaved, the hypothesis is that they are interleaved. None if the
    mean similarity did not rise, or if too few lists became more similar (`_ALL_ALIKE`).
    """
    if not scene.is_rise:
        return None
    is_known = changes.is_known
    bins = _bin_likeness(scene.batch, is_known)
    bins_before = _bin_likeness(changes.former, is_known)
    # The usual shares are those of the earlier run. So a user counts as affected if the user's two
    # lists are more alike now.
    more_alike_share = least_affected_share(bins, share_bins(bins_before))
    if more_alike_share < _ALL_ALIKE:
        return None
    kind = FaultKind.ALIKE
    # The text says that lists are "much more like", and not "nearly like", the other arm's lists.
    detail = {"is_more_alike": 1.0}
    # Histograms that compare both arms are stored for the candidate. Users with the feature have
    # bin 1.
    looks_interleaved = scene.bins[Arm.CANDIDATE][ChangeFeature.INTERLEAVED] == 1
    if looks_interleaved[is_known].mean() >= _ALL_INTERLEAVED:
        kind = FaultKind.INTERLEAVED
        detail = {}
    return Hypothesis(
        kind=kind,
        arm=_changed_more(scene, kind, is_known),
        affected=is_known,
        judged=is_known,
        detail=detail,
    )


def _bin_likeness(batch: PairBatch, is_known: Flags) -> Integers:
    """Return the bin of each user, (n,): higher for more similar lists of both arms, -1 if unknown.

    `ChangeFeature.TOTAL` measures how far the candidate's list is from the baseline's.
    """
    # `OwnLists` can compare any two lists of a user. Here it compares the lists of both arms.
    lists = OwnLists.of_pairs(batch)
    distances = bin_lists(lists, lists.is_same)[ChangeFeature.TOTAL]
    # The feature is the sum of two features with the bins 0 to `SHARE_BINS`.
    greatest_distance = 2 * SHARE_BINS
    return np.where(is_known & (distances >= 0), greatest_distance - distances, -1)


# If both arms now have the same lists, the baseline is named only if its lists changed by more than
# this multiple of the candidate's change. Two trainings of one model differ by less.
_CLEARLY_MORE = 1.25


def _changed_more(scene: Scene, kind: FaultKind, affected: Flags) -> Arm:
    """Return the arm whose lists of these users changed more. If in doubt, it is the candidate.

    This is used if the lists of both arms became alike. Usually this happens because the experiment
    is not applied, and then the candidate has the baseline's lists. If lists are interleaved, it is
    always the candidate, because `ChangeFeature.INTERLEAVED` is about the candidate's lists.
    """
    if scene.changes is None or kind is FaultKind.INTERLEAVED:
        return Arm.CANDIDATE
    baseline, candidate = scene.changes.lists.values()
    if _mean_change(baseline, affected) > _CLEARLY_MORE * _mean_change(candidate, affected):
        return Arm.BASELINE
    return Arm.CANDIDATE


def _mean_change(lists: OwnLists, affected: Flags) -> float:
    """Return the mean share of removed items plus the mean share of pairs in reversed order."""
    return float((1 - lists.kept_share[affected] + lists.reversed_share[affected]).mean())
