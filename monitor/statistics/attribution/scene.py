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
from monitor.statistics.attribution.changes import PairChanges
from monitor.statistics.attribution.habits import (
    SHARE_BINS,
    Habit,
    Outliers,
    bin_lists,
    find_outlying_bins,
    share_bins,
    widest_shares,
)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The data of one run and of the past, on which hypotheses are tested. There are n pairs."""

    batch: PairBatch
    segments: Mapping[str, Rows]
    coverage: tuple[CoverageRow, ...]
    changes: PairChanges | None = None  # None if there are no earlier lists
    # Whether the earlier lists are older than those of the last run, because runs were skipped
    is_older: bool = False
    # Usual shares of users by arm, habit and bin.
    habits: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    usually_missing: float | None = None  # usual share of users without a list, None if unknown
    drop: float | None = None  # the drop of the mean, None if it is not significant
    is_rise: bool = False  # whether the mean rose significantly

    @cached_property
    def bins(self) -> Mapping[Arm, Mapping[Habit, Integers]]:
        """The bin of each user, by arm and habit. Empty if there are no earlier lists."""
        if self.changes is None:
            return {}
        is_still = self.changes.is_still
        bins = {arm: bin_lists(lists, is_still[arm]) for arm, lists in self.changes.lists.items()}
        bins[Arm.CANDIDATE] |= _bin_similar(self.batch, self.changes.is_known)
        return bins

    @cached_property
    def bins_before(self) -> Mapping[Habit, Integers]:
        """The bins in the earlier run, for habits of both arms. Empty without earlier lists."""
        if self.changes is None:
            return {}
        return _bin_similar(self.changes.former, self.changes.is_known)


def _bin_similar(batch: PairBatch, is_known: Flags) -> dict[Habit, Integers]:
    """The bin of each user, (n,), for each habit: 1 if both lists are so, 0 if not, -1 if unknown."""
    is_alike, is_interleaved = list_traits.flag_similar_lists(batch)
    flags = {
        Habit.IDENTICAL: list_traits.is_identical(batch.baseline, batch.candidate),
        Habit.ALIKE: is_alike,
        Habit.INTERLEAVED: is_interleaved,
    }
    bins = {}
    for habit, values in flags.items():
        bins[habit] = np.where(is_known & ~np.isnan(values), values, -1).astype(np.int64)
    return bins


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A fault that one arm may have, and the users that it hit."""

    kind: FaultKind
    arm: Arm
    hit: Flags  # (n,), False for users that cannot be judged
    judged: Flags  # (n,), whether the user can be judged
    usual: float = 0.0  # share of healthy users that look as if they were hit
    habit: Habit | None = None  # the habit by which users look hit, if there is one
    segment: str = ALL  # the segment that was searched
    detail: Mapping[str, float] = field(default_factory=dict)


# A fault is found only if it hit at least this many users.
LEAST_HIT_USERS = 5
# A number of users must grow by this many standard deviations. A growth from 0 to 5 users is
# reported. A growth from 4 to 8 users is not.
MORE_SDS = 2.2


def is_increase(gained: Flags, lost: Flags, least: int = LEAST_HIT_USERS) -> bool:
    """Whether significantly more users are in ``gained`` than in ``lost``.

    There must be at least ``least`` more.
    """
    gains, losses = int(gained.sum()), int(lost.sum())
    return gains - losses >= max(least, MORE_SDS * math.sqrt(gains + losses))


def find_by_habit(
    scene: Scene, arm: Arm, habit: Habit, kind: FaultKind, *, times: float = 1.0
) -> Hypothesis | None:
    """Suspect the fault ``kind`` if the arm's lists changed more than usual in the way ``habit``.

    The users in outlying bins are hit. They are searched among all users, or else in each segment.
    The result is that of the segment with most hit users. None if no bin is outlying, or if the
    share of the users in outlying bins is less than ``times`` the largest usual share.
    """
    bins = scene.bins[arm][habit]

    def find(segment: str) -> Outliers | None:
        rows = scene.segments[segment]
        segment_rows = None if segment == ALL else rows
        outliers = find_outlying_bins(bins[rows], usual_shares(scene, arm, habit, segment_rows))
        if outliers is None:
            return None
        share = (bins[rows] >= outliers.least).mean()
        return outliers if share >= times * outliers.usual else None

    segment_with_most = search_segments(scene, find)
    if segment_with_most is None:
        return None
    segment, outliers = segment_with_most
    rows = scene.segments[segment]
    hit = np.zeros(len(bins), dtype=bool)
    hit[rows] = bins[rows] >= outliers.least
    return Hypothesis(
        kind=kind,
        arm=arm,
        hit=hit,
        judged=bins >= 0,
        usual=outliers.usual,
        habit=habit,
        segment=segment,
    )


# At most this many segments are searched one by one. These are the largest segments, and the
# segment of all users is one of them.
_SEARCHED = 100


def search_segments(
    scene: Scene, find: Callable[[str], Outliers | None]
) -> tuple[str, Outliers] | None:
    """Search all users together with ``find``. If that finds nothing, search single segments.

    ``find`` gets the name of a segment. At most `_SEARCHED` segments are searched, the largest
    first. Returns the name of the segment with the largest estimated number of hit users, and its
    outliers. None if no segment has outliers. If many healthy users look like hit users, a few hit
    users are outliers only in their segment.
    """
    outliers = find(ALL)
    if outliers is not None:
        return ALL, outliers
    segment_with_most = None
    most_hit_users = 0.0
    by_size = sorted(scene.segments, key=lambda name: (-len(scene.segments[name]), name))
    for name in by_size[:_SEARCHED]:
        if name == ALL:
            continue
        outliers = find(name)
        if outliers is None:
            continue
        hit_users = outliers.hit_share * len(scene.segments[name])
        if hit_users > most_hit_users:
            segment_with_most = name, outliers
            most_hit_users = hit_users
    return segment_with_most


def usual_shares(
    scene: Scene, arm: Arm, habit: Habit, rows: Rows | None = None
) -> tuple[float, ...]:
    """Return the usual share of the arm's users in each bin of the habit.

    1. They are the shares in the arm's past runs. Without past runs they are the other arm's shares
       in this run, because that arm is probably healthy.
    2. If other runs are between the earlier lists and this run, the other arm's shares in this run
       are combined with them. Lists change more over several runs than over one, and the other arm
       shows how much more.
    3. If ``rows`` of a segment are given, the other arm's shares among these users are combined
       with them. The users of a segment may usually change more than all users.

    `widest_shares` combines shares.
    """
    other_bins = scene.bins[arm.other][habit]
    shares = scene.habits.get(arm, {}).get(habit)
    if shares is None:
        shares = share_bins(other_bins)
    elif scene.is_older:
        shares = widest_shares(shares, share_bins(other_bins))
    if rows is None:
        return shares
    return widest_shares(shares, share_bins(other_bins[rows]))


def lists_before(scene: Scene, arm: Arm) -> tuple[Codes, Codes]:
    """Return codes and lengths of the arm's earlier lists.

    If there are no earlier lists, return codes and lengths of the other arm's lists in this run.
    """
    if scene.changes is None:
        return scene.batch.of(arm.other)
    lists = scene.changes.lists[arm]
    return lists.former, lists.former_lengths


def mean_of_bins(shares: Sequence[float]) -> float:
    """Return the mean of a habit that measures a share, 0 to 1, from its shares of users by bin."""
    return float(np.arange(len(shares)) @ np.array(shares)) / SHARE_BINS
