"""Ends of alerts whose rule, segment or comparison is gone from the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from monitor.model import ALL, AlertState, Comparison, Direction, Rule, State, Transition

_LOST = "unknown"


def retire_alerts(
    states: Iterable[AlertState], causes: Iterable[Transition], comparisons: Sequence[Comparison], *, at: datetime
) -> tuple[Transition, ...]:
    """Transitions to quiet for every pending or firing state that no rule looks at any more; announced as any other end.

    ``comparisons`` are all that the configuration holds now; under ``segments: each`` a segment is never gone, however long it
    has had no users. ``causes`` are stored transitions, oldest first: the last one of an alert and segment has the metric and
    labels under which receivers know it, now that the rule is gone. Such an end belongs to no slot; ``at`` stands for it.
    """
    # A rule that only changed keeps its alert; only one that is gone ends it.
    rules = {comparison.name: {rule.alert: rule for rule in comparison.judging.rules} for comparison in comparisons}
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
        return "comparison removed from the configuration"
    rule = rules[state.comparison].get(state.alert)
    if rule is None:
        return "rule removed from the configuration"
    if rule.segments == "each":
        return None
    watched = (ALL,) if rule.segments == "all" else rule.segments
    return None if state.segment in watched else "segment removed from the rule in the configuration"


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
        metric=cause.metric if cause else _LOST,
        statistic=cause.statistic if cause else _LOST,
        severity=state.severity,
        since=state.since,
        dedup_key=state.dedup_key,
        runbook_url=cause.runbook_url if cause else None,
        labels=cause.labels if cause else {},
        incident=state.incident,
    )
