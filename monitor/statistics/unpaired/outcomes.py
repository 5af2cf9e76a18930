"""Compares an outcome of both arms' users, such as clicks, with an interval for many looks.

A user's outcome is a sum since the test began. So it grows from look to look, and so does the
number of users. The interval is as wide as the normal mixture boundary (Robbins 1970; Waudby-Smith
et al., arXiv 2103.06476), in standard errors of this look. The clock of the boundary is the number
of users, multiplied by the days since the test began.

Why this is valid at all looks together: let S be the sum of the users' outcomes minus their means.
The boundary holds for a Brownian motion whose variance grows like the clock. The correlation of S
at two looks is at least that of this motion, as long as the variance of S grows no faster than the
clock, or as long as users with a large outcome today also have one tomorrow. Then a look repeats
earlier looks more than the motion does, so fewer looks are wrong (Slepian 1962). The benchmark
``outcomes`` has the figures, also for worlds in which this is not true.
"""

import math

import numpy as np

from monitor.model.arrays import Floats
from monitor.model.immutable import immutable

ALPHA = 0.05
"""The chance that the interval ever lacks the true difference is at most this, in large samples."""
NARROWEST = 10_000.0
"""The interval has the fewest standard errors at this number of users multiplied by days.

After two weeks, 700 users have the best interval, with 3.0 standard errors on each side. A million
users have 3.9.
"""
FEWEST_EFFECTIVE_USERS = 100.0
"""There is no interval while an arm has fewer effective users than this.

A mean of few users, or of a few large outcomes, is not normally distributed.
"""
_LEAST_MEAN = 1e-100  # the square of a smaller mean can be 0
# The parameter of the mixture that is best at this time (Waudby-Smith et al., equation 9)
_SCALE = (-2 * math.log(ALPHA) + math.log(-2 * math.log(ALPHA)) + 1) / NARROWEST


@immutable
class OutcomeMoments:
    """A user's current value and pre-test value, over all users of an arm.

    The variances and the covariance have the divisor n - 1. They are NaN if n is below 2.
    """

    n: int
    mean_now: float
    mean_before: float
    variance_now: float
    variance_before: float
    covariance: float


@immutable
class Difference:
    """The candidate's mean relative to the baseline's, minus 1. NaN if it is undefined.

    The bounds are NaN if the baseline's mean is not clearly above 0.
    """

    value: float
    low: float = math.nan
    high: float = math.nan


def measure_moments_of_arm(now: Floats, before: Floats) -> OutcomeMoments:
    """The moments of the users of one arm, (n,) each."""
    covariance = np.full((2, 2), math.nan)
    if len(now) > 1:
        covariance = np.cov(now, before)
    mean_now = math.nan
    mean_before = math.nan
    if len(now):
        mean_now = float(now.mean())
        mean_before = float(before.mean())
    return OutcomeMoments(
        n=len(now),
        mean_now=mean_now,
        mean_before=mean_before,
        variance_now=float(covariance[0, 0]),
        variance_before=float(covariance[1, 1]),
        covariance=float(covariance[0, 1]),
    )


def half_width(users: int, days: float) -> float:
    """Half of the interval's width in standard errors. Infinite if the test has not begun."""
    clock = _SCALE * users * days
    if clock <= 0:
        return math.inf
    return math.sqrt(2 * (1 + 1 / clock) * math.log(math.sqrt(1 + clock) / ALPHA))


def relative_difference(
    baseline: OutcomeMoments, candidate: OutcomeMoments, width: float
) -> Difference:
    """How much higher the candidate's mean is, adjusted by the pre-test values.

    The pre-test value is x and the current value is y. The candidate's mean of y is reduced by
    theta times the difference of the arms' means of x. Theta is the slope of y on x inside the arms
    (Deng et al. 2013, CUPED). So this difference of means is the coefficient of the arm in a
    regression of y on arm and x.

    The bounds are the ratios r for which the candidate's mean differs from r times the baseline's
    mean by ``width`` standard errors (Fieller 1954). They are valid for a noisy mean of the
    baseline too.
    """
    if min(baseline.n, candidate.n) < 2 or baseline.mean_now < _LEAST_MEAN:  # noqa: PLR2004
        return Difference(value=math.nan)
    theta = _slope(baseline, candidate)
    mean = baseline.mean_now
    adjusted = candidate.mean_now - theta * (candidate.mean_before - baseline.mean_before)
    explained = theta * (2 * candidate.covariance - theta * candidate.variance_before)
    variance = baseline.variance_now / baseline.n
    adjusted_variance = theta**2 * baseline.variance_before / baseline.n
    adjusted_variance += max(candidate.variance_now - explained, 0.0) / candidate.n
    covariance = theta * baseline.covariance / baseline.n
    # The bounds are the ratios r that solve this quadratic equation: (adjusted - r mean)^2 =
    # width^2 (adjusted_variance - 2 r covariance + r^2 variance).
    quadratic = mean**2 - width**2 * variance
    linear = mean * adjusted - width**2 * covariance
    constant = adjusted**2 - width**2 * adjusted_variance
    value = adjusted / mean - 1
    effective_users = min(_count_effective(arm, mean) for arm in (baseline, candidate))
    if effective_users < FEWEST_EFFECTIVE_USERS or not quadratic > 0:
        return Difference(value=value)
    root = math.sqrt(max(linear**2 - quadratic * constant, 0.0))
    return Difference(
        value=value, low=(linear - root) / quadratic - 1, high=(linear + root) / quadratic - 1
    )


def _count_effective(arm: OutcomeMoments, mean: float) -> float:
    """How many users with equal outcomes would give as exact a mean, relative to ``mean``."""
    return arm.n / (1 + arm.variance_now / mean**2)


def _slope(baseline: OutcomeMoments, candidate: OutcomeMoments) -> float:
    """Slope of the current value on the pre-test value inside the arms. 0 if nothing varies."""
    covariance = 0.0
    variance = 0.0
    for arm in (baseline, candidate):
        covariance += (arm.n - 1) * arm.covariance
        variance += (arm.n - 1) * arm.variance_before
    if variance > 0:
        return covariance / variance
    return 0.0
