"""What one rule that learns says of one segment in one run, held against what was normal so far."""

from __future__ import annotations

import math

from monitor.alerts.coverage import tell_coverage
from monitor.alerts.verdicts import count_users, silent, tell_apart
from monitor.model import COVERAGE, LEAST_RUNS, CoverageShare, Direction, Expectation, Outcome, Rule, RuleKind, Verdict

NORMAL_AGAIN = 2.0
"""A drop ends once the value lies within so many standard deviations of what is expected; a trend, which may be of less than
that, once the value is no worse than expected."""


def learn(rule: Rule, plain: Verdict, segment: str, expectation: Expectation | None) -> Verdict:
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
        learning = f"learning what is normal: {runs} of {LEAST_RUNS} healthy runs"
        return silent(Outcome.TOO_FEW, learning, plain.users, is_learning=True)
    if expectation.z is None:
        uncertain = f"{_name(rule)} over {users} is too uncertain to be judged"
        return silent(Outcome.NO_DATA, uncertain, plain.users, is_learning=True)
    value, limit = plain.value, expectation.limit
    shown = _show(rule, value, limit, plain.users, users)
    after = f"{expectation.expected:.3g} was expected after {expectation.runs} healthy runs"
    is_breach, said = (_see_drop if rule.kind is RuleKind.DROP else _see_trend)(rule, value, limit, expectation)
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=f"{shown}, {said}; {after}",
        value=value,
        users=plain.users,
        is_recovered=not is_breach and expectation.z <= (NORMAL_AGAIN if rule.kind is RuleKind.DROP else 0.0),
    )


def _name(rule: Rule) -> str:
    return f"{rule.statistic} of {rule.metric}"


def _show(rule: Rule, value: float, limit: float, count: int, users: str) -> str:
    """The value in words, with the ``count`` users behind it."""
    shown, _ = tell_apart(value, limit)
    if rule.metric == COVERAGE:
        return f"{tell_coverage(CoverageShare.parse(rule.statistic), round(value * count), users)} ({shown})"
    return f"{_name(rule)} is {shown} over {users}"


def _see_drop(rule: Rule, value: float, limit: float, _: Expectation) -> tuple[bool, str]:
    is_breach = value < limit if rule.direction is Direction.BELOW else value > limit
    end = "least" if rule.direction is Direction.BELOW else "most"
    return is_breach, f"{'' if is_breach else 'not '}{rule.direction} {tell_apart(value, limit)[1]}, the {end} that is normal"


def _see_trend(rule: Rule, _value: float, _limit: float, expectation: Expectation) -> tuple[bool, str]:
    evidence, needed = expectation.evidence or 0.0, expectation.evidence_limit or math.inf
    drift = "fall" if rule.direction is Direction.BELOW else "rise"
    is_breach = evidence >= needed
    told = f"with the runs before it a lasting {drift}" if is_breach else f"no lasting {drift} so far"
    return is_breach, f"{told} (evidence {evidence:,.3g}, limit {needed:,.3g})"
