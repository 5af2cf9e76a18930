"""Tell a few bad runs in a healthy history from its ordinary spread."""

from __future__ import annotations

import functools

import numpy as np
from scipy.special import stdtrit

from monitor.reference.history import Counts, Flags, Floats, find_median, pick

REJECTED_WRONGLY = 0.001
"""Share of histories without a bad run that lose one. What is left of those looks far too calm, and at 0.01 the false alarms
at 1e-4 after ten runs rise to 3.6 times their rate; at 0.001 they keep it."""
LEAST_RUNS = 5
"""Of fewer runs none can be called the odd one out. Of five it takes forty times the spread of the others."""
MOST_REJECTED = 4
"""At most one run in four (but always one) may be bad; with more, bad and normal cannot be told apart by the values alone."""


def find_outliers(values: Floats) -> Flags:
    """Rosner's (1983) generalised extreme studentized deviate test, each column by itself: True where a value is an outlier.

    ``values``: (runs, m), NaN where there is none. One after another the value farthest from the mean of those that are left
    is taken away, up to a quarter of them; the longest such sequence whose last one still lies too far out is rejected. So
    several bad runs do not hide each other, and a normal history is left whole in 999 of 1,000 cases. Cost: one sort.
    """
    centred = values - find_median(values)
    ordered = np.sort(centred, axis=0)
    low, high = _ends_kept(ordered, np.sum(~np.isnan(values), axis=0))
    return (centred < pick(ordered, low)) | (centred > pick(ordered, high))


def _ends_kept(ordered: Floats, counts: Counts) -> tuple[Counts, Counts]:
    """Rows of the lowest and highest value that stay, (m,) each. The farthest from the mean is always one of the two ends."""
    low, high = np.zeros_like(counts), counts - 1
    kept_low, kept_high = low, high
    total, squares = np.nansum(ordered, axis=0), np.nansum(ordered**2, axis=0)
    limits, rounds = _limits(len(ordered)), np.maximum(counts // MOST_REJECTED, 1)
    for taken in range(int(rounds.max(initial=0))):
        left = np.maximum(counts - taken, 0)
        farthest, is_low, distance, deviation = _farthest(ordered, low, high, (left, total, squares))
        low, high = low + is_low, high - ~is_low
        is_out = (distance > limits[left] * deviation) & (left >= LEAST_RUNS) & (taken < rounds)
        kept_low, kept_high = np.where(is_out, low, kept_low), np.where(is_out, high, kept_high)
        total, squares = total - farthest, squares - farthest**2
    return kept_low, kept_high


def _farthest(
    ordered: Floats, low: Counts, high: Counts, moments: tuple[Counts, Floats, Floats]
) -> tuple[Floats, Flags, Floats, Floats]:
    """The end farther from the mean, whether it is the low one, its distance, and the standard deviation, (m,) each."""
    left, total, squares = moments
    mean = total / np.maximum(left, 1)
    deviation = np.sqrt(np.maximum(squares - total * mean, 0.0) / np.maximum(left - 1, 1))
    below, above = pick(ordered, low), pick(ordered, high)
    is_low = mean - below > above - mean
    farthest = np.where(is_low, below, above)
    return farthest, is_low, np.abs(farthest - mean), deviation


@functools.lru_cache(maxsize=8)
def _limits(most: int) -> Floats:
    """Rosner's limit on (farthest - mean) / deviation for 0 to ``most`` values that are left; none below LEAST_RUNS."""
    n = np.arange(LEAST_RUNS, most + 1, dtype=np.float64)
    t = -stdtrit(n - 2, REJECTED_WRONGLY / (2 * n))
    limits = (n - 1) * t / np.sqrt((n - 2 + t * t) * n)
    return np.concatenate((np.zeros(LEAST_RUNS), limits))
