"""Scores on the unit interval, counted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from monitor.errors import InputError
from monitor.model.arrays import Floats

# What a score may lie outside its range by rounding alone, as a share of the range.
_ROUNDING = 1e-9


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


@dataclass(frozen=True)
class Tally:
    """Scores on [0, 1], and how often each came: all that a bet of fixed stakes needs to know."""

    values: Floats
    counts: Floats

    @property
    def n(self) -> int:
        """How many scores."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """NaN without scores."""
        return float(np.average(self.values, weights=self.counts)) if self.n else float("nan")

    def flipped(self) -> Tally:
        """1 - score of each: evidence that its mean is below 1 - m is evidence that this one's is above m."""
        return Tally(1.0 - self.values, self.counts)


def tally(unit: Floats) -> Tally:
    """Count scores on [0, 1], as a `Scale` gives them, of any shape."""
    values, counts = np.unique(unit, return_counts=True)
    return Tally(values.astype(np.float64), counts.astype(np.float64))


@dataclass(frozen=True)
class UserSample:
    """Users drawn at random: the scores of those who have one, on [0, 1], and how many have none."""

    scored: Tally
    missing: int = 0

    @property
    def least(self) -> Tally:
        """Every missing score at 0."""
        return self._with_missing_at(0.0)

    @property
    def most(self) -> Tally:
        """Every missing score at 1."""
        return self._with_missing_at(1.0)

    @property
    def n(self) -> int:
        """Users drawn, with and without a score."""
        return self.scored.n + self.missing

    def _with_missing_at(self, value: float) -> Tally:
        return Tally(np.append(self.scored.values, value), np.append(self.scored.counts, float(self.missing)))
