"""Estimates the sampling error of a run's statistic, and judges rare shares as counts."""

import math
from typing import Self

import numpy as np
import scipy
from numpy.typing import ArrayLike

from monitor.model.arrays import Flags, Floats
from monitor.model.immutable import immutable
from monitor.model.runs import Summary
from monitor.model.statistics import Statistic
from monitor.statistics.reference.history import keep_newest

LEAST_IN_TAIL = 5
"""The error of a percentile is estimated only if at least this many users are beyond it."""
Interval = tuple[float, float]
_LEVEL = 0.975
_Z = 1.959963984540054
"""The standard normal quantile of _LEVEL."""
RARE = 10.0
"""A share is rare if a run should have fewer than this many users with the property.

A rare share is judged as a count. Other shares are judged as angles, because angles are as
accurate for them.
"""
DISPERSIONS = np.array([1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0])[:, np.newaxis]
"""Variances of a count, as multiples of its mean.

The multiple is 1 if users are affected independently, and larger if they are affected together.
"""
PRIOR = 0.35 ** np.arange(1.0, len(DISPERSIONS) + 1)[:, np.newaxis]
"""Prior weights of the dispersions.

They were tested over 40 runs at a share of 4e-5. Counts with the dispersion 2 exceed their limit 4
times as often as they should. SAFETY makes up for this. If no user was affected before, 8 of
1,500 users are detected.
"""
CALM = 0.01
"""Counts are calm if they vary clearly less than chance would make them vary.

The probability that chance makes them vary so little is below this value. Calm counts are also
judged by how much they varied from run to run.
"""
MOST_RARE = 0.5
"""If a rare share suddenly has more than this share of the users, this is never taken for chance.

Otherwise a fault that affects all 88 users of a segment would not be detected at a chance of 1e-9.
"""
_HIGHEST_USER_LIMIT = 1000.0
"""`CountReference.limit` is never above this number of users."""
_STEPS = 16
"""The number of bisection steps. The error of a limit is then less than 0.02 users."""


def to_angle(share: ArrayLike, users: ArrayLike) -> tuple[Floats, Floats]:
    """Convert a share of n >= 1 users to an angle in (0, pi / 2), with its standard error.

    For x users the angle is arcsin sqrt((x + 3/8) / (n + 3/4)). Its error is 1 / (2 sqrt(n + 1/2))
    (Anscombe 1948). On this scale Student's t is valid for rare shares too.
    """
    n = np.asarray(users, dtype=float)
    affected = np.asarray(share, dtype=float) * n
    # The angle is never 0, because no run proves that a fault is impossible.
    return np.arcsin(np.sqrt((affected + 0.375) / (n + 0.75))), 0.5 / np.sqrt(n + 0.5)


def from_angle(angle: ArrayLike, users: ArrayLike) -> Floats:
    """Convert an angle back to a share of n users, in [0, 1]."""
    n = np.asarray(users, dtype=float)
    bounded = np.clip(np.asarray(angle, dtype=float), 0.0, np.pi / 2)
    share: Floats = np.clip(((n + 0.75) * np.sin(bounded) ** 2 - 0.375) / n, 0.0, 1.0)
    return share


def to_count(angle: Floats, error: Floats) -> tuple[Floats, Floats]:
    """Convert an angle and its error back to numbers of users: affected users, and all users.

    They are whole numbers or NaN.
    """
    users = np.rint(0.25 / np.square(error) - 0.5)
    counts = np.rint((users + 0.75) * np.sin(angle) ** 2 - 0.375)
    return np.maximum(counts, 0.0), users


def estimate_error(summary: Summary, statistic: Statistic) -> float | None:
    """Standard error over users of a mean or percentile, in the unit of the statistic.

    The error of a mean is s / sqrt(n). The error of the percentile at q is sqrt(q (1 - q) / n),
    divided by the density of users (Woodruff 1952). The densities below and above the percentile
    are estimated, and the lower one is used. Each density is estimated by a straight line from the
    percentile to another quantile. This is the nearest known quantile that is at least one standard
    error of q away, because nearer quantiles may be equal. If there is none, the line goes to the
    farthest known quantile.

    None if fewer than LEAST_IN_TAIL users are beyond the percentile, or if no other quantile is
    known.
    """
    q = statistic.quantile
    if q is None:
        return summary.standard_error
    if summary.n * min(q, 1 - q) < LEAST_IN_TAIL:
        return None
    error_of_q = math.sqrt(q * (1 - q) / summary.n)
    quantiles = {}
    for name, value in summary.statistics.items():
        other = Statistic.parse(name).quantile
        if other is not None:
            quantiles[other] = value
    # A slope is 1 / density.
    slopes = [_slope(quantiles, q, error_of_q, side) for side in (-1, 1)]
    if not any(slope >= 0 for slope in slopes):
        return None
    return error_of_q * max(slopes)


def _slope(quantiles: dict[float, float], q: float, least_distance: float, side: int) -> float:
    """Slope of the line from the quantile q to another quantile, below q if ``side`` is -1, else 1.

    The other quantile is the nearest one that is at least ``least_distance`` away, or else the
    farthest one. The result is -1 if there is no other quantile.
    """
    if q not in quantiles:
        return -1.0
    slope = -1.0
    value_at_distance = {side * (other - q): value for other, value in quantiles.items()}
    for distance in sorted(value_at_distance):
        if distance > 0:
            slope = abs(value_at_distance[distance] - quantiles[q]) / distance
            if distance >= least_distance:
                break
    return slope


def estimate_interval(summary: Summary, statistic: str, scores: Interval | None) -> Interval | None:
    """The 95 % interval of the statistic over users, in the unit of the statistic.

    The interval of a mean is computed with Student's t, and the interval of a percentile with the
    normal distribution. Both are cut to the range of possible ``scores``. `share_interval`
    computes the interval of a share. None if the value or its error is not known.
    """
    parsed = Statistic.parse(statistic)
    value = summary.value(statistic)
    if value is None or not math.isfinite(value):
        return None
    if parsed.below is not None:
        return share_interval(value, summary.n)
    error = estimate_error(summary, parsed)
    if error is None or not math.isfinite(error):
        return None
    errors = _Z
    if parsed.quantile is None:
        errors = float(scipy.special.stdtrit(summary.n - 1, _LEVEL))
    half_width = error * errors
    lowest, highest = scores or (-math.inf, math.inf)
    return max(lowest, value - half_width), min(highest, value + half_width)


def share_interval(share: float, users: int) -> Interval:
    """The 95 % interval of a share of n >= 1 users. It always includes the share.

    The interval is computed for the angle, with the normal distribution.
    """
    angle, error = to_angle(share, users)
    half_width = _Z * error
    low, high = from_angle(np.array([angle - half_width, angle + half_width]), users)
    return min(float(low), share), max(float(high), share)


@immutable
class CountReference:
    """What is normal for m counts. The arrays have the shape (m,). Unknown values are NaN."""

    rate: Floats  # share of the asked users that were counted
    total: Floats  # number of users asked in all past runs
    weights: Floats  # (dispersions, m), the probability of each dispersion
    is_calm: Flags  # whether counts vary less than chance would make them vary

    @classmethod
    def of(cls, counts: Floats, users: Floats) -> Self:
        """Learn from past ``counts`` among ``users``, (runs, m). Runs with NaN are ignored.

        Counts have a Poisson distribution if users are affected independently. Otherwise counts
        have a negative binomial distribution, with a variance of d > 1 times the mean. The weight
        of a dispersion d is the prior weight of d times the likelihood of d.
        """
        runs = (~np.isnan(counts)).sum(axis=0)
        total = np.nansum(users, axis=0)
        counted = np.nansum(counts, axis=0)
        # One user is added to the sum of the counts, so that the conditional test of a Poisson
        # count is exact.
        rate = np.where(runs > 0, (counted + 1.0) / np.maximum(total, 1.0), np.nan)
        dispersions = np.maximum(DISPERSIONS, 1.001)[:, np.newaxis]
        log_likelihood = np.nansum(_log_likelihood(counts, rate * users, dispersions), axis=1)
        weights = PRIOR * np.exp(log_likelihood - log_likelihood.max(axis=0))
        mean = counted / np.maximum(total, 1.0) * users
        chi_square = np.nansum((counts - mean) ** 2 / np.where(mean > 0, mean, np.nan), axis=0)
        chance = scipy.special.chdtr(np.maximum(runs - 1, 1), chi_square)
        is_calm = (counted > 0) & (chance < CALM)
        return cls(rate=rate, total=total, weights=weights / weights.sum(axis=0), is_calm=is_calm)

    def p_values(self, counts: Floats, users: Floats) -> Floats:
        """The chance, (m,), that a healthy run has at least this count. NaN if unknown.

        The rate is uncertain. So a count with the mean M has a negative binomial distribution, with
        the variance d (1 + users / total) M. For d = 1 this is the exact conditional test of two
        Poisson counts (Przyborowski and Wilenski 1940).
        """
        dispersions = DISPERSIONS * (1.0 + users / np.maximum(self.total, 1.0))
        shape = self.rate * users / (dispersions - 1.0)
        tails = scipy.special.betainc(np.maximum(counts, 1e-9), shape, 1.0 - 1.0 / dispersions)
        p: Floats = (self.weights * tails).sum(axis=0)
        return p

    def limit(self, users: Floats, alpha: Floats) -> Floats:
        """The largest normal count, (m,). The probability of a larger count is at most ``alpha``.

        The limit is not rounded to a whole number. It is NaN if the rate is unknown.
        """
        low = np.zeros(self.rate.shape)
        high = np.minimum(users, _HIGHEST_USER_LIMIT)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            is_normal = self.p_values(middle, users) > alpha
            low = np.where(is_normal, middle, low)
            high = np.where(is_normal, high, middle)
        return np.where(np.isnan(self.rate), np.nan, high)


def _log_likelihood(counts: Floats, mean: Floats, dispersion: Floats) -> Floats:
    """Log-likelihood of a negative binomial count whose variance is dispersion * mean.

    Terms that do not depend on the dispersion are left out.
    """
    shape = mean / (dispersion - 1.0)
    log_ratio: Floats = scipy.special.gammaln(counts + shape) - scipy.special.gammaln(shape)
    return log_ratio - shape * np.log(dispersion) + counts * np.log1p(-1.0 / dispersion)


def judge_rare(  # noqa: PLR0913 - the arrays of one run
    is_share: Flags,
    past: tuple[Floats, Floats],
    now: tuple[Floats, Floats],
    alpha: Floats,
    *,
    uncounted: tuple[Floats, Floats],
    always: Floats,
    is_low: Flags | bool = False,
) -> tuple[Floats, Floats, Flags]:
    """Judge the series of rare shares as counts. Leave the results of all other series as they are.

    Returns three arrays of shape (m,): the limits as angles, the p-values, and whether each series
    was judged as a count.

    - ``is_share`` (m,): whether a series consists of angles of shares. Only these can be counts.
    - ``past``: the angles and errors of past runs, (runs, m).
    - ``now``: the angles and errors of this run, (m,).
    - ``alpha`` (m,): the allowed chances of a false alert.
    - ``uncounted``: the limits and p-values of all series if none is judged as a count.
    - ``always`` (m,): the number of users that are in every count. For example, at least one user
      always has the most common list. The count without these users is judged too, and the smaller
      p-value is used.
    - ``is_low`` (m,): whether low values of a series alert. Then the other users are counted,
      because a share is too low if the share of the other users is too high.
    """
    counts_other_users = is_share & is_low

    def swap(angles: Floats) -> Floats:
        # If a share has the angle a, the share of the other users has the angle pi / 2 - a.
        return np.where(counts_other_users, np.pi / 2 - angles, angles)

    limits, p_values = uncounted
    limits = swap(limits)
    p_values = p_values.copy()
    columns = np.flatnonzero(is_share)
    angles, errors = now
    counts, users = to_count(swap(angles)[columns], errors[columns])
    past_angles, past_errors = past
    newest = keep_newest(swap(past_angles)[:, columns], past_errors[:, columns])
    past_counts, past_users = to_count(*newest)
    # The expected count of this run is the share in past runs, multiplied by the users of this run.
    past_counted = np.nansum(past_counts, axis=0)
    is_rare = past_counted * users < RARE * np.nansum(past_users, axis=0)
    # From here on, the arrays have only the columns of rare shares.
    columns = columns[is_rare]
    counts = counts[is_rare]
    users = users[is_rare]
    past_counts = past_counts[:, is_rare]
    past_users = past_users[:, is_rare]
    reference = CountReference.of(past_counts, past_users)
    # The counts without the users that are in every count.
    others = np.maximum(counts - always[columns], 0.0)
    past_others = np.maximum(past_counts - always[columns], 0.0)
    p_of_others = CountReference.of(past_others, past_users).p_values(others, users)
    p_of_counts = np.fmin(reference.p_values(counts, users), p_of_others)
    # In a small segment, RARE users may be affected together by chance. The same is true for twice
    # as many users as in the largest past count. A larger count is never taken for chance.
    largest_past = np.fmax.reduce(past_counts, axis=0, initial=0.0)
    largest_by_chance = np.maximum(np.maximum(RARE, MOST_RARE * users), 2.0 * largest_past)
    is_too_large = counts > largest_by_chance
    p_of_counts = np.where(is_too_large, np.fmin(p_of_counts, alpha[columns]), p_of_counts)
    count_limits = np.fmin(reference.limit(users, alpha[columns]), largest_by_chance)
    angle_limits, _ = to_angle(count_limits / users, users)
    # Calm counts are judged as angles too. The stricter one of both results is used.
    stricter_limits = np.fmin(limits[columns], angle_limits)
    smaller_p = np.fmin(p_values[columns], p_of_counts)
    limits[columns] = np.where(reference.is_calm, stricter_limits, angle_limits)
    p_values[columns] = np.where(reference.is_calm, smaller_p, p_of_counts)
    is_counted = np.isin(np.arange(len(p_values)), columns)
    return swap(limits), p_values, is_counted
