"""Between a metric's own units and the unit interval on which bets are placed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.errors import InputError

Floats = npt.NDArray[np.float64]

_ROUNDING = 1e-9
"""What a score may lie outside its range by rounding alone, as a share of the range."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of a score, both ends included. InputError unless both are finite and ``low`` < ``high``."""

    low: float
    high: float

    def __post_init__(self) -> None:
        """InputError for a range that no bounded mean has."""
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            msg = f"scores from {self.low} to {self.high} have no finite range: choose a measure that is normalized"
            raise InputError(msg)

    def to_unit(self, values: Floats) -> Floats:
        """The scores on [0, 1]. InputError for NaN, and for one outside of the range by more than rounding."""
        unit = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        is_outside = ~((unit >= -_ROUNDING) & (unit <= 1 + _ROUNDING))
        if is_outside.any():
            worst = np.asarray(values)[np.flatnonzero(is_outside)[0]]
            msg = f"score {worst} lies outside its range from {self.low:g} to {self.high:g}, where no bet holds"
            raise InputError(msg)
        return np.clip(unit, 0.0, 1.0)

    def margin(self, value: float) -> float:
        """The margin on (0, 1). InputError unless it lies inside of the range: at its ends nothing could be decided."""
        if not self.low < value < self.high:
            msg = f"margin {value:g} lies outside of what is possible: write one between {self.low:g} and {self.high:g}"
            raise InputError(msg)
        return (value - self.low) / (self.high - self.low)

    def from_unit(self, value: float) -> float:
        """A mean on [0, 1] in the score's own units."""
        return self.low + value * (self.high - self.low)
