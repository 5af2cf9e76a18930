"""How a value is held against its rule's limit, written down or learned, and how far users without a score could move it."""

from __future__ import annotations

import math

import numpy as np

from monitor.alerts.verdicts import (
    Reading,
    count_users,
    describe_value,
    format_value,
    is_beyond,
    judge_threshold,
    shown_values,
    undecided,
    unit_of,
)
from monitor.model import (
    MIN_HEALTHY_RUNS,
    CoverageRow,
    Direction,
    Expectation,
    FixedLimit,
    LearnedLimit,
    Learning,
    Outcome,
    SeriesRule,
    SimilarityRule,
    Statistic,
    Summary,
    Verdict,
)

NORMAL_AGAIN = {Learning.DROP: 2.0, Learning.TREND: 1.0}
"""An alert ends once the value is worse than expected by so many standard deviations at most; a trend may be of less than two,
but not where the level that is expected is the newest one."""
LEAST_MISSING = 0.5
"""Users: what is less is rounding."""


def judge_reading(rule: SeriesRule, reading: Reading | Verdict, expectation: Expectation | None) -> Verdict:
    """The verdict on a value, by whichever limit the rule has; a verdict that there is none stays as it is."""
    if isinstance(reading, Verdict):
        return reading
    if isinstance(rule.limit, FixedLimit):
        return judge_threshold(rule, rule.limit, reading)
    return judge_learned(rule, rule.limit, reading, expectation)


def judge_learned(rule: SeriesRule, limit: LearnedLimit, reading: Reading, expectation: Expectation | None) -> Verdict:
    """The verdict by a learned limit.

    ``too_few`` while fewer than MIN_HEALTHY_RUNS healthy runs were seen ("learning"), ``no_data`` for a value too uncertain to
    be judged. A drop is a value beyond the limit, a trend is evidence that has reached its own; recovered once the value is
    normal again.
    """
    if expectation is None or expectation.expected is None or expectation.limit is None:
        runs = 0 if expectation is None else expectation.runs
        learning = f"learning what is normal: {runs} of {MIN_HEALTHY_RUNS} healthy runs"
        why = (expectation and expectation.note) or learning
        return undecided(Outcome.TOO_FEW, why, reading.users, is_learning=True)
    # Without a sampling error any value could be chance.
    if expectation.z is None:
        users = count_users(reading.users, reading.segment)
        uncertain = f"{rule.subject.statistic} of {rule.subject.metric} over {users} is too uncertain to be judged"
        return undecided(Outcome.NO_DATA, uncertain, reading.users, is_learning=True)
    value, most, expected = shown_values(rule, reading.value, expectation.limit, expectation.expected)
    shown, unit = format_value(value, most), unit_of(rule)
    after = f"{expected:.3g}{unit} was expected after {expectation.runs} healthy runs"
    if limit.learning is Learning.DROP:
        is_breach, end = is_beyond(limit.direction, value, most), "least" if limit.direction is Direction.BELOW else "most"
        # Neither figure may be rounded to the other side of the other one.
        near = f"{limit.direction} {format_value(most, float(shown))}{unit}, the {end} that is normal"
        finding = near if is_breach else f"not {near}"
    else:
        is_breach, finding = _find_trend(limit.direction, expectation)
    learning = Learning.DROP if expectation.note else limit.learning
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason="; ".join(filter(None, (f"{describe_value(rule, reading, shown)}, {finding}", after, expectation.note))),
        value=reading.value,
        users=reading.users,
        is_recovered=not is_breach and expectation.z <= NORMAL_AGAIN[learning],
    )


def _find_trend(direction: Direction, expectation: Expectation) -> tuple[bool, str]:
    evidence, needed = expectation.evidence or 0.0, expectation.evidence_limit or math.inf
    drift = "fall" if direction is Direction.BELOW else "rise"
    is_breach = evidence >= needed
    finding = f"with the runs before it a lasting {drift}" if is_breach else f"no lasting {drift} so far"
    return is_breach, f"{finding} (evidence {evidence:,.3g}, limit {needed:,.3g})"


def bound_statistic(rule: SimilarityRule, summary: Summary, missing: float) -> tuple[float, float] | None:
    """Lowest and highest value of the rule's statistic had ``missing`` more users had a score, each the worst or the best.

    Exact for means and shares (Manski 2003, chapter 1); a percentile is read from the stored ones, with straight lines between.
    None where the statistic has no value, or the scores have no range.
    """
    value = summary.value(str(rule.statistic))
    if value is None or rule.scores is None or not all(map(math.isfinite, (value, *rule.scores))):
        return None
    n, total = summary.n, summary.n + missing
    if rule.statistic.quantile is not None:
        return _bound_quantile(summary, rule.statistic.quantile, missing, rule.scores)
    low, high = (0.0, 1.0) if rule.is_share else rule.scores
    return (n * value + missing * low) / total, (n * value + missing * high) / total


def _bound_quantile(summary: Summary, quantile: float, missing: float, scores: tuple[float, float]) -> tuple[float, float]:
    # The users without a score stand below all others, or above: the wanted quantile of all is then another one of the known
    # scores.
    known = {0.0: scores[0], 1.0: scores[1]}
    for name, value in summary.statistics.items():
        if (level := Statistic.parse(name).quantile) is not None:
            known[level] = value
    # The scores in between are taken to lie on straight lines between the stored quantiles.
    levels = sorted(known)
    rank = quantile * (summary.n + missing)
    found = np.interp([(rank - missing) / summary.n, rank / summary.n], levels, [known[level] for level in levels])
    return float(found[0]), float(found[1])


def apply_bounds(
    rule: SimilarityRule, verdict: Verdict, summary: Summary, row: CoverageRow | None, expectation: Expectation | None
) -> Verdict:
    """The verdict, or ``no_data`` in its place where those without a score could turn the decision.

    ``row``: the segment's coverage. For a rule with a threshold everybody without a score counts; for one that learns those
    who are more than usual, since what it learned was learned without the usual ones.
    """
    asked = row.asked if row is not None else summary.n
    if isinstance(rule.limit, FixedLimit):
        limit, missing = rule.limit.value, float(asked - row.paired) if row is not None else 0.0
    elif expectation is None or expectation.limit is None:
        return verdict
    else:
        limit, missing = expectation.limit, max(0.0, expectation.lost - expectation.usual_lost) * asked
    bounds = bound_statistic(rule, summary, missing) if missing >= LEAST_MISSING else None
    if bounds is None or verdict.outcome not in (Outcome.OK, Outcome.BREACH):
        return verdict
    low, high = bounds
    if is_beyond(rule.direction, low, limit) == is_beyond(rule.direction, high, limit):
        return verdict
    users = f"{missing:,.0f} user{'' if round(missing) == 1 else 's'}"
    could = f"{users} without a score could make it anything from {low:.3g} to {high:.3g}"
    reason = f"cannot be decided: {could}; of those who have one, {verdict.reason}"
    return Verdict(outcome=Outcome.NO_DATA, reason=reason, value=verdict.value, users=verdict.users)
