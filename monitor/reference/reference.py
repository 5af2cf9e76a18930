"""What is normal for a series: location and run-to-run scale of its past healthy runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.reference.history import Counts, Floats, keep_newest, read_history
from monitor.reference.season import Phases, remove_seasons
from monitor.reference.spread import Spread, measure_spread, pay

WINDOW = 60
"""Newest runs that a reference looks at: past 60 the t quantile hardly moves, while what was normal long ago misleads."""
RESOLUTION = 1e-9
"""Least spread, as a share of the center or of 1. One step of one user in 10^7 moves a mean by about this much and rounding by
far less, so a constant series is left by a change and never by another order of summing."""
LEAST_OF_SAMPLING = 0.5
"""Of its sampling variance a series has at least this. A fixed panel may vary less than its sampling error says, but a rare
share that has been 0 in every run so far is not known to be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What is normal for m series; arrays (m,), NaN where no run counts.

    ``center`` is the expected value of the next run and ``center_error`` its standard error; ``spread`` the standard deviation
    from run to run of what was seen, sampling error included; ``sampling`` the part of its square that is sampling variance;
    ``df`` the degrees of freedom of ``spread`` (0: nothing can be said yet, ``spread`` NaN); ``runs`` how many runs carry it.
    """

    center: Floats
    center_error: Floats
    spread: Floats
    sampling: Floats
    df: Floats
    runs: Counts


def refer(
    values: npt.ArrayLike,
    errors: npt.ArrayLike,
    *,
    phases: Sequence[Phases] = (),
) -> Reference:
    """Reference of m series from their past runs: ``values`` and their sampling errors, (runs, m), oldest first, NaN left out.

    The newest WINDOW runs that count are weighed by 1 / (run-to-run variance + own sampling variance), as in a random-effects
    meta-analysis (DerSimonian and Laird 1986), after seasons are removed and outliers rejected (Rosner 1983). With equal
    sampling errors these are mean and standard deviation, so Student's t holds exactly for normal runs. Errors: InputError on
    odd shapes.
    """
    past, doubts = read_history(values, errors)
    seasonal = remove_seasons(past, phases)
    own = measure_spread(*keep_newest(seasonal.values, doubts, WINDOW))
    spread = pay(own, seasonal.paid, seasonal.doubt)
    return _bound(spread)


def _bound(spread: Spread) -> Reference:
    """The variance at least LEAST_OF_SAMPLING and RESOLUTION. A bound brings no degrees of freedom: the calm may be chance."""
    least = np.maximum(LEAST_OF_SAMPLING * spread.sampling, (RESOLUTION * np.maximum(1.0, np.abs(spread.center))) ** 2)
    variance = np.where(spread.df > 0, np.maximum(spread.variance, least), np.nan)
    return Reference(
        center=spread.center,
        center_error=np.sqrt(variance * spread.doubt),
        spread=np.sqrt(variance),
        sampling=spread.sampling,
        df=spread.df,
        runs=spread.runs,
    )
