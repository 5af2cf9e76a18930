"""Weighted location and run-to-run variance of past runs, outliers rejected."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import scipy

from monitor.model.arrays import Flags, Floats, Integers
from monitor.reference.history import find_median, find_scale, pick_rows

REJECTED_WRONGLY = 0.001
"""Share of histories without a bad run that lose one. What is left of those looks far too calm, and at 0.01 the false alarms
at 1e-4 after ten runs rise to 3.6 times their rate; at 0.001 they keep it."""
LEAST_RUNS_FOR_OUTLIERS = 5
"""Of fewer runs none can be called the odd one out. Of five it takes forty times the spread of the others."""
# At most one run in four (but always one) may be bad; with more, values alone do not distinguish bad from normal.
MOST_REJECTED = 4


def find_outliers(values: Floats) -> Flags:
    """Rosner's (1983) generalised extreme studentized deviate test, each column by itself: True where a value is an outlier.

    ``values``: (runs, m), NaN where there is none. One after another the value farthest from the mean of those that are left
    is taken away, up to a quarter of them; the longest such sequence whose last one still lies too far out is rejected. So
    several bad runs do not hide each other, and a normal history is left whole in 999 of 1,000 cases. Cost: one sort.
    """
    centred = values - find_median(values)
    ordered = np.sort(centred, axis=0)
    low, high = _ends_kept(ordered, np.sum(~np.isnan(values), axis=0))
    return (centred < pick_rows(ordered, low)) | (centred > pick_rows(ordered, high))


def _ends_kept(ordered: Floats, counts: Integers) -> tuple[Integers, Integers]:
    """Rows of the lowest and highest value that stay, (m,) each. The farthest from the mean is always one of the two ends."""
    low, high = np.zeros_like(counts), counts - 1
    kept_low, kept_high = low, high
    total, squares = np.nansum(ordered, axis=0), np.nansum(ordered**2, axis=0)
    limits, rounds = _limits(len(ordered)), np.maximum(counts // MOST_REJECTED, 1)
    for taken in range(int(rounds.max(initial=0))):
        left = np.maximum(counts - taken, 0)
        farthest, is_low, distance, deviation = _farthest(ordered, low, high, (left, total, squares))
        low, high = low + is_low, high - ~is_low
        is_out = (distance > limits[left] * deviation) & (left >= LEAST_RUNS_FOR_OUTLIERS) & (taken < rounds)
        kept_low, kept_high = np.where(is_out, low, kept_low), np.where(is_out, high, kept_high)
        total, squares = total - farthest, squares - farthest**2
    return kept_low, kept_high


def _farthest(
    ordered: Floats, low: Integers, high: Integers, moments: tuple[Integers, Floats, Floats]
) -> tuple[Floats, Flags, Floats, Floats]:
    """The end farther from the mean, whether it is the low one, its distance, and the standard deviation, (m,) each."""
    left, total, squares = moments
    mean = total / np.maximum(left, 1)
    deviation = np.sqrt(np.maximum(squares - total * mean, 0.0) / np.maximum(left - 1, 1))
    below, above = pick_rows(ordered, low), pick_rows(ordered, high)
    is_low = mean - below > above - mean
    farthest = np.where(is_low, below, above)
    return farthest, is_low, np.abs(farthest - mean), deviation


@functools.lru_cache(maxsize=8)
def _limits(most: int) -> Floats:
    """Rosner's limit on (farthest - mean) / deviation for 0 to ``most`` values that are left; 0 where they are too few."""
    n = np.arange(LEAST_RUNS_FOR_OUTLIERS, most + 1, dtype=np.float64)
    t = -scipy.special.stdtrit(n - 2, REJECTED_WRONGLY / (2 * n))
    limits = (n - 1) * t / np.sqrt((n - 2 + t * t) * n)
    return np.concatenate((np.zeros(LEAST_RUNS_FOR_OUTLIERS), limits))


# Of the typical sampling variance counts as variance between runs at least, so that no single run of many users decides.
LEAST_BETWEEN = 0.1
LEAST_VARIANCE = 1e-6
"""Of a series' largest variance is the least that a run may claim: bounds the weights where sampling errors are 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Weighted moments of m series, (m,) each; ``doubt`` is the variance of ``center`` as a multiple of ``variance``."""

    center: Floats
    variance: Floats
    sampling: Floats
    df: Floats
    doubt: Floats
    runs: Integers


def measure_spread(values: Floats, errors: Floats) -> Spread:
    """Moments of (runs, m) values and their sampling errors, outliers rejected; NaN where a run does not count.

    With weights p that sum to 1: center sum p x; variance sum p (x - center)^2 / (1 - sum p^2), unbiased for weights inverse to
    the variances; sampling variance weighed as it enters there; df 1 / sum p^2 - 1 (Kish 1965), n - 1 with equal errors.
    """
    weights = run_weights(values, errors)
    outlying = find_outliers((values - find_median(values)) * np.sqrt(weights))
    return _sum_up(values, errors, np.where(outlying | np.isnan(values), 0.0, weights))


def run_weights(values: Floats, errors: Floats) -> Floats:
    """1 / (variance between runs + own sampling variance), NaN where a run does not count, 1 where nothing varies."""
    # By the median absolute deviation, so that a bad run does not level the weights.
    seen = find_scale(values) ** 2
    typical = find_median(errors) ** 2
    variance = np.fmax(seen - typical, LEAST_BETWEEN * typical) + errors**2
    largest = np.fmax.reduce(variance, axis=0, initial=0.0)
    return 1.0 / np.maximum(variance, np.where(largest > 0, LEAST_VARIANCE * largest, 1.0))


def _sum_up(values: Floats, errors: Floats, weights: Floats) -> Spread:
    runs = np.sum(weights > 0, axis=0)
    share = weights / np.where(runs > 0, weights.sum(axis=0), np.nan)
    center = np.where(runs > 0, np.nansum(share * values, axis=0), np.nan)
    doubt = np.where(runs > 0, (share**2).sum(axis=0), np.nan)
    once = np.where(runs > 1, 1.0 - doubt, np.nan)
    variance = np.nansum(share * (values - center) ** 2, axis=0) / once
    alone = np.nansum(share * errors**2, axis=0)
    sampling = np.where(runs > 1, np.nansum(share * (1.0 - share) * errors**2, axis=0) / once, alone)
    df = np.where(runs > 1, 1.0 / doubt - 1.0, 0.0)
    return Spread(center=center, variance=variance, sampling=sampling, df=df, doubt=doubt, runs=runs)
