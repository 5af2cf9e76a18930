"""Verdicts of rules on conditions: whether drift can be judged after a run, and if not, why."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from monitor.alerts.verdicts import judge_status, undecided
from monitor.model import Condition, ConditionRule, Outcome, RunStatus, Verdict

_CLEAR_WORDS = {
    Condition.ERROR: "the run did not fail",
    Condition.NO_DATA: "there was data to judge by",
    Condition.TOO_FEW: "there were users enough to judge by",
    Condition.STALE: "a run has succeeded",
}


def judge_condition(
    rule: ConditionRule, status: RunStatus, run_reason: str | None, verdicts: Sequence[Verdict], *, is_unknown: bool = False
) -> Verdict | None:
    """Judge one segment by the ``verdicts`` of the other rules on it; None where a run decides nothing about the condition.

    ``error``: the run failed. ``no_data``: too little was compared as a whole, or no rule had data to judge by, or nobody asked
    belongs to the segment any more (``is_unknown``). ``too_few``: some rule had too few users. What a rule has yet to learn is
    neither. A failed run decides neither of these two. A run only ever ends ``stale``, and only when it is ok.
    """
    condition = rule.condition
    unjudged = judge_status(status, run_reason)
    if condition is Condition.STALE:
        return _clear(condition) if unjudged is None else None
    if unjudged is not None:
        return _judge_unjudged(condition, unjudged)
    if condition is Condition.NO_DATA and is_unknown:
        return _in_condition("no user of the panel belongs to the segment any more", 0)
    lacking = [each for each in verdicts if each.outcome.value == condition.value and not each.is_learning]
    # Where any rule had data something was judged: what the others lack does not make it a segment without data.
    is_judged = condition is Condition.NO_DATA and len(lacking) < len(verdicts)
    if not lacking or is_judged:
        return _clear(condition)
    others = f" ({len(lacking):,} rules say so)" if len(lacking) > 1 else ""
    return _in_condition(f"{lacking[0].reason}{others}", lacking[0].users)


def apply_ignored(verdict: Verdict, ignored: Collection[Condition]) -> Verdict:
    """The verdict; where the configuration ignores the condition that it reports, one that ends pending and firing alerts."""
    if verdict.outcome in (Outcome.OK, Outcome.BREACH) or verdict.is_learning or Condition(verdict.outcome) not in ignored:
        return verdict
    # The alert ends, as nobody waits for data any more.
    reason = f"{verdict.reason}; not waited for, since {verdict.outcome} is ignored"
    return Verdict(outcome=verdict.outcome, reason=reason, value=verdict.value, users=verdict.users, is_ignored=True)


def _judge_unjudged(condition: Condition, unjudged: Verdict) -> Verdict:
    if unjudged.outcome.value == condition.value:
        return _in_condition(unjudged.reason, 0)
    if condition is Condition.ERROR:
        return _clear(condition)
    return undecided(unjudged.outcome, unjudged.reason)


def _in_condition(reason: str, users: int) -> Verdict:
    return Verdict(outcome=Outcome.BREACH, reason=reason, value=None, users=users)


def _clear(condition: Condition) -> Verdict:
    return Verdict(outcome=Outcome.OK, reason=_CLEAR_WORDS[condition], value=None, users=0, is_recovered=True)
