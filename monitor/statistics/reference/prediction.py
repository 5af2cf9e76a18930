"""Computes what is normal for a series, and the range in which its next healthy run should be."""

from collections.abc import Sequence

import numpy as np
import scipy

from monitor.model.arrays import Flags, Floats, Integers
from monitor.model.immutable import immutable
from monitor.model.rules import Direction
from monitor.statistics.reference.history import keep_newest
from monitor.statistics.reference.season import Phases, remove_seasons
from monitor.statistics.reference.spread import PastAlerts, find_levels, measure_moments

RESOLUTION = 1e-9
"""The spread is at least this share of the center, or of 1 if the center is below 1.

A change for one user in 10^7 moves a mean by about this much. Rounding moves it by far less. So any
real change of a constant series is outside of the predicted range. A rounding error is inside.
"""
LEAST_OF_SAMPLING = 0.5
"""The variance of a series is at least this share of its sampling variance.

The share is below 1, because a fixed panel may vary less than its sampling error. It is above 0,
because a rare share that was 0 in every run may be above 0 in the next run.
"""
LEAST_P = 1e-300
"""The smallest p-value. It limits z to 37."""
MOST_DF = 1e6
"""The largest number of degrees of freedom. With so many, Student's t is a normal distribution."""


@immutable
class Reference:
    """What is normal for m series. The arrays have the shape (m,), with NaN if no run was used."""

    center: Floats  # expected value of the next run
    center_error: Floats  # standard error of the center
    spread: Floats  # standard deviation of values from run to run, including sampling errors
    sampling: Floats  # the part of ``spread`` squared that is sampling variance
    df: Floats  # degrees of freedom of ``spread``. With too few runs it is 0, and the spread is NaN
    runs: Integers  # number of runs used
    # (runs, m), the values of the used runs, moved to the newest level and without seasons. Other
    # runs are NaN.
    used_values: Floats
    errors: Floats  # (runs, m), the sampling errors of the same runs
    since: Integers  # first row of the newest level if nobody has accepted it, otherwise -1
    has_moved: Flags  # whether that level differs from the level before
    before: Floats  # the level before, if nobody has accepted the newest level, otherwise NaN


def compute_reference(
    values: Floats,
    errors: Floats,
    *,
    phases: Sequence[Phases] = (),
    alerts: PastAlerts | None = None,
    side: Floats | None = None,
) -> Reference:
    """Compute the reference of m series from past ``values`` and ``errors``, (runs, m).

    The oldest run is first. ``errors`` are sampling errors. Runs with NaN are ignored. Runs that
    are not healthy by ``alerts`` are used only to find seasons and new levels. ``side`` says which
    values alert (`remove_seasons`).

    First, seasons are removed and outliers are rejected (Rosner 1983). Then the newest WINDOW
    healthy runs are averaged. The weight of a run is 1 / (run-to-run variance + the run's sampling
    variance), as in a random-effects meta-analysis (DerSimonian and Laird 1986). If all sampling
    errors are equal, the limits by Student's t are exact.
    """
    # A run is used if its value is finite and its sampling error is finite and at least 0.
    has_error = np.isfinite(errors) & (errors >= 0)
    past = np.where(np.isfinite(values) & has_error, values, np.nan)
    if alerts is None:
        none = np.zeros(past.shape, dtype=bool)
        alerts = PastAlerts(healthy=~none, alerting=none, firing=none)
    seasonal = remove_seasons(past, phases, alerts.alerting, side)
    levels = find_levels(seasonal.values, alerts)
    if levels.shift.any():
        # Runs of two levels may look like a season. So seasons are removed again, after all runs
        # were shifted to one level.
        seasonal = remove_seasons(past + levels.shift, phases, alerts.alerting, side)
    used_values = np.where(levels.is_used, seasonal.values, np.nan)
    used_errors = np.where(np.isnan(used_values), np.nan, errors)
    moments = measure_moments(*keep_newest(used_values, used_errors))
    # Removing seasons costs degrees of freedom.
    free_share = 1.0 - seasonal.used_freedom
    resolution = RESOLUTION * np.maximum(1.0, np.abs(moments.center))
    least = np.maximum(LEAST_OF_SAMPLING * moments.sampling, resolution**2)
    # The lower bound adds no degrees of freedom, because a small variance may be chance.
    variance = np.maximum(moments.variance * seasonal.phase_variance / free_share, least)
    variance = np.where(moments.df > 0, variance, np.nan)
    # Seasons and new levels make the center more uncertain.
    center_variance = moments.center_variance + seasonal.effect_variance + levels.level_variance
    return Reference(
        center=moments.center,
        center_error=np.sqrt(variance * center_variance),
        spread=np.sqrt(variance),
        sampling=moments.sampling,
        df=moments.df * free_share,
        runs=moments.runs,
        used_values=used_values,
        errors=used_errors,
        since=levels.since,
        has_moved=levels.has_moved,
        before=levels.before,
    )


@immutable
class Prediction:
    """The range of the next run of m series. Each field is an array of shape (m,).

    The range is infinite if there is no reference.
    """

    low: Floats  # a healthy run is below this value with at most the given chance
    high: Floats  # a healthy run is above this value with at most the given chance
    scale: Floats  # (value - center) / scale follows Student's t with df degrees of freedom
    df: Floats


def predict(reference: Reference, errors_now: Floats, alpha: Floats | float) -> Prediction:
    """Compute the prediction limits of the next run.

    ``errors_now`` has the sampling errors of the next run, (m,). ``alpha`` is the chance of a false
    alert on each side, in (0, 0.5). The variance has three terms: the variance of past runs, the
    variance of the center, and extra sampling variance. The last term is added only if the next run
    has a larger sampling variance than past runs.
    """
    scale, df = _predict_scale(reference, errors_now)
    half_width = -scipy.special.stdtrit(df, alpha) * scale
    half_width = np.where(np.isnan(half_width), np.inf, half_width)
    center = np.nan_to_num(reference.center)
    return Prediction(low=center - half_width, high=center + half_width, scale=scale, df=df)


def compute_p_values(
    reference: Reference,
    values_now: Floats,
    errors_now: Floats,
    *,
    direction: Direction = Direction.BELOW,
) -> Floats:
    """Return one-sided p-values, (m,).

    A p-value is the chance that a healthy run is at least as far from the center as this run, on
    the side of ``direction``. NaN if the reference or the run has no value.
    """
    scale, df = _predict_scale(reference, errors_now)
    sign = 1.0
    if direction is Direction.ABOVE:
        sign = -1.0
    p: Floats = scipy.special.stdtr(df, sign * (values_now - reference.center) / scale)
    return p


def z_of_p_value(p: Floats) -> Floats:
    """Convert a one-sided p-value to a standard normal z. A small p gives a large z.

    z is finite even for p = 0 and p = 1.
    """
    most = 1.0 - np.finfo(np.float64).epsneg
    z: Floats = -scipy.special.ndtri(np.clip(p, LEAST_P, most))
    return z


def _predict_scale(reference: Reference, errors_now: Floats) -> tuple[Floats, Floats]:
    """Standard deviation of the next value around the center, and the degrees of freedom.

    NaN if they are unknown.
    """
    estimated = reference.spread**2 + reference.center_error**2
    # A run with more users than usual does not get a smaller variance. A few runs cannot show which
    # part of the variance depends on the number of users.
    variance = estimated + np.maximum(errors_now**2 - reference.sampling, 0.0)
    # The extra sampling variance is known exactly, so it adds degrees of freedom. Satterthwaite
    # (1946) multiplies them by the square of variance / estimated. We multiply by the ratio itself,
    # because the estimated part may be small by chance. With the square, false alerts at 1e-4 after
    # five runs are 6.6 times too frequent.
    df = np.minimum(reference.df * variance / estimated, MOST_DF)
    return np.sqrt(variance), np.where(reference.df > 0, df, np.nan)
