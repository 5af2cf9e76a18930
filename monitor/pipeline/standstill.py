"""How long an arm's lists have not changed while those of the other arm did, and for how long that is normal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from monitor.alerts import find_churn, other_arm
from monitor.model import ALL, Arm, ArmScore, Comparison, PastRun, Standstill, StandstillRule, State

MOVED = 0.02
"""Share of the items replaced from which on an arm's lists count as changed."""
STILL = 0.1
"""An arm that replaces less than this part of what the other one replaces stands still, and still does under twice it."""


def count_standstills(comparison: Comparison, scores: Sequence[ArmScore], past: Sequence[PastRun]) -> tuple[Standstill, ...]:
    """What each rule on standstill has counted, this run included, in the order of rules."""
    churn = {arm: each.value or 0.0 for arm, each in find_churn(scores).items()}
    last = past[-1] if past else None
    counts, states = (last.standstills, last.states) if last is not None else ({}, {})
    found = []
    for rule in (rule for rule in comparison.judging.rules if isinstance(rule, StandstillRule)):
        before = counts.get(rule.alert)
        if before is None or before.arm is not rule.arm:
            before = Standstill(alert=rule.alert, arm=rule.arm)  # nothing yet for a rule that is new or was about the other arm
        found.append(_count(before, churn, was_firing=states.get((rule.alert, ALL)) is State.FIRING))
    return tuple(found)


def _count(before: Standstill, churn: Mapping[Arm, float], *, was_firing: bool) -> Standstill:
    # Without lists of the last run nothing is known of either arm.
    if len(churn) < len(Arm):
        return before
    own, others = churn[before.arm], churn[other_arm(before.arm)]
    # Twice the part, or an arm of which a tenth is trained would begin and end to fire over and over.
    if others >= MOVED and own <= STILL * others * (2 if was_firing else 1):
        return replace(before, missed=before.missed + 1)
    # Neither arm was trained.
    if own < MOVED:
        return before
    # A standstill that fired was not normal, so its length is not learned.
    longest = before.longest if was_firing else max(before.longest, before.missed)
    return replace(before, missed=0, longest=longest, changes=before.changes + 1)
