"""How often the interval of an outcome lacks the truth in any of 60 daily looks. `make bench ARGS=outcomes`.

Each world draws the outcomes of all users and days, (users, days), and the day on which each user comes first.
"""

import numpy as np
from scipy.stats import binomtest

from bench import parse_options, show
from monitor.statistics.unpaired.outcomes import boundary, moments, relative_difference

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
    """All users are alike, so a look repeats earlier looks as little as possible."""
    return _clicks(rng, users, np.ones((users, 1)))


def burst(rng, users):
    """As `equal`, with 20 times as many clicks on day 20."""
    rates = np.ones((users, DAYS))
    rates[:, 20] = 20
    return _clicks(rng, users, rates)


def growing(rng, users):
    """As `equal`, with 10 % more clicks every day: the variance grows faster than the clock."""
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
    """One test: for each day whether the interval lacks the truth, whether 1.96 errors do, and its width in errors.

    The outcome of before is that of the world's last half, in another order of the days.
    """
    is_candidate = rng.random(users) < 1 - share
    daily = WORLDS[world](rng, users)
    before = np.zeros(users)
    if with_before:
        before = rng.binomial(10, 0.5, users) + daily[:, ::2].sum(axis=1) * 0.2
    daily[is_candidate] *= 1 + TRUE
    present = np.cumsum(daily, axis=1)
    has_come = np.maximum.accumulate(daily > 0, axis=1)
    lacks, plain, widths = [], [], []
    for day in range(DAYS):
        here = has_come[:, day] if world in ("arrivals", "once") else np.ones(users, dtype=bool)
        arms = [
            moments(present[here & arm, day], before[here & arm])
            for arm in (~is_candidate, is_candidate)
        ]
        width = boundary(int(here.sum()), day + 1)
        outcome = []
        for errors in (width, 1.959964):
            difference = relative_difference(*arms, errors)
            outcome.append(difference.low > TRUE or difference.high < TRUE)
        lacks.append(outcome[0])
        plain.append(outcome[1])
        widths.append(width)
    return any(lacks), any(plain), widths[-1]


def main(arguments):
    """Print one table."""
    options = parse_options(arguments, repetitions=10_000)
    cases = [(name, 2_000, 0.5, True) for name in WORLDS]
    cases += [
        ("clicks", 200, 0.5, True),
        ("heavy", 2_000, 0.9, True),
        ("heavy", 20_000, 0.9, False),
    ]
    rows = []
    for name, users, share, with_before in cases:
        rng = np.random.default_rng(7)
        repetitions = options.repetitions if users <= 2_000 else options.repetitions // 10
        seen = [
            look(rng, name, users, share=share, with_before=with_before) for _ in range(repetitions)
        ]
        lacks, plain, widths = np.array(seen, dtype=np.float64).T
        bounds = binomtest(int(lacks.sum()), repetitions).proportion_ci(0.95)
        rows.append(
            (
                f"{name}, {users:,} users, {share:.0%} in the baseline",
                f"{lacks.mean():.2%}",
                f"{bounds.low:.2%} to {bounds.high:.2%}",
                f"{plain.mean():.1%}",
                f"{np.mean(widths):.2f}",
            )
        )
    show(
        f"Tests whose interval lacks the truth in any of {DAYS} looks (at most 5 %)",
        ("world", "share", "95 % bounds", "with 1.96 errors", "errors on the last day"),
        rows,
    )
