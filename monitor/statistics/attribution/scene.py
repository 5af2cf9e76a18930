"""The data of a run on which hypotheses are tested, and the tests that several kinds share."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from monitor.measures.kernels import list_traits
from monitor.model.arrays import Codes, Flags, Integers, Rows
from monitor.model.explanation import FaultKind
from monitor.model.rankings import ALL, Arm, CoverageRow, PairBatch
from monitor.statistics.attribution.change_features import (
    SHARE_BINS,
    ChangeFeature,
    Outliers,
    bin_lists,
    find_outlying_bins,
    scale_to_part,
    share_bins,
    widest_shares,
)
from monitor.statistics.attribution.changes import PairChanges


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The data of one run and of the past, on which hypotheses are tested. There are n pairs."""

    batch: PairBatch
    segments: Mapping[str, Rows]
    coverage: tuple[CoverageRow, ...]
    # Whether both lists of a pair are of one user. If not, they are not compared with each other.
    is_paired: bool = True
    changes: PairChanges | None = None  # None if there are no earlier lists
    # Whether the earlier lists are not from the last run, but from a run before it
    has_runs_between: bool = False
    # Usual shares of users by arm, feature and bin.
    usual_histograms: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    usually_missing: float | None = None  # usual share of users without a list, None if unknown
    drop: float | None = None  # the drop of the mean, None if it is not significant
    is_rise: bool = False  # whether the mean rose significantly

    @property
    def are_lists_unchanged(self) -> bool:
        """Whether hardly any list of either arm changed. False if there are no earlier lists."""
        return self.changes is not None and all(map(self.changes.is_arm_unchanged, Arm))

    @cached_property
    def bins(self) -> Mapping[Arm, Mapping[ChangeFeature, Integers]]:
        """The bin of each user, by arm and feature. Empty if there are no earlier lists."""
        if self.changes is None:
            return {}
        is_unchanged = self.changes.is_unchanged
        bins = {
            arm: bin_lists(lists, is_unchanged[arm]) for arm, lists in self.changes.lists.items()
        }
        if self.is_paired:
            # The features that compare both arms belong to the candidate, see `ChangeFeature`.
            bins[Arm.CANDIDATE] |= _bin_similar(self.batch, self.changes.is_known)
        return bins

    @cached_property
    def bins_before(self) -> Mapping[ChangeFeature, Integers]:
        """The earlier run's bins of the features that compare both arms.

        Empty if there are no earlier lists.
        """
        if self.changes is None:
            return {}
        return _bin_similar(self.changes.former, self.changes.is_known)


def _bin_similar(batch: PairBatch, is_known: Flags) -> dict[ChangeFeature, Integers]:
    """Return the bins of the features that compare both arms, integers (n,).

    A bin is 1 if the user's two lists are similar, and 0 if they are not. It is -1 if this cannot
    be judged, or if the user is not in ``is_known``, which marks users with earlier lists.
    """
    is_alike, is_interleaved = list_traits.flag_similar_lists(batch)
    flags = {
        ChangeFeature.IDENTICAL: list_traits.is_identical(batch.baseline, batch.candidate),
        ChangeFeature.ALIKE: is_alike,
        ChangeFeature.INTERLEAVED: is_interleaved,
    }
    bins = {}
    for feature, values in flags.items():
        bins[feature] = np.where(is_known & ~np.isnan(values), values, -1).astype(np.int64)
    return bins


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A fault that one arm may have, and the users that it affected."""

    kind: FaultKind
    arm: Arm
    affected: Flags  # (n,), False for users that cannot be judged
    judged: Flags  # (n,), whether the user can be judged
    usual: float = 0.0  # share of healthy users that look affected
    # The feature by which users look affected, if there is one
    feature: ChangeFeature | None = None
    segment: str = ALL  # the segment that was searched
    detail: Mapping[str, float] = field(default_factory=dict)


# A fault is found only if it affected at least this many users.
LEAST_AFFECTED_USERS = 5
# A number of users must grow by this many standard deviations. A growth from 0 to 5 users is
# reported. A growth from 4 to 8 users is not.
MORE_SDS = 2.2


def is_increase(gained: Flags, lost: Flags, least: int = LEAST_AFFECTED_USERS) -> bool:
    """Whether significantly more users are in ``gained`` than in ``lost``.

    There must be at least ``least`` more.
    """
    gains, losses = int(gained.sum()), int(lost.sum())
    return gains - losses >= max(least, MORE_SDS * math.sqrt(gains + losses))


def find_by_feature(
    scene: Scene, arm: Arm, feature: ChangeFeature, kind: FaultKind, *, least_ratio: float = 1.0
) -> Hypothesis | None:
    """Find users whose lists changed unusually in one ``feature``, as the fault ``kind`` does.

    The users in outlying bins are affected. All users are searched first, and then single segments
    (see `search_segments`). None if no bin is outlying. None also if the share of the users in
    outlying bins, divided by the greatest normal share, is less than ``least_ratio``.
    """
    bins = scene.bins[arm][feature]

    def find_in_segment(segment: str) -> Outliers | None:
        rows = scene.segments[segment]
        # For a single segment, `usual_shares` uses the segment's users too.
        segment_rows = None if segment == ALL else rows
        outliers = find_outlying_bins(bins[rows], usual_shares(scene, arm, feature, segment_rows))
        if outliers is None:
            return None
        outlying_share = (bins[rows] >= outliers.lowest_bin).mean()
        if outlying_share < least_ratio * outliers.greatest_normal_share:
            return None
        return outliers

    segment_with_most = search_segments(scene, find_in_segment)
    if segment_with_most is None:
        return None
    segment, outliers = segment_with_most
    rows = scene.segments[segment]
    is_outlying = bins >= outliers.lowest_bin
    usual_share = sum(usual_shares(scene, arm, feature)[outliers.lowest_bin :])
    usual = outliers.greatest_normal_share
    if _is_general(is_outlying, rows, usual_share):
        segment = ALL
        rows = scene.segments[ALL]
        usual = usual_share
    affected = np.zeros(len(bins), dtype=bool)
    affected[rows] = is_outlying[rows]
    return Hypothesis(
        kind=kind,
        arm=arm,
        affected=affected,
        judged=bins >= 0,
        usual=usual,
        feature=feature,
        segment=segment,
    )


# If outliers became at least this part as frequent among the other users as in a segment, they are
# not those of the segment. The segment just happens to be above its limit.
_AS_FREQUENT = 0.5


def _is_general(is_outlying: Flags, rows: Rows, usual_share: float) -> bool:
    """Whether the other users have nearly as many more outliers than usual as those in ``rows``."""
    others = np.ones(len(is_outlying), dtype=bool)
    others[rows] = False
    if not others.any():
        return False
    rise_inside = is_outlying[rows].mean() - usual_share
    rise_of_others = is_outlying[others].mean() - usual_share
    return bool(rise_of_others >= _AS_FREQUENT * rise_inside)


# At most this many segments are searched one by one. These are the largest segments, and the
# segment of all users is one of them.
_SEARCHED = 100


def search_segments(
    scene: Scene, find: Callable[[str], Outliers | None]
) -> tuple[str, Outliers] | None:
    """Return the outliers of all users. If there are none, return the outliers of one segment.

    ``find`` returns the outliers of a segment. If many healthy users look like affected users, a
    few affected users are outliers only in their segment. At most `_SEARCHED` segments are
    searched, the largest first. The segment with the largest estimated number of affected users is
    returned, as its name and its outliers. None if no segment has outliers.
    """
    outliers = find(ALL)
    if outliers is not None:
        return ALL, outliers
    segment_with_most = None
    most_affected_users = 0.0
    by_size = sorted(scene.segments, key=lambda name: (-len(scene.segments[name]), name))
    for name in by_size[:_SEARCHED]:
        if name == ALL:
            continue
        outliers = find(name)
        if outliers is None:
            continue
        affected_users = outliers.affected_share * len(scene.segments[name])
        if affected_users > most_affected_users:
            segment_with_most = name, outliers
            most_affected_users = affected_users
    return segment_with_most


def usual_shares(
    scene: Scene, arm: Arm, feature: ChangeFeature, rows: Rows | None = None
) -> tuple[float, ...]:
    """Return the usual share of the arm's users in each bin of the feature.

    The usual shares come from the arm's past runs. Without past runs, the other arm's shares in
    this run are used, because that arm is probably healthy. In two cases, the other arm's shares in
    this run are combined with the past shares by `widest_shares`:

    - There were runs between the earlier lists and this run. Lists change more over several runs
      than over one, and the other arm shows how much more.
    - ``rows`` of a segment are given. Then the other arm's shares among these users are used,
      because the users of a segment may usually change more than all users. Perhaps the other arm
      changed less than usual in this run. So its shares also show how much more these users change
      than all users.
    """
    other_bins = scene.bins[arm.other][feature]
    other_shares = share_bins(other_bins)
    shares = scene.usual_histograms.get(arm, {}).get(feature)
    if shares is None:
        shares = other_shares
    elif scene.has_runs_between:
        shares = widest_shares(shares, other_shares)
    if rows is None:
        return shares
    other_shares_of_rows = share_bins(other_bins[rows])
    usual_of_rows = scale_to_part(shares, other_shares_of_rows, other_shares)
    return widest_shares(shares, other_shares_of_rows, usual_of_rows)


def lists_before(scene: Scene, arm: Arm) -> tuple[Codes, Codes]:
    """Return codes and lengths of the arm's earlier lists.

    If there are no earlier lists, return codes and lengths of the other arm's lists in this run.
    """
    if scene.changes is None:
        return scene.batch.of(arm.other)
    lists = scene.changes.lists[arm]
    return lists.former, lists.former_lengths


def mean_of_bins(shares: Sequence[float]) -> float:
    """Return the mean of a feature that measures a share, 0 to 1. ``shares`` is its histogram."""
    return float(np.arange(len(shares)) @ np.array(shares)) / SHARE_BINS
