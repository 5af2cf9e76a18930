"""How far users without a score could move a statistic: missing data is never similarity 0 and never similarity 1."""

from __future__ import annotations

import math

import numpy as np

from monitor.model import CoverageRow, Direction, Expectation, Outcome, Rule, RuleKind, Statistic, Summary, Verdict

Bounds = tuple[float, float]

LEAST_MISSING = 0.5
"""Users: what is less is rounding."""


def bound(rule: Rule, summary: Summary, missing: float) -> Bounds | None:
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


def doubt(rule: Rule, verdict: Verdict, summary: Summary, row: CoverageRow | None, expectation: Expectation | None) -> Verdict:
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
    return _withhold(rule, verdict, bound(rule, summary, missing), limit, missing)
