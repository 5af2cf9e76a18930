"""How long an arm's lists have not changed while those of the other arm did, for how long that is normal, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from monitor.alerts.verdicts import count_users, judge_status, undecided
from monitor.model import (
    ALL,
    CHURN,
    MIN_CHANGES,
    Arm,
    ArmScore,
    Comparison,
    Outcome,
    PastRun,
    RunStatus,
    Standstill,
    StandstillRule,
    State,
    Verdict,
)

MOVED = 0.02
"""Share of the items replaced from which on an arm's lists count as changed."""
STILL = 0.1
"""An arm that replaces less than this part of what the other one replaces stands still, and still does under twice it."""


def count_standstills(comparison: Comparison, scores: Sequence[ArmScore], past: Sequence[PastRun]) -> tuple[Standstill, ...]:
    """What each rule on standstill has counted, this run included, in the order of rules."""
    churn = {arm: each.value or 0.0 for arm, each in _find_churn(scores).items()}
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
    own, others = churn[before.arm], churn[before.arm.other]
    # Twice the part, or an arm of which a tenth is trained would begin and end to fire over and over.
    if others >= MOVED and own <= STILL * others * (2 if was_firing else 1):
        return replace(before, missed=before.missed + 1)
    # Neither arm was trained.
    if own < MOVED:
        return before
    # A standstill that fired was not normal, so its length is not learned.
    longest = before.longest if was_firing else max(before.longest, before.missed)
    return replace(before, missed=0, longest=longest, changes=before.changes + 1)


def judge_standstill(
    rule: StandstillRule,
    status: RunStatus,
    scores: Sequence[ArmScore],
    standstill: Standstill | None,
    run_reason: str | None,
) -> Verdict:
    """Judge whether the arm stands still; the value counts the changes of the other arm since its own last one.

    ``breach`` beyond the limit that was learned, recovered with the arm's next change. ``no_data`` where this run's lists could
    not be compared with those of the last one, ``too_few`` while it is being learned how often the arm changes.
    """
    if (unjudged := judge_status(status, run_reason)) is not None:
        return unjudged
    churn = _find_churn(scores)
    if rule.arm not in churn or rule.arm.other not in churn or standstill is None:
        return undecided(Outcome.NO_DATA, "there are no lists of an earlier run to compare with")
    users = churn[rule.arm].n
    if users < rule.min_users:
        few = f"only {count_users(users, ALL)} had a list in the last run too, fewer than the {rule.min_users:,} needed"
        return undecided(Outcome.TOO_FEW, few, users)
    # A rhythm needs two changes to be known.
    if standstill.limit is None:
        seen = f"{standstill.changes} of {MIN_CHANGES} changes seen"
        learning = f"learning how often the lists of the {rule.arm} change: {seen}"
        return undecided(Outcome.TOO_FEW, learning, users, is_learning=True)
    return _compare_standstill(churn, standstill, standstill.limit)


def _compare_standstill(churn: dict[Arm, ArmScore], standstill: Standstill, most: int) -> Verdict:
    arm, other, missed = standstill.arm, standstill.arm.other, standstill.missed
    is_breach = missed > most
    seen = (
        f"lists of the {arm} have not changed while those of the {other} changed {missed} times"
        if missed
        else f"lists of the {arm} change"
    )
    replaced = f"replaced in this run: {churn[arm].value:.0%} of the {arm}, {churn[other].value:.0%} of the {other}"
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=f"{seen}, {'more than' if is_breach else 'at most'} {most} is normal; {replaced}",
        value=float(missed),
        users=churn[arm].n,
        is_recovered=missed == 0,
    )


def _find_churn(scores: Sequence[ArmScore]) -> dict[Arm, ArmScore]:
    return {each.arm: each for each in scores if each.segment == ALL and each.metric == CHURN and each.value is not None}
