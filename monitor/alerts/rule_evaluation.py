"""Evaluation of all rules of a comparison over all segments of one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.alerts.conditions import apply_ignored, judge_condition
from monitor.alerts.limits import apply_bounds, judge_learned
from monitor.alerts.machine import Evaluation, advance
from monitor.alerts.verdicts import judge_coverage, judge_similarity, judge_standstill, judge_unknown_segment
from monitor.model import (
    ALL,
    COVERAGE,
    FROZEN,
    UNMEASURED,
    AlertState,
    ArmScore,
    Comparison,
    Coverage,
    CoverageRow,
    Expectation,
    Outcome,
    Rule,
    RuleKind,
    RunStatus,
    State,
    Summary,
    Transition,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run as rules look at it: by segment, by segment and metric, by alert and segment."""

    status: RunStatus
    reason: str | None
    summaries: Mapping[tuple[str, str], Summary]
    covered: Mapping[str, CoverageRow]
    thin: Mapping[str, str]
    learned: Mapping[tuple[str, str], Expectation]
    arm_scores: Sequence[ArmScore]
    states: Sequence[AlertState]


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """What one rule, with the limit of this run, says of one segment."""

    rule: Rule
    segment: str
    verdict: Verdict


def evaluate_rules(  # noqa: PLR0913 - a run is all of this
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

    Rules on conditions come last, for they look at what the others say. ``states`` are the stored ones of this comparison;
    those that no rule looks at are not returned. ``at`` is the time of judging, ``run_reason`` says why a run is not ok.
    ``thin`` names segments of which too little was compared, each with the reason; ``coverage`` is that of the run, where it
    got so far, ``arm_scores`` what was measured of each arm. The same arguments give the same answer, and a slot judged before
    none.
    """
    given = _Run(
        status=status,
        reason=run_reason,
        summaries={(summary.segment, summary.metric): summary for summary in summaries},
        covered={row.segment: row for row in coverage.rows} if coverage else {},
        thin=thin or {},
        learned={(each.alert, each.segment): each for each in expectations},
        arm_scores=arm_scores,
        states=states,
    )
    on_drift = [*_judge_rules(comparison.rules, given)]
    stored = {(state.alert, state.segment): state for state in states}
    moved: list[AlertState] = []
    transitions: list[Transition] = []
    for each in (*on_drift, *_judge_conditions(comparison.rules, given, on_drift)):
        look = Evaluation(comparison=comparison.name, segment=each.segment, slot=slot, at=at)
        verdict, previous = apply_ignored(each.verdict, comparison.ignored), stored.get((each.rule.alert, each.segment))
        state, transition = advance(each.rule, verdict, previous, look)
        moved.append(state)
        transitions.extend([transition] if transition else [])
    return tuple(moved), tuple(transitions)


def _judge_rules(rules: Iterable[Rule], given: _Run) -> Iterator[_Evaluated]:
    for rule in (rule for rule in rules if rule.kind is not RuleKind.CONDITION):
        measured = (
            given.covered if rule.metric == COVERAGE else {name for name, metric in given.summaries if metric == rule.metric}
        )
        for segment in segments_of(rule, measured, given.states):
            expectation = given.learned.get((rule.alert, segment))
            yield _Evaluated(_limited(rule, expectation), segment, _judge(rule, segment, given, expectation))


def _judge(rule: Rule, segment: str, given: _Run, expectation: Expectation | None) -> Verdict:
    if rule.metric == FROZEN:
        return judge_standstill(rule, given.status, given.arm_scores, expectation, given.reason)
    summary, row = given.summaries.get((segment, rule.metric)), given.covered.get(segment)
    is_strange = bool(given.covered) and row is None and summary is None  # no user asked belongs to it
    if is_strange and given.status is RunStatus.OK:
        verdict = judge_unknown_segment(segment, given.covered.values())
    elif rule.metric == COVERAGE:
        verdict = judge_coverage(rule, segment, given.status, row, given.reason)
    else:
        verdict = judge_similarity(rule, segment, given.status, summary, given.reason, given.thin.get(segment))
    if rule.kind in (RuleKind.DROP, RuleKind.TREND):
        verdict = judge_learned(rule, verdict, segment, expectation)
    return verdict if summary is None else apply_bounds(rule, verdict, summary, row, expectation)


def _judge_conditions(rules: Iterable[Rule], given: _Run, judged: Sequence[_Evaluated]) -> Iterator[_Evaluated]:
    """What can be said of conditions, from what was said of similarity, or else of coverage; never from a standstill alone."""
    similar, covered = (_by_segment(judged, is_similar=is_similar) for is_similar in (True, False))
    said = {**covered, **similar}
    alarmed = [state for state in given.states if state.state is not State.QUIET]
    for rule in (rule for rule in rules if rule.kind is RuleKind.CONDITION):
        for segment in segments_of(rule, said, alarmed):
            is_strange = bool(given.covered) and segment not in given.covered and segment not in said
            verdict = judge_condition(rule, given.status, given.reason, said.get(segment, ()), is_strange=is_strange)
            if verdict is not None:
                yield _Evaluated(rule, segment, verdict)


def _by_segment(judged: Iterable[_Evaluated], *, is_similar: bool) -> dict[str, list[Verdict]]:
    """What rules on similarity, or else on coverage, say of each segment."""
    said: dict[str, list[Verdict]] = defaultdict(list)
    for each in judged:
        metric = each.rule.metric
        if metric not in UNMEASURED if is_similar else metric == COVERAGE:
            said[each.segment].append(each.verdict)
    return said


def _limited(rule: Rule, expectation: Expectation | None) -> Rule:
    """The rule with the limit that was learned for this run, for states and messages."""
    if expectation is None or expectation.limit is None:
        return rule
    return replace(rule, threshold=expectation.limit, resolve_at=expectation.limit)


def segments_of(rule: Rule, measured: Collection[str], states: Iterable[AlertState]) -> tuple[str, ...]:
    """Segments that the rule looks at in this run, ``all`` first, then by name; named ones in the rule's order.

    ``each`` is ``all``, every segment in ``measured``, and those that are not measured now but are in alarm or had data when
    this rule was judged last: none goes on to read as ok when it has vanished or the run has failed.
    """
    if rule.segments == "all":
        return (ALL,)
    if rule.segments != "each":
        return tuple(dict.fromkeys(rule.segments))
    known = _known_segments([state for state in states if state.alert == rule.alert])
    return (ALL, *sorted({*measured, *known} - {ALL}))


def _known_segments(states: Sequence[AlertState]) -> set[str]:
    newest = max((state.judged_slot for state in states), default=None)
    return {
        state.segment
        for state in states
        if state.state is not State.QUIET or (state.judged_slot == newest and state.outcome is not Outcome.NO_DATA)
    }
