"""What is held against the margin: per user, how much farther apart two lists are than they should be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from monitor.errors import InputError
from monitor.metrics import Metric
from monitor.model import Derived
from monitor.sequential import Scale

Floats = npt.NDArray[np.float64]


class Yardstick(StrEnum):
    """What candidate and baseline are held against."""

    NOISE_FLOOR = "noise_floor"
    IDENTICAL = "identical"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A per-user excess in the metric's own units; above 0 the candidate is farther from the baseline than it should be.

    ``series``: name under which the scores are stored. ``reference``: the score that counts as no excess, None under a noise
    floor, where the stored score is the excess already. ``scale``: the range of the excess.
    """

    yardstick: Yardstick
    series: str
    scale: Scale
    reference: float | None = None
    sign: float = 1.0

    def excess(self, scores: Floats) -> Floats:
        """The users' excess from their stored scores; NaN stays."""
        return scores if self.reference is None else self.sign * (self.reference - scores)

    def __str__(self) -> str:
        if self.yardstick is Yardstick.NOISE_FLOOR:
            return f"{self.series}: how much farther the candidate is from the baseline than the baseline from itself"
        of = "identical lists" if self.yardstick is Yardstick.IDENTICAL else "the given reference"
        return f"{self.series}: how far it is from {self.reference:g}, that of {of}; the baseline's own noise is NOT taken off"


def over_floor(metric: Metric, k: int) -> Quantity:
    """The excess over the noise floor: its range is as wide as the metric's on either side of 0."""
    low, high = _bounds(metric, k)
    return Quantity(
        yardstick=Yardstick.NOISE_FLOOR, series=Derived.OVER_FLOOR.of(str(metric)), scale=Scale(low - high, high - low)
    )


def from_value(metric: Metric, k: int, reference: float | None) -> Quantity:
    """The distance from a given score, else from that of identical lists. InputError where there is no such score."""
    low, high = _bounds(metric, k)
    if reference is not None and math.isnan(reference):
        msg = f"reference nan is no score: write one that {metric} can have, {low:g} to {high:g}"
        raise InputError(msg)
    zero = metric.identical if reference is None else reference
    if zero is None or math.isnan(zero):
        msg = f"{metric} has no one value on identical lists: say by --reference VALUE what counts as no excess"
        raise InputError(msg)
    if not low <= zero <= high:
        msg = f"reference {zero:g} lies outside of what {metric} can be, {low:g} to {high:g}"
        raise InputError(msg)
    sign = 1.0 if metric.higher_is_more_alike else -1.0
    ends = sorted((sign * (zero - low), sign * (zero - high)))
    yardstick = Yardstick.IDENTICAL if reference is None else Yardstick.REFERENCE
    return Quantity(yardstick=yardstick, series=str(metric), scale=Scale(*ends), reference=zero, sign=sign)


def _bounds(metric: Metric, k: int) -> tuple[float, float]:
    low, high = metric.bounds(k)
    if not (math.isfinite(low) and math.isfinite(high)):
        msg = f"{metric} has no finite range, and without one no bet holds: choose a measure that is normalized"
        raise InputError(msg)
    return low, high
