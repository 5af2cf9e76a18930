"""Computes medians, means, scales and deviations of past values. They are arrays of m series."""

import numpy as np

from monitor.model.arrays import Flags, Floats, Integers

MAD_TO_SIGMA = 1.4826
"""A normal distribution's standard deviation, as a multiple of its median absolute deviation."""
FAR_OUT = 3.0
"""A value is far out if it is more than this many scales (`find_scale`) from the middle."""
WINDOW = 60
"""A reference uses at most this many of the newest runs.

More runs hardly change the t quantile, and they may be outdated.
"""


def keep_newest(values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Select for every series the newest WINDOW runs that are not NaN. The oldest run is first.

    If a series has fewer such runs, its first rows are NaN.
    """
    if len(values) <= WINDOW:
        return values, errors
    # A run without a value has False, which sorts before True.
    newest = np.argsort(~np.isnan(values), axis=0, kind="stable")[-WINDOW:]
    return np.take_along_axis(values, newest, axis=0), np.take_along_axis(errors, newest, axis=0)


def find_median(values: Floats) -> Floats:
    """Median of each column, (m,). NaN values are ignored. A column without values gives NaN.

    The function sorts all columns, since this is faster than numpy.nanmedian.
    """
    if not len(values):
        return np.full(values.shape[1], np.nan)
    # NaN values come last. A column without values has NaN in all rows.
    ordered = np.sort(values, axis=0)
    counts = np.count_nonzero(~np.isnan(values), axis=0)
    columns = np.arange(values.shape[1])
    median: Floats = (ordered[(counts - 1) // 2, columns] + ordered[counts // 2, columns]) / 2
    return median


def find_mean(values: Floats) -> Floats:
    """Mean of each column, (m,). NaN values are ignored. A column without values gives NaN."""
    counts = np.sum(~np.isnan(values), axis=0)
    mean: Floats = np.nansum(values, axis=0) / np.where(counts > 0, counts, np.nan)
    return mean


def find_scale(values: Floats) -> Floats:
    """Standard deviation, (m,), estimated by the median absolute deviation.

    A few bad runs hardly change it.
    """
    return MAD_TO_SIGMA * find_median(np.abs(values - find_median(values)))


def median_z_while_firing(z: Floats, firing: Flags) -> Floats:
    """Median z, (m,), over the runs since the alert began to fire. NaN if it does not fire now."""
    is_in_last_alert = np.logical_and.accumulate(firing[::-1])[::-1]
    return find_median(np.where(is_in_last_alert, z, np.nan))


def limit_far_out(values: Floats, middle: Floats) -> Floats:
    """Limit far-out values, and return the deviations from the new mean, (runs, m).

    A far-out value is moved to FAR_OUT scales from ``middle``.
    """
    most = FAR_OUT * find_scale(values - middle)
    limited = middle + np.clip(values - middle, -most, most)
    return limited - find_mean(limited)


def pick_rows(table: Floats, rows: Integers) -> Floats:
    """The value ``table[rows[j], j]`` for each column j, (m,). NaN if the row does not exist."""
    if not len(table):
        return np.full(rows.shape, np.nan)
    exists = (rows >= 0) & (rows < len(table))
    picked = table[np.where(exists, rows, 0), np.arange(len(rows))]
    return np.where(exists, picked, np.nan)
