"""Texts about conditions of runs, and about arms that do not change. Without a full stop."""

from monitor.model.alerts import MIN_CHANGES, Standstill
from monitor.model.rankings import ALL
from monitor.model.rules import Condition
from monitor.texts.verdicts import count_users

_CLEAR = {
    Condition.ERROR: "the run did not fail",
    Condition.NO_DATA: "there was data to judge by",
    Condition.TOO_FEW: "there were enough users to judge by",
    Condition.STALE: "a run has succeeded",
}


def write_clear(condition: Condition) -> str:
    """Why the condition is over."""
    return _CLEAR[condition]


def write_ignored(reason: str, condition: str) -> str:
    """The reason of a verdict on a condition that the configuration ignores."""
    return f"{reason}; not waited for, since {condition} is ignored"


def write_standstill(standstill: Standstill, most: int) -> str:
    """How long the arm's lists have not changed, and how long is normal."""
    arm, missed = standstill.arm, standstill.missed
    if not missed:
        return f"lists of the {arm} change, at most {most} is normal"
    limit = f"more than {most}" if missed > most else f"at most {most}"
    return (
        f"lists of the {arm} have not changed while those of the {arm.other} changed {missed} "
        f"times, {limit} is normal"
    )


def write_churn(standstill: Standstill, churn: float, churn_of_other: float) -> str:
    """How much of the lists of both arms was replaced."""
    arm = standstill.arm
    return (
        f"replaced in this run: {churn:.0%} of the {arm}, {churn_of_other:.0%} of the {arm.other}"
    )


def write_unlearned(standstill: Standstill) -> str:
    """How much is known about how often the arm's lists change."""
    seen = f"{standstill.changes} of {MIN_CHANGES} changes seen"
    return f"learning how often the lists of the {standstill.arm} change: {seen}"


def write_too_few(users: int, min_users: int) -> str:
    """Too few users had a list in the last run."""
    return (
        f"only {count_users(users, ALL)} had a list in the last run too, fewer than the "
        f"{min_users:,} needed"
    )
