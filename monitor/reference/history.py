"""Past values of m series as arrays: which of them count, and how they lie."""

import numpy as np

from monitor.model.arrays import Flags, Floats, Integers

MAD_TO_SIGMA = 1.4826
"""1 / the upper quartile of N(0, 1)."""
FAR_OUT = 3.0


def keep_newest(values: Floats, errors: Floats, count: int) -> tuple[Floats, Floats]:
    """The newest ``count`` runs that count of every series, oldest first.

    NaN on top where there are fewer.
    """
    if len(values) <= count:
        return values, errors
    newest = np.argsort(~np.isnan(values), axis=0, kind="stable")[
        -count:
    ]  # False, a run left out, sorts before True
    return np.take_along_axis(values, newest, axis=0), np.take_along_axis(errors, newest, axis=0)


def find_median(values: Floats) -> Floats:
    """Median of each column, (m,), NaN passed over.

    NaN where there is nothing. Sorting all columns beats numpy.nanmedian.
    """
    counts = np.sum(~np.isnan(values), axis=0)
    ordered = np.sort(values, axis=0)
    return (pick_rows(ordered, (counts - 1) // 2) + pick_rows(ordered, counts // 2)) / 2


def find_mean(values: Floats) -> Floats:
    """Mean of each column, (m,), NaN passed over; NaN where there is nothing."""
    counts = np.sum(~np.isnan(values), axis=0)
    mean: Floats = np.nansum(values, axis=0) / np.where(counts > 0, counts, np.nan)
    return mean


def find_scale(values: Floats) -> Floats:
    """Standard deviation of normal values by their median absolute deviation, (m,): a few bad runs do not move it."""
    return MAD_TO_SIGMA * find_median(np.abs(values - find_median(values)))


def find_fault(z: Floats, firing: Flags) -> Floats:
    """Median z of the newest runs in which an alert fires, (m,), of (runs, m).

    NaN where it does not fire.
    """
    fires_since = np.logical_and.accumulate(firing[::-1])[::-1]
    return find_median(np.where(fires_since, z, np.nan))


def pull_in(values: Floats, middle: Floats) -> Floats:
    """Deviations from the mean, (runs, m), values beyond FAR_OUT scales from their ``middle`` pulled in first; NaN kept."""
    far = FAR_OUT * find_scale(values - middle)
    near = middle + np.clip(values - middle, -far, far)
    return near - find_mean(near)


def pick_rows(table: Floats, rows: Integers) -> Floats:
    """``table[rows[j], j]`` for each column j, (m,); NaN where the row lies outside."""
    inside = (rows >= 0) & (rows < len(table))
    if not len(table):
        return np.full(rows.shape, np.nan)
    found = np.take_along_axis(table, np.where(inside, rows, 0)[np.newaxis], axis=0)[0]
    return np.where(inside, found, np.nan)
