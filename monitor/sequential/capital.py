"""Capital of one who bets that a mean lies below m: it rarely grows where that is wrong, whenever one looks.

On a score x the bet of stake s in (0, 1) multiplies the capital by y = 1 + s (m - x) / (1 - m), which is at least 1 - s.
Where the mean is at least m, y is at most 1 in expectation, and so the capital is a supermartingale: it ever reaches 1/alpha
with probability at most alpha (Ville 1939; Waudby-Smith and Ramdas 2024, section 4). The capital starts in parts on a few
fixed stakes, each twice the next, in place of a stake that is learned on the way. Fixed stakes cost a constant (at most 3.7 of
log capital, and 1.2 where the boldest is best, which it is for scores that use little of their range) and buy three things:

- the order of users does not matter, so that a verdict depends on nobody's choice of it, and equal scores may be counted;
- the mean may move: the product of 1 + s (m - mean_i) / (1 - m) is at most 1 as soon as the *average* of the means so far is
  at least m (arithmetic over geometric mean), so that the promise is about the average over what was looked at;
- a run's users may be drawn without replacement from a population of unknown size, as long as one looks between runs only:
  the expected product over a sample is the normalized elementary symmetric mean, which Maclaurin's inequality (1729) puts
  under the power of the mean.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from monitor.errors import InputError
from monitor.sequential.samples import Tally

STAKES: tuple[float, ...] = tuple(0.98 * 0.5**halvings for halvings in range(13))
"""From all but everything, for means near the end of the range, down to what suits ten million users at its middle."""

WEIGHTS: tuple[float, ...] = tuple(1 / place / sum(1 / each for each in range(1, 14)) for place in range(1, 14))
"""Parts of the capital that begin on the stakes. Equal ones ask for a fifth more users of an excess over a noise floor."""


def log_capital(scores: Tally, mean: float) -> float:
    """Natural logarithm of the capital that bets on a mean below this one, 0 < mean < 1, after these scores; 0 without any.

    The evidence that it lies above is `log_capital(scores.flipped(), 1 - mean)`. Cost: 13 logarithms a distinct score.
    """
    gains = (mean - scores.values) / (1.0 - mean)
    return float(scipy.special.logsumexp([scores.counts @ np.log1p(stake * gains) for stake in STAKES], b=WEIGHTS))


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
