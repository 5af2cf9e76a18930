"""Scores on the unit interval, counted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

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
    """Distinct scores on [0, 1], ascending, and how often each came: all that a bet of fixed stakes needs to know."""

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
        return Tally(1.0 - self.values[::-1], self.counts[::-1])


def tally(unit: Floats) -> Tally:
    """Count scores on [0, 1] of any shape. InputError for others and NaN."""
    if not ((unit >= 0) & (unit <= 1)).all():
        msg = "scores must lie in [0, 1], and none may be NaN: bring them there with a Scale, and leave missing ones out"
        raise InputError(msg)
    values, counts = np.unique(unit, return_counts=True)
    return Tally(values.astype(np.float64), counts.astype(np.float64))


@dataclass(frozen=True)
class UserSample:
    """Users drawn at random: the scores of those who have one, on [0, 1], and how many have none."""

    scored: Tally
    missing: int = 0

    @cached_property
    def least(self) -> Tally:
        """Every missing score at 0."""
        return tally(np.empty(0)) if not self.n else _joined(0.0, self.missing, self.scored)

    @cached_property
    def most(self) -> Tally:
        """Every missing score at 1."""
        flipped = UserSample(self.scored.flipped(), self.missing)
        return flipped.least.flipped()

    @property
    def n(self) -> int:
        """Users drawn, with and without a score."""
        return self.scored.n + self.missing


def _joined(value: float, count: int, others: Tally) -> Tally:
    """``others`` and ``count`` more scores of this value, which lies below all of theirs or equals their first."""
    if not count:
        return others
    if len(others.values) and others.values[0] == value:
        counts = others.counts.copy()
        counts[0] += count
        return Tally(others.values, counts)
    return Tally(np.concatenate([[value], others.values]), np.concatenate([[float(count)], others.counts]))
