"""The state machine of one alert on one segment: quiet, pending, firing.

And the end of those that nothing watches any more.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from monitor.model.alerts import AlertState, Outcome, Removed, State, Transition, Verdict
from monitor.model.comparison import Comparison
from monitor.model.rankings import ALL
from monitor.model.rules import Direction, Rule

INSTALLATION = "installation"
"""The label of alerts by which installations are told apart where they are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One evaluation of one rule."""

    comparison: str
    segment: str
    slot: datetime
    at: datetime  # when it is judged
    learned_limit: float | None = None  # for this run
    # Part of keys of firings, where the rule has no label `INSTALLATION`: nobody else has them
    installation: str = ""


def advance(
    rule: Rule, verdict: Verdict, previous: AlertState | None, evaluation: Evaluation
) -> tuple[AlertState, Transition | None]:
    """Move the state by one verdict; the transition if it changed, else None.

    ============  ======================================
    ============================================  ==================== state         breach
    ok                                            anything else ============
    ======================================  ============================================
    ==================== none, quiet   pending, or firing with ``for_runs=1``  quiet
    quiet pending       firing at the ``for_runs``-th in a row  quiet
    pending, streak held firing        firing, streak 0                        quiet at the
    ``resolve_after``-th recovered   firing, streak held
                                                          in a row; firing, streak 0 if not
                                                          recovered
    ============  ======================================
    ============================================  ====================

    ``no_data``, ``too_few`` and ``error`` hold the state: they neither reset nor advance the
    streak, and the state carries their outcome and reason. Where they are ignored they make it
    quiet, with the reason that nobody saw it recover. A slot that is not newer than ``judged_slot``
    returns the state as it was. A rule whose threshold or ``for`` was changed goes on from the
    stored state: what fires keeps firing, under its key and its severity.
    """
    # A slot that is run again, or an older one, must not count a breach twice.
    if previous is not None and evaluation.slot <= previous.judged_slot:
        return previous, None
    was, streak = (previous.state, previous.streak) if previous else (State.QUIET, 0)
    now, streak = _step(was, streak, verdict, rule)
    if verdict.is_ignored and now is not was:
        verdict = replace(verdict, reason=f"{verdict.reason}: ended, but not seen to recover")
    if now is State.FIRING and verdict.is_recovered:
        left = rule.resolve_after - streak
        more = f"it fires still, and ends after {left} more such run{'s' if left > 1 else ''}"
        verdict = replace(verdict, reason=f"{verdict.reason}; {more}")
    state = _state(rule, verdict, previous, evaluation, now, streak)
    return state, None if now is was else _transition(rule, previous, state, evaluation)


def _step(state: State, streak: int, verdict: Verdict, rule: Rule) -> tuple[State, int]:
    if verdict.outcome not in (Outcome.OK, Outcome.BREACH):
        return (State.QUIET, 0) if verdict.is_ignored else (state, streak)
    # While an alert fires the streak counts recovered runs, before that breaches.
    if state is State.FIRING:
        recovered = streak + 1 if verdict.outcome is Outcome.OK and verdict.is_recovered else 0
        return (State.QUIET, 0) if recovered >= rule.resolve_after else (state, recovered)
    if verdict.outcome is Outcome.OK:
        return State.QUIET, 0
    return (State.FIRING, 0) if streak + 1 >= rule.for_runs else (State.PENDING, streak + 1)


def _state(
    rule: Rule,
    verdict: Verdict,
    previous: AlertState | None,
    evaluation: Evaluation,
    state: State,
    streak: int,
) -> AlertState:
    # What fires keeps its start, key and severity: receivers know it under these.
    held = previous if previous is not None and previous.state is state else None
    firing = held if state is State.FIRING else None
    names = (
        evaluation.comparison,
        rule.alert,
        evaluation.segment,
        rule.labels.get(INSTALLATION, evaluation.installation),
    )
    key = stable_key(evaluation.slot, *names) if state is State.FIRING else None
    return AlertState(
        comparison=evaluation.comparison,
        alert=rule.alert,
        segment=evaluation.segment,
        state=state,
        since=held.since if held else evaluation.slot,
        streak=streak,
        judged_slot=evaluation.slot,
        outcome=verdict.outcome,
        reason=verdict.reason,
        value=verdict.value,
        users=verdict.users,
        threshold=rule.threshold if evaluation.learned_limit is None else evaluation.learned_limit,
        severity=firing.severity if firing else rule.severity,
        dedup_key=firing.dedup_key if firing else key,
    )


def _transition(
    rule: Rule, previous: AlertState | None, state: AlertState, evaluation: Evaluation
) -> Transition:
    # An end goes under the key and severity that the start was sent under.
    ended = previous if previous is not None and previous.state is State.FIRING else None
    return Transition(
        comparison=evaluation.comparison,
        alert=rule.alert,
        segment=evaluation.segment,
        slot=evaluation.slot,
        at=evaluation.at,
        from_state=previous.state if previous else State.QUIET,
        to_state=state.state,
        reason=state.reason,
        value=state.value,
        direction=rule.direction,
        threshold=state.threshold,
        users=state.users,
        metric=rule.subject.metric,
        statistic=rule.subject.statistic,
        severity=ended.severity if ended else rule.severity,
        since=evaluation.slot
        if previous is None or previous.state is State.QUIET
        else previous.since,
        dedup_key=ended.dedup_key if ended else state.dedup_key,
        runbook_url=rule.runbook_url,
        labels=rule.labels,
    )


def stable_key(slot: datetime, *names: str) -> str:
    """Key of what begins in the slot under these names: the same whenever and wherever it is computed."""
    named = json.dumps([*names, slot.astimezone(UTC).isoformat()])
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def retire_alerts(
    states: Iterable[AlertState],
    causes: Iterable[Transition],
    comparisons: Sequence[Comparison],
    *,
    at: datetime,
) -> tuple[Transition, ...]:
    """Transitions to quiet for every pending or firing state that no rule looks at any more.

    Announced as any other end.

    ``comparisons``: all there are now; under ``segments: each`` or ``named`` a segment is never
    gone. ``causes``: stored transitions, oldest first, whose last has the metric and labels that
    receivers know. Such an end belongs to no slot; ``at`` stands for it.
    """
    # A rule that only changed keeps its alert; only one that is gone ends it.
    rules = {
        comparison.name: {rule.alert: rule for rule in comparison.judging.rules}
        for comparison in comparisons
    }
    last = {(cause.comparison, cause.alert, cause.segment): cause for cause in causes}
    # Quiet states have nothing to end, and would go on from where they are if their rule came back.
    alarmed = (state for state in states if state.state is not State.QUIET)
    return tuple(
        _end(state, last.get((state.comparison, state.alert, state.segment)), why, at)
        for state in alarmed
        if (why := _why(state, rules)) is not None
    )


def _why(state: AlertState, rules: dict[str, dict[str, Rule]]) -> str | None:
    if state.comparison not in rules:
        return Removed.COMPARISON.value
    rule = rules[state.comparison].get(state.alert)
    if rule is None:
        return Removed.RULE.value
    if rule.segments in ("each", "named"):
        return None
    watched = (ALL,) if rule.segments == "all" else rule.segments
    return None if state.segment in watched else Removed.SEGMENT.value


def _end(state: AlertState, cause: Transition | None, reason: str, at: datetime) -> Transition:
    return Transition(
        comparison=state.comparison,
        alert=state.alert,
        segment=state.segment,
        slot=at,
        at=at,
        from_state=state.state,
        to_state=State.QUIET,
        reason=reason,
        direction=cause.direction if cause else Direction.BELOW,
        threshold=state.threshold,
        metric=cause.metric if cause else "unknown",
        statistic=cause.statistic if cause else "unknown",
        severity=state.severity,
        since=state.since,
        dedup_key=state.dedup_key,
        runbook_url=cause.runbook_url if cause else None,
        labels=cause.labels if cause else {},
        incident=state.incident,
    )
