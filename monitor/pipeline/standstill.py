"""How long an arm's lists have not changed while those of the other arm did, and for how long that is normal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.alerts import LEAST_CHANGES, find_churn, other_arm
from monitor.model import ALL, Arm, ArmScore, Comparison, Expectation, PastRun, Rule, RuleKind, State

MOVED = 0.02
"""Share of the items replaced from which on an arm's lists count as changed."""
STILL = 0.1
"""An arm that replaces less than this part of what the other one replaces stands still."""
LEAST_MISSED = 2
"""Changes of the other arm that may always be missed: two trainings rarely end in the same minute."""


def expect_standstills(comparison: Comparison, scores: Sequence[ArmScore], past: Sequence[PastRun]) -> tuple[Expectation, ...]:
    """What each rule on a frozen arm has seen, this run included, in the order of rules.

    Counted is not time but how often the other arm changed meanwhile: where neither is trained nothing is missed. Normal is
    half as much again as the longest standstill that ended by itself, plus `LEAST_MISSED`; one that was told does not count.
    """
    rules = (rule for rule in comparison.rules if rule.kind is RuleKind.FROZEN)
    return tuple(_watch(rule, scores, past[-1] if past else None) for rule in rules)


def _watch(rule: Rule, scores: Sequence[ArmScore], last: PastRun | None) -> Expectation:
    missed, longest, changes = _recall(rule, last)
    move = _move(Arm(rule.statistic), scores)
    missed += move.is_missed
    if move.is_made:
        was_told = last is not None and last.states.get((rule.alert, ALL)) is State.FIRING
        missed, longest, changes = 0.0, max(longest, 0.0 if was_told else missed), changes + 1
    return Expectation(
        alert=rule.alert,
        segment=ALL,
        runs=int(changes),
        limit=LEAST_MISSED + math.ceil(1.5 * longest) if changes >= LEAST_CHANGES else None,
        evidence=missed,
        series=rule.series,
        judged=missed,
        error=longest,
        z=changes,
    )


def _recall(rule: Rule, last: PastRun | None) -> tuple[float, float, float]:
    """Changes of the other arm that were missed so far, the most ever, and changes of the arm, as of the last run."""
    if last is None or not last.teaches(rule.alert, rule.series):
        return 0.0, 0.0, 0.0
    missed, longest, changes = last.lessons[rule.alert].numbers[:3, 0]
    return float(missed), float(longest), float(changes)


@dataclass(frozen=True, slots=True)
class _Move:
    """Whether the arm changed, and whether it missed a change of the other."""

    is_made: bool
    is_missed: bool


def _move(arm: Arm, scores: Sequence[ArmScore]) -> _Move:
    churn = {found: each.value or 0.0 for found, each in find_churn(scores).items()}
    if len(churn) < len(Arm):
        return _Move(is_made=False, is_missed=False)
    own, others = churn[arm], churn[other_arm(arm)]
    is_missed = others >= MOVED and own <= STILL * others
    return _Move(is_made=own >= MOVED and not is_missed, is_missed=is_missed)
