"""Is the mean below a margin or above it? An answer at any time, for one sample or several.

None while both are possible.

It rests on the capital of one who bets that the mean lies below m: it rarely grows where that is
wrong, whenever one looks. On a score x the bet of stake s in (0, 1) multiplies the capital by y = 1
+ s (m - x) / (1 - m), which is at least 1 - s. Where the mean is at least m, y is at most 1 in
expectation, and so the capital is a supermartingale: it ever reaches 1/alpha with probability at
most alpha (Ville 1939; Waudby-Smith and Ramdas 2024, section 4). The capital starts in parts on a
few fixed stakes, each twice the next, in place of a stake that is learned on the way. Fixed stakes
cost a constant (at most 3.7 of log capital, and 1.2 where the boldest is best, which it is for
scores that use little of their range) and buy three things:

- the order of users does not matter, so that a verdict depends on nobody's choice of it, and equal
  scores may be counted;
- the mean may move: the product of 1 + s (m - mean_i) / (1 - m) is at most 1 as soon as the
  *average* of the means so far is
  at least m (arithmetic over geometric mean), so that the promise is about the average over what
  was looked at;
- a run's users may be drawn without replacement from a population of unknown size, as long as one
  looks between runs only:
  the expected product over a sample is the normalized elementary symmetric mean, which Maclaurin's
  inequality (1729) puts under the power of the mean.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce

import numpy as np
import numpy.typing as npt
import scipy

from monitor.errors import InputError
from monitor.model.arrays import Floats
from monitor.model.rules import SimilarityRule

# What a score may lie outside its range by rounding alone, as a share of the range.
_ROUNDING = 1e-9
# By how much the scores that are due have to exceed the users not drawn yet before that is no
# rounding.
_IMPOSSIBLE = 1e-6

STAKES: tuple[float, ...] = tuple(0.98 * 0.5**halvings for halvings in range(13))
"""From all but everything, for means near the end of the range, down to what suits ten million users at its middle."""
WEIGHTS: tuple[float, ...] = tuple(
    1 / place / sum(1 / each for each in range(1, 14)) for place in range(1, 14)
)
"""Parts of the capital that begin on the stakes.

Equal ones ask for a fifth more users of an excess over a noise floor.
"""
CERTAIN = 0.01
"""How often all users may lie on the other side of a limit than what was taken for certain, each rule and segment."""
_HALVINGS = 30
# More distinct scores than these are moved up to multiples of one 65,536th, which can only widen
# the bounds.
_GRID = 2**16


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of a score, both ends included.

    InputError unless both are finite and ``low`` < ``high``.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """InputError for a range that no bounded mean has."""
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(
                (
                    f"scores from {self.low} to {self.high} have no finite range: choose a measure "
                    "that is normalized"
                )
            )

    def to_unit(self, values: Floats) -> Floats:
        """The scores on [0, 1].

        InputError for NaN, and for one outside of the range by more than rounding.
        """
        unit = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        is_outside = ~((unit >= -_ROUNDING) & (unit <= 1 + _ROUNDING))
        if is_outside.any():
            worst = np.asarray(values)[np.flatnonzero(is_outside)[0]]
            raise InputError(
                (
                    f"score {worst} lies outside its range from {self.low:g} to {self.high:g}, "
                    "where no bet holds"
                )
            )
        return np.clip(unit, 0.0, 1.0)

    def margin(self, value: float) -> float:
        """The margin on (0, 1).

        InputError unless it lies inside of the range: at its ends nothing could be decided.
        """
        if not self.low < value < self.high:
            msg = (
                f"margin {value:g} lies outside of what is possible: write one between "
                f"{self.low:g} and {self.high:g}"
            )
            raise InputError(msg)
        return (value - self.low) / (self.high - self.low)

    def from_unit(self, value: float) -> float:
        """A mean on [0, 1] in the score's own units."""
        return self.low + value * (self.high - self.low)


@dataclass(frozen=True)
class Tally:
    """Scores on [0, 1], and how often each came: all that a bet of fixed stakes needs to know."""

    values: Floats
    counts: Floats

    @property
    def n(self) -> int:
        """How many scores."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """NaN without scores."""
        return float(np.average(self.values, weights=self.counts)) if self.n else float("nan")

    def flipped(self) -> "Tally":
        """1 - score of each: evidence that its mean is below 1 - m is evidence that this one's is above m."""
        return Tally(1.0 - self.values, self.counts)


def tally(unit: Floats) -> Tally:
    """Count scores on [0, 1], as a `Scale` gives them, of any shape."""
    values, counts = np.unique(unit, return_counts=True)
    return Tally(values.astype(np.float64), counts.astype(np.float64))


@dataclass(frozen=True)
class UserSample:
    """Users drawn at random: the scores of those who have one, on [0, 1], and how many have none."""

    scored: Tally
    missing: int = 0

    @property
    def least(self) -> Tally:
        """Every missing score at 0."""
        return self._with_missing_at(0.0)

    @property
    def most(self) -> Tally:
        """Every missing score at 1."""
        return self._with_missing_at(1.0)

    @property
    def n(self) -> int:
        """Users drawn, with and without a score."""
        return self.scored.n + self.missing

    def _with_missing_at(self, value: float) -> Tally:
        return Tally(
            np.append(self.scored.values, value), np.append(self.scored.counts, float(self.missing))
        )


def log_capital(scores: Tally, mean: float) -> float:
    """Natural logarithm of the capital that bets on a mean below this one, 0 < mean < 1, after these scores; 0 without any.

    That it lies above: `log_capital(scores.flipped(), 1 - mean)`. Cost: 13 logarithms a distinct score.
    """
    gains = (mean - scores.values) / (1.0 - mean)
    return float(
        scipy.special.logsumexp(
            [scores.counts @ np.log1p(stake * gains) for stake in STAKES], b=WEIGHTS
        )
    )


def follow_capital(scores: Floats, mean: float, population: int | None = None) -> Floats:
    """The same after every score, (..., n), of users in random order, however often one looks.

    Drawn from a ``population`` without replacement, each is held against the mean of those not
    drawn before (Waudby-Smith and Ramdas 2020); infinite where no scores of the rest could give all
    that mean."""
    gains = (mean - scores) / (1.0 - mean)
    if population is not None:
        left, due = (
            population - np.arange(scores.shape[-1]),
            population * mean - np.cumsum(scores, axis=-1),
        )
        # Below 0 one bets as if it were 0, and cannot win.
        rest = np.clip((due + scores) / left, 0.0, 1.0 - _ROUNDING)
        gains = np.where(due > left - 1 + _IMPOSSIBLE, np.inf, (rest - scores) / (1.0 - rest))
    parts = (
        np.cumsum(np.log1p(stake * gains), axis=-1) + math.log(part)
        for stake, part in zip(STAKES, WEIGHTS, strict=True)
    )
    return reduce(np.logaddexp, parts)


def round_ends(count: int) -> list[int]:
    """After how many of so many users one looks whether verdicts are certain: a twentieth, then half as many more each time."""
    ends = [-(-count // 20)]
    while ends[-1] < count:
        ends.append(min(count, ends[-1] * 3 // 2 + 1))
    return ends


def is_certain(rule: SimilarityRule, scores: Floats, total: int) -> npt.NDArray[np.bool_]:
    """Whether the rule's verdict on ``total`` users is certain after the scores of some in random order, (..., n).

    NaN for who has none: each has the highest one where the mean shall be below a limit, the lowest where above.
    """
    low, high = (0.0, 1.0) if rule.is_share or rule.scores is None else rule.scores
    values = (
        scores
        if rule.statistic.floor is None
        else np.where(np.isnan(scores), np.nan, scores < rule.statistic.floor)
    )
    unit = (values - low) / (high - low)
    found = np.count_nonzero(~np.isnan(unit), axis=-1) >= rule.min_users
    for limit in {(each - low) / (high - low) for each in rule.thresholds}:
        below = follow_capital(np.nan_to_num(unit, nan=1.0), limit, total)
        above = follow_capital(1 - np.nan_to_num(unit, nan=0.0), 1 - limit, total)
        found = found & (
            np.maximum(below, above)[..., -1:].max(axis=-1, initial=0.0) >= -math.log(CERTAIN)
        )
    # Of fewer users than it needs a rule says so in any case.
    decided: npt.NDArray[np.bool_] = found | (total < rule.min_users)
    return decided


def bounds(least: Tally, most: Tally, alpha: float) -> tuple[float, float]:
    """Lower bound from ``least``, upper from ``most`` (the same where nobody is missing), each wrong with at most alpha.

    In [0, 1]; together a confidence sequence of level 1 - 2 alpha. Found by bisection to 1e-9, and 2e-5 wider where scores had
    to be moved. InputError for alpha outside (0, 1).
    """
    require_level(alpha)
    return 1.0 - _upper(least.flipped(), alpha), _upper(most, alpha)


def require_level(alpha: float) -> None:
    """InputError unless 0 < alpha < 1."""
    if not 0 < alpha < 1:
        raise InputError(
            f"alpha {alpha:g} is no error rate: write one between 0 and 1, such as 0.01"
        )


def _upper(scores: Tally, alpha: float) -> float:
    """The least mean at which the capital has reached 1/alpha; 1 where none has."""
    if not scores.n:
        return 1.0
    coarse, low, high = _coarse(scores), 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if log_capital(coarse, middle) >= -math.log(alpha) else (middle, high)
        )
    return high


def _coarse(scores: Tally) -> Tally:
    if len(scores.values) <= _GRID:
        return scores
    # Rounded up: higher scores can only raise the upper bound.
    values, owner = np.unique(np.ceil(scores.values * _GRID) / _GRID, return_inverse=True)
    return Tally(values, np.bincount(owner, weights=scores.counts).astype(np.float64))


def reject(log_evidence: Sequence[float], alpha: float) -> npt.NDArray[np.bool_]:
    """The e-BH procedure: which of K null hypotheses are rejected, given the natural logarithms of their e-values.

    Rejects the k largest for the largest k whose k-th largest is at least K / (alpha k): the expected share of wrong ones among
    them is at most alpha, however they depend on each other (Wang and Ramdas 2022). InputError for alpha outside (0, 1).
    """
    require_level(alpha)
    evidence = np.asarray(log_evidence, dtype=np.float64)
    count = len(evidence)
    order = np.argsort(-evidence, kind="stable")
    reached = (
        evidence[order] + np.log(np.arange(1, count + 1)) >= math.log(count / alpha)
        if count
        else np.zeros(0, bool)
    )
    is_rejected = np.zeros(count, dtype=np.bool_)
    is_rejected[order[: np.flatnonzero(reached)[-1] + 1 if reached.any() else 0]] = True
    return is_rejected


class GateVerdict(StrEnum):
    """What is known of the mean. ``safe``: it lies below the margin; ``breach``: above."""

    SAFE = "safe"
    BREACH = "breach"
    INCONCLUSIVE = "inconclusive"


class GateReason(StrEnum):
    """Why a verdict is what it is. A closed set."""

    DECIDED = "decided"
    NO_DATA = "no_data"  # nobody has a score, or what the missing ones would have scored decides
    TOO_FEW = "too_few"  # not enough users yet


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One segment held against a margin, in the score's own units."""

    segment: str
    users: int
    missing: int
    mean_best: float | None  # every missing score at the low end of the scale; None without users
    mean_worst: float | None  # every missing score at the high end
    low: float  # bound of the mean with the missing at the low end, wrong with at most alpha,
    high: float  # and with them at the high end
    # Log10 of the e-value, missing at the high end, this look taken off; alpha 0.01 asks for 2
    evidence_safe: float
    evidence_breach: float  # likewise, the missing at the low end
    verdict: GateVerdict
    reason: GateReason


def gate_samples(
    samples: Mapping[str, UserSample],
    scale: Scale,
    margin: float,
    alpha: float,
    *,
    share: float = 1.0,
) -> tuple[GateResult, ...]:
    """Judge samples, by segment, together, each verdict by e-BH over the evidence of all: see `reject`.

    Margin inside of the ``scale``, alpha in (0, 1) or InputError; ``share`` of alpha is this look's. Each side has the whole
    alpha, as at most one of the two verdicts can be wrong of one mean, and they exclude each other on any data. All are
    ``safe`` only where each by itself would be: with any beyond the margin the chance of that is at most alpha, however many
    they are; the expected share of wrong ones among the ``breach`` is at most alpha.
    """
    require_level(alpha)
    level, at = alpha * share, scale.margin(margin)
    below = [log_capital(sample.most, at) for sample in samples.values()]
    above = [log_capital(sample.least.flipped(), 1 - at) for sample in samples.values()]
    is_safe, is_breach = reject(below, level), reject(above, level)
    found = []
    for place, (segment, sample) in enumerate(samples.items()):
        low, high = bounds(sample.least, sample.most, level)
        verdict = (
            GateVerdict.SAFE
            if is_safe[place]
            else GateVerdict.BREACH
            if is_breach[place]
            else GateVerdict.INCONCLUSIVE
        )
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
            reason=GateReason.DECIDED
            if verdict is not GateVerdict.INCONCLUSIVE
            else _lacking(sample, at, level),
        )
        found.append(result)
    return tuple(found)


def _lacking(sample: UserSample, margin: float, level: float) -> GateReason:
    """Whether the missing stand in the way, or users are too few."""
    if not sample.scored.n:
        return GateReason.NO_DATA
    if not sample.missing:
        return GateReason.TOO_FEW
    # They do where their bounds straddle the margin, or where with the other bound there were a
    # verdict.
    would_be_safe = log_capital(sample.least, margin) >= -math.log(level)
    would_be_breach = log_capital(sample.most.flipped(), 1 - margin) >= -math.log(level)
    straddles = sample.least.mean < margin < sample.most.mean
    return (
        GateReason.NO_DATA if straddles or would_be_safe or would_be_breach else GateReason.TOO_FEW
    )
