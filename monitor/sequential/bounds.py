"""Confidence sequences: the means that no bet has ruled out."""

from __future__ import annotations

import math

import numpy as np

from monitor.errors import InputError
from monitor.sequential.capital import log_capital
from monitor.sequential.samples import Tally

_HALVINGS = 30
# More distinct scores than these are moved up to multiples of one 65,536th, which can only widen the bounds.
_GRID = 2**16


def bounds(least: Tally, most: Tally, alpha: float) -> tuple[float, float]:
    """Lower bound from ``least``, upper from ``most`` (the same tally where nobody is missing), each wrong with at most alpha.

    Means on [0, 1]; (0, 1) without scores. Together they are a confidence sequence of level 1 - 2 alpha. Capital grows with m,
    so each is found by bisection: to 1e-9, and 2e-5 wider where scores had to be moved. InputError for alpha outside (0, 1).
    """
    require_level(alpha)
    return 1.0 - _upper(least.flipped(), alpha), _upper(most, alpha)


def require_level(alpha: float) -> None:
    """InputError unless 0 < alpha < 1."""
    if not 0 < alpha < 1:
        msg = f"alpha {alpha:g} is no error rate: write one between 0 and 1, such as 0.01"
        raise InputError(msg)


def _upper(scores: Tally, alpha: float) -> float:
    """The least mean at which the capital has reached 1/alpha; 1 where none has."""
    if not scores.n:
        return 1.0
    coarse, low, high = _coarse(scores), 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if log_capital(coarse, middle) >= -math.log(alpha) else (middle, high)
    return high


def _coarse(scores: Tally) -> Tally:
    if len(scores.values) <= _GRID:
        return scores
    # Rounded up: higher scores can only raise the upper bound.
    values, owner = np.unique(np.ceil(scores.values * _GRID) / _GRID, return_inverse=True)
    return Tally(values, np.bincount(owner, weights=scores.counts).astype(np.float64))
