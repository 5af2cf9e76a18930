"""Sampling error of any statistic of one run.

Rare shares of users as what they are, counts: how surprising the next one is.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import scipy

from monitor.model.arrays import Flags, Floats
from monitor.model.runs import Summary
from monitor.model.statistics import Statistic
from monitor.reference.history import keep_newest
from monitor.reference.prediction import WINDOW

LEAST_IN_TAIL = 5
"""Users that have to lie beyond a percentile before it has an error: an extreme user is no percentile."""
Interval = tuple[float, float]
_LEVEL, _Z = 0.975, 1.959963984540054  # the standard normal quantile of it
RARE = 10.0
"""Users expected in a run under which they are judged as a count.

Where there are more, the angle of their share is as good.
"""
DISPERSIONS = np.array([1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0])[:, np.newaxis]
"""Variance as a multiple of the mean: 1 where users are hit one by one, more where they are hit together."""
# Measured over 40 runs at a share of 4e-5: counts of dispersion 2 pass their limit 4 times as often
# as stated, which SAFETY pays for, and 8 of 1,500 users are seen where there was none.
PRIOR = 0.35 ** np.arange(1.0, len(DISPERSIONS) + 1)[:, np.newaxis]
CALM = 0.01
"""Counts that vary so little that chance alone would seldom do it may be judged by how they vary as well."""
MOST_RARE = 0.5
"""More than this share of the users is no chance where a share is rare, or else a whole segment of 88 users passes at 1e-9."""
_MOST, _STEPS = (
    1000.0,
    16,
)  # users among whom the limit is looked for, and halvings: to a sixtieth of a user


def to_angle(share: npt.ArrayLike, users: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Angle of a share in [0, 1] of n >= 1 users, in (0, pi / 2), and its standard error 1 / (2 sqrt(n + 1/2)).

    arcsin sqrt((x + 3/8) / (n + 3/4)) for x users (Anscombe 1948): here Student's t holds its rate for rare shares too.
    """
    n = np.asarray(users, dtype=np.float64)
    affected = np.asarray(share, dtype=np.float64) * n
    # Never 0: no run proves a fault impossible.
    return np.arcsin(np.sqrt((affected + 0.375) / (n + 0.75))), 0.5 / np.sqrt(n + 0.5)


def from_angle(angle: npt.ArrayLike, users: npt.ArrayLike) -> Floats:
    """The share of n users whose angle this is, within [0, 1]: brings limits back to what people read."""
    n = np.asarray(users, dtype=np.float64)
    bounded = np.clip(np.asarray(angle, dtype=np.float64), 0.0, np.pi / 2)
    share: Floats = np.clip(((n + 0.75) * np.sin(bounded) ** 2 - 0.375) / n, 0.0, 1.0)
    return share


def to_count(angle: npt.ArrayLike, error: npt.ArrayLike) -> tuple[Floats, Floats]:
    """How many users `to_angle` was told of, and of how many; whole numbers, NaN stays NaN."""
    users = np.rint(0.25 / np.square(np.asarray(error, dtype=np.float64)) - 0.5)
    counts = np.rint((users + 0.75) * np.sin(np.asarray(angle, dtype=np.float64)) ** 2 - 0.375)
    return np.maximum(counts, 0.0), users


def estimate_error(summary: Summary, statistic: Statistic) -> float | None:
    """Standard error over users of a mean or percentile, in its own unit.

    None where the summary does not suffice.

    Of the mean s / sqrt(n); of a share that of its angle, see `to_angle`; of the percentile at q
    sqrt(q (1 - q) / n) over the density, from straight lines to known quantiles at least one
    standard error of q away (nearer ones may be tied), else the farthest, on the sparser side
    (Woodruff 1952). None with fewer than LEAST_IN_TAIL users beyond the percentile.
    """
    q = statistic.quantile
    if q is None:
        return summary.standard_error
    if summary.n * min(q, 1 - q) < LEAST_IN_TAIL:
        return None
    reach = math.sqrt(q * (1 - q) / summary.n)
    found = ((Statistic.parse(name).quantile, value) for name, value in summary.statistics.items())
    known = {at: value for at, value in found if at is not None}
    slopes = [slope for side in (-1, 1) if (slope := _slope(known, q, side * reach)) is not None]
    return reach * max(slopes) if slopes else None


def _slope(known: dict[float, float], q: float, reach: float) -> float | None:
    """Rise of the quantile function from q towards its neighbour on the side of ``reach``, None without one."""
    side = math.copysign(1.0, reach)
    others = sorted(
        (side * (other - q), value) for other, value in known.items() if side * (other - q) > 0
    )
    if not others or q not in known:
        return None
    distance, value = next((each for each in others if each[0] >= abs(reach)), others[-1])
    return abs(value - known[q]) / distance


def estimate_interval(summary: Summary, statistic: str, scores: Interval | None) -> Interval | None:
    """Where the statistic of all users like these lies, in its own unit.

    None where the summary does not suffice.

    Of the mean Student's interval, of a percentile the normal one, within ``scores``, the possible;
    of shares `share_interval`.
    """
    wanted, value = Statistic.parse(statistic), summary.value(statistic)
    if value is None or not math.isfinite(value):
        return None
    if wanted.floor is not None:
        return share_interval(value, summary.n)
    error = estimate_error(summary, wanted)
    if error is None or not math.isfinite(error):
        return None
    is_mean = wanted.quantile is None
    reach = error * (float(scipy.special.stdtrit(summary.n - 1, _LEVEL)) if is_mean else _Z)
    low, high = scores or (-math.inf, math.inf)
    return max(low, value - reach), min(high, value + reach)


def share_interval(share: float, users: int) -> Interval:
    """Interval of a share in [0, 1] of n >= 1 users: normal on the angular scale, and never without the share itself."""
    angle, error = to_angle(share, users)
    reach = _Z * error
    low, high = from_angle(np.array([angle - reach, angle + reach]), users)
    return min(float(low), share), max(float(high), share)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountReference:
    """What is normal for m counts; arrays (m,), NaN where unknown."""

    rate: Floats  # users per user asked
    total: Floats  # users asked so far
    weights: Floats  # (dispersions, m), how likely each dispersion is
    is_calm: Flags  # whether they vary less than chance would have it

    @classmethod
    def of(cls, counts: Floats, users: Floats) -> Self:
        """From past counts among so many users, (runs, m), NaN where a run does not count.

        Counts are Poisson or, of dispersion d > 1, negative binomial of variance d times the mean;
        likelihoods weigh d.
        """
        runs, total, found = (
            (~np.isnan(counts)).sum(axis=0),
            np.nansum(users, axis=0),
            np.nansum(counts, axis=0),
        )
        # One more than were seen: with it a Poisson count is judged exactly, given the sum of all
        # counts.
        rate = np.where(runs > 0, (found + 1.0) / np.maximum(total, 1.0), np.nan)
        likely = np.nansum(
            _log_chance(counts, rate * users, np.maximum(DISPERSIONS, 1.001)[:, np.newaxis]), axis=1
        )
        weights = PRIOR * np.exp(likely - likely.max(axis=0))
        mean = found / np.maximum(total, 1.0) * users
        spread = np.nansum((counts - mean) ** 2 / np.where(mean > 0, mean, np.nan), axis=0)
        is_calm = (found > 0) & (scipy.special.chdtr(np.maximum(runs - 1, 1), spread) < CALM)
        return cls(rate=rate, total=total, weights=weights / weights.sum(axis=0), is_calm=is_calm)

    def surprise(self, counts: Floats, users: Floats) -> Floats:
        """The chance (m,) that a healthy run has so many or more; NaN where nothing is known.

        The rate being uncertain, a count of mean M is negative binomial of variance d (1 + users /
        total) M; with d = 1 that is the exact conditional test of two Poisson counts (Przyborowski
        and Wilenski 1940).
        """
        wider = DISPERSIONS * (1.0 + users / np.maximum(self.total, 1.0))
        tails = scipy.special.betainc(
            np.maximum(counts, 1e-9), self.rate * users / (wider - 1.0), 1.0 - 1.0 / wider
        )
        p: Floats = (self.weights * tails).sum(axis=0)
        return p

    def limit(self, users: Floats, share: Floats) -> Floats:
        """The most users (m,) that are normal: more have at most the chance ``share``.

        Not rounded; NaN where unknown.
        """
        low, high = np.zeros(self.rate.shape), np.minimum(users, _MOST)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            is_normal = self.surprise(middle, users) > share
            low, high = np.where(is_normal, middle, low), np.where(is_normal, high, middle)
        return np.where(np.isnan(self.rate), np.nan, high)


def _log_chance(counts: Floats, mean: Floats, dispersion: Floats) -> Floats:
    """Logarithm of the chance of a negative binomial count of variance dispersion * mean, less what all dispersions share."""
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
    """Upper limits, as angles, p-values and whether it is counted (m,): rare shares are, others stay as they were found.

    ``is_share`` (m,): which series are angles of shares; ``past``: angles and errors (runs, m) that count, ``now`` the run's;
    ``shares``: chances of a false alarm; ``by_angle``: what holds for shares that are not rare. ``always`` (m,): users that
    no run is without, such as who has the most common list; those beyond them are judged too, and the likelier fault counts.
    """
    limits, p = (found.copy() for found in by_angle)
    among = np.flatnonzero(is_share)
    counts, users = to_count(*(each[among] for each in now))
    seen, asked = to_count(*keep_newest(past[0][:, among], past[1][:, among], WINDOW))
    is_rare = np.nansum(seen, axis=0) * users < RARE * np.nansum(asked, axis=0)
    among, counts, users, seen, asked = (
        among[is_rare],
        counts[is_rare],
        users[is_rare],
        seen[:, is_rare],
        asked[:, is_rare],
    )
    reference = CountReference.of(seen, asked)
    beyond, before = (np.maximum(each - always[among], 0.0) for each in (counts, seen))
    chance = np.fmin(
        reference.surprise(counts, users), CountReference.of(before, asked).surprise(beyond, users)
    )
    # RARE users, or twice as many as were seen at once, may be hit together in a small segment.
    most = np.maximum(
        np.maximum(RARE, MOST_RARE * users), 2.0 * np.fmax.reduce(seen, axis=0, initial=0.0)
    )
    chance = np.where(counts > most, np.fmin(chance, shares[among]), chance)
    exact = to_angle(np.fmin(reference.limit(users, shares[among]), most) / users, users)[0]
    limits[among] = np.where(reference.is_calm, np.fmin(limits[among], exact), exact)
    p[among] = np.where(reference.is_calm, np.fmin(p[among], chance), chance)
    return limits, p, np.isin(np.arange(len(p)), among)
