"""Sampling error of any statistic of one run, and judgement of rare shares as counts."""

import math
from typing import Self

import numpy as np
import scipy
from numpy.typing import ArrayLike

from monitor.immutable import immutable
from monitor.model.arrays import Flags, Floats
from monitor.model.runs import Summary
from monitor.model.statistics import Statistic
from monitor.reference.history import keep_newest
from monitor.reference.prediction import WINDOW

LEAST_IN_TAIL = 5
"""Least users beyond a percentile for which it has an error."""
Interval = tuple[float, float]
_LEVEL = 0.975
_Z = 1.959963984540054
"""The standard normal quantile of _LEVEL."""
RARE = 10.0
"""A share is rare, and judged as a count, if fewer users are expected in a run.

Above, the angle of the share is as good.
"""
DISPERSIONS = np.array([1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0])[:, np.newaxis]
"""Variance as a multiple of the mean: 1 if users are hit independently, more if hit together."""
PRIOR = 0.35 ** np.arange(1.0, len(DISPERSIONS) + 1)[:, np.newaxis]
"""Prior weights of the dispersions.

Measured over 40 runs at a share of 4e-5: counts of dispersion 2 exceed their limit 4 times as often
as stated, which SAFETY covers. 8 of 1,500 users are detected after runs without any.
"""
CALM = 0.01
"""Counts are also judged by their spread if chance alone would make it so small less often."""
MOST_RARE = 0.5
"""More than this share of the users is never chance if the share is rare.

Otherwise a whole segment of 88 users would pass at 1e-9.
"""
_MOST_USERS = 1000.0
"""Largest limit of a count."""
_STEPS = 16
"""Halvings to find the limit of a count, to a sixtieth of a user."""


def to_angle(share: ArrayLike, users: ArrayLike) -> tuple[Floats, Floats]:
    """Angle of a share in [0, 1] of n >= 1 users, in (0, pi / 2), and its standard error.

    arcsin sqrt((x + 3/8) / (n + 3/4)) for x users, with the error 1 / (2 sqrt(n + 1/2))
    (Anscombe 1948). On this scale Student's t is valid for rare shares too.
    """
    n = np.asarray(users, dtype=np.float64)
    affected = np.asarray(share, dtype=np.float64) * n
    # Never 0, because no run proves a fault impossible.
    return np.arcsin(np.sqrt((affected + 0.375) / (n + 0.75))), 0.5 / np.sqrt(n + 0.5)


def from_angle(angle: ArrayLike, users: ArrayLike) -> Floats:
    """The share of n users with this angle, within [0, 1]."""
    n = np.asarray(users, dtype=np.float64)
    bounded = np.clip(np.asarray(angle, dtype=np.float64), 0.0, np.pi / 2)
    share: Floats = np.clip(((n + 0.75) * np.sin(bounded) ** 2 - 0.375) / n, 0.0, 1.0)
    return share


def to_count(angle: ArrayLike, error: ArrayLike) -> tuple[Floats, Floats]:
    """The arguments of `to_angle`: affected users, and all users. Whole numbers, or NaN."""
    users = np.rint(0.25 / np.square(np.asarray(error, dtype=np.float64)) - 0.5)
    counts = np.rint((users + 0.75) * np.sin(np.asarray(angle, dtype=np.float64)) ** 2 - 0.375)
    return np.maximum(counts, 0.0), users


def estimate_error(summary: Summary, statistic: Statistic) -> float | None:
    """Standard error over users of a mean or percentile, in its own unit, or None.

    Of the mean: s / sqrt(n). Of the percentile at q: sqrt(q (1 - q) / n) over the density on the
    sparser side (Woodruff 1952). The density comes from straight lines to known quantiles at least
    one standard error of q away, because nearer ones may be tied, else to the farthest one.
    None with fewer than LEAST_IN_TAIL users beyond the percentile, or too few quantiles.
    """
    q = statistic.quantile
    if q is None:
        return summary.standard_error
    if summary.n * min(q, 1 - q) < LEAST_IN_TAIL:
        return None
    reach = math.sqrt(q * (1 - q) / summary.n)
    quantiles = {}
    for name, value in summary.statistics.items():
        other = Statistic.parse(name).quantile
        if other is not None:
            quantiles[other] = value
    slopes = [_slope(quantiles, q, side * reach) for side in (-1, 1)]
    return reach * max(slopes) if any(slope >= 0 for slope in slopes) else None


def _slope(quantiles: dict[float, float], q: float, reach: float) -> float:
    """Rise of the quantile function from q towards the side of ``reach``, -1 if unknown."""
    if q not in quantiles:
        return -1.0
    side = math.copysign(1.0, reach)
    slope = -1.0
    value_at_distance = {side * (other - q): value for other, value in quantiles.items()}
    for distance in sorted(value_at_distance):
        if distance > 0:
            slope = abs(value_at_distance[distance] - quantiles[q]) / distance
            if distance >= abs(reach):
                break
    return slope


def estimate_interval(summary: Summary, statistic: str, scores: Interval | None) -> Interval | None:
    """The 95 % interval of the statistic over users, in its own unit, or None.

    Student's interval for the mean, the normal one for a percentile, both within the possible
    ``scores``, and `share_interval` for shares.
    """
    parsed = Statistic.parse(statistic)
    value = summary.value(statistic)
    if value is None or not math.isfinite(value):
        return None
    if parsed.floor is not None:
        return share_interval(value, summary.n)
    error = estimate_error(summary, parsed)
    if error is None or not math.isfinite(error):
        return None
    z = _Z
    if parsed.quantile is None:
        z = float(scipy.special.stdtrit(summary.n - 1, _LEVEL))
    reach = error * z
    low, high = scores or (-math.inf, math.inf)
    return max(low, value - reach), min(high, value + reach)


def share_interval(share: float, users: int) -> Interval:
    """Interval of a share in [0, 1] of n >= 1 users, normal for the angle. Includes the share."""
    angle, error = to_angle(share, users)
    reach = _Z * error
    low, high = from_angle(np.array([angle - reach, angle + reach]), users)
    return min(float(low), share), max(float(high), share)


@immutable
class CountReference:
    """What is normal for m counts. Arrays (m,), NaN where unknown."""

    rate: Floats  # counted users per user asked
    total: Floats  # users asked so far
    weights: Floats  # (dispersions, m), the probability of each dispersion
    is_calm: Flags  # whether counts vary less than by chance

    @classmethod
    def of(cls, counts: Floats, users: Floats) -> Self:
        """From past counts among so many users, (runs, m), NaN where a run does not count.

        Counts are Poisson, or negative binomial with a variance of d > 1 times the mean. The weight
        of a dispersion d is its prior times its likelihood.
        """
        runs = (~np.isnan(counts)).sum(axis=0)
        total = np.nansum(users, axis=0)
        counted = np.nansum(counts, axis=0)
        # With one more than counted, the test of a Poisson count is exact, given the sum of counts.
        rate = np.where(runs > 0, (counted + 1.0) / np.maximum(total, 1.0), np.nan)
        dispersions = np.maximum(DISPERSIONS, 1.001)[:, np.newaxis]
        likelihood = np.nansum(_log_chance(counts, rate * users, dispersions), axis=1)
        weights = PRIOR * np.exp(likelihood - likelihood.max(axis=0))
        mean = counted / np.maximum(total, 1.0) * users
        spread = np.nansum((counts - mean) ** 2 / np.where(mean > 0, mean, np.nan), axis=0)
        is_calm = (counted > 0) & (scipy.special.chdtr(np.maximum(runs - 1, 1), spread) < CALM)
        return cls(rate=rate, total=total, weights=weights / weights.sum(axis=0), is_calm=is_calm)

    def surprise(self, counts: Floats, users: Floats) -> Floats:
        """The chance (m,) that a healthy run has so many users or more. NaN where unknown.

        Because the rate is uncertain, a count with mean M is negative binomial with the variance
        d (1 + users / total) M. With d = 1 this is the exact conditional test of two Poisson counts
        (Przyborowski and Wilenski 1940).
        """
        wider = DISPERSIONS * (1.0 + users / np.maximum(self.total, 1.0))
        tails = scipy.special.betainc(
            np.maximum(counts, 1e-9), self.rate * users / (wider - 1.0), 1.0 - 1.0 / wider
        )
        p: Floats = (self.weights * tails).sum(axis=0)
        return p

    def limit(self, users: Floats, share: Floats) -> Floats:
        """The most normal users (m,): more have at most the chance ``share``.

        Not rounded, or NaN.
        """
        low = np.zeros(self.rate.shape)
        high = np.minimum(users, _MOST_USERS)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            is_normal = self.surprise(middle, users) > share
            low = np.where(is_normal, middle, low)
            high = np.where(is_normal, high, middle)
        return np.where(np.isnan(self.rate), np.nan, high)


def _log_chance(counts: Floats, mean: Floats, dispersion: Floats) -> Floats:
    """Log-likelihood of a negative binomial count of variance dispersion * mean.

    Terms without dispersion are left out.
    """
    shape = mean / (dispersion - 1.0)
    chance: Floats = scipy.special.gammaln(counts + shape) - scipy.special.gammaln(shape)
    return chance - shape * np.log(dispersion) + counts * np.log1p(-1.0 / dispersion)


def judge_rare(
    is_share: Flags,
    past: tuple[Floats, Floats],
    now: tuple[Floats, Floats],
    shares: Floats,
    *,
    by_angle: tuple[Floats, Floats],
    always: Floats,
) -> tuple[Floats, Floats, Flags]:
    """Upper limits as angles, p-values, and whether a series was judged as a count, (m,) each.

    - ``is_share`` (m,): the series that are angles of shares. Rare ones are judged as counts.
    - ``past``: angles and errors of past runs, (runs, m); ``now``: those of this run, (m,).
    - ``shares`` (m,): chances of a false alarm.
    - ``by_angle``: limits and p-values of the other series.
    - ``always`` (m,): users that every run has, such as one user with the most common list. The
      users beyond them are judged too, and the smaller chance counts.
    """
    limits = by_angle[0].copy()
    p = by_angle[1].copy()
    columns = np.flatnonzero(is_share)
    counts, users = to_count(now[0][columns], now[1][columns])
    newest = keep_newest(past[0][:, columns], past[1][:, columns], WINDOW)
    past_counts, past_users = to_count(*newest)
    expected = np.nansum(past_counts, axis=0) * users
    is_rare = expected < RARE * np.nansum(past_users, axis=0)
    columns = columns[is_rare]
    counts = counts[is_rare]
    users = users[is_rare]
    past_counts = past_counts[:, is_rare]
    past_users = past_users[:, is_rare]
    reference = CountReference.of(past_counts, past_users)
    beyond = np.maximum(counts - always[columns], 0.0)
    past_beyond = np.maximum(past_counts - always[columns], 0.0)
    chance = np.fmin(
        reference.surprise(counts, users),
        CountReference.of(past_beyond, past_users).surprise(beyond, users),
    )
    # In a small segment RARE users, or twice the most in a past run, may be hit together.
    most = np.maximum(
        np.maximum(RARE, MOST_RARE * users), 2.0 * np.fmax.reduce(past_counts, axis=0, initial=0.0)
    )
    chance = np.where(counts > most, np.fmin(chance, shares[columns]), chance)
    limit = np.fmin(reference.limit(users, shares[columns]), most)
    exact, _ = to_angle(limit / users, users)
    limits[columns] = np.where(reference.is_calm, np.fmin(limits[columns], exact), exact)
    p[columns] = np.where(reference.is_calm, np.fmin(p[columns], chance), chance)
    return limits, p, np.isin(np.arange(len(p)), columns)
