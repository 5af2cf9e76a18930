"""Divides the budget of false alerts, proposes thresholds, and finds which drops are detected."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import scipy

from monitor.model.arrays import Floats
from monitor.model.errors import InputError
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL
from monitor.model.rules import Direction
from monitor.statistics.reference.prediction import Reference, predict

SAFETY = 5.0
"""The planned number of false alerts is the allowed number divided by this factor.

A third of the factor is enough if runs are independent or correlate by 0.3. If runs correlate by
0.6, alerts come in clusters. 40 segments of 5,000 users with such runs caused 354 alerts in 40,000
runs. This is 0.80 of the allowed number.
"""
SHARE_OF_ALL = 0.5
"""If there are other segments, ``all`` gets this part of the budget."""
USUALLY = 0.5
NEARLY_ALWAYS = 0.95
"""A threshold is described by the values that are detected with these two chances."""
_MOST_ALPHA = 0.5
"""The chance of a false alert must be below this."""
_LEAST_LEARNED = 2
"""At least this many healthy runs are needed to define what is normal."""
_NORMAL_DF = 1e4
"""With this many degrees of freedom, Student's t equals a normal distribution to four figures."""


@immutable
class Budget:
    """The allowed chance of false alerts of one comparison, divided among segments and looks.

    ``runs`` is the wanted mean time between false alerts, in runs. A look is what one rule judges
    in a segment. Half of the budget goes to ``all``. The other half is divided equally among the
    other segments. If only ``all`` is judged, it gets the whole budget. If ``all`` is not judged,
    the other segments share the whole budget.

    For healthy histories, the mean time to the first false alert is at least SAFETY * ``runs``.
    This is true for any dependence between series, for these reasons:

    - The chances `alpha` sum to 1 / (SAFETY * runs).
    - Whatever the past was, the chance that a drop rule breaches in a healthy run is at most its
      alpha. Such a rule is an e-detector whose average run length is 1 / alpha.
    - A trend rule that fires at evidence 1 / alpha is an e-detector too.
    - A weighted sum of e-detectors is an e-detector (Shin, Ramdas and Rinaldo 2023). So the trends
      of several looks may fire together when the sum of alpha * evidence reaches 1.

    SAFETY also covers autocorrelation and heavy tails. Nothing is promised if the history is not
    healthy.
    """

    runs: float
    segments: Sequence[str]
    # The weight of each look in every segment. The caller names the looks. A run uses the names of
    # the rules' alerts
    looks: Mapping[str, float]

    def alpha(self, segment: str, look: str) -> float:
        """The allowed chance of a false alert in one run, for one look at one segment.

        Raises KeyError if the look is unknown.
        """
        others = len({*self.segments} - {ALL})
        share_of_all = float(ALL in self.segments)
        if others:
            share_of_all *= SHARE_OF_ALL
        share_of_segment = share_of_all
        if segment != ALL:
            share_of_segment = (1.0 - share_of_all) / others
        total = sum(self.looks.values())
        return share_of_segment * self.looks[look] / total / (SAFETY * self.runs)


@immutable
class Threshold:
    """Thresholds of m series on the judged scale. Each field is an array of shape (m,).

    The values are NaN if there is no reference.
    """

    limit: Floats  # a healthy run is beyond it with at most the given chance
    expected: Floats
    # If the expected value moves to ``usually``, one run detects this with a chance of 50 %. If it
    # moves to ``nearly_always``, the chance is 95 %
    usually: Floats
    nearly_always: Floats
    # The chance of a false alert if the threshold were ``worst``. With this history, no threshold
    # has a smaller chance
    least_alpha: Floats


def propose_thresholds(
    reference: Reference,
    errors: Floats,
    alpha: Floats | float,
    *,
    direction: Direction,
    worst: float,
) -> Threshold:
    """Propose thresholds on the side of ``direction``, with the chance ``alpha`` of a false alert.

    - ``reference``: a reference whose seasons were not removed, because a fixed threshold is used
      at every hour and on every weekday.
    - ``errors`` (m,): the largest sampling errors that future runs may have.
    - ``alpha``: the chance of a false alert in one run.
    - ``worst``: the last possible value on this side.

    The chance is an average over histories and runs. A single threshold may alert more often, but
    all thresholds together have this rate.
    """
    prediction = predict(reference, errors, alpha)
    sign = -1.0
    limit = prediction.low
    if direction is Direction.ABOVE:
        sign = 1.0
        limit = prediction.high
    limit = np.where(np.isfinite(reference.spread), limit, np.nan)
    # The limit is fixed, so only the value of the run varies.
    deviation = np.sqrt(prediction.scale**2 - reference.center_error**2)
    usually, nearly_always = (
        limit + sign * deviation * scipy.special.stdtrit(prediction.df, chance)
        for chance in (USUALLY, NEARLY_ALWAYS)
    )
    worst_t = sign * (worst - reference.center) / prediction.scale
    return Threshold(
        limit=limit,
        expected=reference.center,
        usually=usually,
        nearly_always=nearly_always,
        least_alpha=scipy.special.stdtr(prediction.df, -worst_t),
    )


@immutable
class DropSearch:
    """A test that detects drops of a statistic. Its values have the unit of the statistic.

    Raises InputError if a value is out of range.
    """

    sd: float  # standard deviation over users
    # Standard deviation of the true mean from run to run. More users do not reduce it
    wander: float
    # Number of healthy runs that define what is normal, infinite if that is known exactly
    learned: float
    alpha: float  # chance of a false alert in a healthy run
    power: float  # wanted chance that the drop is detected

    def __post_init__(self) -> None:
        """Check the ranges. NaN is outside of every range."""
        has_spread = 0 < self.sd + self.wander < math.inf
        if not (self.sd >= 0 and self.wander >= 0 and has_spread):
            raise InputError(
                "sd and wander must be finite and at least 0, and one of them must be above 0"
            )
        is_valid_alpha = 0 < self.alpha < _MOST_ALPHA and self.alpha < self.power < 1
        if not (is_valid_alpha and self.learned >= _LEAST_LEARNED):
            msg = (
                "alpha must be between 0 and 0.5, the power between alpha and 1, and the number "
                "of healthy runs at least 2"
            )
            raise InputError(msg)

    @property
    def shift(self) -> float:
        """The smallest drop that is detected with the chance ``power``, in standard deviations.

        This is the non-centrality of Student's t (Johnson and Welch 1940).
        """
        df = min(self.learned - 1, _NORMAL_DF)
        limit = -scipy.special.stdtrit(df, self.alpha)
        return float(scipy.special.nctdtrinc(df, 1.0 - self.power, limit))

    def least_drop(self, users: float, runs: float = 1) -> float:
        """The smallest drop that the mean of ``runs`` runs detects, with ``users`` in each run."""
        return self.shift * self._error(users, runs)

    def chance(self, drop: float, users: float, runs: float) -> float:
        """The chance that a drop of this size is detected."""
        df = min(self.learned - 1, _NORMAL_DF)
        limit = -scipy.special.stdtrit(df, self.alpha)
        return 1.0 - float(scipy.special.nctdtr(df, drop / self._error(users, runs), limit))

    def _error(self, users: float, runs: float) -> float:
        """Standard error of the mean of ``runs`` runs minus the mean of the healthy runs."""
        return math.sqrt(self._variance(users) * (1 / runs + 1 / self.learned))

    def users_for(self, drop: float, runs: float = 1) -> int | None:
        """The smallest number of users per run so that ``runs`` runs together detect the drop.

        None if no number is enough, because the true mean varies too much from run to run.
        """
        variance_of_run = (drop / self.shift) ** 2 / (1 / runs + 1 / self.learned)
        sampling_variance = variance_of_run - self.wander**2
        if sampling_variance <= 0:
            return None
        return max(1, math.ceil(self.sd**2 / sampling_variance))

    def runs_for(self, drop: float, users: float) -> int | None:
        """The smallest number of runs that together detect the drop.

        None if too few healthy runs define what is normal, or if there is no drop.
        """
        if drop <= 0:
            return None
        inverse_of_runs = (drop / self.shift) ** 2 / self._variance(users) - 1 / self.learned
        if inverse_of_runs <= 0:
            return None
        return max(1, math.ceil(1 / inverse_of_runs))

    def _variance(self, users: float) -> float:
        """Variance of the mean of a run with so many users."""
        return self.wander**2 + self.sd**2 / users
