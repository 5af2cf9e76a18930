"""Differences between the arms, from summaries of each arm. Both arms have different users.

Every difference is positive if the candidate's users moved farther from their pre-test lists.
"""

import math

from monitor.model.immutable import immutable
from monitor.model.runs import Summary
from monitor.model.statistics import Statistic
from monitor.statistics.reference.sampling_error import from_angle, to_angle


@immutable
class Gap:
    """A difference between the arms. Both fields are NaN if they are undefined."""

    value: float
    error: float  # standard error over users


@immutable
class AffectedUsers:
    """How many of an arm's users have a property."""

    affected: int
    users: int


UNDEFINED = Gap(value=math.nan, error=math.nan)


def mean_gap(baseline: Summary, candidate: Summary) -> Gap:
    """The mean of the baseline minus the mean of the candidate.

    For scores of similarity this is the self gap. The error is the root of the sum of both squared
    standard errors (Welch 1947). The gap is undefined if an arm has no user with a score. The error
    is undefined if an arm has fewer than 2 such users.
    """
    if baseline.mean is None or candidate.mean is None:
        return UNDEFINED
    error = math.nan
    if baseline.standard_error is not None and candidate.standard_error is not None:
        error = math.hypot(baseline.standard_error, candidate.standard_error)
    return Gap(value=baseline.mean - candidate.mean, error=error)


def count_far(summary: Summary, far_statistic: Statistic) -> AffectedUsers:
    """How many users of this summary have a far list. See `find_far_statistic`."""
    affected = round((summary.value(str(far_statistic)) or 0.0) * summary.n)
    return AffectedUsers(affected=affected, users=summary.n)


def share_gap(baseline: AffectedUsers, candidate: AffectedUsers) -> Gap:
    """The candidate's share of affected users minus the baseline's share, in [-1, 1].

    For users with far lists this is the far gap. For users with missing, short, shared or unchanged
    lists it is a list gap. This is the value for people. Rules judge the `angle_gap`.

    The error takes one more affected user and one more other user in each arm (Agresti and Caffo
    2000). So it is above 0 if nobody is affected. Undefined if an arm has no users.
    """
    if not baseline.users or not candidate.users:
        return UNDEFINED
    value = candidate.affected / candidate.users - baseline.affected / baseline.users
    return Gap(value=value, error=math.sqrt(_variance(baseline) + _variance(candidate)))


def angle_gap(baseline: AffectedUsers, candidate: AffectedUsers) -> Gap:
    """The gap of the same shares as angles, for limits that are learned from earlier runs.

    The error of an angle depends on the number of users only (Anscombe 1948). So a fault does not
    increase its own error. In the benchmark ``unpaired`` 1 % of the users of a candidate with 1,000
    users are mixed up. Angles see this in one run with a chance of 79 %, and shares with 63 %. The
    gap is in [-pi/2, pi/2]. Undefined if an arm has no users.
    """
    if not baseline.users or not candidate.users:
        return UNDEFINED
    baseline_angle, baseline_error = to_angle(baseline.affected / baseline.users, baseline.users)
    candidate_angle, candidate_error = to_angle(
        candidate.affected / candidate.users, candidate.users
    )
    return Gap(
        value=float(candidate_angle - baseline_angle),
        error=math.hypot(baseline_error, candidate_error),
    )


def show_angle_gap(gap: float, baseline: AffectedUsers, candidate: AffectedUsers) -> float | None:
    """Convert a gap of angles, such as a limit, to a gap of shares, for people.

    The baseline's share stays the same, and the candidate's share follows from the gap. None if an
    arm has no users.
    """
    if not baseline.users or not candidate.users:
        return None
    share = baseline.affected / baseline.users
    angle, _ = to_angle(share, baseline.users)
    return float(from_angle(angle + gap, candidate.users)) - share


def _variance(count: AffectedUsers) -> float:
    """The variance of the share, with one more affected user and one more other user."""
    users = count.users + 2
    share = (count.affected + 1) / users
    return share * (1 - share) / users
