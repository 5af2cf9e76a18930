"""Verdicts of rules with a learned limit, and the bounds that users without a score put on any decision."""

from __future__ import annotations

import math

import numpy as np

from monitor.alerts.verdicts import count_users, describe_coverage, format_apart, undecided
from monitor.model import (
    COVERAGE,
    MIN_HEALTHY_RUNS,
    CoverageRow,
    CoverageShare,
    Direction,
    Expectation,
    Outcome,
    Rule,
    RuleKind,
    Statistic,
    Summary,
    Verdict,
)

NORMAL_AGAIN = 2.0
"""A drop ends once the value lies within so many standard deviations of what is expected; a trend, which may be of less than
that, once the value is no worse than expected."""


def judge_learned(rule: Rule, plain: Verdict, segment: str, expectation: Expectation | None) -> Verdict:
    """The verdict of a rule that learns; ``plain`` is what `judge` says of the value itself, and stands where it is silent.

    ``too_few`` while fewer than LEAST_RUNS healthy runs were seen ("learning"), ``no_data`` for a value too uncertain to be
    judged. A drop is a value beyond the limit, a trend is evidence that has reached its own; recovered once the value is
    normal again.
    """
    if plain.value is None:
        return plain
    users = count_users(plain.users, segment)
    if expectation is None or expectation.expected is None or expectation.limit is None:
        runs = 0 if expectation is None else expectation.runs
        learning = f"learning what is normal: {runs} of {MIN_HEALTHY_RUNS} healthy runs"
        return undecided(Outcome.TOO_FEW, learning, plain.users, is_learning=True)
    if expectation.z is None:
        uncertain = f"{_series_name(rule)} over {users} is too uncertain to be judged"
        return undecided(Outcome.NO_DATA, uncertain, plain.users, is_learning=True)
    value, limit = plain.value, expectation.limit
    shown = _describe_value(rule, value, limit, plain.users, users)
    after = f"{expectation.expected:.3g} was expected after {expectation.runs} healthy runs"
    is_breach, said = (_see_drop if rule.kind is RuleKind.DROP else _see_trend)(rule, value, limit, expectation)
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=f"{shown}, {said}; {after}",
        value=value,
        users=plain.users,
        is_recovered=not is_breach and expectation.z <= (NORMAL_AGAIN if rule.kind is RuleKind.DROP else 0.0),
    )


def _series_name(rule: Rule) -> str:
    return f"{rule.statistic} of {rule.metric}"


def _describe_value(rule: Rule, value: float, limit: float, count: int, users: str) -> str:
    """The value in words, with the ``count`` users behind it."""
    shown, _ = format_apart(value, limit)
    if rule.metric == COVERAGE:
        return f"{describe_coverage(CoverageShare.parse(rule.statistic), round(value * count), users)} ({shown})"
    return f"{_series_name(rule)} is {shown} over {users}"


def _see_drop(rule: Rule, value: float, limit: float, _: Expectation) -> tuple[bool, str]:
    is_breach = value < limit if rule.direction is Direction.BELOW else value > limit
    end = "least" if rule.direction is Direction.BELOW else "most"
    return is_breach, f"{'' if is_breach else 'not '}{rule.direction} {format_apart(value, limit)[1]}, the {end} that is normal"


def _see_trend(rule: Rule, _value: float, _limit: float, expectation: Expectation) -> tuple[bool, str]:
    evidence, needed = expectation.evidence or 0.0, expectation.evidence_limit or math.inf
    drift = "fall" if rule.direction is Direction.BELOW else "rise"
    is_breach = evidence >= needed
    told = f"with the runs before it a lasting {drift}" if is_breach else f"no lasting {drift} so far"
    return is_breach, f"{told} (evidence {evidence:,.3g}, limit {needed:,.3g})"


Bounds = tuple[float, float]

LEAST_MISSING = 0.5
"""Users: what is less is rounding."""


def bound_statistic(rule: Rule, summary: Summary, missing: float) -> Bounds | None:
    """Lowest and highest value of the rule's statistic had ``missing`` more users had a score, each the worst or the best.

    Exact for means and shares (Manski 2003, chapter 1); a percentile is read from the stored ones, with straight lines between.
    None where the statistic has no value, or the scores have no range.
    """
    value = summary.value(rule.statistic)
    if value is None or rule.scores is None or not all(map(math.isfinite, (value, *rule.scores))):
        return None
    low, high = rule.scores
    statistic, n, total = Statistic.parse(rule.statistic), summary.n, summary.n + missing
    if statistic.quantile is not None:
        return _bound_quantile(summary, statistic.quantile, missing, rule.scores)
    if statistic.floor is not None:
        low, high = 0.0, 1.0
    return (n * value + missing * low) / total, (n * value + missing * high) / total


def _bound_quantile(summary: Summary, quantile: float, missing: float, scores: Bounds) -> Bounds:
    """The quantiles of the known scores that stand where the wanted one would with all the others below, or above."""
    known = {0.0: scores[0], 1.0: scores[1]}
    for name, value in summary.statistics.items():
        if (level := Statistic.parse(name).quantile) is not None:
            known[level] = value
    levels = sorted(known)
    rank = quantile * (summary.n + missing)
    found = np.interp([(rank - missing) / summary.n, rank / summary.n], levels, [known[level] for level in levels])
    return float(found[0]), float(found[1])


def _withhold(rule: Rule, verdict: Verdict, bounds: Bounds | None, limit: float, missing: float) -> Verdict:
    """The verdict with its bounds, or ``no_data`` in its place where the decision lies between them."""
    if bounds is None or verdict.outcome not in (Outcome.OK, Outcome.BREACH):
        return verdict
    low, high = bounds
    is_open = low < limit <= high if rule.direction is Direction.BELOW else low <= limit < high
    if not is_open:
        return Verdict(
            outcome=verdict.outcome,
            reason=verdict.reason,
            value=verdict.value,
            users=verdict.users,
            is_recovered=verdict.is_recovered,
            bounds=bounds,
        )
    users = f"{missing:,.0f} user{'' if round(missing) == 1 else 's'}"
    reason = f"{verdict.reason}; but {users} without a score could make it anything from {low:.3g} to {high:.3g}"
    return Verdict(outcome=Outcome.NO_DATA, reason=reason, value=verdict.value, users=verdict.users, bounds=bounds)


def apply_bounds(
    rule: Rule, verdict: Verdict, summary: Summary, row: CoverageRow | None, expectation: Expectation | None
) -> Verdict:
    """The verdict with its bounds, or ``no_data`` in its place where those without a score could turn the decision.

    ``row``: the segment's coverage. For a rule with a threshold everybody without a score counts; for one that learns those
    who are more than usual, since what it learned was learned without the usual ones.
    """
    asked = row.asked if row is not None else summary.n
    missing = float(asked - row.paired) if row is not None else 0.0
    limit = rule.threshold
    if rule.kind is not RuleKind.THRESHOLD:
        if expectation is None or expectation.limit is None:
            return verdict
        missing, limit = max(0.0, expectation.lost - expectation.usual_lost) * asked, expectation.limit
    if missing < LEAST_MISSING:
        return verdict
    return _withhold(rule, verdict, bound_statistic(rule, summary, missing), limit, missing)
