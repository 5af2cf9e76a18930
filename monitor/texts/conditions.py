"""Writes clauses about conditions of runs, and about arms whose lists do not change.

The clauses have no full stop. `write_health` and `write_other_value` write sentences.
"""

from monitor.model.alerts import LEAST_HISTORY, MIN_CHANGES, AlertState, Standstill
from monitor.model.rankings import ALL, Arm
from monitor.model.rules import Condition
from monitor.texts.verdicts import count_users
from monitor.texts.wording import count_of, write_percent

_CLEAR = {
    Condition.ERROR: "the run did not fail",
    Condition.NO_DATA: "there was data to judge by",
    Condition.TOO_FEW: "there were enough users to judge by",
    Condition.STALE: "a run has succeeded",
    Condition.SPLIT_OFF: "the users are split as planned",
    Condition.ARMS_DIFFERED: "the arms did not differ before the test began",
}


def write_health(alerts: int, unjudged: int, *, is_well: bool) -> str:
    """Say how many of the quiet alerts were judged. ``is_well`` is whether these are enough."""
    if not alerts:
        return "No rule judges this comparison."
    judged = f"{alerts - unjudged:,} of {count_of(alerts, 'alert')}"
    if is_well:
        return f"All is well: no alert fires. The newest run judged {judged}."
    return f"No alert fires, but the newest run judged only {judged}."


def write_other_value(firing: AlertState) -> str:
    """Say which value the firing alert judges, with its limit, if a chart does not show it."""
    return f"{firing.alert} judges another value than this chart shows: {firing.reason}."


def write_clear(condition: Condition) -> str:
    """Say why the condition is over."""
    return _CLEAR[condition]


def write_ignored(reason: str, condition: str) -> str:
    """Write the reason of a verdict if the configuration ignores this condition."""
    return f"{reason}; alerts do not wait for data, because the configuration ignores {condition}"


def write_standstill(standstill: Standstill, most: int) -> str:
    """Say how many changes of the other arm this arm has missed, and how many are normal.

    For both arms, say in how many runs neither arm changed.
    """
    arm = standstill.arm
    missed = standstill.missed
    limit = f"more than the {most} that are normal" if missed > most else f"up to {most} are normal"
    if arm is None:
        if not missed:
            return f"the lists have changed; up to {most} runs without a change are normal"
        return f"neither arm's lists have changed in {count_of(missed, 'run')}, {limit}"
    if not missed:
        return (
            f"the {arm} has missed 0 changes of the {arm.other}; up to {most} missed changes are "
            "normal"
        )
    return (
        f"lists of the {arm} have not changed while those of the {arm.other} changed {missed} "
        f"times, {limit}"
    )


def write_churn(arm: Arm, churn: float, churn_of_other: float) -> str:
    """Say for each arm which share of its items this run replaced."""
    return (
        f"this run replaced {write_percent(churn)} of the {arm}'s items and "
        f"{write_percent(churn_of_other)} of the {arm.other}'s"
    )


def write_unlearned(standstill: Standstill) -> str:
    """Say how many changes of the lists, or how many days, the rule has seen so far."""
    seen = f"{standstill.changes} of {MIN_CHANGES} changes seen"
    if standstill.changes >= MIN_CHANGES:
        seen = f"{standstill.history.days} of {LEAST_HISTORY.days} days seen"
    lists = "lists" if standstill.arm is None else f"lists of the {standstill.arm}"
    return f"learning how often the {lists} change: {seen}"


def write_too_few(users: int, min_users: int) -> str:
    """Say how many users had a list in the last run, and how many users are needed."""
    return (
        f"only {count_users(users, ALL)} had a list in the last run too, fewer than the "
        f"{min_users:,} needed"
    )
