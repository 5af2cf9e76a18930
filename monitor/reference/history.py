"""Past values of m series as arrays: medians, means, scales and outliers."""

import numpy as np

from monitor.model.arrays import Flags, Floats, Integers

MAD_TO_SIGMA = 1.4826
"""1 / the upper quartile of N(0, 1)."""
FAR_OUT = 3.0
"""Scales from the middle beyond which a value is far out."""


def keep_newest(values: Floats, errors: Floats, count: int) -> tuple[Floats, Floats]:
    """The newest ``count`` runs of every series that are not NaN, oldest first.

    The first rows are NaN if there are fewer.
    """
    if len(values) <= count:
        return values, errors
    # False, for a run that does not count, sorts before True.
    newest = np.argsort(~np.isnan(values), axis=0, kind="stable")[-count:]
    return np.take_along_axis(values, newest, axis=0), np.take_along_axis(errors, newest, axis=0)


def find_median(values: Floats) -> Floats:
    """Median of each column, (m,), ignoring NaN. NaN for an empty column.

    Sorting all columns is faster than numpy.nanmedian.
    """
    counts = np.sum(~np.isnan(values), axis=0)
    ordered = np.sort(values, axis=0)
    return (pick_rows(ordered, (counts - 1) // 2) + pick_rows(ordered, counts // 2)) / 2


def find_mean(values: Floats) -> Floats:
    """Mean of each column, (m,), ignoring NaN. NaN for an empty column."""
    counts = np.sum(~np.isnan(values), axis=0)
    mean: Floats = np.nansum(values, axis=0) / np.where(counts > 0, counts, np.nan)
    return mean


def find_scale(values: Floats) -> Floats:
    """Standard deviation by the median absolute deviation, (m,), robust against a few bad runs."""
    return MAD_TO_SIGMA * find_median(np.abs(values - find_median(values)))


def find_fault(z: Floats, firing: Flags) -> Floats:
    """Median z, (m,), of the newest runs in which an alert fires. NaN if it does not fire."""
    has_fired_since = np.logical_and.accumulate(firing[::-1])[::-1]
    return find_median(np.where(has_fired_since, z, np.nan))


def pull_in(values: Floats, middle: Floats) -> Floats:
    """Deviations from the mean, (runs, m), with values limited to FAR_OUT scales off ``middle``."""
    far = FAR_OUT * find_scale(values - middle)
    near = middle + np.clip(values - middle, -far, far)
    return near - find_mean(near)


def pick_rows(table: Floats, rows: Integers) -> Floats:
    """``table[rows[j], j]`` for each column j, (m,). NaN for a row outside of the table."""
    if not len(table):
        return np.full(rows.shape, np.nan)
    inside = (rows >= 0) & (rows < len(table))
    picked = np.take_along_axis(table, np.where(inside, rows, 0)[np.newaxis], axis=0)[0]
    return np.where(inside, picked, np.nan)
