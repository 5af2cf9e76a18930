"""What a rule on a frozen arm says in one run: the arm's lists stay as they are while those of the other arm change."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.alerts.verdicts import count_users, judge_status, silent
from monitor.model import ALL, Arm, ArmScore, Expectation, Outcome, Rule, RunStatus, Verdict

CHURN = "self_churn"
"""The arm-wide metric that tells how much of each list was replaced since the last run."""
LEAST_CHANGES = 2
"""Changes of the arm's lists that must have been seen before it is known how often they change."""


def judge_frozen(
    rule: Rule, status: RunStatus, scores: Sequence[ArmScore], expectation: Expectation | None, run_reason: str | None
) -> Verdict:
    """Judge whether the arm stands still; the value counts the changes of the other arm since its own last one.

    ``breach`` beyond the limit that was learned, recovered with the arm's next change. ``no_data`` where this run's lists could
    not be held against those of the last one, ``too_few`` while it is being learned how often the arm changes.
    """
    if (unjudged := judge_status(status, run_reason)) is not None:
        return unjudged
    arm = Arm(rule.statistic)
    churn = find_churn(scores)
    if arm not in churn or other(arm) not in churn or expectation is None:
        return silent(Outcome.NO_DATA, "there are no lists of an earlier run to compare with")
    users = churn[arm].n
    if users < rule.min_users:
        few = f"only {count_users(users, ALL)} had a list in the last run too, fewer than the {rule.min_users:,} needed"
        return silent(Outcome.TOO_FEW, few, users)
    if expectation.limit is None:
        seen = f"{expectation.runs} of {LEAST_CHANGES} changes seen"
        return silent(Outcome.TOO_FEW, f"learning how often the lists of the {arm} change: {seen}", users, is_learning=True)
    return _compare(arm, churn, int(expectation.evidence or 0), int(expectation.limit))


def find_churn(scores: Sequence[ArmScore]) -> dict[Arm, ArmScore]:
    """Churn of each arm over all users, of those that have one."""
    return {each.arm: each for each in scores if each.segment == ALL and each.metric == CHURN and each.value is not None}


def other(arm: Arm) -> Arm:
    """The arm that it is held against."""
    return Arm.CANDIDATE if arm is Arm.BASELINE else Arm.BASELINE


def _compare(arm: Arm, churn: dict[Arm, ArmScore], missed: int, most: int) -> Verdict:
    is_breach = missed > most
    said = (
        f"lists of the {arm} have not changed while those of the {other(arm)} changed {missed} times"
        if missed
        else f"lists of the {arm} change"
    )
    replaced = f"replaced in this run: {churn[arm].value:.0%} of the {arm}, {churn[other(arm)].value:.0%} of the {other(arm)}"
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=f"{said}, {'more than' if is_breach else 'at most'} {most} is normal; {replaced}",
        value=float(missed),
        users=churn[arm].n,
        is_recovered=missed == 0,
    )
