"""Several questions at once: which may be answered when few of the answers are to be wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from monitor.sequential.bounds import require_level


def reject(log_evidence: Sequence[float], alpha: float) -> npt.NDArray[np.bool_]:
    """The e-BH procedure: which of K null hypotheses are rejected, given the natural logarithms of their e-values.

    Rejects the k largest for the largest k whose k-th largest is at least K / (alpha k). The expected share of wrong ones
    among those rejected is at most alpha, however the e-values depend on each other (Wang and Ramdas 2022). All are
    rejected exactly where every one reaches 1/alpha, and any at all only where one could be wrong with at most alpha.
    InputError for alpha outside (0, 1).
    """
    require_level(alpha)
    evidence = np.asarray(log_evidence, dtype=np.float64)
    count = len(evidence)
    order = np.argsort(-evidence, kind="stable")
    reached = evidence[order] + np.log(np.arange(1, count + 1)) >= math.log(count / alpha) if count else np.zeros(0, bool)
    is_rejected = np.zeros(count, dtype=np.bool_)
    is_rejected[order[: np.flatnonzero(reached)[-1] + 1 if reached.any() else 0]] = True
    return is_rejected
