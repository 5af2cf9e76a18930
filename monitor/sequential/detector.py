"""E-detector: a standing question, asked without end, that alarms rarely while all is well."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import scipy

from monitor.model.arrays import Floats
from monitor.sequential.bounds import require_level
from monitor.sequential.capital import STAKES, WEIGHTS, mix


@dataclass(frozen=True)
class Detector:
    """Evidence, by stake, that the mean has risen above ``mean`` at some time; natural logarithms, -inf where there is none.

    Shiryaev-Roberts: M_t = (M_{t-1} + 1) y_t, a new bet begun before every score (Shin, Ramdas and Rinaldo 2023, section 2).
    Promise: while every score's mean given those before is at most ``mean``, the number of scores until the evidence first
    reaches 1/alpha is at least 1/alpha on average. That is a run length, no error rate: for ever is long, and
    every detector alarms some day.
    """

    mean: float
    by_stake: Floats = field(default_factory=lambda: np.full(len(STAKES), -np.inf))

    @property
    def log_evidence(self) -> float:
        """Logarithm of the evidence over all stakes."""
        return mix(self.by_stake)

    def fires(self, alpha: float) -> bool:
        """Whether 1/alpha is reached; begin anew with a fresh Detector afterwards."""
        require_level(alpha)
        return self.log_evidence >= -math.log(alpha)

    def after(self, values: Floats) -> Self:
        """The detector after these scores on [0, 1], in the order in which they came: (n,)."""
        return type(self)(self.mean, _followed(self.by_stake, values, self.mean)[..., -1]) if len(values) else self


def detect(values: Floats, mean: float) -> Floats:
    """Logarithm of the evidence after every score: histories (..., n) on [0, 1] in, the same shape out."""
    by_stake = np.full((len(STAKES), *values.shape[:-1]), -np.inf)
    parts = np.array(WEIGHTS).reshape(-1, *(1,) * values.ndim)
    return np.asarray(scipy.special.logsumexp(_followed(by_stake, values, mean), axis=0, b=parts))


def _followed(by_stake: Floats, values: Floats, mean: float) -> Floats:
    """Log evidence (stakes, ..., n): M_t = exp(L_t) (M_0 + the sum over j <= t of exp(-L_{j-1})), L the bets' log capital."""
    stakes = np.array(STAKES).reshape(-1, *(1,) * values.ndim)
    capital = np.cumsum(np.log1p(stakes * (values - mean) / mean), axis=-1)
    before = np.concatenate([np.zeros_like(capital[..., :1]), capital[..., :-1]], axis=-1)
    begun = np.logaddexp.accumulate(-before, axis=-1)
    return capital + np.logaddexp(by_stake[..., np.newaxis], begun)
