"""The condition `stale`: no run of a comparison succeeds any more. Judged by time, since there may be no run to judge by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from monitor.alerts.machine import Evaluation, advance
from monitor.model import (
    ALL,
    AlertState,
    Comparison,
    Condition,
    ConditionRule,
    Outcome,
    Rule,
    State,
    Transition,
    Verdict,
)

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
    for rule, segment, verdict in _judge(comparison, states, wait):
        before = stored.get((rule.alert, segment))
        # Runs that failed may have judged it since.
        slot = max(wait.since, before.judged_slot if before else wait.since) + JUST_AFTER
        look = Evaluation(comparison=comparison.name, segment=segment, slot=slot, at=now, installation=installation)
        moves.append(advance(rule, verdict, before, look))
    changed = [(state, transition) for state, transition in moves if transition is not None]
    return tuple(state for state, _ in changed), tuple(transition for _, transition in changed)


def _judge(comparison: Comparison, states: Sequence[AlertState], wait: Staleness) -> Iterator[tuple[Rule, str, Verdict]]:
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
