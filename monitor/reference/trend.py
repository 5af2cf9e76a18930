"""Memory across runs: evidence that a series drifts, gathered run by run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.reference.history import Counts, Floats

DRIFTS = (0.5, 1.0, 1.5)
"""Sizes of a lasting shift, in standard deviations of a healthy run, that the evidence is gathered for."""
MOST_Z = 3.0
"""One run counts for no more: a single bad run is a drop and no trend. Capping z from above only lowers the evidence."""
MOST_EVIDENCE = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is stored of m series from run to run, each (len(DRIFTS), m).

    ``mass``: Shiryaev-Roberts evidence for each size of drift; ``rise``: log-likelihood ratio since the likeliest start of such
    a drift (Page 1954), 0 where none is under way; ``since``: runs since that start.
    """

    mass: Floats
    rise: Floats
    since: Counts

    @property
    def total(self) -> Floats:
        """Evidence of the mixture over the sizes, (m,): fires at 1 / alpha."""
        weighed: Floats = self.mass.mean(axis=0)
        return weighed


def start(series: int) -> Evidence:
    """No evidence of m series: before the first run, after a page was dealt with, or with a new reference."""
    empty = np.zeros((len(DRIFTS), series))
    return Evidence(mass=empty, rise=empty, since=np.zeros(empty.shape, dtype=np.intp))


def follow(evidence: Evidence, z: npt.ArrayLike) -> Evidence:
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
    said = ~np.isnan(now)
    mass = np.where(said, np.minimum((1.0 + evidence.mass) * np.exp(step), MOST_EVIDENCE), evidence.mass)
    rise = np.where(said, np.maximum(evidence.rise + step, 0.0), evidence.rise)
    since = np.where(rise > 0, evidence.since + 1, 0)
    return Evidence(mass=mass, rise=rise, since=since)


def count_suspects(evidence: Evidence, alpha: npt.ArrayLike) -> Counts:
    """How many of the newest runs of each series to leave out of its reference, (m,), so that a drift is not taken for normal.

    Once the log-likelihood ratio of some drift reaches half of log(1 / alpha), the runs since its likeliest start are under
    suspicion, those without a value included. They come back by themselves when the ratio falls to 0 again.
    """
    best = np.argmax(evidence.rise, axis=0)[np.newaxis]
    rise = np.take_along_axis(evidence.rise, best, axis=0)[0]
    since = np.take_along_axis(evidence.since, best, axis=0)[0]
    return np.where(rise >= -np.log(np.asarray(alpha, dtype=np.float64)) / 2, since, 0)
