"""How often the interval of an outcome misses the true difference on any of 60 days. `make bench ARGS=outcomes`.

Each world draws the outcomes of all users and days, (users, days), and the day on which each user comes first.
"""

from itertools import product

import numpy as np
import scipy

from bench import parse_options, show
from monitor.statistics.sequential.gate import ScoreCounts, log_capital
from monitor.statistics.unpaired.outcomes import (
    ALPHA,
    OutcomeMoments,
    half_width,
    relative_difference,
)

DAYS = 60
TRUE = -0.1
"""The candidate's outcome is 10 % lower in every world."""


def _clicks(rng, users, rates, arrivals=None):
    days = np.arange(DAYS)
    comes = np.zeros(users) if arrivals is None else arrivals
    rate = rates * (days >= comes[:, np.newaxis])
    return rng.poisson(rate).astype(np.float64)


def clicks(rng, users):
    """Some users click more than others, every day."""
    return _clicks(rng, users, rng.gamma(1, 1, (users, 1)))


def arrivals(rng, users):
    """As `clicks`, and users come on all days."""
    return _clicks(rng, users, rng.gamma(1, 1, (users, 1)), rng.integers(0, DAYS, users))


def heavy(rng, users):
    """5 % of the users buy on a day, for amounts of log-normal size."""
    spent = rng.lognormal(0, 1.5, (users, DAYS)) * rng.lognormal(0, 1, (users, 1))
    return spent * (rng.random((users, DAYS)) < 0.05)


def equal(rng, users):
    """All users are alike, so the interval of a day depends as little as possible on earlier days."""
    return _clicks(rng, users, np.ones((users, 1)))


def burst(rng, users):
    """As `equal`, with 20 times as many clicks on day 20."""
    rates = np.ones((users, DAYS))
    rates[:, 20] = 20
    return _clicks(rng, users, rates)


def growing(rng, users):
    """As `equal`, with 10 % more clicks every day. So the variance grows faster than time."""
    return _clicks(rng, users, np.ones((users, 1)) * 1.1 ** np.arange(DAYS))


def once(rng, users):
    """Each user comes on one day only, and more users come every day."""
    comes = (DAYS * np.sqrt(rng.random(users))).astype(int)
    outcome = np.zeros((users, DAYS))
    outcome[np.arange(users), comes] = rng.poisson(3, users)
    return outcome


WORLDS = {
    "clicks": clicks,
    "arrivals": arrivals,
    "heavy": heavy,
    "equal": equal,
    "burst": burst,
    "growing": growing,
    "once": once,
}


def look(rng, world, users, *, share=0.5, with_before=True):
    """One test: whether the interval misses the truth on any day, and whether 1.96 errors do.

    The outcome of before is that of the second half of the world, with the days in another order.
    """
    is_candidate = rng.random(users) < 1 - share
    daily = WORLDS[world](rng, users)
    before = np.zeros(users)
    if with_before:
        before = rng.binomial(10, 0.5, users) + daily[:, ::2].sum(axis=1) * 0.2
    daily[is_candidate] *= 1 + TRUE
    has_come = np.ones(daily.shape)
    if world in ("arrivals", "once"):
        has_come = np.maximum.accumulate(daily > 0, axis=1).astype(np.float64)
    arms = [
        moments_of_days(daily[rows], before[rows], has_come[rows])
        for rows in (~is_candidate, is_candidate)
    ]
    lacks = []
    plain = []
    for day, (baseline, candidate) in enumerate(zip(*arms, strict=True), start=1):
        width = half_width(baseline.n + candidate.n, day)
        for errors, missed in ((width, lacks), (1.959964, plain)):
            difference = relative_difference(baseline, candidate, errors)
            missed.append(difference.low > TRUE or difference.high < TRUE)
    return any(lacks), any(plain)


def moments_of_days(daily, before, has_come):
    """The `Moments` of the users that have come, for each day. Other users have no outcome yet."""
    present = np.cumsum(daily, axis=1)
    n = np.maximum(has_come.sum(axis=0), 2)  # no warning on a day without users
    now, then = present.sum(axis=0) / n, before @ has_come / n
    spread = ((present**2).sum(axis=0), before**2 @ has_come, before @ present)
    means = (now**2, then**2, now * then)
    parts = [(total - n * mean) / (n - 1) for total, mean in zip(spread, means, strict=True)]
    for day in range(len(n)):
        yield OutcomeMoments(
            n=int(n[day]),
            mean_now=now[day],
            mean_before=then[day],
            variance_now=parts[0][day],
            variance_before=parts[1][day],
            covariance=parts[2][day],
        )


def prefer_wrongly(rng, users, rate, comes_later):
    """Whether a log of interleaved lists shows a preference that users do not have on any of 60 days.

    The preference of a user may change from day to day, because clicks are added up.
    """
    clicks = rng.poisson(rate, (2, users, DAYS))
    if comes_later:
        clicks *= np.arange(DAYS) >= rng.integers(0, DAYS, users)[:, np.newaxis]
    clicks = np.cumsum(clicks, axis=2)
    signs = np.sign(clicks[1] - clicks[0])
    for day in range(DAYS):
        of_day = signs[clicks[:, :, day].any(axis=0), day]
        counts = np.array([(of_day == sign).sum() for sign in (-1, 0, 1)], dtype=np.float64)
        scores = ScoreCounts(np.array([0.0, 0.5, 1.0]), counts)
        if max(log_capital(scores, 0.5), log_capital(scores.flipped(), 0.5)) > np.log(2 / ALPHA):
            return True
    return False


def main(arguments):
    """Print one table."""
    options = parse_options(arguments, repetitions=10_000, only="")
    cases = [(name, 1_000, 0.5, True) for name in WORLDS]
    cases += [("clicks", 200, 0.5, True), ("heavy", 1_000, 0.9, True), ("heavy", 10_000, 0.9, True)]
    rows = []
    for name, users, share, with_before in cases:
        if options.only not in ("", name):
            continue
        rng = np.random.default_rng(7)
        repetitions = options.repetitions if users <= 1_000 else options.repetitions // 10
        seen = [
            look(rng, name, users, share=share, with_before=with_before) for _ in range(repetitions)
        ]
        lacks, plain = np.array(seen).T
        what = f"{name}, {users:,} users, {share:.0%} in the baseline"
        rows.append((what, *_share_of(lacks.sum(), repetitions), f"{plain.mean():.1%}"))
    if options.only in ("", "interleaved"):
        for users, rate, comes_later in product((200, 1_000), (0.05, 1.0), (False, True)):
            rng = np.random.default_rng(7)
            tests = options.repetitions // 10
            wrong = sum(prefer_wrongly(rng, users, rate, comes_later) for _ in range(tests))
            name = f"interleaved, {users:,} users, {rate:g} clicks a day"
            if comes_later:
                name += ", coming on all days"
            rows.append((name, *_share_of(wrong, tests), ""))
    show(
        f"Tests whose interval lacks the truth in any of {DAYS} looks (at most 5 %)",
        ("world", "share", "95 % bounds", "with 1.96 errors"),
        rows,
    )


def _share_of(count, tests):
    """The share of tests, with its 95 % bounds."""
    bounds = scipy.stats.binomtest(int(count), tests).proportion_ci(0.95)
    return f"{count / tests:.2%}", f"{bounds.low:.2%} to {bounds.high:.2%}"
