"""What one run measured as rules read it, and the evaluation of all rules of a comparison over all segments."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from monitor.alerts.conditions import STILL, apply_ignored, judge_condition, judge_standstill
from monitor.alerts.machine import Evaluation, advance
from monitor.alerts.unmatched import named_segments
from monitor.alerts.verdicts import (
    BOTH_FAILED,
    Reading,
    apply_bounds,
    describe_lost,
    judge_reading,
    judge_unknown_segment,
    read_coverage,
    read_similarity,
    undecided,
    with_cause,
)
from monitor.model.alerts import (
    AlertState,
    Expectation,
    Outcome,
    Standstill,
    State,
    Transition,
    Verdict,
)
from monitor.model.comparison import Comparison
from monitor.model.memory import Memory
from monitor.model.rankings import ALL, Arm, Coverage, CoverageRow
from monitor.model.rules import (
    ConditionRule,
    CoverageRule,
    Rule,
    RuleKind,
    SeriesRule,
    SimilarityRule,
    StandstillRule,
)
from monitor.model.runs import ArmScore, Findings, RunStatus, Summary, untrusted_floor
from monitor.model.statistics import TRAITS, CoverageShare, Lack, parse_derived

NOT_AWAITED = "no rule and no alert waits for data of the segment any more"


@dataclass(frozen=True, slots=True)
class Figures:
    """Summaries by segment and metric, coverage by segment where somebody was asked, and the traits that the run tells of."""

    summaries: Mapping[tuple[str, str], Summary]
    coverage: Mapping[str, CoverageRow]
    traits: Mapping[tuple[str, CoverageShare], Reading]

    @classmethod
    def of(
        cls,
        summaries: Iterable[Summary],
        rows: Iterable[CoverageRow] = (),
        scores: Sequence[ArmScore] = (),
    ) -> Self:
        """Of a run's summaries, coverage and arm-wide metrics.

        Unchanged lists only where lists of other users changed.
        """
        found = {
            (each.segment, CoverageShare(Lack(each.metric), each.arm)): Reading(
                each.value, each.n, each.segment
            )
            for each in scores
            if each.metric in TRAITS and each.value is not None
        }
        traits = {
            (segment, share): reading
            for (segment, share), reading in found.items()
            if share.lack is not Lack.UNCHANGED
            or _have_others_moved(reading, found.get((ALL, share)))
        }
        by_name = {(each.segment, each.metric): each for each in summaries}
        return cls(by_name, {row.segment: row for row in rows if row.asked}, traits)

    def find_share(self, segment: str, share: CoverageShare) -> Reading | None:
        """The share in the segment, None where it is not known."""
        if share.lack in TRAITS:
            return self.traits.get((segment, share))
        row = self.coverage.get(segment)
        return None if row is None else Reading(share.count(row) / row.asked, row.asked, segment)

    def segments(self, rule: SeriesRule) -> set[str]:
        """The segments in which the rule's series was measured."""
        if isinstance(rule, SimilarityRule):
            return {segment for segment, metric in self.summaries if metric == rule.metric}
        if rule.share.lack in TRAITS:
            return {segment for segment, share in self.traits if share == rule.share}
        return set(self.coverage)


def _have_others_moved(part: Reading, whole: Reading | None) -> bool:
    """Whether lists outside of the segment changed; any list, where it has no outside."""
    if whole is None:
        return False
    rest = part._replace(users=0) if part.users == whole.users else part
    moved, moved_here = (each.users * (1.0 - each.value) for each in (whole, rest))
    # Fewer, and the arm was not trained: such lists are no news, and for how long it stands still
    # another rule tells.
    return moved - moved_here > STILL * (whole.users - rest.users)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run as rules look at it: what it measured, by segment, by alert and segment."""

    found: Findings
    figures: Figures
    thin: Mapping[str, str]
    expectations: Mapping[tuple[str, str], Expectation]
    standstills: Mapping[str, Standstill]
    verdicts: Mapping[str, Sequence[Verdict]] = field(
        default_factory=dict
    )  # of rules that measure, for conditions
    awaited: frozenset[str] = (
        frozenset()
    )  # segments that rules name, or in which an alert fires that has no data

    def is_unknown(self, segment: str) -> bool:
        """Whether nobody asked belongs to the segment, although it is known who was asked."""
        return bool(self.figures.coverage) and segment not in self.figures.coverage


def evaluate_rules(
    comparison: Comparison,
    found: Findings,
    memory: Memory,
    at: datetime,
    *,
    expectations: Sequence[Expectation] = (),
    standstills: Sequence[Standstill] = (),
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """Judge one finished run: the new state of every alert looked at, and the transitions, in the order of rules and segments.

    Rules on conditions come last: they look at the verdicts of the others. States that no rule looks at are not returned.
    """
    measured, rules, states = found.measured, comparison.judging.rules, memory.states
    run = _Run(
        found=found,
        figures=Figures.of(
            measured.summaries,
            measured.coverage.rows if measured.coverage else (),
            measured.arm_scores,
        ),
        thin=thin_segments(measured.coverage, comparison.judging.min_paired_share),
        expectations={(each.alert, each.segment): each for each in expectations},
        standstills={each.alert: each for each in standstills},
    )
    on_drift = [
        each
        for rule in rules
        if rule.kind is not RuleKind.CONDITION
        for each in _evaluate(rule, run, states)
    ]
    # Where a segment has verdicts on similarity, those on coverage do not decide whether it had
    # data.
    run = replace(
        run,
        verdicts=_by_segment(on_drift, RuleKind.COVERAGE)
        | _by_segment(on_drift, RuleKind.SIMILARITY),
    )
    # A condition of a segment that nobody belongs to any more matters only while its alert lasts.
    alarmed = [state for state in states if state.state is not State.QUIET]
    run = replace(run, awaited=_find_awaited(rules, run, alarmed))
    on_conditions = [
        each
        for rule in rules
        if rule.kind is RuleKind.CONDITION
        for each in _evaluate(rule, run, alarmed)
    ]
    stored = {(state.alert, state.segment): state for state in states}
    moved: list[AlertState] = []
    transitions: list[Transition] = []
    for rule, segment, verdict in (*on_drift, *on_conditions):
        learned = run.expectations.get((rule.alert, segment)) or run.standstills.get(rule.alert)
        evaluation = Evaluation(
            comparison=comparison.name,
            segment=segment,
            slot=found.slot,
            at=at,
            learned_limit=None
            if learned is None or learned.limit is None
            else float(learned.limit),
            installation=memory.installation,
        )
        counted = apply_ignored(verdict, comparison.judging.ignored)
        state, transition = advance(rule, counted, stored.get((rule.alert, segment)), evaluation)
        moved.append(state)
        transitions.extend([transition] if transition else [])
    return tuple(moved), tuple(transitions)


def thin_segments(coverage: Coverage | None, min_paired_share: float) -> dict[str, str]:
    """Segments of which too small a share was compared, with the figures: they are neither shown nor judged as the whole."""
    return {
        row.segment: (
            f"{row.paired:,} of {row.asked:,} users, under min_paired_share {min_paired_share:.0%}"
        )
        for row in (coverage.rows if coverage else ())
        if row.segment != ALL and row.paired < min_paired_share * row.asked
    }


def _evaluate(
    rule: Rule, run: _Run, states: Sequence[AlertState]
) -> Iterator[tuple[Rule, str, Verdict]]:
    measured = run.figures.segments(rule) if isinstance(rule, SeriesRule) else run.verdicts
    segments = segments_of(rule, measured, states)
    if rule.segments == "named":
        lasting = {state.segment for state in states if state.alert == rule.alert}
        segments = (ALL, *sorted((run.awaited | lasting) - {ALL}))
    for segment in segments:
        verdict = JUDGES[rule.kind](rule, segment, run)
        if verdict is not None:
            yield rule, segment, verdict


def _judge_similarity(rule: SimilarityRule, segment: str, run: _Run) -> Verdict:
    found, summary = run.found, run.figures.summaries.get((segment, rule.metric))
    if parse_derived(rule.metric)[0] and (doubt := untrusted_floor(found.reason)):
        return undecided(Outcome.NO_DATA, doubt)
    if summary is None and run.is_unknown(segment) and found.status is RunStatus.OK:
        return judge_unknown_segment(segment, run.figures.coverage.values())
    expectation = run.expectations.get((rule.alert, segment))
    reading = read_similarity(
        rule, segment, found.status, summary, found.reason, run.thin.get(segment)
    )
    verdict = judge_reading(rule, reading, expectation)
    bounded = (
        verdict
        if summary is None
        else apply_bounds(rule, verdict, summary, run.figures.coverage.get(segment), expectation)
    )
    return (
        bounded
        if bounded.outcome is verdict.outcome
        else replace(bounded, reason=with_cause(bounded.reason, found.reason))
    )


def _judge_coverage(rule: CoverageRule, segment: str, run: _Run) -> Verdict:
    if run.is_unknown(segment) and run.found.status is RunStatus.OK:
        return judge_unknown_segment(segment, run.figures.coverage.values())
    reading = read_coverage(
        rule,
        segment,
        run.found.status,
        run.figures.find_share(segment, rule.share),
        run.found.reason,
    )
    verdict = judge_reading(rule, reading, run.expectations.get((rule.alert, segment)))
    is_failure = (
        rule.share.lack in (Lack.FAILED, Lack.UNPAIRED) and verdict.outcome is Outcome.BREACH
    )
    return _with_failures(verdict, run.found, rule.share.arm) if is_failure else verdict


def _with_failures(verdict: Verdict, found: Findings, arm: Arm | None) -> Verdict:
    """The verdict with what failed right behind of how many, before what is normal."""
    (many, _, normal), told = verdict.reason.partition(", "), found.reason or ""
    if not told.startswith(BOTH_FAILED):
        # The verdict has said already of how many, the run perhaps of the other arm first.
        lost = (
            ""
            if arm is None
            else describe_lost(arm, round((verdict.value or 0.0) * verdict.users), verdict.users)
        )
        others, _, own = told.rpartition(f"{lost}: ") if lost else ("", "", told)
        told = with_cause(many, "; ".join(filter(None, (own, others.rstrip("; :")))))
    return replace(verdict, reason=f"{told}; {normal}")


def _judge_standstill(rule: StandstillRule, _segment: str, run: _Run) -> Verdict:
    found = run.found
    return judge_standstill(
        rule, found.status, found.measured.arm_scores, run.standstills.get(rule.alert), found.reason
    )


def _find_awaited(
    rules: Sequence[Rule], run: _Run, alarmed: Iterable[AlertState]
) -> frozenset[str]:
    on_drift = {rule.alert for rule in rules if rule.kind is not RuleKind.CONDITION}
    firing = {
        state.segment
        for state in alarmed
        if state.state is State.FIRING and state.alert in on_drift
    }
    lacking = {
        name
        for name in firing
        if any(each.outcome is Outcome.NO_DATA for each in run.verdicts.get(name, ()))
    }
    return frozenset({*lacking, *named_segments(rules)})


def _judge_condition(rule: ConditionRule, segment: str, run: _Run) -> Verdict | None:
    if rule.segments == "named" and segment != ALL:
        if run.found.status is not RunStatus.OK:
            return None  # the alert of all users says so
        if segment not in run.awaited:
            return Verdict(
                outcome=Outcome.OK, reason=NOT_AWAITED, value=None, users=0, is_recovered=True
            )
    is_unknown = run.is_unknown(segment) and segment not in run.verdicts
    return judge_condition(
        rule,
        run.found.status,
        run.found.reason,
        run.verdicts.get(segment, ()),
        is_unknown=is_unknown,
    )


JUDGES: Mapping[RuleKind, Callable[[Any, str, _Run], Verdict | None]] = {
    RuleKind.SIMILARITY: _judge_similarity,
    RuleKind.COVERAGE: _judge_coverage,
    RuleKind.STANDSTILL: _judge_standstill,
    RuleKind.CONDITION: _judge_condition,
}


def _by_segment(
    evaluated: Iterable[tuple[Rule, str, Verdict]], kind: RuleKind
) -> dict[str, Sequence[Verdict]]:
    verdicts: dict[str, list[Verdict]] = defaultdict(list)
    for rule, segment, verdict in evaluated:
        if rule.kind is kind:
            verdicts[segment].append(verdict)
    return dict(verdicts)


def segments_of(
    rule: Rule, measured: Collection[str], states: Iterable[AlertState]
) -> tuple[str, ...]:
    """Segments that the rule looks at in this run, ``all`` first, then by name.

    Named ones in the rule's order.

    ``each``: ``all``, those ``measured``, and those in alarm or with data when this rule was judged
    last."""
    if isinstance(rule.segments, str) and rule.segments != "each":
        return (ALL,)
    if rule.segments != "each":
        return tuple(dict.fromkeys(rule.segments))
    # None may go on to read as ok when it has vanished or the run has failed.
    mine = [state for state in states if state.alert == rule.alert]
    newest = max((state.judged_slot for state in mine), default=None)
    had_data = (
        state
        for state in mine
        if state.judged_slot == newest and state.outcome is not Outcome.NO_DATA
    )
    alarmed = (state for state in mine if state.state is not State.QUIET)
    return (ALL, *sorted({*measured, *(state.segment for state in (*had_data, *alarmed))} - {ALL}))
