"""Fixed thresholds from past runs, for a wanted rate of false pages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from monitor.model import Direction
from monitor.reference.history import Floats
from monitor.reference.prediction import predict
from monitor.reference.reference import Reference

USUALLY, NEARLY_ALWAYS = 0.5, 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A threshold for each of m series, on the scale that is judged; arrays (m,), NaN where the reference says nothing.

    A healthy run passes ``limit`` with a chance of at most the share asked for. ``usually`` and ``nearly_always`` are the
    values that a fault must move the expected value to, to be seen in one run with a chance of 50 % and 95 %. ``least_share``
    is the least chance that any threshold short of ``worst`` could have: above the share asked for, the history is too short.
    """

    limit: Floats
    expected: Floats
    usually: Floats
    nearly_always: Floats
    least_share: Floats


def propose(
    reference: Reference, errors: npt.ArrayLike, share: npt.ArrayLike, *, direction: Direction, worst: float
) -> Threshold:
    """Thresholds on the side of ``direction``, where ``worst`` is the last possible value, at the ``share`` a run.

    ``reference`` is that of the past runs with their seasons left in, since a fixed threshold must bear every hour and weekday;
    ``errors`` (m,) are the largest sampling errors that it shall bear. The chance is that over histories and runs together: one
    threshold may page more often than another, all of them together keep the rate (as any prediction limit of Student's t).
    """
    share = np.asarray(share, dtype=np.float64)
    prediction = predict(reference, errors, share, direction=direction)
    sign = 1.0 if direction is Direction.ABOVE else -1.0
    limit = np.where(np.isfinite(reference.spread), prediction.high if sign > 0 else prediction.low, np.nan)
    deviation = np.sqrt(prediction.scale**2 - reference.center_error**2)  # of the run alone: the limit stands fast
    seen = [limit + sign * deviation * stdtrit(prediction.df, chance) for chance in (USUALLY, NEARLY_ALWAYS)]
    distance = sign * (worst - prediction.expected) / prediction.scale
    return Threshold(
        limit=limit,
        expected=prediction.expected,
        usually=seen[0],
        nearly_always=seen[1],
        least_share=stdtr(prediction.df, -distance),
    )
