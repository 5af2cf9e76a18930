"""What is normal for a series, and the range that its next healthy run should fall into."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from monitor.model.arrays import Flags, Floats, Integers
from monitor.model.rules import Direction
from monitor.reference.history import keep_newest
from monitor.reference.season import Phases, remove_seasons
from monitor.reference.spread import PastAlarms, find_levels, measure_spread

# Newest runs that a reference looks at: past 60 the t quantile hardly moves, while what was normal
# long ago misleads.
WINDOW = 60
# Least spread, as a share of the center or of 1. One step of one user in 10^7 moves a mean by about
# this much and rounding by far less, so a constant series is left by a change and never by another
# order of summing.
RESOLUTION = 1e-9
LEAST_OF_SAMPLING = 0.5
"""Of its sampling variance a series has at least this. A fixed panel may vary less than its sampling error says, but a rare
share that has been 0 in every run so far is not known to be 0."""

LEAST_P = 1e-300
"""Keeps z finite, at 37."""
MOST_DF = 1e6
"""Student's t is normal from there on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What is normal for m series; arrays (m,), NaN where no run counts."""

    center: Floats  # expected value of the next run
    center_error: Floats  # standard error of that
    spread: Floats  # standard deviation from run to run of what was seen, sampling error included
    sampling: Floats  # the part of its square that is sampling variance
    df: Floats  # of ``spread``; 0: too little is known yet, ``spread`` NaN
    runs: Integers  # how many carry it
    taught: Floats  # (runs, m), these runs without their season, at the newest level, else NaN
    errors: Floats  # theirs, (runs, m)
    since: Integers  # row at which a level begins that nobody has accepted, -1 for none
    has_moved: Flags  # whether that level is another one than the level before


def refer(
    values: npt.ArrayLike,
    errors: npt.ArrayLike,
    *,
    phases: Sequence[Phases] = (),
    alarms: PastAlarms | None = None,
) -> Reference:
    """Reference of m series from past ``values`` and their sampling errors, (runs, m), oldest first, NaN left out.

    Of runs that ``alarms`` calls unhealthy only seasons and new levels are learned. The newest WINDOW others are weighed by
    1 / (run-to-run variance + own sampling variance), as in a random-effects meta-analysis (DerSimonian and Laird 1986), after
    seasons are removed and outliers rejected (Rosner 1983); with equal sampling errors Student's t holds exactly.
    """
    past, doubts = np.asarray(values, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    # A run counts with a finite value and a finite sampling error of at least 0.
    past = np.where(np.isfinite(past) & np.isfinite(doubts) & (doubts >= 0), past, np.nan)
    none = np.zeros(past.shape, dtype=np.bool_)
    alarms = alarms or PastAlarms(healthy=~none, alarms=none, firing=none)
    seasonal = remove_seasons(past, phases, alarms.alarms)
    levels = find_levels(seasonal.values, alarms)
    if levels.shift.any():  # or runs of two levels would look like a season
        seasonal = remove_seasons(past + levels.shift, phases, alarms.alarms)
    taught = np.where(levels.teaches, seasonal.values, np.nan)
    doubts = np.where(np.isnan(taught), np.nan, doubts)
    own = measure_spread(*keep_newest(taught, doubts, WINDOW))
    # Seasons are paid for in degrees of freedom, and both they and new levels add doubt to the
    # center.
    left = 1.0 - seasonal.paid
    least = np.maximum(
        LEAST_OF_SAMPLING * own.sampling, (RESOLUTION * np.maximum(1.0, np.abs(own.center))) ** 2
    )
    # A bound brings no degrees of freedom: the calm may be chance.
    variance = np.where(
        own.df > 0, np.maximum(own.variance * seasonal.unrest / left, least), np.nan
    )
    return Reference(
        center=own.center,
        center_error=np.sqrt(variance * (own.doubt + seasonal.doubt + levels.doubt)),
        spread=np.sqrt(variance),
        sampling=own.sampling,
        df=own.df * left,
        runs=own.runs,
        taught=taught,
        errors=doubts,
        since=levels.since,
        has_moved=levels.has_moved,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Where the next run of m series should lie, arrays (m,).

    Infinite limits where the reference is undefined.
    """

    low: Floats  # a healthy run lies under it with a chance of at most the share asked for,
    high: Floats  # above this likewise
    scale: Floats  # (value - its center) / scale follows Student's t with df
    df: Floats


def predict(reference: Reference, errors_now: npt.ArrayLike, share: npt.ArrayLike) -> Prediction:
    """Prediction limits of the next run, with sampling errors ``errors_now`` (m,), at the false-alarm ``share`` in (0, 0.5).

    The variance is that of past runs, what this run's sampling variance exceeds theirs by, and that of the center.
    """
    scale, df = _scale(reference, np.asarray(errors_now, dtype=np.float64))
    reach = -scipy.special.stdtrit(df, np.asarray(share, dtype=np.float64)) * scale
    reach = np.where(np.isnan(reach), np.inf, reach)
    center = np.nan_to_num(reference.center)
    return Prediction(low=center - reach, high=center + reach, scale=scale, df=df)


def surprise(
    reference: Reference,
    values_now: npt.ArrayLike,
    errors_now: npt.ArrayLike,
    *,
    direction: Direction = Direction.BELOW,
) -> Floats:
    """One-sided p-values (m,): the chance that a healthy run lies so far out.

    NaN where reference or run is undefined.
    """
    scale, df = _scale(reference, np.asarray(errors_now, dtype=np.float64))
    sign = 1.0 if direction is Direction.BELOW else -1.0
    p: Floats = scipy.special.stdtr(
        df, sign * (np.asarray(values_now, dtype=np.float64) - reference.center) / scale
    )
    return p


def to_normal(p: npt.ArrayLike) -> Floats:
    """Standard normal deviates of the same one-sided chance: large where p is small, finite for 0 and 1; NaN stays NaN."""
    z: Floats = -scipy.special.ndtri(
        np.clip(np.asarray(p, dtype=np.float64), LEAST_P, 1.0 - np.finfo(np.float64).epsneg)
    )
    return z


def _scale(reference: Reference, errors_now: Floats) -> tuple[Floats, Floats]:
    """Standard deviation of the next value about the center, and its degrees of freedom.

    NaN where undefined.
    """
    estimated = reference.spread**2 + reference.center_error**2
    # Never below what was seen: a run of more users than usual would need the run-to-run part
    # alone, which few runs cannot estimate.
    variance = estimated + np.maximum(errors_now**2 - reference.sampling, 0.0)
    # The sampling error being known, degrees of freedom grow with its part: by V / s^2 and not by
    # its square as in Satterthwaite (1946). s^2 may be low by chance, and with the square false
    # alarms at 1e-4 after five runs come 6.6 times too often.
    df = np.where(
        reference.df > 0, np.minimum(reference.df * variance / estimated, MOST_DF), np.nan
    )
    return np.sqrt(variance), df
