"""95 % interval over users of a statistic of one run, from its summary alone."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri, stdtrit

from monitor.model import Statistic, Summary
from monitor.reference.errors import estimate_error
from monitor.reference.shares import from_angle, to_angle

Interval = tuple[float, float]

_LEVEL = 0.975
_Z = float(ndtri(_LEVEL))


def estimate_interval(summary: Summary, statistic: str, scores: Interval | None) -> Interval | None:
    """Where the statistic of all users like these lies, in its own unit; None where the summary cannot tell.

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
    reach = error * (float(stdtrit(summary.n - 1, _LEVEL)) if is_mean else _Z)
    low, high = scores or (-math.inf, math.inf)
    return max(low, value - reach), min(high, value + reach)


def share_interval(share: float, users: int) -> Interval:
    """Interval of a share in [0, 1] of n >= 1 users: normal on the angular scale, and never without the share itself."""
    angle, error = to_angle(share, users)
    low, high = from_angle(np.array([angle - _Z * error, angle + _Z * error]), users)
    return min(float(low), share), max(float(high), share)
