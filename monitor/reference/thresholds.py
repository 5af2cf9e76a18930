"""How often a page may be false, thresholds that keep to it, and the drops that a run of so many users shows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from monitor.errors import InputError
from monitor.model.arrays import Floats
from monitor.model.rankings import ALL
from monitor.model.rules import Direction
from monitor.reference.prediction import Reference, predict

# Where runs are independent or correlate by 0.3 a third of it would do. Measured over 40 segments
# of 5,000 users, whose runs correlate with the one before by 0.6: 0.80 of what is allowed (354
# pages in 40,000 runs), as pages then come in clusters.
SAFETY = 5.0
SHARE_OF_ALL = 0.5

USUALLY, NEARLY_ALWAYS = 0.5, 0.95
# Student's t is normal from there on to four figures.
_NORMAL_DF = 1e4


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A wanted mean time between false pages of one comparison, in runs, over its segments and looks.

    Half of it goes to ``all``, the rest in equal parts to the other segments (each takes the whole where the other is absent).
    Promise: the shares sum to 1 / (SAFETY runs). A drop rule whose healthy runs breach with at most its share, given the past,
    and a trend rule that fires at evidence 1 / share are both e-detectors with that average run length; their weighted sum is
    one as well (Shin, Ramdas and Rinaldo 2023), so the mean time to the first false page of all together is at least
    SAFETY * ``runs``, however the series depend on each other; so trends of several looks may fire as one, once the sum of
    share * evidence reaches 1. SAFETY pays for autocorrelation and tails. Nothing is promised while the history is not healthy.
    """

    runs: float
    segments: Sequence[str]
    # Weights of what is judged in every segment, such as ``drop mean of extended_tau``
    looks: Mapping[str, float]

    def share(self, segment: str, look: str) -> float:
        """Chance of a false alarm that one look at one segment may take in one run.

        KeyError for an unknown look.
        """
        others = len({*self.segments} - {ALL})
        of_all = SHARE_OF_ALL if others and ALL in self.segments else float(ALL in self.segments)
        of_segment = of_all if segment == ALL else (1.0 - of_all) / others
        return of_segment * self.looks[look] / sum(self.looks.values()) / (SAFETY * self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Thresholds of m series on the scale that is judged.

    Arrays (m,), NaN where the reference is undefined.
    """

    limit: Floats  # a healthy run passes it with a chance of at most the share asked for
    expected: Floats
    # Where a fault must move the expected value to be seen in one run with a chance of 50 %,
    usually: Floats
    nearly_always: Floats  # and of 95 %
    # Least chance of any threshold short of ``worst``: the history is too short if it is above
    least_share: Floats


def propose(
    reference: Reference,
    errors: npt.ArrayLike,
    share: npt.ArrayLike,
    *,
    direction: Direction,
    worst: float,
) -> Threshold:
    """Thresholds on the side of ``direction``, where ``worst`` is the last possible value, at the ``share`` a run.

    ``reference`` has its seasons left in; ``errors`` (m,) are the largest sampling errors it shall bear. The chance is over
    histories and runs together: one threshold may page more often than another, all of them together keep the rate.
    """
    share = np.asarray(share, dtype=np.float64)
    # Seasons are left in the reference, since a fixed threshold must bear every hour and weekday.
    prediction = predict(reference, errors, share)
    sign = 1.0 if direction is Direction.ABOVE else -1.0
    limit = np.where(
        np.isfinite(reference.spread), prediction.high if sign > 0 else prediction.low, np.nan
    )
    deviation = np.sqrt(
        prediction.scale**2 - reference.center_error**2
    )  # of the run alone: the limit stands fast
    seen = [
        limit + sign * deviation * scipy.special.stdtrit(prediction.df, chance)
        for chance in (USUALLY, NEARLY_ALWAYS)
    ]
    distance = sign * (worst - reference.center) / prediction.scale
    return Threshold(
        limit=limit,
        expected=reference.center,
        usually=seen[0],
        nearly_always=seen[1],
        least_share=scipy.special.stdtr(prediction.df, -distance),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSearch:
    """How a drop is looked for, on the scale of the statistic.

    InputError where a value is out of range.
    """

    sd: float  # over users
    # Standard deviation of the true mean from run to run, which no number of users lessens
    wander: float
    learned: float  # healthy runs that define what is normal, infinite where it is known
    share: float  # chance of a healthy look to page falsely
    power: float  # chance that the drop is seen

    def __post_init__(self) -> None:
        """Check the ranges: NaN is out of all of them."""
        if not (
            self.sd >= 0
            and self.wander >= 0
            and self.sd + self.wander > 0
            and math.isfinite(self.sd + self.wander)
        ):
            raise InputError("sd and wander must be finite and at least 0, and one of them above")
        if not (0 < self.share < 0.5 and self.share < self.power < 1 and self.learned >= 2):  # noqa: PLR2004 - see the docstring
            msg = (
                "the share must lie between 0 and 0.5, the power between it and 1, and two "
                "healthy runs are the least"
            )
            raise InputError(msg)

    @property
    def shift(self) -> float:
        """The least drop seen with chance ``power``, in standard deviations: Student's non-centrality (Johnson, Welch 1940)."""
        df = min(self.learned - 1, _NORMAL_DF)
        return float(
            scipy.special.nctdtrinc(df, 1.0 - self.power, -scipy.special.stdtrit(df, self.share))
        )

    def least_drop(self, users: float, runs: float = 1) -> float:
        """The least drop of the mean that is seen when ``runs`` runs of ``users`` users each are judged together."""
        return self.shift * math.sqrt(self._variance(users) * (1 / runs + 1 / self.learned))

    def chance(self, drop: float, users: float, runs: float = 1) -> float:
        """Chance that a drop of this size is seen."""
        df = min(self.learned - 1, _NORMAL_DF)
        deviation = math.sqrt(self._variance(users) * (1 / runs + 1 / self.learned))
        return 1.0 - float(
            scipy.special.nctdtr(df, drop / deviation, -scipy.special.stdtrit(df, self.share))
        )

    def users_for(self, drop: float, runs: float = 1) -> int | None:
        """Users a run from which on the drop is seen; None where no number helps."""
        left = (drop / self.shift) ** 2 / (1 / runs + 1 / self.learned) - self.wander**2
        # None where the runs themselves wander too far.
        return None if left <= 0 else max(1, math.ceil(self.sd**2 / left))

    def runs_for(self, drop: float, users: float) -> int | None:
        """Runs to be judged together; None where no number helps."""
        left = (drop / self.shift) ** 2 / self._variance(users) - 1 / self.learned
        # None where too few healthy runs define what is normal.
        return None if left <= 0 else max(1, math.ceil(1 / left))

    def _variance(self, users: float) -> float:
        return self.wander**2 + (0.0 if np.isinf(users) else self.sd**2 / users)
