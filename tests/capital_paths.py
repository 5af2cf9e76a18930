"""The capital of `monitor.sequential` after every single user, as a person would follow it who looks all the time."""

import math
from functools import reduce

import numpy as np

from monitor.model.arrays import Floats
from monitor.sequential.gate import STAKES, WEIGHTS

_EDGE = 1e-9
# By how much the scores that are due have to exceed the users not drawn yet before that is no rounding.
_IMPOSSIBLE = 1e-6


def follow_capital(values: Floats, mean: float, population: int | None = None) -> Floats:
    """The logarithm of the capital after every user: scores on [0, 1] of shape (..., n), histories by users, same shape out.

    With a ``population`` users are drawn from it without replacement; infinite where what is left of it cannot have that mean.
    """
    gains = _gains(values, mean, population)
    mixed: Floats = reduce(
        np.logaddexp,
        (np.cumsum(np.log1p(stake * gains), axis=-1) + math.log(part) for stake, part in zip(STAKES, WEIGHTS, strict=True)),
    )
    return mixed


def _gains(values: Floats, mean: float, population: int | None) -> Floats:
    """(m - x) / (1 - m) for each score, with m what the mean of the users not drawn before it would be."""
    if population is None:
        return (mean - values) / (1.0 - mean)
    # After t of N users of sum S that is (N m - S) / (N - t) (Waudby-Smith and Ramdas 2020).
    left = population - np.arange(values.shape[-1])
    due = population * mean - np.cumsum(values, axis=-1)
    # Below 0 one bets as if it were 0, and cannot win; above 1 no population fits, and the capital is infinite.
    rest = np.clip((due + values) / left, 0.0, 1.0 - _EDGE)
    return np.where(due > left - 1 + _IMPOSSIBLE, np.inf, (rest - values) / (1.0 - rest))
