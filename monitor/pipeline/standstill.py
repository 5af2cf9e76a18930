"""How long an arm's lists have not changed while those of the other arm did, and for how long that is normal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from monitor.alerts import find_churn, other_arm
from monitor.model import ALL, Arm, ArmScore, Comparison, PastRun, Standstill, StandstillRule, State

MOVED = 0.02
"""Share of the items replaced from which on an arm's lists count as changed."""
STILL = 0.1
"""An arm that replaces less than this part of what the other one replaces stands still."""


def count_standstills(comparison: Comparison, scores: Sequence[ArmScore], past: Sequence[PastRun]) -> tuple[Standstill, ...]:
    """What each rule on standstill has counted, this run included, in the order of rules."""
    churn = {arm: each.value or 0.0 for arm, each in find_churn(scores).items()}
    last = past[-1] if past else None
    rules = (rule for rule in comparison.judging.rules if isinstance(rule, StandstillRule))
    return tuple(_count(_before(rule, last), churn, was_firing=_was_firing(rule, last)) for rule in rules)


def _before(rule: StandstillRule, last: PastRun | None) -> Standstill:
    """The count as of the last run; none yet for a rule that is new or was about the other arm then."""
    found = last.standstills.get(rule.alert) if last is not None else None
    return found if found is not None and found.arm is rule.arm else Standstill(alert=rule.alert, arm=rule.arm)


def _was_firing(rule: StandstillRule, last: PastRun | None) -> bool:
    return last is not None and last.states.get((rule.alert, ALL)) is State.FIRING


def _count(before: Standstill, churn: Mapping[Arm, float], *, was_firing: bool) -> Standstill:
    """One run more. A standstill that fired was not normal, so its length is not learned."""
    # Without lists of the last run nothing is known of either arm.
    if len(churn) < len(Arm):
        return before
    own, others = churn[before.arm], churn[other_arm(before.arm)]
    if others >= MOVED and own <= STILL * others:
        return replace(before, missed=before.missed + 1)
    # Neither arm was trained.
    if own < MOVED:
        return before
    longest = before.longest if was_firing else max(before.longest, before.missed)
    return replace(before, missed=0, longest=longest, changes=before.changes + 1)
