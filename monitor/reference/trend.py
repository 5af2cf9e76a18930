"""Evidence, gathered run by run, that a series drifts; discounted where runs resemble the one before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.model.arrays import Floats, Integers
from monitor.reference.history import find_median, pull_in

PRIOR_RUNS = 10.0
PRIOR_CORRELATION = 0.2
"""As long as the history is short, neighbouring runs are taken to correlate by 0.2, with the weight of 10 runs."""
# Standard errors that are added. Without them runs that correlate by 0.6 raise false trends to six times their number.
CORRELATION_CAUTION = 1.0
# With more, hardly anything can be learned about a trend.
MOST_CORRELATION = 0.95


def correlate(values: npt.ArrayLike) -> Floats:
    """Cautious lag-1 correlation of past runs, (m,), in [0, MOST]; ``values`` (runs, m) oldest first, NaN where left out.

    Far-out values are pulled in, pairs with a gap are passed over; the small-sample bias, -(1 + 3 r) / n (Kendall 1954), is
    taken back, short histories lean on PRIOR, and one standard error is added. Negative correlation counts as none.
    """
    past = np.asarray(values, dtype=np.float64)
    near = pull_in(past, find_median(past))
    products = near[1:] * near[:-1]
    pairs = np.sum(~np.isnan(products), axis=0)
    power = np.nansum(near**2, axis=0) / np.maximum(np.sum(~np.isnan(near), axis=0), 1)
    seen = np.nansum(products, axis=0) / np.maximum(pairs, 1) / np.where(power > 0, power, 1.0)
    unbiased = seen + (1.0 + 3.0 * seen) / np.maximum(pairs, 1)
    leaning = (pairs * unbiased + PRIOR_RUNS * PRIOR_CORRELATION) / (pairs + PRIOR_RUNS)
    doubt = np.sqrt(np.maximum(1.0 - leaning**2, 0.0) / (pairs + PRIOR_RUNS))
    # Too low a correlation costs false pages, too high a one only time.
    correlation: Floats = np.clip(leaning + CORRELATION_CAUTION * doubt, 0.0, MOST_CORRELATION)
    return correlation


def discount(z: npt.ArrayLike, correlation: npt.ArrayLike) -> Floats:
    """Surprises that may be added up over runs: z sqrt((1 - r) / (1 + r)) for the lag-1 correlation r >= 0.

    Sums of an autoregressive series vary (1 + r) / (1 - r) times as much as sums of independent runs do; after the discount
    they vary alike in the long run.
    """
    # An approximation, checked by simulation: no promise as that of `update_evidence` is.
    r = np.asarray(correlation, dtype=np.float64)
    discounted: Floats = np.asarray(z, dtype=np.float64) * np.sqrt((1.0 - r) / (1.0 + r))
    return discounted


DRIFTS = (0.5, 1.0, 1.5)
"""Sizes of a lasting shift, in standard deviations of a healthy run, that the evidence is gathered for."""
MOST_Z = 3.0
"""One run counts for no more: a single bad run is a drop and no trend. Capping z from above only lowers the evidence."""
MOST_EVIDENCE = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendEvidence:
    """What is stored of m series from run to run, each (len(DRIFTS), m).

    ``mass``: Shiryaev-Roberts evidence for each size of drift; ``rise``: log-likelihood ratio since the likeliest start of such
    a drift (Page 1954), 0 where none is under way; ``since``: runs since that start.
    """

    mass: Floats
    rise: Floats
    since: Integers

    @property
    def total(self) -> Floats:
        """Evidence of the mixture over the sizes, (m,): fires at 1 / alpha."""
        weighed: Floats = self.mass.mean(axis=0)
        return weighed


def no_evidence(series: int) -> TrendEvidence:
    """No evidence of m series: before the first run, after a page was dealt with, or with a new reference."""
    empty = np.zeros((len(DRIFTS), series))
    return TrendEvidence(mass=empty, rise=empty, since=np.zeros(empty.shape, dtype=np.intp))


def update_evidence(evidence: TrendEvidence, z: npt.ArrayLike) -> TrendEvidence:
    """Evidence after one more run with surprise ``z`` (m,), large on the side that is watched; NaN changes nothing.

    For a drift d: M_t = (1 + M_{t-1}) exp(d z_t - d^2 / 2), the average over the sizes d being the evidence; z is capped at
    MOST_Z. Promise: with healthy z that are independent N(0, 1) (or any with E[exp(d z_t) | past] <= exp(d^2 / 2)), firing once
    the evidence reaches 1 / alpha has an average run length of at least 1 / alpha. Proof (Pollak 1985; Shin, Ramdas and Rinaldo
    2023, e-detectors): E[M_t | past] <= 1 + M_{t-1}, so M_t - t is a supermartingale from 0, as is the average. At the first
    time T with M_T >= 1 / alpha optional stopping gives 1 / alpha <= E[M_T] <= E[T]. That is a run length, no error rate over a
    lifetime.
    """
    now = np.minimum(np.asarray(z, dtype=np.float64), MOST_Z)
    drifts = np.array(DRIFTS)[:, np.newaxis]
    step = np.nan_to_num(drifts * now - drifts**2 / 2)
    is_known = ~np.isnan(now)
    mass = np.where(is_known, np.minimum((1.0 + evidence.mass) * np.exp(step), MOST_EVIDENCE), evidence.mass)
    rise = np.where(is_known, np.maximum(evidence.rise + step, 0.0), evidence.rise)
    # A run without a value belongs to the rise that it stands in.
    since = np.where(rise > 0, evidence.since + 1, 0)
    return TrendEvidence(mass=mass, rise=rise, since=since)


def count_suspects(evidence: TrendEvidence, alpha: npt.ArrayLike) -> Integers:
    """How many of the newest runs of each series to leave out of its reference, (m,), so that a drift is not taken for normal.

    Once the log-likelihood ratio of some drift reaches half of log(1 / alpha), the runs since its likeliest start are under
    suspicion, those without a value included. They come back by themselves when the ratio falls to 0 again.
    """
    best = np.argmax(evidence.rise, axis=0)[np.newaxis]
    rise = np.take_along_axis(evidence.rise, best, axis=0)[0]
    since = np.take_along_axis(evidence.since, best, axis=0)[0]
    return np.where(rise >= -np.log(np.asarray(alpha, dtype=np.float64)) / 2, since, 0)
