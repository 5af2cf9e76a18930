"""The state machine of one alert on one segment: quiet, pending, firing.

It also ends the alerts that nothing watches any more.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from monitor.immutable import immutable
from monitor.model.alerts import AlertState, Outcome, Removed, State, Transition, Verdict
from monitor.model.rankings import ALL
from monitor.model.rules import Comparison, Rule
from monitor.texts.root_causes import write_removed
from monitor.texts.wording import count_of

INSTALLATION = "installation"
"""The label of alerts that names the installation."""


@immutable
class Evaluation:
    """One evaluation of one rule."""

    comparison: str
    segment: str
    slot: datetime
    at: datetime  # when it is judged
    learned_limit: float | None = None  # for this run
    # Part of the keys of firings if the rule has no label `INSTALLATION`, so that they are unique
    installation: str = ""


def advance(
    rule: Rule,
    verdict: Verdict,
    previous: AlertState | None,
    evaluation: Evaluation,
) -> tuple[AlertState, Transition | None]:
    """Move the state by one verdict. Returns the transition too if the state changed.

    - quiet: a breach makes it pending, or firing with ``for_runs=1``.
    - pending: the ``for_runs``-th breach in a row makes it firing, and ok makes it quiet.
    - firing: the ``resolve_after``-th recovered run in a row makes it quiet. A breach, and an ok
      that is not recovered, start the count again.

    ``no_data``, ``too_few`` and ``error`` change neither state nor streak. The state then has their
    outcome and reason. If they are ignored, the state becomes quiet, and the reason says that it
    was not seen to recover.

    A slot that is not newer than ``judged_slot`` changes nothing. If the threshold or ``for`` of a
    rule was changed, the stored state continues: a firing alert keeps its key and severity.
    """
    # A slot that is run again, or an older one, must not count a breach twice.
    if previous is not None and evaluation.slot <= previous.judged_slot:
        return previous, None
    was = State.QUIET
    streak = 0
    if previous is not None:
        was = previous.state
        streak = previous.streak
    now, streak = _step(was, streak, verdict, rule)
    if verdict.is_ignored and now is not was:
        verdict = replace(verdict, reason=f"{verdict.reason}: ended, but not seen to recover")
    if now is State.FIRING and verdict.is_recovered:
        left = count_of(rule.resolve_after - streak, "more such run")
        more = f"it is still firing, and ends after {left}"
        verdict = replace(verdict, reason=f"{verdict.reason}; {more}")
    state = _state(rule, verdict, previous, evaluation, now, streak)
    if now is was:
        return state, None
    return state, _transition(rule, previous, state, evaluation, verdict)


def _step(
    state: State,
    streak: int,
    verdict: Verdict,
    rule: Rule,
) -> tuple[State, int]:
    if verdict.outcome not in (Outcome.OK, Outcome.BREACH):
        return (State.QUIET, 0) if verdict.is_ignored else (state, streak)
    # While an alert fires the streak counts recovered runs, before that breaches.
    if state is State.FIRING:
        is_recovered = verdict.outcome is Outcome.OK and verdict.is_recovered
        streak = streak + 1 if is_recovered else 0
        return (State.QUIET, 0) if streak >= rule.resolve_after else (State.FIRING, streak)
    if verdict.outcome is Outcome.OK:
        return State.QUIET, 0
    if streak + 1 < rule.for_runs:
        return State.PENDING, streak + 1
    return State.FIRING, 0


def _state(
    rule: Rule,
    verdict: Verdict,
    previous: AlertState | None,
    evaluation: Evaluation,
    state: State,
    streak: int,
) -> AlertState:
    since = evaluation.slot
    severity = rule.severity
    dedup_key = None
    if previous is not None and previous.state is state:
        since = previous.since
        if state is State.FIRING:
            # Receivers know the firing by its severity and key.
            severity = previous.severity
            dedup_key = previous.dedup_key
    elif state is State.FIRING:
        dedup_key = stable_key(
            evaluation.slot,
            evaluation.comparison,
            rule.alert,
            evaluation.segment,
            rule.labels.get(INSTALLATION, evaluation.installation),
        )
    return AlertState(
        comparison=evaluation.comparison,
        alert=rule.alert,
        segment=evaluation.segment,
        state=state,
        since=since,
        streak=streak,
        judged_slot=evaluation.slot,
        outcome=verdict.outcome,
        reason=verdict.reason,
        value=verdict.value,
        users=verdict.users,
        threshold=rule.threshold if evaluation.learned_limit is None else evaluation.learned_limit,
        severity=severity,
        dedup_key=dedup_key,
    )


def _transition(
    rule: Rule,
    previous: AlertState | None,
    state: AlertState,
    evaluation: Evaluation,
    verdict: Verdict,
) -> Transition:
    was = State.QUIET
    since = evaluation.slot
    severity = rule.severity
    dedup_key = state.dedup_key
    if previous is not None and previous.state is not State.QUIET:
        was = previous.state
        since = previous.since
    if previous is not None and was is State.FIRING:
        # An end has the severity and key of its start.
        severity = previous.severity
        dedup_key = previous.dedup_key
    return Transition(
        comparison=evaluation.comparison,
        alert=rule.alert,
        segment=evaluation.segment,
        slot=evaluation.slot,
        at=evaluation.at,
        from_state=was,
        to_state=state.state,
        reason=state.reason,
        value=state.value,
        direction=rule.direction,
        threshold=state.threshold,
        users=state.users,
        metric=rule.subject.metric,
        statistic=rule.subject.statistic,
        severity=severity,
        since=since,
        dedup_key=dedup_key,
        runbook_url=rule.runbook_url,
        labels=rule.labels,
        is_new_normal=was is State.FIRING and verdict.is_new_normal,
        headline=verdict.headline,
    )


def stable_key(slot: datetime, *names: str) -> str:
    """Key of what begins in the slot with these names. The same on every machine."""
    named = json.dumps([*names, slot.astimezone(UTC).isoformat()])
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def retire_alerts(
    states: Iterable[AlertState],
    causes: Iterable[Transition],
    comparisons: Sequence[Comparison],
    *,
    at: datetime,
) -> tuple[Transition, ...]:
    """Transitions to quiet for every pending or firing state that no rule watches any more.

    Receivers are notified as of any other end. ``comparisons`` are all configured ones. Under
    ``segments: each`` or ``named`` every segment is watched. ``causes`` are stored transitions,
    oldest first. The last one has the metric and labels that receivers know. The ends have no slot,
    so ``at`` takes its place.
    """
    # A rule that only changed keeps its alert.
    rules = {
        comparison.name: {rule.alert: rule for rule in comparison.judging.rules}
        for comparison in comparisons
    }
    last = {(cause.comparison, cause.alert, cause.segment): cause for cause in causes}
    ends = []
    for state in states:
        # A quiet state has nothing to end. It continues if its rule comes back.
        if state.state is not State.QUIET:
            removed = _find_removed(state, rules)
            if removed is not None:
                cause = last.get((state.comparison, state.alert, state.segment))
                ends.append(_end(state, cause, removed, at))
    return tuple(ends)


def _find_removed(state: AlertState, rules: dict[str, dict[str, Rule]]) -> Removed | None:
    if state.comparison not in rules:
        return Removed.COMPARISON
    rule = rules[state.comparison].get(state.alert)
    if rule is None:
        return Removed.RULE
    if rule.segments in ("each", "named"):
        return None
    watched = (ALL,) if rule.segments == "all" else rule.segments
    return None if state.segment in watched else Removed.SEGMENT


def _end(state: AlertState, cause: Transition | None, removed: Removed, at: datetime) -> Transition:
    end = Transition(
        comparison=state.comparison,
        alert=state.alert,
        segment=state.segment,
        slot=at,
        at=at,
        from_state=state.state,
        to_state=State.QUIET,
        reason=write_removed(removed),
        removed=removed,
        threshold=state.threshold,
        metric="unknown",
        statistic="unknown",
        severity=state.severity,
        since=state.since,
        dedup_key=state.dedup_key,
        incident=state.incident,
    )
    if cause is None:
        return end
    return replace(
        end,
        direction=cause.direction,
        metric=cause.metric,
        statistic=cause.statistic,
        runbook_url=cause.runbook_url,
        labels=cause.labels,
    )
