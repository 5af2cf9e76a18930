"""All rules of a comparison over all segments of one run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from monitor.alerts.bounds import doubt
from monitor.alerts.coverage import judge_coverage
from monitor.alerts.frozen import judge_frozen
from monitor.alerts.learned import learn
from monitor.alerts.machine import Look, advance
from monitor.alerts.strangers import judge_stranger
from monitor.alerts.verdicts import judge
from monitor.model import (
    ALL,
    COVERAGE,
    FROZEN,
    AlertState,
    ArmScore,
    Comparison,
    Coverage,
    Expectation,
    Outcome,
    Rule,
    RuleKind,
    RunStatus,
    State,
    Summary,
    Transition,
)


def judge_run(  # noqa: PLR0913 - a run is all of this
    comparison: Comparison,
    *,
    slot: datetime,
    at: datetime,
    status: RunStatus,
    run_reason: str | None,
    summaries: Sequence[Summary],
    states: Sequence[AlertState],
    thin: Mapping[str, str] | None = None,
    coverage: Coverage | None = None,
    expectations: Sequence[Expectation] = (),
    arm_scores: Sequence[ArmScore] = (),
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """Judge one finished run: the new state of every alert looked at, and the transitions, in the order of rules and segments.

    ``states`` are the stored ones of this comparison; those that no rule looks at are not returned. ``at`` is the time of
    judging, ``run_reason`` says why a run is not ok. ``thin`` names segments of which too little was compared, each with the
    reason; ``coverage`` is that of the run, where it got so far, ``arm_scores`` what was measured of each arm. The same
    arguments give the same answer, and a slot judged before none.
    """
    reasons = thin or {}
    learned = {(each.alert, each.segment): each for each in expectations}
    covered = {row.segment: row for row in coverage.rows} if coverage else {}
    measured = {(summary.segment, summary.metric): summary for summary in summaries}
    stored = {(state.alert, state.segment): state for state in states}
    moved: list[AlertState] = []
    transitions: list[Transition] = []
    for rule in comparison.rules:
        for segment in segments_of(rule, covered if rule.metric == COVERAGE else _measured(rule, summaries), states):
            expectation = learned.get((rule.alert, segment))
            summary = measured.get((segment, rule.metric))
            is_strange = bool(covered) and segment not in covered and summary is None  # no user asked belongs to it
            if rule.metric == FROZEN:
                verdict = judge_frozen(rule, status, arm_scores, expectation, run_reason)
            elif is_strange and status is RunStatus.OK:
                verdict = judge_stranger(segment, covered.values())
            elif rule.metric == COVERAGE:
                verdict = judge_coverage(rule, segment, status, covered.get(segment), run_reason)
            else:
                verdict = judge(rule, segment, status, summary, run_reason, reasons.get(segment))
            if rule.kind in (RuleKind.DROP, RuleKind.TREND):
                verdict = learn(rule, verdict, segment, expectation)
            if summary is not None:
                verdict = doubt(rule, verdict, summary, covered.get(segment), expectation)
            look = Look(comparison=comparison.name, segment=segment, slot=slot, at=at)
            previous = stored.get((rule.alert, segment))
            state, transition = advance(_limited(rule, expectation), verdict, previous, look)
            moved.append(state)
            transitions.extend([transition] if transition else [])
    return tuple(moved), tuple(transitions)


def _limited(rule: Rule, expectation: Expectation | None) -> Rule:
    """The rule with the limit that was learned for this run, for states and messages."""
    if expectation is None or expectation.limit is None:
        return rule
    return replace(rule, threshold=expectation.limit, resolve_at=expectation.limit)


def _measured(rule: Rule, summaries: Iterable[Summary]) -> set[str]:
    return {summary.segment for summary in summaries if summary.metric == rule.metric}


def segments_of(rule: Rule, measured: Collection[str], states: Iterable[AlertState]) -> tuple[str, ...]:
    """Segments that the rule looks at in this run, ``all`` first, then by name; named ones in the rule's order.

    ``each`` is ``all``, every segment in ``measured``, and those that are not measured now but are in alarm or had data when
    this rule was judged last: none goes on to read as ok when it has vanished or the run has failed.
    """
    if rule.segments == "all":
        return (ALL,)
    if rule.segments != "each":
        return tuple(dict.fromkeys(rule.segments))
    known = _known([state for state in states if state.alert == rule.alert])
    return (ALL, *sorted({*measured, *known} - {ALL}))


def _known(states: Sequence[AlertState]) -> set[str]:
    newest = max((state.judged_slot for state in states), default=None)
    return {
        state.segment
        for state in states
        if state.state is not State.QUIET or (state.judged_slot == newest and state.outcome is not Outcome.NO_DATA)
    }
