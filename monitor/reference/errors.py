"""Sampling error of a statistic over the users of one run, from its summary alone."""

from __future__ import annotations

import math

from monitor.model import Statistic, Summary

LEAST_IN_TAIL = 5
"""Users that have to lie beyond a percentile before it has an error: an extreme user is no percentile."""


def estimate_error(summary: Summary, statistic: Statistic) -> float | None:
    """Standard error of the statistic over users, in the statistic's own unit; None where the summary cannot tell.

    Of the mean s / sqrt(n); of a percentile see `_of_quantile`; of a share that of Agresti and Coull (1998), never 0. To judge
    a share take `to_angle` instead, which is symmetric.
    """
    if summary.n == 0:
        return None
    if statistic.quantile is not None:
        return _of_quantile(summary, statistic.quantile)
    if statistic.floor is not None:
        return _of_share(summary, str(statistic))
    return summary.standard_error


def _of_share(summary: Summary, name: str) -> float | None:
    """sqrt(p (1 - p) / (n + 4)) with p = (x + 2) / (n + 4)."""
    share = summary.value(name)
    if share is None:
        return None
    n = summary.n + 4
    p = (share * summary.n + 2) / n
    return math.sqrt(p * (1 - p) / n)


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
