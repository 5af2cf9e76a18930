"""The state machine of one alert on one segment: quiet, pending, firing.

It also ends the alerts that no rule judges any more.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

from monitor.model.alerts import AlertState, Outcome, Removed, State, Transition, Verdict
from monitor.model.immutable import immutable
from monitor.model.rules import Comparison, Rule, RuleKind
from monitor.texts.root_causes import write_removed
from monitor.texts.wording import count_of

JudgedRule: TypeAlias = tuple[Rule, str, Verdict]
"""A rule, a segment in which it was judged, and the verdict."""
INSTALLATION_LABEL = "installation"
"""The alert label that names the installation."""


@immutable
class Evaluation:
    """When one rule was judged, and in which comparison and segment."""

    comparison: str
    segment: str
    slot: datetime
    at: datetime  # when the rule is judged
    learned_limit: float | None = None  # the learned limit for this run
    # Makes the keys of firings unique among installations. It is used if the rule has no label
    # `INSTALLATION_LABEL`.
    installation: str = ""


def advance(
    rule: Rule,
    verdict: Verdict,
    previous: AlertState | None,
    evaluation: Evaluation,
) -> tuple[AlertState, Transition | None]:
    """Move the state by one verdict. Returns the transition too if the state changed.

    - quiet: a breach makes the state pending. With ``for_runs=1`` it makes the state firing.
    - pending: ``for_runs`` breaches in a row make the state firing. One ok makes it quiet.
    - firing: ``resolve_after`` recovered runs in a row make the state quiet. A breach restarts this
      count. So does an ok that is not recovered.

    ``no_data``, ``too_few`` and ``error`` change neither the state nor the streak. They only
    replace the state's outcome and reason. If such an outcome is ignored, the state becomes quiet.
    The reason then says that the alert was not seen to recover.

    A slot older than ``judged_slot`` changes nothing. If the slot ``judged_slot`` runs again, this
    verdict replaces the verdict of the earlier attempt. An alert that this attempt started goes on
    firing until it recovers. If somebody changes the threshold or ``for`` of a rule, the stored
    state continues. A firing alert keeps its key and severity.
    """
    was = State.QUIET  # the stored state
    state_before = State.QUIET  # the state without an earlier attempt of this slot
    streak = 0
    if previous is not None:
        if evaluation.slot < previous.judged_slot:
            return previous, None
        was = previous.state
        state_before, streak = _before_slot(previous, evaluation.slot)
    now, streak = _next_state(state_before, streak, verdict, rule)
    if verdict.is_ignored and now is not was:
        verdict = replace(
            verdict, reason=f"{verdict.reason}; the alert ended, but was not seen to recover"
        )
    if now is State.FIRING and verdict.is_recovered:
        left = count_of(rule.resolve_after - streak, "more such run")
        more = f"it is still firing, and ends after {left}"
        verdict = replace(verdict, reason=f"{verdict.reason}; {more}")
    state = _make_state(rule, verdict, previous, evaluation, now, streak)
    if now is was:
        return state, None
    return state, _make_transition(rule, previous, state, evaluation, verdict)


def _before_slot(previous: AlertState, slot: datetime) -> tuple[State, int]:
    """Return state and streak without the verdict of an earlier attempt of this slot.

    So a breach or a recovered run counts once, although its slot runs again.
    """
    state = previous.state
    streak = previous.streak
    is_again = slot == previous.judged_slot
    if is_again and streak and previous.outcome in (Outcome.OK, Outcome.BREACH):
        streak -= 1
    if state is State.PENDING and streak == 0:
        state = State.QUIET
    return state, streak


def _next_state(
    state: State,
    streak: int,
    verdict: Verdict,
    rule: Rule,
) -> tuple[State, int]:
    """Return the state and the streak after the verdict."""
    if verdict.outcome not in (Outcome.OK, Outcome.BREACH):
        return (State.QUIET, 0) if verdict.is_ignored else (state, streak)
    # The streak counts recovered runs while an alert fires, and breaches before it fires.
    if state is State.FIRING:
        is_recovered = verdict.outcome is Outcome.OK and verdict.is_recovered
        streak = streak + 1 if is_recovered else 0
        return (State.QUIET, 0) if streak >= rule.resolve_after else (State.FIRING, streak)
    if verdict.outcome is Outcome.OK:
        return State.QUIET, 0
    if streak + 1 < rule.for_runs:
        return State.PENDING, streak + 1
    return State.FIRING, 0


def _make_state(
    rule: Rule,
    verdict: Verdict,
    previous: AlertState | None,
    evaluation: Evaluation,
    state: State,
    streak: int,
) -> AlertState:
    """Return the alert in this state. If it was in the state before, it keeps its beginning."""
    since = evaluation.slot
    severity = rule.severity
    dedup_key = None
    if previous is not None and previous.state is state:
        since = previous.since
        if state is State.FIRING:
            # Receivers identify the firing by its severity and key, so both stay the same.
            severity = previous.severity
            dedup_key = previous.dedup_key
    elif state is State.FIRING:
        dedup_key = stable_key(
            evaluation.slot,
            evaluation.comparison,
            rule.alert,
            evaluation.segment,
            rule.labels.get(INSTALLATION_LABEL, evaluation.installation),
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


def _make_transition(
    rule: Rule,
    previous: AlertState | None,
    state: AlertState,
    evaluation: Evaluation,
    verdict: Verdict,
) -> Transition:
    """Return the change from the ``previous`` state to ``state``."""
    # A transition from quiet begins now, and all other transitions have the beginning of the state
    # that they end. An end also has the severity and key of its start.
    was = State.QUIET
    since = evaluation.slot
    severity = rule.severity
    dedup_key = state.dedup_key
    if previous is not None and previous.state is not State.QUIET:
        was = previous.state
        since = previous.since
        if was is State.FIRING:
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
        kind=rule.kind,
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
    """Return the key of a firing or incident that begins in the slot.

    It is equal on every machine.
    """
    named = json.dumps([*names, slot.astimezone(UTC).isoformat()])
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def retire_alerts(
    states: Iterable[AlertState],
    starts: Iterable[Transition],
    comparisons: Sequence[Comparison],
    *,
    at: datetime,
) -> tuple[Transition, ...]:
    """End every pending or firing state that no rule judges any more.

    Returns the transitions to quiet. Receivers get them like any other end of an alert. No run
    caused these ends, so their slot is ``at``.

    ``comparisons`` are all configured comparisons. Rules with ``segments: each`` or ``named`` judge
    every segment. ``starts`` are the starts of the current firings, oldest first. The end of a
    firing gets its metric and labels from the start.
    """
    # If a rule has changed but still exists, its alert continues.
    rules = {
        comparison.name: {rule.alert: rule for rule in comparison.judging.rules}
        for comparison in comparisons
    }
    start_of = {(start.comparison, start.alert, start.segment): start for start in starts}
    ends = []
    for state in states:
        removed = _find_removed(state, rules)
        # A quiet state needs no end. It continues if its rule comes back.
        if removed is not None and state.state is not State.QUIET:
            start = start_of.get((state.comparison, state.alert, state.segment))
            ends.append(_end_alert(state, start, removed, at))
    return tuple(ends)


def _find_removed(state: AlertState, rules: dict[str, dict[str, Rule]]) -> Removed | None:
    """Return why no rule judges the alert any more. None if one does."""
    if state.comparison not in rules:
        return Removed.COMPARISON
    rule = rules[state.comparison].get(state.alert)
    if rule is None:
        return Removed.RULE
    return None if rule.may_judge(state.segment) else Removed.SEGMENT


def _end_alert(
    state: AlertState, start: Transition | None, removed: Removed, at: datetime
) -> Transition:
    """Return the end of an alert that no rule judges.

    Its metric is known only from the ``start`` of the firing. A pending alert has no start.
    """
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
        kind=RuleKind.SIMILARITY,
        metric="unknown",
        statistic="unknown",
        severity=state.severity,
        since=state.since,
        dedup_key=state.dedup_key,
        incident=state.incident,
    )
    if start is None:
        return end
    return replace(
        end,
        direction=start.direction,
        kind=start.kind,
        metric=start.metric,
        statistic=start.statistic,
        runbook_url=start.runbook_url,
        labels=start.labels,
    )
