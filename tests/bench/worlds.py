"""Simulated users whose runs are known to be healthy, or ill from a known run on: what `calibration` judges.

Scores lie in 40 bins over [-1, 1], as skewed as real ones; a shock common to all users, and a smaller one for each segment,
tilts their distribution from run to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

from monitor.model.rules import MIN_HEALTHY_RUNS
from monitor.reference.sampling_error import to_angle

Floats = npt.NDArray[np.float64]

WEEK = 7
BINS = 40
EDGES = np.linspace(-1.0, 1.0, BINS + 1)
SCORES = (EDGES[1:] + EDGES[:-1]) / 2
USUAL = np.diff(betainc(5.0, 1.8, (EDGES + 1) / 2))
"""Mean 0.47, deviation 0.31, one user in ten below 0: close to extended tau of a retrained shop recommender."""
SHOCK = 0.3
"""Moves the mean by 0.03 from run to run."""
SERIES = ("mean", "p05", "share_below(0)", "share_below(-0.5)", "unchanged_list", "shared_list")
FIRST_SHARE = 2  # the others, from here on, are shares of users
UNCHANGED = 0.002
"""Share of users whose list a training leaves as it is, in clusters of twice their variance."""
ALIKE = 0.0005
"""Mean share of users who happen to have the most common list, beside the one who always has it."""


@dataclass(frozen=True, kw_only=True)
class World:
    """``copies`` independent comparisons of ``segments`` segments of ``users`` users each, for ``runs`` judged runs."""

    users: int
    segments: int = 1
    correlation: float = 0.0
    is_weekly: bool = False
    copies: int = 50
    runs: int = 200
    collapsed: float = 0.0
    """Share of users with popularity lists once ``onset`` runs have been judged, for ``lasts`` runs."""
    onset: int = 30
    lasts: int = 10_000
    moved: float = 0.0
    """Tilt of everybody's scores from ``onset`` on, in shocks: the healthy level lies elsewhere after the fault."""
    weekend: float = 0.0
    """Share of users with popularity lists on the last two days of each week from ``onset`` on."""
    trained: float = 0.0
    """The same on the first day of each week, from then on half of it the day after."""
    holiday: float = 0.0
    """The same on three days in forty, which are left out as holidays are."""


def draw(world: World, rng: np.random.Generator) -> Iterator[tuple[Floats, Floats]]:
    """Values and errors of one run after another, each (copies, segments [+ all], series)."""
    shape = (world.copies, world.segments)
    week = rng.normal(size=(WEEK, world.copies, 1)) * world.is_weekly
    common, own = rng.normal(size=(world.copies, 1)), rng.normal(size=shape)
    keep, fresh = world.correlation, np.sqrt(1 - world.correlation**2)
    for run in range(MIN_HEALTHY_RUNS + world.runs):
        common = keep * common + fresh * rng.normal(size=common.shape)
        own = keep * own + fresh * rng.normal(size=shape)
        age = run - MIN_HEALTHY_RUNS - world.onset
        tilt = SHOCK * (np.sqrt(0.8) * common + np.sqrt(0.2) * own + week[run % WEEK] + world.moved * (age >= 0))
        odds = USUAL * np.exp(tilt[..., np.newaxis] * SCORES)
        odds /= odds.sum(axis=-1, keepdims=True)
        in_week = max(world.weekend * (run % WEEK >= 5), world.trained / 2 ** (run % WEEK), world.holiday * is_holiday(run))
        ill = max(world.collapsed * (age < world.lasts), in_week) if age >= 0 else 0.0
        odds = (1 - ill) * odds + ill * (np.arange(BINS) < 2) / 2
        counts = rng.multinomial(world.users, odds)
        rare = draw_rare(world, ill, rng)
        if world.segments > 1:
            counts = np.concatenate((counts.sum(axis=1, keepdims=True), counts), axis=1)
            whole = np.stack((rare[..., 0].sum(axis=1), rare[..., 1].max(axis=1)), axis=-1)
            rare = np.concatenate((whole[:, np.newaxis], rare), axis=1)
        yield measure(counts, rare)


def is_holiday(run: int) -> bool:
    return run % 40 in (20, 21, 22)


def draw_rare(world: World, ill: float, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Users whose list is unchanged, and with the most common one, (copies, segments, 2): a share ``ill`` has one for ever."""
    shape = (world.copies, world.segments)
    same = rng.binomial(world.users, ill, shape)
    unchanged = np.minimum(rng.negative_binomial(UNCHANGED * world.users, 0.5, shape) + same, world.users)
    return np.stack((unchanged, np.maximum(1 + rng.poisson(ALIKE * world.users, shape), same)), axis=-1)


def measure(counts: npt.NDArray[np.int64], rare: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The six series and their sampling errors, (..., 6), from counts by bin (..., bins) and rare counts (..., 2)."""
    n = counts.sum(axis=-1)
    mean = counts @ SCORES / n
    deviation = np.sqrt(np.maximum(counts @ SCORES**2 / n - mean**2, 0) * n / (n - 1))
    p05, p05_error = percentile(counts, n)
    below = [counts[..., : np.searchsorted(SCORES, floor)].sum(axis=-1) for floor in (0.0, -0.5)]
    shares = [to_angle(each / n, n) for each in (*below, rare[..., 0], rare[..., 1])]
    values = np.stack([mean, p05, *(-angle for angle, _ in shares)], axis=-1)
    return values, np.stack([deviation / np.sqrt(n), p05_error, *(error for _, error in shares)], axis=-1)


def percentile(counts: npt.NDArray[np.int64], n: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """p05 and its error as `estimate_error` takes it from p01, p05, p10; NaN with fewer than 5 users below."""
    p01, p05, p10 = (_quantile(counts, np.asarray(q * n, dtype=np.float64)) for q in (0.01, 0.05, 0.1))
    reach = np.sqrt(0.05 * 0.95 / n)
    error = reach * np.maximum((p05 - p01) / 0.04, (p10 - p05) / 0.05)
    return np.where(n * 0.05 < 5, np.nan, p05), error


def _quantile(counts: npt.NDArray[np.int64], rank: Floats) -> Floats:
    """Score at a rank, users spread evenly within their bin."""
    below = np.cumsum(counts, axis=-1)
    at = np.argmax(below >= rank[..., np.newaxis], axis=-1)[..., np.newaxis]
    inside = np.take_along_axis(counts, at, axis=-1)
    part = 1 - (np.take_along_axis(below, at, axis=-1) - rank[..., np.newaxis]) / np.maximum(inside, 1)
    scores: Floats = (EDGES[at] + part * (EDGES[1] - EDGES[0]))[..., 0]
    return scores
