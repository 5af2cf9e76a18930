"""The budget of false pages, thresholds that keep to it, and the drops that a run can detect."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike

from monitor.errors import InputError
from monitor.immutable import immutable
from monitor.model.arrays import Floats
from monitor.model.rankings import ALL
from monitor.model.rules import Direction
from monitor.reference.prediction import Reference, predict

SAFETY = 5.0
"""Factor by which fewer false pages are planned than allowed.

A third of it suffices if runs are independent or correlate by 0.3. Measured over 40 segments of
5,000 users whose runs correlate by 0.6: 0.80 of the allowed pages (354 in 40,000 runs), because
pages come in clusters then.
"""
SHARE_OF_ALL = 0.5
"""Part of the budget for ``all``, if there are other segments."""
USUALLY = 0.5
NEARLY_ALWAYS = 0.95
"""Chances of detection that a threshold is described by."""
_MOST_SHARE = 0.5
"""The chance of a false page must be below this."""
_LEAST_LEARNED = 2
"""Least number of healthy runs that define what is normal."""
_NORMAL_DF = 1e4
"""Degrees of freedom from which on Student's t is normal to four figures."""


@immutable
class Budget:
    """The wanted mean time between false pages of one comparison, in runs.

    It is divided among segments and looks. Half goes to ``all``, the rest in equal parts to the
    other segments. Either gets everything if the other does not exist.

    Promise: the mean time to the first false page is at least SAFETY * ``runs``, however the series
    depend on each other. The shares sum to 1 / (SAFETY * runs). A drop rule that breaches in
    healthy runs with at most its share, given the past, is an e-detector with that average run
    length. So is a trend rule that fires at evidence 1 / share, and their weighted sum (Shin,
    Ramdas and Rinaldo 2023). So trends of several looks may fire as one, once the sum of
    share * evidence reaches 1. SAFETY covers autocorrelation and tails.
    Nothing is promised if the history is not healthy.
    """

    runs: float
    segments: Sequence[str]
    # Weights of the looks in every segment, such as ``drop mean of extended_tau``
    looks: Mapping[str, float]

    def share(self, segment: str, look: str) -> float:
        """The allowed chance of a false alarm of one look at one segment in one run.

        KeyError for an unknown look.
        """
        others = len({*self.segments} - {ALL})
        of_all = float(ALL in self.segments)
        if others:
            of_all *= SHARE_OF_ALL
        of_segment = of_all if segment == ALL else (1.0 - of_all) / others
        return of_segment * self.looks[look] / sum(self.looks.values()) / (SAFETY * self.runs)


@immutable
class Threshold:
    """Thresholds of m series on the judged scale. Arrays (m,), NaN without a reference."""

    limit: Floats  # a healthy run exceeds it with at most the given chance
    expected: Floats
    # Expected values that one run detects with a chance of 50 % and of 95 %
    usually: Floats
    nearly_always: Floats
    # Least chance of any threshold before ``worst``; the history is too short for a smaller one
    least_share: Floats


def propose(
    reference: Reference,
    errors: ArrayLike,
    share: ArrayLike,
    *,
    direction: Direction,
    worst: float,
) -> Threshold:
    """Thresholds on the side of ``direction``, at a chance of ``share`` per run.

    - ``reference``: with its seasons, because a fixed threshold is for every hour and weekday.
    - ``errors`` (m,): the largest sampling errors of future runs.
    - ``worst``: the last possible value.

    The chance is over histories and runs together. One threshold may page more often than
    another, but all of them together keep the rate.
    """
    prediction = predict(reference, errors, np.asarray(share, dtype=np.float64))
    sign = -1.0
    limit = prediction.low
    if direction is Direction.ABOVE:
        sign = 1.0
        limit = prediction.high
    limit = np.where(np.isfinite(reference.spread), limit, np.nan)
    # Deviation of the run alone, because the limit is fixed.
    deviation = np.sqrt(prediction.scale**2 - reference.center_error**2)
    usually, nearly_always = (
        limit + sign * deviation * scipy.special.stdtrit(prediction.df, chance)
        for chance in (USUALLY, NEARLY_ALWAYS)
    )
    distance = sign * (worst - reference.center) / prediction.scale
    return Threshold(
        limit=limit,
        expected=reference.center,
        usually=usually,
        nearly_always=nearly_always,
        least_share=scipy.special.stdtr(prediction.df, -distance),
    )


@immutable
class DropSearch:
    """A test for drops, on the scale of the statistic. InputError if a value is out of range."""

    sd: float  # standard deviation over users
    # Standard deviation of the true mean from run to run, which more users do not reduce
    wander: float
    learned: float  # healthy runs that define what is normal, infinite if it is exact
    share: float  # chance of a false page in a healthy run
    power: float  # chance that the drop is detected

    def __post_init__(self) -> None:
        """Check the ranges. NaN is out of all of them."""
        if not (self.sd >= 0 and self.wander >= 0 and 0 < self.sd + self.wander < math.inf):
            raise InputError("sd and wander must be finite and at least 0, and one of them above")
        is_valid_share = 0 < self.share < _MOST_SHARE and self.share < self.power < 1
        if not (is_valid_share and self.learned >= _LEAST_LEARNED):
            msg = (
                "the share must be between 0 and 0.5, the power between the share and 1, and the "
                "number of healthy runs at least 2"
            )
            raise InputError(msg)

    @property
    def shift(self) -> float:
        """The least drop detected with chance ``power``, in standard deviations.

        It is Student's non-centrality (Johnson and Welch 1940).
        """
        df = min(self.learned - 1, _NORMAL_DF)
        limit = -scipy.special.stdtrit(df, self.share)
        return float(scipy.special.nctdtrinc(df, 1.0 - self.power, limit))

    def least_drop(self, users: float, runs: float = 1) -> float:
        """The least drop of the mean that ``runs`` runs of ``users`` users detect together."""
        return self.shift * math.sqrt(self._variance(users) * (1 / runs + 1 / self.learned))

    def chance(self, drop: float, users: float, runs: float = 1) -> float:
        """Chance that a drop of this size is detected."""
        df = min(self.learned - 1, _NORMAL_DF)
        deviation = math.sqrt(self._variance(users) * (1 / runs + 1 / self.learned))
        limit = -scipy.special.stdtrit(df, self.share)
        return 1.0 - float(scipy.special.nctdtr(df, drop / deviation, limit))

    def users_for(self, drop: float, runs: float = 1) -> int | None:
        """Least users per run that detect the drop. None if the runs themselves vary too much."""
        left = (drop / self.shift) ** 2 / (1 / runs + 1 / self.learned) - self.wander**2
        return None if left <= 0 else max(1, math.ceil(self.sd**2 / left))

    def runs_for(self, drop: float, users: float) -> int | None:
        """Least runs that detect the drop together. None with too few healthy runs before."""
        left = (drop / self.shift) ** 2 / self._variance(users) - 1 / self.learned
        return None if left <= 0 else max(1, math.ceil(1 / left))

    def _variance(self, users: float) -> float:
        return self.wander**2 + (0.0 if np.isinf(users) else self.sd**2 / users)
