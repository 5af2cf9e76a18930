"""What is normal for a series, and the range in which its next healthy run should be."""

from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike

from monitor.immutable import immutable
from monitor.model.arrays import Flags, Floats, Integers
from monitor.model.rules import Direction
from monitor.reference.history import keep_newest
from monitor.reference.season import Phases, remove_seasons
from monitor.reference.spread import PastAlarms, find_levels, measure_spread

WINDOW = 60
"""Newest runs that a reference uses.

More runs hardly change the t quantile, and may be outdated.
"""
RESOLUTION = 1e-9
"""Least spread, as a share of the center, or of 1 if that is more.

A change for one user in 10^7 moves a mean by about this much, and rounding by far less. So a
constant series is left by any change, but not by another order of summing.
"""
LEAST_OF_SAMPLING = 0.5
"""Least variance of a series, as a share of its sampling variance.

A fixed panel may vary less than its sampling error. But a rare share that was 0 in every run may
still be above 0.
"""
LEAST_P = 1e-300
"""Least p-value. It keeps z finite, at 37."""
MOST_DF = 1e6
"""Degrees of freedom from which on Student's t is normal."""


@immutable
class Reference:
    """What is normal for m series. Arrays (m,), NaN where no run counts."""

    center: Floats  # expected value of the next run
    center_error: Floats  # standard error of that
    spread: Floats  # standard deviation of values from run to run, with their sampling error
    sampling: Floats  # the sampling variance in its square
    df: Floats  # of ``spread``; 0 if too few runs count, ``spread`` is NaN then
    runs: Integers  # number of runs used
    taught: Floats  # (runs, m), values of these runs at the newest level without season, else NaN
    errors: Floats  # (runs, m), their sampling errors
    since: Integers  # row of the start of a level that nobody has accepted, -1 for none
    has_moved: Flags  # whether that level differs from the level before


def refer(
    values: ArrayLike,
    errors: ArrayLike,
    *,
    phases: Sequence[Phases] = (),
    alarms: PastAlarms | None = None,
) -> Reference:
    """Reference of m series from past ``values`` and sampling errors, (runs, m), oldest first.

    NaN for runs that do not count. Runs that are unhealthy by ``alarms`` count only for seasons
    and new levels. The newest WINDOW healthy runs have the weight 1 / (run-to-run variance + own
    sampling variance), as in a random-effects meta-analysis (DerSimonian and Laird 1986). Before,
    seasons are removed and outliers rejected (Rosner 1983). With equal sampling errors Student's t
    is exact.
    """
    past = np.asarray(values, dtype=np.float64)
    past_errors = np.asarray(errors, dtype=np.float64)
    # A run counts if its value is finite and its sampling error is finite and at least 0.
    has_error = np.isfinite(past_errors) & (past_errors >= 0)
    past = np.where(np.isfinite(past) & has_error, past, np.nan)
    if alarms is None:
        none = np.zeros(past.shape, dtype=np.bool_)
        alarms = PastAlarms(healthy=~none, alarms=none, firing=none)
    seasonal = remove_seasons(past, phases, alarms.alarms)
    levels = find_levels(seasonal.values, alarms)
    if levels.shift.any():
        # Repeated at one level, because runs of two levels may look like a season.
        seasonal = remove_seasons(past + levels.shift, phases, alarms.alarms)
    taught = np.where(levels.teaches, seasonal.values, np.nan)
    past_errors = np.where(np.isnan(taught), np.nan, past_errors)
    moments = measure_spread(*keep_newest(taught, past_errors, WINDOW))
    # Seasons cost degrees of freedom. Seasons and new levels make the center less certain.
    left = 1.0 - seasonal.paid
    resolution = RESOLUTION * np.maximum(1.0, np.abs(moments.center))
    least = np.maximum(LEAST_OF_SAMPLING * moments.sampling, resolution**2)
    # The bound adds no degrees of freedom, because a small variance may be chance.
    variance = np.maximum(moments.variance * seasonal.unrest / left, least)
    variance = np.where(moments.df > 0, variance, np.nan)
    return Reference(
        center=moments.center,
        center_error=np.sqrt(variance * (moments.doubt + seasonal.doubt + levels.doubt)),
        spread=np.sqrt(variance),
        sampling=moments.sampling,
        df=moments.df * left,
        runs=moments.runs,
        taught=taught,
        errors=past_errors,
        since=levels.since,
        has_moved=levels.has_moved,
    )


@immutable
class Prediction:
    """The range of the next run of m series, arrays (m,). Infinite without a reference."""

    low: Floats  # a healthy run is below this with at most the given chance
    high: Floats  # and above this
    scale: Floats  # (value - center) / scale follows Student's t with df
    df: Floats


def predict(reference: Reference, errors_now: ArrayLike, share: ArrayLike) -> Prediction:
    """Prediction limits of the next run, with sampling errors ``errors_now`` (m,).

    ``share``: chance of a false alarm, in (0, 0.5). The variance is that of past runs, plus the
    excess of this run's sampling variance over theirs, plus that of the center.
    """
    scale, df = _scale(reference, np.asarray(errors_now, dtype=np.float64))
    reach = -scipy.special.stdtrit(df, np.asarray(share, dtype=np.float64)) * scale
    reach = np.where(np.isnan(reach), np.inf, reach)
    center = np.nan_to_num(reference.center)
    return Prediction(low=center - reach, high=center + reach, scale=scale, df=df)


def surprise(
    reference: Reference,
    values_now: ArrayLike,
    errors_now: ArrayLike,
    *,
    direction: Direction = Direction.BELOW,
) -> Floats:
    """One-sided p-values (m,): the chance that a healthy run is at least so far out.

    NaN where the reference or the run is undefined.
    """
    scale, df = _scale(reference, np.asarray(errors_now, dtype=np.float64))
    sign = 1.0 if direction is Direction.BELOW else -1.0
    p: Floats = scipy.special.stdtr(
        df, sign * (np.asarray(values_now, dtype=np.float64) - reference.center) / scale
    )
    return p


def to_normal(p: ArrayLike) -> Floats:
    """Standard normal deviates of the one-sided chance p: large for small p, finite for 0 and 1."""
    most = 1.0 - np.finfo(np.float64).epsneg
    z: Floats = -scipy.special.ndtri(np.clip(np.asarray(p, dtype=np.float64), LEAST_P, most))
    return z


def _scale(reference: Reference, errors_now: Floats) -> tuple[Floats, Floats]:
    """Standard deviation of the next value about the center, and its degrees of freedom, or NaN."""
    estimated = reference.spread**2 + reference.center_error**2
    # Not less for a run with more users than usual: few runs cannot estimate the part of the
    # variance that does not depend on users.
    variance = estimated + np.maximum(errors_now**2 - reference.sampling, 0.0)
    # The sampling error is known, so degrees of freedom grow with it. They grow by V / s^2 and not
    # by its square as in Satterthwaite (1946), because s^2 may be low by chance. With the square,
    # false alarms at 1e-4 after five runs are 6.6 times too frequent.
    df = np.minimum(reference.df * variance / estimated, MOST_DF)
    return np.sqrt(variance), np.where(reference.df > 0, df, np.nan)
