"""How much a run resembles the one before it, and what that takes from evidence that adds up over runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.reference.history import Floats, pull_in

PRIOR_RUNS = 10.0
PRIOR = 0.2
"""Before a history can tell, neighbouring runs are taken to correlate by 0.2, with the weight of 10 runs."""
CAUTION = 1.0
"""Standard errors that are added. Without them runs that correlate by 0.6 raise false trends to six times their number."""
MOST = 0.95
"""With more, a series says next to nothing about its trend."""


def correlate(values: npt.ArrayLike) -> Floats:
    """Cautious lag-1 correlation of past runs, (m,), in [0, MOST]; ``values`` (runs, m) oldest first, NaN where left out.

    Far-out values are pulled in, pairs with a gap are passed over; the small-sample bias, -(1 + 3 r) / n (Kendall 1954), is
    taken back, short histories lean on PRIOR, and one standard error is added, since too
    low a correlation costs false pages. Negative correlation counts as none.
    """
    near = pull_in(np.asarray(values, dtype=np.float64))
    products = near[1:] * near[:-1]
    pairs = np.sum(~np.isnan(products), axis=0)
    power = np.nansum(near**2, axis=0) / np.maximum(np.sum(~np.isnan(near), axis=0), 1)
    seen = np.nansum(products, axis=0) / np.maximum(pairs, 1) / np.where(power > 0, power, 1.0)
    unbiased = seen + (1.0 + 3.0 * seen) / np.maximum(pairs, 1)
    leaning = (pairs * unbiased + PRIOR_RUNS * PRIOR) / (pairs + PRIOR_RUNS)
    doubt = np.sqrt(np.maximum(1.0 - leaning**2, 0.0) / (pairs + PRIOR_RUNS))
    correlation: Floats = np.clip(leaning + CAUTION * doubt, 0.0, MOST)
    return correlation


def discount(z: npt.ArrayLike, correlation: npt.ArrayLike) -> Floats:
    """Surprises that may be added up over runs: z sqrt((1 - r) / (1 + r)) for the lag-1 correlation r >= 0.

    Sums of an autoregressive series vary (1 + r) / (1 - r) times as much as sums of independent runs do; after the discount
    they vary alike in the long run. An approximation, checked by simulation and no promise as that of `follow` is.
    """
    r = np.asarray(correlation, dtype=np.float64)
    discounted: Floats = np.asarray(z, dtype=np.float64) * np.sqrt((1.0 - r) / (1.0 + r))
    return discounted
