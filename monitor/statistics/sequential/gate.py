"""Decides whether a mean is below or above a margin, for one or several samples of users.

The decision can be made at any time. While both sides are possible, the verdict is inconclusive.

The method is a gambler who bets that the mean is below m. If the bet is wrong, the gambler's
capital rarely grows. A bet has a stake s in (0, 1). A score x multiplies the capital by
y = 1 + s (m - x) / (1 - m). This factor y is at least 1 - s. If the mean is at least m, the
expectation of y is at most 1. Then the capital is a supermartingale. The probability that it ever
reaches 1/alpha is at most alpha (Ville 1939; Waudby-Smith and Ramdas 2024, section 4).

The gambler splits the initial capital into 13 parts. Each part always uses the same stake, which is
half of the stake of the part before. The alternative would be to learn one stake. Compared with the
best stake, fixed stakes cost at most 3.7 of log capital. They cost only 1.2 if the largest stake is
the best one. It is the best one for scores that use little of their range. Fixed stakes have three
advantages:

- The order of users does not matter. So a verdict does not depend on the choice of an order, and
  equal scores can be counted.
- The mean may change. If the *average* of the means so far is at least m, the product of
  1 + s (m - mean_i) / (1 - m) is at most 1 (arithmetic over geometric mean). So the guarantee is
  about the average over the users seen.
- A run's users may be drawn without replacement from a population of unknown size. Then the capital
  may be read only between runs. The expected product over a sample is the normalized elementary
  symmetric mean. By Maclaurin's inequality (1729) it is at most the power of the mean.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import scipy

from monitor.model.arrays import Floats
from monitor.model.errors import InputError
from monitor.model.gate import GateReason, GateResult, GateVerdict
from monitor.model.rules import SimilarityRule

# Rounding can move a score out of its range by at most this share of the range.
_ROUNDING = 1e-9
# Rounding can make the sum of the remaining scores exceed the number of remaining users by this.
_IMPOSSIBLE = 1e-6

STAKES: tuple[float, ...] = tuple(0.98 * 0.5**halvings for halvings in range(13))
"""The stakes. The largest stake is best for means near the end of the range.

The smallest stake is best for ten million users with a mean in the middle of the range.
"""
_HARMONIC = sum(1 / place for place in range(1, 14))
WEIGHTS: tuple[float, ...] = tuple(1 / place / _HARMONIC for place in range(1, 14))
"""The share of the initial capital that each stake gets.

With equal shares, a decision on an excess over a noise floor would need a fifth more users.
"""
CERTAIN = 0.01
"""A verdict is certain if the probability that it is wrong is at most this value.

This is true for each rule and segment separately.
"""
_HALVINGS = 30
# If there are more distinct scores, scores are rounded up to multiples of 1 / 65,536. This can only
# widen the bounds.
_GRID = 2**16


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of a score. Both ends belong to it.

    Raises InputError unless both ends are finite and ``low`` < ``high``.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """Raise InputError for a range that is empty or infinite."""
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(
                f"scores from {self.low} to {self.high} have no finite range: choose a "
                "normalized metric"
            )

    def to_unit(self, values: Floats) -> Floats:
        """Convert scores to [0, 1].

        Raises InputError if a score is NaN, or if it is outside of the range. A score may be
        outside by as much as rounding can cause.
        """
        unit = (np.asarray(values, dtype=float) - self.low) / (self.high - self.low)
        is_inside = (unit >= -_ROUNDING) & (unit <= 1 + _ROUNDING)
        if not is_inside.all():
            first = np.asarray(values)[~is_inside][0]
            raise InputError(
                f"score {first} is outside its range from {self.low:g} to {self.high:g}, so the "
                "gate cannot judge it: correct the range of the metric"
            )
        return np.clip(unit, 0.0, 1.0)

    def margin(self, value: float) -> float:
        """Convert a margin to the scale from 0 to 1.

        Raises InputError unless the margin is inside of the range. At the ends of the range no
        decision is possible.
        """
        if not self.low < value < self.high:
            raise InputError(
                f"margin {value:g} is outside the range of scores: write one between "
                f"{self.low:g} and {self.high:g}"
            )
        return (value - self.low) / (self.high - self.low)

    def from_unit(self, value: float) -> float:
        """Convert a mean on [0, 1] back to the unit of the score."""
        return self.low + value * (self.high - self.low)


@dataclass(frozen=True)
class ScoreCounts:
    """Distinct scores on [0, 1], and how often each occurs. Fixed stakes need no other data."""

    values: Floats
    counts: Floats

    @property
    def n(self) -> int:
        """Number of scores."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """The mean of all scores. NaN if there are no scores."""
        if not self.n:
            return math.nan
        return float(np.average(self.values, weights=self.counts))

    def flipped(self) -> "ScoreCounts":
        """Replace each score x by 1 - x.

        Evidence that the flipped mean is below 1 - m is evidence that this mean is above m.
        """
        return ScoreCounts(1.0 - self.values, self.counts)


def count_scores(unit: Floats) -> ScoreCounts:
    """Count scores on [0, 1], of any shape."""
    values, counts = np.unique(unit, return_counts=True)
    return ScoreCounts(values.astype(float), counts.astype(float))


@dataclass(frozen=True)
class DrawnUsers:
    """Users drawn at random: their known scores on [0, 1], and the number of missing scores."""

    scored: ScoreCounts
    missing: int = 0

    @property
    def least(self) -> ScoreCounts:
        """All scores. Every missing score is taken as 0."""
        return self._with_missing_at(0.0)

    @property
    def most(self) -> ScoreCounts:
        """All scores. Every missing score is taken as 1."""
        return self._with_missing_at(1.0)

    @property
    def n(self) -> int:
        """Number of users drawn, with and without a score."""
        return self.scored.n + self.missing

    def _with_missing_at(self, value: float) -> ScoreCounts:
        return ScoreCounts(
            np.append(self.scored.values, value), np.append(self.scored.counts, float(self.missing))
        )


def log_capital(scores: ScoreCounts, mean: float) -> float:
    """Natural logarithm of a gambler's capital after these scores. The initial capital is 1.

    The gambler bets that the true mean is below ``mean``, which must be in (0, 1). To bet on a mean
    above ``mean``, use `log_capital(scores.flipped(), 1 - mean)`. The cost is 13 logarithms per
    distinct score.
    """
    gains = (mean - scores.values) / (1.0 - mean)
    logs = [scores.counts @ np.log1p(stake * gains) for stake in STAKES]
    return float(scipy.special.logsumexp(logs, b=WEIGHTS))


def follow_capital(scores: Floats, mean: float, population: int | None = None) -> Floats:
    """Return `log_capital` after every score, (..., n). The users must be in random order.

    Each of these values is valid at any time. The users may be drawn from a ``population`` without
    replacement. Then each score is compared with the mean that the remaining users need, if the
    population is to have the ``mean`` (Waudby-Smith and Ramdas 2020). The result is infinite if
    the remaining users cannot have the mean that they need.
    """
    gains = (mean - scores) / (1.0 - mean)
    if population is not None:
        # The users that remain before each score, and the sum that they need after it.
        users_left = population - np.arange(scores.shape[-1])
        needed_sum = population * mean - np.cumsum(scores, axis=-1)
        # If the remaining users would need a mean below 0, the bet is on 0 and cannot win.
        needed_mean = np.clip((needed_sum + scores) / users_left, 0.0, 1.0 - _ROUNDING)
        is_impossible = needed_sum > users_left - 1 + _IMPOSSIBLE
        gains = np.where(is_impossible, np.inf, (needed_mean - scores) / (1.0 - needed_mean))
    log_parts = [
        np.cumsum(np.log1p(stake * gains), axis=-1) + math.log(weight)
        for stake, weight in zip(STAKES, WEIGHTS, strict=True)
    ]
    return reduce(np.logaddexp, log_parts)


def round_ends(count: int) -> list[int]:
    """The numbers of users after which a run checks whether its verdicts are certain.

    The first number is a twentieth of ``count``. Each number is about one and a half times the
    number before. The last number is ``count``.
    """
    ends = [math.ceil(count / 20)]
    while ends[-1] < count:
        ends.append(min(count, ends[-1] * 3 // 2 + 1))
    return ends


def is_certain(rule: SimilarityRule, scores: Floats, total: int) -> npt.NDArray[np.bool_]:
    """Whether the first scores, (..., n), already decide the rule's verdict on ``total`` users.

    The users must be in random order. A user without a score has NaN. To prove that the mean is
    below a limit, such users are given the highest score. To prove that it is above a limit, they
    are given the lowest score.
    """
    low, high = 0.0, 1.0
    if rule.score_range is not None and not rule.is_share:
        low, high = rule.score_range
    values = scores
    if rule.statistic.below is not None:
        values = np.where(np.isnan(scores), np.nan, scores < rule.statistic.below)
    unit = (values - low) / (high - low)
    is_decided = np.count_nonzero(~np.isnan(unit), axis=-1) >= rule.min_users
    for limit in {(threshold - low) / (high - low) for threshold in rule.thresholds}:
        below = follow_capital(np.nan_to_num(unit, nan=1.0), limit, total)
        above = follow_capital(1 - np.nan_to_num(unit, nan=0.0), 1 - limit, total)
        # The evidence after the last score. It is 0 without scores.
        evidence = np.maximum(below, above)[..., -1:].max(axis=-1, initial=0.0)
        is_decided = is_decided & (evidence >= -math.log(CERTAIN))
    # With fewer users than the rule needs, the verdict is always `too_few`.
    certain: npt.NDArray[np.bool_] = is_decided | np.bool_(total < rule.min_users)
    return certain


def bound_mean(least: ScoreCounts, most: ScoreCounts, alpha: float) -> tuple[float, float]:
    """Lower and upper bound of the mean in [0, 1], each with error probability alpha.

    The lower bound comes from ``least`` and the upper bound from ``most``, which are equal if no
    score is missing. Together the bounds are a confidence sequence of level 1 - 2 alpha.
    Bisection finds them with a precision of 1e-9. If scores were rounded, the bounds are 2e-5
    wider. Raises InputError if alpha is outside of (0, 1).
    """
    require_level(alpha)
    return 1.0 - _upper_bound(least.flipped(), alpha), _upper_bound(most, alpha)


def require_level(alpha: float) -> None:
    """Raise InputError unless 0 < alpha < 1."""
    if not 0 < alpha < 1:
        raise InputError(
            f"alpha {alpha:g} is no error rate: write one between 0 and 1, such as 0.01"
        )


def _upper_bound(scores: ScoreCounts, alpha: float) -> float:
    """The smallest mean at which the capital has reached 1/alpha. It is 1 if there is none."""
    if not scores.n:
        return 1.0
    coarse = _round_up(scores)
    low = 0.0
    high = 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if log_capital(coarse, middle) >= -math.log(alpha):
            high = middle
        else:
            low = middle
    return high


def _round_up(scores: ScoreCounts) -> ScoreCounts:
    if len(scores.values) <= _GRID:
        return scores
    # Scores are rounded up, since higher scores can only raise the upper bound.
    values, cells = np.unique(np.ceil(scores.values * _GRID) / _GRID, return_inverse=True)
    return ScoreCounts(values, np.bincount(cells, weights=scores.counts).astype(float))


def reject_nulls(log_evidence: Sequence[float], alpha: float) -> npt.NDArray[np.bool_]:
    """Decide which of K null hypotheses are rejected, by the e-BH procedure.

    ``log_evidence`` has the natural logarithm of the e-value of each hypothesis. The procedure
    finds the largest k for which the k-th largest e-value is at least K / (alpha k). It rejects the
    hypotheses with the k largest e-values. The expected share of wrong rejections is at most alpha,
    for any dependence between the hypotheses (Wang and Ramdas 2022). Raises InputError if alpha is
    outside of (0, 1).
    """
    require_level(alpha)
    evidence = np.asarray(log_evidence, dtype=float)
    count = len(evidence)
    is_rejected = np.zeros(count, dtype=bool)
    if not count:
        return is_rejected
    order = np.argsort(-evidence, kind="stable")
    evidence_of_k = evidence[order] + np.log(np.arange(1, count + 1))
    reached = np.flatnonzero(evidence_of_k >= math.log(count / alpha))
    if len(reached):
        is_rejected[order[: reached[-1] + 1]] = True
    return is_rejected


def judge_gate(
    drawn: Mapping[str, DrawnUsers],
    scale: Scale,
    margin: float,
    alpha: float,
    *,
    share: float = 1.0,
) -> tuple[GateResult, ...]:
    """Judge the samples of all segments together, by e-BH over their evidence. See `reject_nulls`.

    This decision uses the part ``share`` of alpha. The verdicts ``safe`` and ``breach`` may each
    use this whole part, because for one mean only one of them can be wrong. No data can give both
    verdicts.

    - ``safe``: all segments are judged safe only if each of them would be judged safe alone. If any
      mean is beyond the margin, the probability that all segments are judged safe is at most
      alpha. This is true for any number of segments.
    - ``breach``: the expected share of wrong verdicts among all breaches is at most alpha.

    Raises InputError unless the margin is inside of the ``scale`` and alpha is in (0, 1).
    """
    require_level(alpha)
    level = alpha * share
    limit = scale.margin(margin)
    log_safe = [log_capital(users.most, limit) for users in drawn.values()]
    log_breach = [log_capital(users.least.flipped(), 1 - limit) for users in drawn.values()]
    is_safe = reject_nulls(log_safe, level)
    is_breach = reject_nulls(log_breach, level)
    results = []
    for index, (segment, users) in enumerate(drawn.items()):
        verdict = GateVerdict.INCONCLUSIVE
        reason = GateReason.DECIDED
        if is_safe[index]:
            verdict = GateVerdict.SAFE
        elif is_breach[index]:
            verdict = GateVerdict.BREACH
        else:
            reason = _explain_inconclusive(users, limit, level)
        low, high = bound_mean(users.least, users.most, level)
        mean_best = None
        mean_worst = None
        if users.n:
            mean_best = scale.from_unit(users.least.mean)
            mean_worst = scale.from_unit(users.most.mean)
        result = GateResult(
            segment=segment,
            users=users.n,
            missing=users.missing,
            mean_best=mean_best,
            mean_worst=mean_worst,
            low=scale.from_unit(low),
            high=scale.from_unit(high),
            evidence_safe=(log_safe[index] + math.log(share)) / math.log(10),
            evidence_breach=(log_breach[index] + math.log(share)) / math.log(10),
            verdict=verdict,
            reason=reason,
        )
        results.append(result)
    return tuple(results)


def _explain_inconclusive(users: DrawnUsers, margin: float, level: float) -> GateReason:
    """Return why there is no verdict: scores are missing, or there are too few users."""
    if not users.scored.n:
        return GateReason.NO_DATA
    if not users.missing:
        return GateReason.TOO_FEW
    # Missing scores prevent a verdict in two cases: the margin is between the two means, or some
    # values of the missing scores would give a verdict.
    is_between = users.least.mean < margin < users.most.mean
    could_be_safe = log_capital(users.least, margin) >= -math.log(level)
    could_be_breach = log_capital(users.most.flipped(), 1 - margin) >= -math.log(level)
    if is_between or could_be_safe or could_be_breach:
        return GateReason.NO_DATA
    return GateReason.TOO_FEW
