"""Conditions: whether drift can be judged after a run, and if not, why; and `stale`, judged by time for want of runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.alerts.machine import Evaluation, advance
from monitor.alerts.verdicts import judge_status
from monitor.model import (
    ALL,
    AlertState,
    Comparison,
    Condition,
    ConditionRule,
    Outcome,
    Rule,
    RunStatus,
    State,
    Transition,
    Verdict,
)

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
    if unjudged is not None and unjudged.outcome.value == condition.value:
        return _in_condition(unjudged.reason, 0)
    if unjudged is not None:
        return _clear(condition) if condition is Condition.ERROR else unjudged
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


def _in_condition(reason: str, users: int) -> Verdict:
    return Verdict(outcome=Outcome.BREACH, reason=reason, value=None, users=users)


def _clear(condition: Condition) -> Verdict:
    return Verdict(outcome=Outcome.OK, reason=_CLEAR_WORDS[condition], value=None, users=0, is_recovered=True)


JUST_AFTER = timedelta(microseconds=1)
"""What is judged between runs belongs just after the newest slot that counts, so that any later run moves it on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """How long a run that succeeds has been waited for.

    ``since``: slot of the newest ok run, or where none ever was (``has_succeeded``) the time from which one was waited for.
    ``overdue_at``: by when the last of the runs that may go without success had to end. ``seen_s``: monotonic seconds for which
    this process has watched since it began, a run succeeded, the clock jumped or the machine slept; ``needed_s``: how long it
    takes from then on until another run was due and had to end.
    """

    since: datetime
    has_succeeded: bool
    overdue_at: datetime
    seen_s: float
    needed_s: float

    def is_over(self, now: datetime) -> bool:
        """Whether it has lasted too long, by the clock and by what was seen: a clock that jumps is no run that failed."""
        return now >= self.overdue_at and self.seen_s >= self.needed_s


def judge_stale(
    comparison: Comparison, states: Sequence[AlertState], wait: Staleness, now: datetime, *, installation: str = ""
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """The states that change and their transitions while no run succeeds; none before the wait is over.

    The rule on staleness fires; the next ok run ends it, and nothing else does. Where staleness is ignored, pending and firing
    alerts end instead. The same arguments give the same answer, and what was stored of it changes no more.
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
        look = Evaluation(comparison=comparison.name, segment=segment, slot=slot, at=now, installation=installation)
        moves.append(advance(rule, verdict, before, look))
    changed = [(state, transition) for state, transition in moves if transition is not None]
    return tuple(state for state, _ in changed), tuple(transition for _, transition in changed)


def _judge_wait(comparison: Comparison, states: Sequence[AlertState], wait: Staleness) -> Iterator[tuple[Rule, str, Verdict]]:
    reason, rules = _describe(comparison, wait), {rule.alert: rule for rule in comparison.judging.rules}
    for rule in rules.values():
        if isinstance(rule, ConditionRule) and rule.condition is Condition.STALE:
            yield rule, ALL, Verdict(outcome=Outcome.BREACH, reason=reason, value=None, users=0)
    if Condition.STALE in comparison.judging.ignored:
        waiting = (state for state in states if state.alert in rules and state.state is not State.QUIET)
        reason = f"{reason}; not waited for, since {Condition.STALE} is ignored"
        ended = Verdict(outcome=Outcome.ERROR, reason=reason, value=None, users=0, is_ignored=True)
        yield from ((rules[state.alert], state.segment, ended) for state in waiting)


def _describe(comparison: Comparison, wait: Staleness) -> str:
    since = f"{wait.since:%Y-%m-%d %H:%M} UTC"
    newest = f"since that of {since}" if wait.has_succeeded else f"yet, waited for since {since}"
    return f"no run has succeeded {newest}: {comparison.judging.stale_after:,} that were due since failed or were not begun"
