"""Compares the error rates of sequential decisions with the stated rates, and with a z-test after each run.

`make bench ARGS=sequences`. Each line has 10,000 histories. Coverage is checked after every user, and the gate after every run.
Scores are in [0, 1].
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri
from scipy.stats import binomtest

from bench import show
from drift_lists import arm_folder
from monitor import compare_many
from monitor.statistics.sequential.gate import Scale, follow_capital

Flags = npt.NDArray[np.bool_]

HISTORIES = 10_000
BATCH = 500
COLUMNS = ("what", "promise", "measured", "95 % bounds", "peeking z-test", "95 % bounds")
Z_FROM = 30
"""The number of users before the first z-test, as textbooks demand."""


def main(_):
    """Print the tables, one after the other."""
    for tabulate in (tabulate_coverage, tabulate_gate):
        tabulate(np.random.default_rng(20240108))


def real_excess():
    """Excess of extended tau over its noise floor on [0, 1], for each user and day.

    Candidate `ok-seed`, floor `again`, k = 10.
    """
    days = [_excess_of_day(path.name) for path in sorted(arm_folder("baseline").glob("*.parquet"))]
    return Scale(-2.0, 2.0).to_unit(np.concatenate(days))


def _excess_of_day(day):
    baseline, again, candidate = (
        pd.read_parquet(arm_folder(arm) / day)[["user_id", "items"]].rename(
            columns={"user_id": "user"}
        )
        for arm in ("baseline", "again", "ok-seed")
    )
    floor, score = (
        compare_many(baseline, other, "extended_tau", 10)["extended_tau"]
        for other in (again, candidate)
    )
    return (floor - score).dropna().to_numpy(np.float64)


def _draw_bernoulli(p, rng, shape):
    return (rng.random(shape) < p).astype(np.float64)


def populations():
    """Name, mean and draws of the distributions for coverage.

    Rare, common and nearly sure events, smooth, two points, and real.
    """
    for p in (0.01, 0.1, 0.5, 0.99):
        yield f"Bernoulli {p}", p, partial(_draw_bernoulli, p)
    yield "beta(2, 5)", 2 / 7, lambda rng, shape: rng.beta(2, 5, shape)
    yield "0.4 or 0.9", 0.5, lambda rng, shape: np.where(rng.random(shape) < 0.2, 0.9, 0.4)
    real = real_excess()
    yield "real excess over the floor", real.mean(), lambda rng, shape: rng.choice(real, shape)


def tabulate_coverage(rng):
    """How often the confidence sequence ever excludes the mean, with independent draws and with a population of 1.25 n."""
    alpha, users = 0.05, 1000
    rows = []
    for name, mean, draw in populations():
        for size in (None, users * 5 // 4):
            ours, theirs = list[Flags](), list[Flags]()
            for _ in range(HISTORIES // BATCH):
                whole = draw(rng, (BATCH, size or users))
                means = whole.mean(axis=1) if size else np.full(BATCH, mean)
                seen = whole[:, :users]
                ours.append(np.any(_is_left_out(seen, means, size, alpha), axis=1))
                z = _z(seen, means[:, np.newaxis])
                theirs.append(np.any(np.abs(z) > -ndtri(alpha / 2), axis=1))
            how = f"{users:,} of {size:,}" if size else "independent"
            rows.append((f"{name}, {how}", alpha, *_rates(ours), *_rates(theirs)))
    title = f"Confidence sequence: mean left out at any of {users:,} looks, alpha {alpha}"
    show(title, COLUMNS, rows)


def _is_left_out(scores, means, population, alpha):
    """Whether one of the bounds excludes the history's mean, for each look.

    Without a population, all histories have the same mean.
    """
    sides = []
    for side, side_means in ((scores, means), (1 - scores, 1 - means)):
        if population is None:
            sides.append(follow_capital(side, float(side_means[0])))
        else:
            pairs = zip(side, side_means, strict=True)
            sides.append(np.stack([follow_capital(*each, population) for each in pairs]))
    return np.maximum(*sides) >= math.log(2 / alpha)


RUNS, USERS = 10, 200
MARGIN = 0.5125
"""0.05 on a metric whose range is 2 wide, with a noise floor."""


def _shifted(rng, pool, by=0.0, shock=0.0):
    """Scores around margin + by. One shock moves all users of a run.

    The mean of clipped scores is that of the pool.
    """
    means = MARGIN + by + rng.normal(0, shock, (BATCH, RUNS))
    centred = pool[(pool > 0.1) & (pool < 0.9)]
    centred = centred - centred.mean()
    scores = rng.choice(centred, (BATCH, RUNS, USERS)) + means[:, :, np.newaxis]
    return scores.reshape(BATCH, -1), means


def _without_replacement(rng, pool):
    people = rng.choice(pool[(pool > 0.1) & (pool < 0.9)], (BATCH, RUNS, USERS * 3 // 2))
    people += MARGIN - people.mean(axis=2, keepdims=True)
    return rng.permuted(people, axis=2)[:, :, :USERS].reshape(BATCH, -1), np.full(
        (BATCH, RUNS), MARGIN
    )


def _farthest_missing(rng, pool):
    scores, means = _shifted(rng, pool)
    by_run = scores.reshape(BATCH, RUNS, USERS)
    is_missing = by_run >= np.quantile(by_run, 0.98, axis=2, keepdims=True)
    return np.where(is_missing, np.nan, by_run).reshape(BATCH, -1), means


WORLDS: dict[str, Callable[..., tuple[Any, Any]]] = {
    "at the margin": _shifted,
    "0.01 above the margin": partial(_shifted, by=0.0025),
    "0.01 below the margin": partial(_shifted, by=-0.0025),
    "at the margin on average, runs move by 0.03": partial(_shifted, shock=0.0075),
    "at the margin, 200 of 300 users": _without_replacement,
    "at the margin, the 2 % farthest missing": _farthest_missing,
    "0.05 below the margin": partial(_shifted, by=-0.0125),
    "0.05 above the margin": partial(_shifted, by=0.0125),
}
"""Draws of a gate's runs: scores (histories, runs x users), NaN where missing, and the population's mean in each run."""


def tabulate_gate(rng):
    """How often the gate ever gives each verdict, with a decision after each run, and how often the verdict is wrong."""
    alpha, pool, rows = 0.01, real_excess(), []
    for name, draw in WORLDS.items():
        found = [_said(*draw(rng, pool), alpha) for _ in range(HISTORIES // BATCH)]
        for verdict, kind in product(("safe", "breach"), ("wrong", "right")):
            ours, theirs = ([each[who, verdict, kind] for each in found] for who in ("gate", "z"))
            if np.any(ours) or np.any(theirs) or kind == "wrong":
                promise = alpha if kind == "wrong" else ""
                what = f"{name}: {kind} {verdict}"
                rows.append((what, promise, *_rates(ours), *_rates(theirs)))
    title = f"Gate: said at any of {RUNS} looks, one a run of {USERS} users; wrong at most {alpha}"
    show(title, COLUMNS, rows)


def _said(scores, means, alpha):
    """A flag for each history, by method, verdict, and whether the verdict was true of the average over the runs so far."""
    looks = np.arange(1, RUNS + 1) * USERS - 1
    average = np.cumsum(means, axis=1) / np.arange(1, RUNS + 1)
    worst, best = np.nan_to_num(scores, nan=1.0), np.nan_to_num(scores, nan=0.0)
    z = _z(scores, np.full((BATCH, 1), MARGIN))[:, looks]
    limit = -float(ndtri(alpha))
    said = {
        ("gate", "safe"): follow_capital(worst, MARGIN)[:, looks] >= -math.log(alpha),
        ("gate", "breach"): follow_capital(1 - best, 1 - MARGIN)[:, looks] >= -math.log(alpha),
        ("z", "safe"): z < -limit,
        ("z", "breach"): z > limit,
    }
    is_true = {"safe": average < MARGIN - 1e-12, "breach": average > MARGIN + 1e-12}
    flags_by_verdict = {}
    for (who, verdict), flags in said.items():
        flags_by_verdict[who, verdict, "wrong"] = np.any(flags & ~is_true[verdict], axis=1)
        flags_by_verdict[who, verdict, "right"] = np.any(flags & is_true[verdict], axis=1)
    return flags_by_verdict


def _rates(batches):
    """The share and its exact 95 % bounds (Clopper and Pearson 1934)."""
    flags = np.concatenate(batches)
    found = binomtest(int(flags.sum()), len(flags))
    low, high = found.proportion_ci()
    return f"{found.statistic:.4f}", f"{low:.4f} to {high:.4f}"


def _z(scores, means):
    """z of every look from `Z_FROM` users on, over users with a score. It is 0 if all scores are the same."""
    n = np.maximum(np.cumsum(~np.isnan(scores), axis=1), 1)
    known = np.nan_to_num(scores)
    mean = np.cumsum(known, axis=1) / n
    variance = np.cumsum(known**2, axis=1) / n - mean**2
    error = np.sqrt(np.maximum(variance, 1e-12) / n)
    return np.where((n >= Z_FROM) & (variance > 1e-12), (mean - means) / error, 0.0)
