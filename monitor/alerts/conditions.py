"""Whether drift can be judged after a run, and if not, why.

`stale`, judged by time for want of runs; arms that stand still.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from monitor.alerts.machine import Evaluation, advance
from monitor.alerts.verdicts import count_users, judge_status, undecided
from monitor.model.alerts import (
    MIN_CHANGES,
    AlertState,
    Outcome,
    Standstill,
    State,
    Transition,
    Verdict,
)
from monitor.model.comparison import Comparison
from monitor.model.memory import PastRun
from monitor.model.rankings import ALL, Arm
from monitor.model.root_causes import RootCause
from monitor.model.rules import Condition, ConditionRule, Rule, StandstillRule
from monitor.model.runs import ArmScore, RunStatus
from monitor.model.statistics import CHURN
from monitor.texts.root_causes import write_stale

_CLEAR_WORDS = {
    Condition.ERROR: "the run did not fail",
    Condition.NO_DATA: "there was data to judge by",
    Condition.TOO_FEW: "there were users enough to judge by",
    Condition.STALE: "a run has succeeded",
}

JUST_AFTER = timedelta(microseconds=1)
"""What is judged between runs belongs just after the newest slot that counts, so that any later run moves it on."""
MOVED = 0.02
"""Share of the items replaced from which on an arm's lists count as changed."""
STILL = 0.1
"""An arm that replaces less than this part of what the other one replaces stands still, and still does under twice it."""


def judge_condition(
    rule: ConditionRule,
    status: RunStatus,
    run_reason: str | None,
    verdicts: Sequence[Verdict],
    *,
    is_unknown: bool = False,
) -> Verdict | None:
    """Judge one segment by the ``verdicts`` of the other rules on it.

    None where a run decides nothing about the condition.

    ``error``: the run failed. ``no_data``: too little was compared as a whole, no rule had data, or
    nobody asked is in the segment any more (``is_unknown``). ``too_few``: some rule had too few
    users; one that still learns is neither. A failed run decides neither of these two. A run only
    ever ends ``stale``, and only when it is ok.
    """
    condition = rule.condition
    unjudged = judge_status(status, run_reason)
    if condition is Condition.STALE:
        return _clear(condition) if unjudged is None else None
    if unjudged is not None and unjudged.outcome.value == condition.value:
        return _in_condition(unjudged.reason, 0)
    if unjudged is not None:
        return _clear(condition) if condition is Condition.ERROR else unjudged
    if condition is Condition.NO_DATA and is_unknown:
        return _in_condition("no user of the panel belongs to the segment any more", 0)
    lacking = [
        each for each in verdicts if each.outcome.value == condition.value and not each.is_learning
    ]
    # Where any rule had data something was judged: what the others lack does not make it a segment
    # without data.
    is_judged = condition is Condition.NO_DATA and len(lacking) < len(verdicts)
    if not lacking or is_judged:
        return _clear(condition)
    others = f" ({len(lacking):,} rules say so)" if len(lacking) > 1 else ""
    return _in_condition(f"{lacking[0].reason}{others}", lacking[0].users)


def apply_ignored(verdict: Verdict, ignored: Collection[Condition]) -> Verdict:
    """The verdict; where the configuration ignores the condition that it reports, one that ends pending and firing alerts."""
    if (
        verdict.outcome in (Outcome.OK, Outcome.BREACH)
        or verdict.is_learning
        or Condition(verdict.outcome) not in ignored
    ):
        return verdict
    # The alert ends, as nobody waits for data any more.
    reason = f"{verdict.reason}; not waited for, since {verdict.outcome} is ignored"
    return Verdict(
        outcome=verdict.outcome,
        reason=reason,
        value=verdict.value,
        users=verdict.users,
        is_ignored=True,
    )


def _in_condition(reason: str, users: int) -> Verdict:
    return Verdict(outcome=Outcome.BREACH, reason=reason, value=None, users=users)


def _clear(condition: Condition) -> Verdict:
    return Verdict(
        outcome=Outcome.OK, reason=_CLEAR_WORDS[condition], value=None, users=0, is_recovered=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """How long a run that succeeds has been waited for."""

    since: datetime  # slot of the newest ok run, or from when the first one was waited for
    has_succeeded: bool
    overdue_at: datetime  # by when the last of the runs that may go without success had to end
    # Monotonic: this process has watched since it began, success, a jump of the clock or sleep
    seen_s: float
    needed_s: float  # what that must be until another run was due and had to end
    cause: RootCause = field(default_factory=RootCause)

    def is_over(self, now: datetime) -> bool:
        """Whether it has lasted too long, by the clock and by what was seen: a clock that jumps is no run that failed."""
        return now >= self.overdue_at and self.seen_s >= self.needed_s


def judge_stale(
    comparison: Comparison,
    states: Sequence[AlertState],
    wait: Staleness,
    now: datetime,
    *,
    installation: str = "",
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """The states that change and their transitions while no run succeeds.

    None before the wait is over.

    The rule on staleness fires, and only the next ok run ends it. Where staleness is ignored other
    alerts end instead.
    """
    # Two clocks must agree: a wall clock that jumps is no run that failed.
    if not wait.is_over(now):
        return (), ()
    stored = {(state.alert, state.segment): state for state in states}
    moves = []
    for rule, segment, verdict in _judge_wait(comparison, states, wait):
        before = stored.get((rule.alert, segment))
        # Runs that failed may have judged it since.
        slot = max(wait.since, before.judged_slot if before else wait.since) + JUST_AFTER
        look = Evaluation(
            comparison=comparison.name,
            segment=segment,
            slot=slot,
            at=now,
            installation=installation,
        )
        moves.append(advance(rule, verdict, before, look))
    changed = [(state, transition) for state, transition in moves if transition is not None]
    return tuple(state for state, _ in changed), tuple(transition for _, transition in changed)


def _judge_wait(
    comparison: Comparison, states: Sequence[AlertState], wait: Staleness
) -> Iterator[tuple[Rule, str, Verdict]]:
    missed = comparison.judging.stale_after
    reason = write_stale(wait.since, missed, wait.cause, has_succeeded=wait.has_succeeded)
    rules = {rule.alert: rule for rule in comparison.judging.rules}
    for rule in rules.values():
        if isinstance(rule, ConditionRule) and rule.condition is Condition.STALE:
            yield rule, ALL, Verdict(outcome=Outcome.BREACH, reason=reason, value=None, users=0)
    if Condition.STALE in comparison.judging.ignored:
        waiting = (
            state for state in states if state.alert in rules and state.state is not State.QUIET
        )
        reason = f"{reason}; not waited for, since {Condition.STALE} is ignored"
        ended = Verdict(outcome=Outcome.ERROR, reason=reason, value=None, users=0, is_ignored=True)
        yield from ((rules[state.alert], state.segment, ended) for state in waiting)


def count_standstills(
    comparison: Comparison, scores: Sequence[ArmScore], past: Sequence[PastRun]
) -> tuple[Standstill, ...]:
    """What each rule on standstill has counted, this run included, in the order of rules."""
    churn = {arm: each.value or 0.0 for arm, each in _find_churn(scores).items()}
    last = past[-1] if past else None
    counts, states = (last.standstills, last.states) if last is not None else ({}, {})
    found = []
    for rule in (rule for rule in comparison.judging.rules if isinstance(rule, StandstillRule)):
        before = counts.get(rule.alert)
        if before is None or before.arm is not rule.arm:
            before = Standstill(
                alert=rule.alert, arm=rule.arm
            )  # nothing yet for a rule that is new or was about the other arm
        found.append(
            _count(before, churn, was_firing=states.get((rule.alert, ALL)) is State.FIRING)
        )
    return tuple(found)


def _count(before: Standstill, churn: Mapping[Arm, float], *, was_firing: bool) -> Standstill:
    # Without lists of the last run nothing is known of either arm.
    if len(churn) < len(Arm):
        return before
    own, others = churn[before.arm], churn[before.arm.other]
    # Twice the part, or an arm of which a tenth is trained would begin and end to fire over and
    # over.
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
    """Judge whether the arm stands still.

    The value counts the changes of the other arm since its own last one.

    ``breach`` beyond the learned limit, recovered with the arm's next change. ``no_data``: the
    lists of this run or the last cannot be compared; ``too_few``: still learning.
    """
    if (unjudged := judge_status(status, run_reason)) is not None:
        return unjudged
    churn = _find_churn(scores)
    if rule.arm not in churn or rule.arm.other not in churn or standstill is None:
        return undecided(Outcome.NO_DATA, "there are no lists of an earlier run to compare with")
    users = churn[rule.arm].n
    if users < rule.min_users:
        few = (
            f"only {count_users(users, ALL)} had a list in the last run too, fewer than the "
            f"{rule.min_users:,} needed"
        )
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
    replaced = (
        f"replaced in this run: {churn[arm].value:.0%} of the {arm}, {churn[other].value:.0%} of "
        f"the {other}"
    )
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=f"{seen}, {'more than' if is_breach else 'at most'} {most} is normal; {replaced}",
        value=float(missed),
        users=churn[arm].n,
        is_recovered=missed == 0,
    )


def _find_churn(scores: Sequence[ArmScore]) -> dict[Arm, ArmScore]:
    return {
        each.arm: each
        for each in scores
        if each.segment == ALL and each.metric == CHURN and each.value is not None
    }
