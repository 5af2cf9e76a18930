"""Rare shares of users as what they are, counts: how surprising the next one is, exactly, and the most that is normal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy

from monitor.model.arrays import Flags, Floats
from monitor.reference.history import keep_newest
from monitor.reference.prediction import WINDOW
from monitor.reference.sampling_error import to_angle, to_count

RARE = 10.0
"""Users expected in a run under which they are judged as a count; where there are more, the angle of their share is as good."""
DISPERSIONS = np.array([1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0])[:, np.newaxis]
"""Variance as a multiple of the mean: 1 where users are hit one by one, more where they are hit together."""
# Measured over 40 runs at a share of 4e-5: counts of dispersion 2 pass their limit 4 times as often as stated, which SAFETY
# pays for, and 8 of 1,500 users are seen where there was none.
PRIOR = 0.35 ** np.arange(1.0, len(DISPERSIONS) + 1)[:, np.newaxis]
CALM = 0.01
"""Counts that vary so little that chance alone would seldom do it may be judged by how they vary as well."""
_MOST, _STEPS = 1000.0, 16  # users among whom the limit is looked for, and halvings: to a sixtieth of a user


@dataclass(frozen=True, slots=True, kw_only=True)
class CountReference:
    """What is normal for m counts: users per user asked (``rate``), of ``total`` asked so far; arrays (m,), NaN where unknown.

    ``weights`` (dispersions, m): how likely each dispersion is. ``is_calm``: whether they vary less than chance would have it.
    """

    rate: Floats
    total: Floats
    weights: Floats
    is_calm: Flags

    @classmethod
    def of(cls, counts: Floats, users: Floats) -> Self:
        """From past counts among so many users, (runs, m), NaN where a run does not count.

        Counts are Poisson or, with a dispersion d above 1, negative binomial of variance d times the mean; their likelihood
        weighs the dispersions.
        """
        runs, total, found = (~np.isnan(counts)).sum(axis=0), np.nansum(users, axis=0), np.nansum(counts, axis=0)
        # One more than were seen: with it a Poisson count is judged exactly, given the sum of all counts.
        rate = np.where(runs > 0, (found + 1.0) / np.maximum(total, 1.0), np.nan)
        likely = np.nansum(_log_chance(counts, rate * users, np.maximum(DISPERSIONS, 1.001)[:, np.newaxis]), axis=1)
        weights = PRIOR * np.exp(likely - likely.max(axis=0))
        mean = found / np.maximum(total, 1.0) * users
        spread = np.nansum((counts - mean) ** 2 / np.where(mean > 0, mean, np.nan), axis=0)
        is_calm = (found > 0) & (scipy.special.chdtr(np.maximum(runs - 1, 1), spread) < CALM)
        return cls(rate=rate, total=total, weights=weights / weights.sum(axis=0), is_calm=is_calm)

    def surprise(self, counts: Floats, users: Floats) -> Floats:
        """The chance (m,) that a healthy run has so many or more; NaN where nothing is known.

        With the dispersion d, the rate being as uncertain as ``total`` makes it, a count of mean M is negative binomial of
        variance d (1 + users / total) M. With d = 1 that is the exact conditional test of two Poisson counts (Przyborowski and
        Wilenski 1940).
        """
        wider = DISPERSIONS * (1.0 + users / np.maximum(self.total, 1.0))
        tails = scipy.special.betainc(np.maximum(counts, 1e-9), self.rate * users / (wider - 1.0), 1.0 - 1.0 / wider)
        p: Floats = (self.weights * tails).sum(axis=0)
        return p

    def limit(self, users: Floats, share: Floats) -> Floats:
        """The most users (m,) that are normal: more have at most the chance ``share``. Not rounded; NaN where unknown."""
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
) -> tuple[Floats, Floats]:
    """Upper limits, as angles, and p-values (m,): of rare shares by their counts, of all others as they were found.

    ``is_share`` (m,) says which series are angles of shares; ``past`` are the angles and errors (runs, m) that count, of which
    the newest WINDOW are taken, ``now`` those of the run; ``shares`` the chances of a false alarm; ``by_angle`` what holds for
    shares that are not rare.
    """
    limits, p = (found.copy() for found in by_angle)
    among = np.flatnonzero(is_share)
    counts, users = to_count(*(each[among] for each in now))
    seen, asked = to_count(*keep_newest(past[0][:, among], past[1][:, among], WINDOW))
    is_rare = np.nansum(seen, axis=0) * users < RARE * np.nansum(asked, axis=0)
    among, counts, users = among[is_rare], counts[is_rare], users[is_rare]
    reference = CountReference.of(seen[:, is_rare], asked[:, is_rare])
    most, chance = reference.limit(users, shares[among]), reference.surprise(counts, users)
    exact = to_angle(most / users, users)[0]
    limits[among] = np.where(reference.is_calm, np.fmin(limits[among], exact), exact)
    p[among] = np.where(reference.is_calm, np.fmin(p[among], chance), chance)
    return limits, p
