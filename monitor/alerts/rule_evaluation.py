"""Judges what one run measured: all rules of a comparison on all segments."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Self

from monitor.alerts.conditions import (
    STILL,
    apply_ignored,
    judge_condition,
    judge_reason,
    judge_standstill,
)
from monitor.alerts.state_machine import Evaluation, JudgedRule, advance
from monitor.alerts.unmatched_names import named_segments
from monitor.alerts.verdicts import (
    Reading,
    apply_bounds,
    judge_reading,
    judge_unknown_segment,
    read_coverage,
    read_similarity,
    verdict_without_value,
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
from monitor.model.immutable import immutable
from monitor.model.memory import Memory
from monitor.model.rankings import ALL, Coverage, CoverageRow
from monitor.model.rules import (
    UNPAIRED_CONDITIONS,
    Comparison,
    Condition,
    ConditionRule,
    CoverageRule,
    Rule,
    RuleKind,
    SeriesRule,
    SimilarityRule,
    StandstillRule,
    is_learned,
)
from monitor.model.run_reasons import RunReasonKind, find_reason
from monitor.model.runs import ArmScore, MeasuredRun, RunStatus, Summary
from monitor.model.statistics import MEASURED_TRAITS, CoverageShare, ListTrait, parse_derived
from monitor.texts.run_reasons import (
    with_cause,
    write_failures,
    write_run_reason,
    write_run_reasons,
)
from monitor.texts.wording import write_percent

NOT_AWAITED = "no rule and no alert waits for data of the segment any more"


@immutable
class Figures:
    """Summaries by segment and metric, coverage by segment, and shares of users by trait."""

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
        """Return the figures of a run.

        The share of unchanged lists of a segment is left out if the other users' lists did not
        change either.
        """
        shares: dict[tuple[str, CoverageShare], Reading] = {}
        for score in scores:
            if score.metric in MEASURED_TRAITS and score.value is not None:
                share = CoverageShare(ListTrait(score.metric), score.arm)
                shares[score.segment, share] = Reading(score.value, score.n, score.segment)
        traits = {}
        for (segment, share), reading in shares.items():
            everybody = shares.get((ALL, share))
            if share.trait is not ListTrait.UNCHANGED or _have_others_moved(reading, everybody):
                traits[segment, share] = reading
        return cls(
            summaries={(summary.segment, summary.metric): summary for summary in summaries},
            coverage={row.segment: row for row in rows if row.asked},
            traits=traits,
        )

    def find_share(self, segment: str, share: CoverageShare) -> Reading | None:
        """Return the share of users in the segment. None if it is not known."""
        if share.trait in MEASURED_TRAITS:
            return self.traits.get((segment, share))
        row = self.coverage.get(segment)
        asked = share.count_asked(row) if row else 0
        if row is None or not asked:
            return None
        return Reading(share.count(row) / asked, asked, segment)

    def segments(self, rule: SeriesRule) -> set[str]:
        """Return the segments in which the rule's series was measured."""
        if isinstance(rule, SimilarityRule):
            return {segment for segment, metric in self.summaries if metric == rule.metric}
        if rule.share.trait in MEASURED_TRAITS:
            return {segment for segment, share in self.traits if share == rule.share}
        return set(self.coverage)


def _have_others_moved(segment: Reading, everybody: Reading | None) -> bool:
    """Return whether lists of users outside of the segment changed.

    If the segment contains all users, the answer is whether any list changed. ``everybody`` is None
    if the lists of all users were not compared.
    """
    if everybody is None:
        return False
    others = everybody.users
    moved = everybody.users * (1.0 - everybody.value)
    if segment.users != everybody.users:
        others -= segment.users
        moved -= segment.users * (1.0 - segment.value)
    # If fewer lists changed, the arm was not trained. A rule on standstill judges how long this
    # lasts.
    return moved > STILL * others


@immutable
class _Run:
    """The values of one run that rules read."""

    measured: MeasuredRun
    figures: Figures
    thin: Mapping[str, str]  # the segments with too few compared users, see `thin_segments`
    expectations: Mapping[tuple[str, str], Expectation]
    standstills: Mapping[str, Standstill]
    # Verdicts of the rules on drift, by segment. The rules on conditions read them.
    verdicts: Mapping[str, Sequence[Verdict]] = field(default_factory=dict)
    # Segments that should have data. A rule names them, or an alert fires there without data.
    awaited: frozenset[str] = frozenset()

    def is_unknown(self, segment: str) -> bool:
        """Return whether the coverage shows that the segment has no users."""
        return bool(self.figures.coverage) and segment not in self.figures.coverage


def evaluate_rules(
    comparison: Comparison,
    measured: MeasuredRun,
    memory: Memory,
    at: datetime,
    *,
    expectations: Sequence[Expectation],
    standstills: Sequence[Standstill],
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """Judge one finished run. Returns the new states and the transitions, by rule and segment.

    Rules on conditions are judged last, since they read the verdicts of the other rules. States
    that no rule judged in this run are not returned.
    """
    rules = comparison.judging.rules
    states = memory.states
    rows = measured.coverage.rows if measured.coverage else ()
    run = _Run(
        measured=measured,
        figures=Figures.of(measured.summaries, rows, measured.arm_scores),
        thin=thin_segments(measured.coverage, comparison.judging.min_paired_share),
        expectations={
            (expectation.alert, expectation.segment): expectation for expectation in expectations
        },
        standstills={standstill.alert: standstill for standstill in standstills},
    )
    evaluated: list[JudgedRule] = []
    for rule in rules:
        if rule.kind is not RuleKind.CONDITION:
            evaluated += _evaluate(rule, run, states)
    verdicts = _by_segment(evaluated, RuleKind.COVERAGE)
    # If a segment has verdicts on similarity, only they decide whether it had data.
    run = replace(run, verdicts=verdicts | _by_segment(evaluated, RuleKind.SIMILARITY))
    # For a segment without users, a condition is judged only while its alert lasts.
    active = [state for state in states if state.state is not State.QUIET]
    run = replace(run, awaited=_find_awaited(rules, run, active))
    for rule in rules:
        if rule.kind is RuleKind.CONDITION:
            evaluated += _evaluate(rule, run, active)
    stored = {(state.alert, state.segment): state for state in states}
    moved: list[AlertState] = []
    transitions: list[Transition] = []
    for rule, segment, verdict in evaluated:
        evaluation = Evaluation(
            comparison=comparison.name,
            segment=segment,
            slot=measured.slot,
            at=at,
            learned_limit=_learned_limit(rule, segment, run),
            installation=memory.installation,
        )
        counted = apply_ignored(verdict, comparison.judging.ignored)
        state, transition = advance(rule, counted, stored.get((rule.alert, segment)), evaluation)
        moved.append(state)
        if transition is not None:
            transitions.append(transition)
    return tuple(moved), tuple(transitions)


def _learned_limit(rule: Rule, segment: str, run: _Run) -> float | None:
    """Return the limit that the rule learned for this run. None if it has none."""
    learned = run.expectations.get((rule.alert, segment)) or run.standstills.get(rule.alert)
    if learned is None or learned.limit is None:
        return None
    return float(learned.limit)


def thin_segments(coverage: Coverage | None, min_paired_share: float) -> dict[str, str]:
    """Return the segments in which too few users were compared, each with a text of its figures.

    These segments are neither shown nor judged. A failed run without ``coverage`` has none.
    """
    thin = {}
    for row in coverage.rows if coverage else ():
        if row.segment != ALL and row.paired < min_paired_share * row.comparable:
            thin[row.segment] = (
                f"{row.paired:,} of {row.comparable:,} users, "
                f"under min_paired_share {write_percent(min_paired_share)}"
            )
    return thin


def _evaluate(rule: Rule, run: _Run, states: Sequence[AlertState]) -> Iterator[JudgedRule]:
    """Judge the rule in each of its segments. Leaves out segments that the run does not decide."""
    with_data: Collection[str] = run.verdicts
    if isinstance(rule, SeriesRule):
        with_data = run.figures.segments(rule)
    elif rule.segments == "named":
        with_data = run.awaited
    firing = {
        state.segment
        for state in states
        if state.alert == rule.alert and state.state is State.FIRING
    }
    for segment in segments_of(rule, with_data, states):
        verdict = JUDGES[rule.kind](rule, segment, run)
        if verdict is None:
            continue
        is_too_few = verdict.outcome is Outcome.TOO_FEW
        if is_too_few and segment in firing and is_learned(rule):
            verdict = _judge_recovery(rule, segment, run, verdict)
        yield rule, segment, verdict


def _judge_recovery(rule: SeriesRule, segment: str, run: _Run, verdict: Verdict) -> Verdict:
    """Judge whether a firing alert has recovered, even if few users have a value.

    Otherwise, the alert of a segment whose users became few would never end. A learned limit takes
    the sampling error of few users into account. If the value has not recovered, the ``verdict``
    is returned, because fewer than ``min_users`` users do not prove a breach.
    """
    of_few = JUDGES[rule.kind](replace(rule, min_users=1), segment, run)
    return of_few if of_few is not None and of_few.is_recovered else verdict


def _judge_similarity(rule: SimilarityRule, segment: str, run: _Run) -> Verdict:
    """Judge a value of similarity.

    A metric that is derived from the noise floor, such as ``floor(rbo)``, gives ``no_data`` if the
    noise floor cannot be trusted.
    """
    measured = run.measured
    summary = run.figures.summaries.get((segment, rule.metric))
    doubt = find_reason(measured.reasons, RunReasonKind.UNTRUSTED_FLOOR)
    if parse_derived(rule.metric).derived is not None and doubt is not None:
        return verdict_without_value(Outcome.NO_DATA, write_run_reason(doubt))
    if summary is None and run.is_unknown(segment) and measured.status is RunStatus.OK:
        return judge_unknown_segment(segment, run.figures.coverage.values())
    expectation = run.expectations.get((rule.alert, segment))
    reading = read_similarity(rule, segment, measured, summary, run.thin.get(segment))
    verdict = judge_reading(rule, reading, expectation, measured)
    if summary is None:
        return verdict
    coverage = run.figures.coverage.get(segment)
    bounded = apply_bounds(rule, verdict, summary, coverage, expectation)
    if bounded.outcome is verdict.outcome:
        return bounded
    # Users without a score could change the verdict, so there is none. The reason also says why
    # these users have no score.
    return replace(
        bounded,
        reason=with_cause(bounded.reason, write_run_reasons(measured.reasons)),
        headline=write_failures(measured.reasons) or bounded.headline,
    )


def _judge_coverage(rule: CoverageRule, segment: str, run: _Run) -> Verdict:
    measured = run.measured
    share = run.figures.find_share(segment, rule.share)
    if run.is_unknown(segment) and measured.status is RunStatus.OK:
        return judge_unknown_segment(segment, run.figures.coverage.values())
    reading = read_coverage(rule, segment, measured, share)
    expectation = run.expectations.get((rule.alert, segment))
    return judge_reading(rule, reading, expectation, measured)


def _judge_standstill(rule: StandstillRule, _segment: str, run: _Run) -> Verdict:
    return judge_standstill(rule, run.measured, run.standstills.get(rule.alert))


def _find_awaited(rules: Sequence[Rule], run: _Run, active: Iterable[AlertState]) -> frozenset[str]:
    """Return the segments that should have data. See `_Run.awaited`."""
    drift_alerts = {rule.alert for rule in rules if rule.kind is not RuleKind.CONDITION}
    awaited = set(named_segments(rules))
    for state in active:
        if state.state is State.FIRING and state.alert in drift_alerts:
            verdicts = run.verdicts.get(state.segment, ())
            if any(verdict.outcome is Outcome.NO_DATA for verdict in verdicts):
                awaited.add(state.segment)
    return frozenset(awaited)


def _judge_condition(rule: ConditionRule, segment: str, run: _Run) -> Verdict | None:
    """Judge a condition. None if the run does not decide about it, or another alert reports it."""
    if rule.condition in UNPAIRED_CONDITIONS:
        return judge_reason(rule.condition, run.measured)
    is_split_off = find_reason(run.measured.reasons, RunReasonKind.SPLIT_OFF) is not None
    if rule.condition is Condition.NO_DATA and is_split_off:
        return None  # the alert on the split reports it
    if rule.segments == "named" and segment != ALL:
        if run.measured.status is not RunStatus.OK:
            return None  # the alert on all users reports the condition
        if segment not in run.awaited:
            return Verdict(outcome=Outcome.OK, reason=NOT_AWAITED, is_recovered=True)
    is_unknown = run.is_unknown(segment) and segment not in run.verdicts
    return judge_condition(rule, run.measured, run.verdicts.get(segment, ()), is_unknown=is_unknown)


JUDGES: Mapping[RuleKind, Callable[[Any, str, _Run], Verdict | None]] = {
    RuleKind.SIMILARITY: _judge_similarity,
    RuleKind.COVERAGE: _judge_coverage,
    RuleKind.STANDSTILL: _judge_standstill,
    RuleKind.CONDITION: _judge_condition,
}


def _by_segment(evaluated: Iterable[JudgedRule], kind: RuleKind) -> dict[str, Sequence[Verdict]]:
    """Return the verdicts of the rules of this kind, by segment."""
    verdicts: dict[str, list[Verdict]] = defaultdict(list)
    for rule, segment, verdict in evaluated:
        if rule.kind is kind:
            verdicts[segment].append(verdict)
    return dict(verdicts)


def segments_of(
    rule: Rule, with_data: Collection[str], states: Iterable[AlertState]
) -> tuple[str, ...]:
    """Return the segments that the rule judges in this run.

    If the rule names its segments, they are in the rule's order. For ``segments: each`` and
    ``segments: named`` the first one is ``all``. These segments follow, ordered by name:

    - the segments ``with_data``, for ``named`` those that should have data,
    - segments in which the rule's alert is pending or firing,
    - segments that had data when this rule was last judged.
    """
    if rule.segments == "all":
        return (ALL,)
    if not isinstance(rule.segments, str):
        return tuple(dict.fromkeys(rule.segments))
    # A segment without figures must not stay ok, because it vanished or the run failed.
    own_states = [state for state in states if state.alert == rule.alert]
    newest = max((state.judged_slot for state in own_states), default=None)
    segments = set(with_data)
    for state in own_states:
        had_data = state.judged_slot == newest and state.outcome is not Outcome.NO_DATA
        if had_data or state.state is not State.QUIET:
            segments.add(state.segment)
    return (ALL, *sorted(segments - {ALL}))
