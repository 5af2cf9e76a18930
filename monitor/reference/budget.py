"""How often a page may be false, spent over the looks of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monitor.model import ALL

# Where runs are independent or correlate by 0.3 a third of it would do. Measured over 40 segments of 5,000 users, whose runs
# correlate with the one before by 0.6: 0.80 of what is allowed (354 pages in 40,000 runs), as pages then come in clusters.
SAFETY = 5.0
SHARE_OF_ALL = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A wanted mean time between false pages of one comparison, in runs, over its segments and looks.

    ``looks`` maps what is judged in every segment (such as ``drop mean of extended_tau`` or ``trend p05 of rbo``) to a weight.
    Half of the budget goes to ``all``, the rest in equal parts to the other segments (each takes the whole where the other is
    absent); within a segment it follows the weights.

    Promise: the shares sum to 1 / (SAFETY runs). A drop rule whose healthy runs breach with at most its share, given the past,
    and a trend rule that fires at evidence 1 / share are both e-detectors with that average run length; their weighted sum is
    one as well (Shin, Ramdas and Rinaldo 2023), so the mean time to the first false page of all together is at least
    SAFETY * ``runs``, however the series depend on each other. For the same reason trends of several looks may be judged as
    one: firing once the sum of share * evidence over them reaches 1 keeps the promise and is never later. SAFETY pays for what
    the model gets wrong: autocorrelation and tails. Not promised: that no page is false, nor any rate while the history is not
    that of healthy runs.
    """

    runs: float
    segments: Sequence[str]
    looks: Mapping[str, float]

    def share(self, segment: str, look: str) -> float:
        """Chance of a false alarm that one look at one segment may take in one run; KeyError for an unknown look."""
        others = len({*self.segments} - {ALL})
        of_all = SHARE_OF_ALL if others and ALL in self.segments else float(ALL in self.segments)
        of_segment = of_all if segment == ALL else (1.0 - of_all) / others
        return of_segment * self.looks[look] / sum(self.looks.values()) / (SAFETY * self.runs)
