"""Sampling error and 95 % interval over users of a statistic of one run, from its summary alone."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy

from monitor.model import Statistic, Summary
from monitor.model.arrays import Floats


def to_angle(share: npt.ArrayLike, users: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Angle of a share in [0, 1] of n >= 1 users, in radians within (0, pi / 2), and its standard error 1 / (2 sqrt(n + 1/2)).

    arcsin sqrt((x + 3/8) / (n + 3/4)) for x users (Anscombe 1948). On this scale a prediction by Student's t holds its rate for
    rare shares too, where the share itself is skewed.
    """
    n = np.asarray(users, dtype=np.float64)
    affected = np.asarray(share, dtype=np.float64) * n
    # Never 0: no run proves a fault impossible.
    return np.arcsin(np.sqrt((affected + 0.375) / (n + 0.75))), 0.5 / np.sqrt(n + 0.5)


def from_angle(angle: npt.ArrayLike, users: npt.ArrayLike) -> Floats:
    """The share of n users whose angle this is, within [0, 1]: brings limits back to what people read."""
    n = np.asarray(users, dtype=np.float64)
    bounded = np.clip(np.asarray(angle, dtype=np.float64), 0.0, np.pi / 2)
    share: Floats = np.clip(((n + 0.75) * np.sin(bounded) ** 2 - 0.375) / n, 0.0, 1.0)
    return share


def to_count(angle: npt.ArrayLike, error: npt.ArrayLike) -> tuple[Floats, Floats]:
    """How many users `to_angle` was told of, and of how many; whole numbers, NaN stays NaN."""
    users = np.rint(0.25 / np.square(np.asarray(error, dtype=np.float64)) - 0.5)
    counts = np.rint((users + 0.75) * np.sin(np.asarray(angle, dtype=np.float64)) ** 2 - 0.375)
    return np.maximum(counts, 0.0), users


LEAST_IN_TAIL = 5
"""Users that have to lie beyond a percentile before it has an error: an extreme user is no percentile."""


def estimate_error(summary: Summary, statistic: Statistic) -> float | None:
    """Standard error over users of a mean or percentile, in its own unit; None where the summary does not suffice.

    Of the mean s / sqrt(n); of a percentile see `_of_quantile`; a share has that of its angle, see `to_angle`.
    """
    return summary.standard_error if statistic.quantile is None else _of_quantile(summary, statistic.quantile)


def _of_quantile(summary: Summary, q: float) -> float | None:
    """sqrt(q (1 - q) / n) over the density, taken from the summary's neighbouring quantiles on the sparser side.

    A neighbour is the nearest known quantile that lies at least one standard error of the share q away, where there is one,
    else the farthest: nearer ones may be tied. None with fewer than LEAST_IN_TAIL users beyond the percentile, or where no
    neighbour is known. Source: Woodruff (1952), with straight lines between the quantiles.
    """
    if summary.n * min(q, 1 - q) < LEAST_IN_TAIL:
        return None
    reach = math.sqrt(q * (1 - q) / summary.n)
    found = ((Statistic.parse(name).quantile, value) for name, value in summary.statistics.items())
    known = {at: value for at, value in found if at is not None}
    slopes = [slope for side in (-1, 1) if (slope := _slope(known, q, side * reach)) is not None]
    return reach * max(slopes) if slopes else None


def _slope(known: dict[float, float], q: float, reach: float) -> float | None:
    """Rise of the quantile function from q towards its neighbour on the side of ``reach``, None without one."""
    side = math.copysign(1.0, reach)
    others = sorted((side * (other - q), value) for other, value in known.items() if side * (other - q) > 0)
    if not others or q not in known:
        return None
    distance, value = next((each for each in others if each[0] >= abs(reach)), others[-1])
    return abs(value - known[q]) / distance


Interval = tuple[float, float]

_LEVEL, _Z = 0.975, 1.959963984540054  # the standard normal quantile of it


def estimate_interval(summary: Summary, statistic: str, scores: Interval | None) -> Interval | None:
    """Where the statistic of all users like these lies, in its own unit; None where the summary does not suffice.

    Of the mean Student's interval, of a percentile the normal one with the error of `estimate_error`, both within ``scores``,
    the lowest and highest that a user can have; of a share see `share_interval`.
    """
    wanted, value = Statistic.parse(statistic), summary.value(statistic)
    if value is None or not math.isfinite(value):
        return None
    if wanted.floor is not None:
        return share_interval(value, summary.n)
    error = estimate_error(summary, wanted)
    if error is None or not math.isfinite(error):
        return None
    is_mean = wanted.quantile is None
    reach = error * (float(scipy.special.stdtrit(summary.n - 1, _LEVEL)) if is_mean else _Z)
    low, high = scores or (-math.inf, math.inf)
    return max(low, value - reach), min(high, value + reach)


def share_interval(share: float, users: int) -> Interval:
    """Interval of a share in [0, 1] of n >= 1 users: normal on the angular scale, and never without the share itself."""
    angle, error = to_angle(share, users)
    reach = _Z * error
    low, high = from_angle(np.array([angle - reach, angle + reach]), users)
    return min(float(low), share), max(float(high), share)
