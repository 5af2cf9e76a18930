"""Weighted location and run-to-run variance of past runs, and what seasons do to its degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from monitor.reference.history import Counts, Floats, find_median, find_scale
from monitor.reference.outliers import find_outliers

LEAST_BETWEEN = 0.1
"""Of the typical sampling variance counts as variance between runs at least, so that no run of many users speaks alone."""
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
    runs: Counts


def measure_spread(values: Floats, errors: Floats) -> Spread:
    """Moments of (runs, m) values and their sampling errors, outliers rejected; NaN where a run does not count.

    With weights p that sum to 1: center sum p x; variance sum p (x - center)^2 / (1 - sum p^2), unbiased for weights inverse to
    the variances; sampling variance weighed as it enters there; df 1 / sum p^2 - 1 (Kish 1965), n - 1 with equal errors.
    """
    weights = weigh(values, errors)
    outlying = find_outliers((values - find_median(values)) * np.sqrt(weights))
    return _sum_up(values, errors, np.where(outlying | np.isnan(values), 0.0, weights))


def weigh(values: Floats, errors: Floats) -> Floats:
    """1 / (variance between runs + own sampling variance), NaN where a run does not count, 1 where nothing varies.

    The variance between runs comes from the median absolute deviation, so that a bad run does not level the weights.
    """
    seen = find_scale(values) ** 2
    typical = find_median(errors) ** 2
    variance = np.fmax(seen - typical, LEAST_BETWEEN * typical) + errors**2
    largest = np.fmax.reduce(variance, axis=0, initial=0.0)
    return 1.0 / np.maximum(variance, np.where(largest > 0, LEAST_VARIANCE * largest, 1.0))


def pay(spread: Spread, paid: Floats, doubt: Floats) -> Spread:
    """The spread once a part of its degrees of freedom is ``paid`` for seasonal effects, which add ``doubt`` to the center."""
    left = 1.0 - paid
    return replace(spread, variance=spread.variance / left, df=spread.df * left, doubt=spread.doubt + doubt)


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
