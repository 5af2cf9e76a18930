"""Is the mean below a margin or above it? An answer at any time, for one sample or several; none while both are possible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from monitor.sequential.capital import bounds, log_capital, require_level
from monitor.sequential.samples import Scale, UserSample


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


class GateVerdict(StrEnum):
    """What is known of the mean. ``safe``: it lies below the margin; ``breach``: above."""

    SAFE = "safe"
    BREACH = "breach"
    INCONCLUSIVE = "inconclusive"


class GateReason(StrEnum):
    """Why a verdict is what it is. A closed set.

    ``no_data``: nobody has a score, or what the missing ones would have scored decides. ``too_few``: not enough users yet.
    """

    DECIDED = "decided"
    NO_DATA = "no_data"
    TOO_FEW = "too_few"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One segment held against a margin, in the score's own units.

    ``mean_best`` and ``mean_worst``: mean with every missing score at the low and at the high end of the scale, None without
    users. ``low`` and ``high``: bounds of the mean, each wrong with at most alpha, with the missing at the low end for ``low``
    and at the high one for ``high``. Evidence: log10 of the e-value for a mean below the margin with the missing at the high
    end, and for one above it with the missing at the low end, this look's share of alpha taken off; alpha 0.01 asks for 2.
    """

    segment: str
    users: int
    missing: int
    mean_best: float | None
    mean_worst: float | None
    low: float
    high: float
    evidence_safe: float
    evidence_breach: float
    verdict: GateVerdict
    reason: GateReason


def gate_samples(
    samples: Mapping[str, UserSample], scale: Scale, margin: float, alpha: float, *, share: float = 1.0
) -> tuple[GateResult, ...]:
    """Judge samples, by segment, together, each verdict by e-BH over the evidence of all: see `reject`.

    Margin inside of the ``scale``, alpha in (0, 1) or InputError; ``share`` of alpha is this look's. Each side has the whole
    alpha, as at most one of the two verdicts can be wrong of one and the same mean: of one sample ``safe`` is wrong with
    probability at most alpha, and so is ``breach``. They exclude each other on any data: evidence for below grows only where
    the mean with the missing at 1 is below, and for above only where that with the missing at 0 is above.

    All are ``safe`` only where each by itself would be, so that the chance of that with any of them beyond the
    margin is at most alpha, however many they are; the expected share of wrong ones among the ``breach`` is at most alpha.
    """
    require_level(alpha)
    level, at = alpha * share, scale.margin(margin)
    below = [log_capital(sample.most, at) for sample in samples.values()]
    above = [log_capital(sample.least.flipped(), 1 - at) for sample in samples.values()]
    is_safe, is_breach = reject(below, level), reject(above, level)
    found = []
    for place, (segment, sample) in enumerate(samples.items()):
        low, high = bounds(sample.least, sample.most, level)
        verdict = GateVerdict.SAFE if is_safe[place] else GateVerdict.BREACH if is_breach[place] else GateVerdict.INCONCLUSIVE
        result = GateResult(
            segment=segment,
            users=sample.n,
            missing=sample.missing,
            mean_best=scale.from_unit(sample.least.mean) if sample.n else None,
            mean_worst=scale.from_unit(sample.most.mean) if sample.n else None,
            low=scale.from_unit(low),
            high=scale.from_unit(high),
            evidence_safe=(below[place] + math.log(share)) / math.log(10),
            evidence_breach=(above[place] + math.log(share)) / math.log(10),
            verdict=verdict,
            reason=GateReason.DECIDED if verdict is not GateVerdict.INCONCLUSIVE else _lacking(sample, at, level),
        )
        found.append(result)
    return tuple(found)


def _lacking(sample: UserSample, margin: float, level: float) -> GateReason:
    """Whether the missing stand in the way, or users are too few."""
    if not sample.scored.n:
        return GateReason.NO_DATA
    if not sample.missing:
        return GateReason.TOO_FEW
    # They do where their bounds straddle the margin, or where with the other bound there were a verdict.
    would_be_safe = log_capital(sample.least, margin) >= -math.log(level)
    would_be_breach = log_capital(sample.most.flipped(), 1 - margin) >= -math.log(level)
    straddles = sample.least.mean < margin < sample.most.mean
    return GateReason.NO_DATA if straddles or would_be_safe or would_be_breach else GateReason.TOO_FEW
