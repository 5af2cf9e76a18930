"""The second half of a run: expectations, verdicts, alert states, and transitions with what was normal for each.

For a run just measured, or for stored runs once more under other rules.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from monitor.alerts.conditions import count_standstills
from monitor.alerts.incidents import assign_incidents
from monitor.alerts.rule_evaluation import evaluate_rules
from monitor.metrics import parse
from monitor.model.alerts import AlertState, Expectation, Standstill, State, Transition
from monitor.model.comparison import Comparison
from monitor.model.memory import Memory, PastRun, to_lessons
from monitor.model.model_versions import write_models
from monitor.model.rankings import ALL
from monitor.model.rules import RuleKind, SimilarityRule
from monitor.model.runs import Findings, KeptLists, MeasuredRun, RunRecord, RunStatus, Summary
from monitor.model.statistics import parse_derived
from monitor.pipeline.expectations import REMEMBERED, compute_expectations, learning_rules
from monitor.pipeline.run_explanation import add_explanations, find_lost
from monitor.pipeline.score import score_kept_lists, summarize_scores
from monitor.ports import History
from monitor.reference.sampling_error import estimate_interval, share_interval
from monitor.summaries import summarize_one

RECENT = 10
"""Healthy runs before, of which the mean stands for what is normal where nothing learns it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was expected, the new state of every alert looked at, and the transitions in order."""

    expectations: tuple[Expectation, ...]
    standstills: tuple[Standstill, ...]
    states: tuple[AlertState, ...]
    transitions: tuple[Transition, ...]


def judge_findings(
    comparison: Comparison, found: Findings, memory: Memory, at: datetime
) -> Judgement:
    """Judge a run at the time ``at``. The same arguments give the same answer."""
    expectations = compute_expectations(
        comparison, found, memory.past, memory.states, memory.accepted
    )
    is_ok = found.status is RunStatus.OK
    standstills = (
        count_standstills(comparison, found.measured.arm_scores, memory.past) if is_ok else ()
    )
    states, transitions = evaluate_rules(
        comparison, found, memory, at, expectations=expectations, standstills=standstills
    )
    # Incidents are assigned last: they depend on which firings begin together.
    states, transitions = assign_incidents(states, transitions, memory.states, comparison.judging)
    scales = ChangeScales(
        comparison=comparison,
        summaries=found.measured.summaries,
        expectations=expectations,
        past=memory.past,
    )
    return Judgement(
        expectations=expectations,
        standstills=standstills,
        states=states,
        transitions=scales.complete(transitions),
    )


def needs_recent(comparison: Comparison) -> bool:
    """Whether messages compare values with a normal that no rule learns, so that earlier summaries are wanted."""
    return not learning_rules(comparison) and bool(comparison.judging.similarity_rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeScales:
    """What puts the values of one run's transitions into proportion: how sure each is, and what was normal before.

    ``past`` oldest first, with summaries where no rule learns.
    """

    comparison: Comparison
    summaries: Sequence[Summary]
    expectations: Sequence[Expectation]
    past: Sequence[PastRun]

    def complete(self, changes: Iterable[Transition]) -> tuple[Transition, ...]:
        """The changes with ``interval`` and ``normal``, where they have a value and these are known."""
        return tuple(
            each
            if each.value is None
            else replace(each, interval=self._interval(each), normal=self._normal(each))
            for each in changes
        )

    def _interval(self, change: Transition) -> tuple[float, float] | None:
        if change.kind is RuleKind.COVERAGE:
            return share_interval(change.value or 0.0, change.users)
        found = (
            each
            for each in self.summaries
            if (each.segment, each.metric) == (change.segment, change.metric)
        )
        summary = next(found, None)
        rule = next(rule for rule in self.comparison.judging.rules if rule.alert == change.alert)
        if summary is None or not isinstance(rule, SimilarityRule):
            return None
        return estimate_interval(summary, change.statistic, rule.scores)

    def _normal(self, change: Transition) -> float | None:
        subject = (change.metric, change.statistic)
        alike = {rule.alert for rule in self.comparison.judging.rules if rule.subject == subject}
        # The rule's own expectation comes first, then that of another rule that learns the same
        # series.
        for each in sorted(self.expectations, key=lambda each: each.alert != change.alert):
            if each.alert in alike and each.segment == change.segment and each.expected is not None:
                return each.expected
        values = list(self._recent_values(change)) if needs_recent(self.comparison) else []
        return math.fsum(values) / len(values) if values else None

    def _recent_values(self, change: Transition) -> Iterator[float]:
        """Values of the same series in recent runs after which the alert was quiet, there and for all users."""
        for run in self.past[-RECENT:]:
            if (change.alert, change.segment) in run.states or (change.alert, ALL) in run.states:
                continue
            for each in run.summaries:
                value = each.value(change.statistic)
                if (each.segment, each.metric) == (
                    change.segment,
                    change.metric,
                ) and value is not None:
                    yield value


def complete_record(
    comparison: Comparison, record: RunRecord, history: History
) -> tuple[RunRecord, tuple[str, ...]]:
    """The run with what the rules ask for and its summaries lack, and the alerts of rules that it still cannot be judged by.

    From kept lists for every segment, where the metric needs nothing but lists; else from kept scores for `all`. A rule lacks
    the run where that was not enough for `all`, or for any segment that its metric is summarized in.
    """
    asked = [rule for rule in comparison.judging.similarity_rules if _lacks(record.summaries, rule)]
    if not asked:
        return record, ()
    metrics = tuple(dict.fromkeys(rule.metric for rule in asked))
    found = [*_from_lists(comparison, record, history.kept_lists(record.run.id), metrics)]
    found += (
        [each for metric in metrics for each in _from_scores(comparison, record, history, metric)]
        if not found
        else []
    )
    new = {(each.segment, each.metric): each for each in found}
    merged = {(each.segment, each.metric): each for each in record.summaries} | new
    summaries = tuple(merged.values())
    lacking = tuple(rule.alert for rule in asked if _lacks(summaries, rule))
    return replace(record, summaries=summaries), lacking


def _lacks(summaries: Sequence[Summary], rule: SimilarityRule) -> bool:
    mine = [each for each in summaries if each.metric == rule.metric]
    wanted = (
        (ALL,) if rule.segments == "all" else None if rule.segments == "each" else rule.segments
    )
    looked_at = [each for each in mine if wanted is None or each.segment in wanted]
    # A run that measured nothing at all lacks nothing.
    return bool(summaries) and (
        not mine or any(each.n and each.value(str(rule.statistic)) is None for each in looked_at)
    )


def _from_lists(
    comparison: Comparison, record: RunRecord, lists: KeptLists | None, names: Iterable[str]
) -> tuple[Summary, ...]:
    metrics = [
        metric
        for name in names
        if parse_derived(name)[0] is None and (metric := parse(name)).need is None
    ]
    if lists is None or record.coverage is None or not metrics:
        return ()
    if len(lists.segments.get(ALL, ())) != record.coverage.all.paired:
        return ()
    k = comparison.measuring.k
    scores = score_kept_lists(lists, k, metrics)
    return summarize_scores(comparison.judging.similarity_rules, k, lists.segments, scores, metrics)


def _from_scores(
    comparison: Comparison, record: RunRecord, history: History, name: str
) -> tuple[Summary, ...]:
    before = next(
        (each for each in record.summaries if (each.segment, each.metric) == (ALL, name)), None
    )
    if before is None:
        return ()
    kept = history.run_scores(record.run.id, [name]).by_metric.get(name, np.empty(0))
    values = np.sort(kept[~np.isnan(kept)])
    if len(values) != before.n:
        return ()
    wanted = [rule.statistic for rule in comparison.judging.similarity_rules if rule.metric == name]
    found = summarize_one(ALL, name, values, (before.histogram.low, before.histogram.high), wanted)
    return (replace(found, n_undefined=before.n_undefined),)


@dataclass(slots=True, kw_only=True)
class Rejudgement:
    """States and memory of rules between the runs; nothing is written anywhere.

    With the rules that judged the runs when they were run, each in its turn, and the
    ``min_paired_share`` of then, it gives the very transitions of then, judged at the time of the
    slot, but for what sources said of users without a list.
    """

    comparison: Comparison
    installation: str = ""  # whose keys the firings have
    accepted: tuple[
        Transition, ...
    ] = ()  # levels that are normal from the time on at which somebody said so
    states: dict[tuple[str, str], AlertState] = field(default_factory=dict)
    past: defaultdict[str, deque[PastRun]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=REMEMBERED))
    )

    def judge(self, record: RunRecord, *, is_whole: bool = True) -> tuple[Transition, ...]:
        """Judge the next run.

        A slot judged before moves nothing. An abandoned run was never judged, and is not now.

        Rules on conditions are left out for a run that is not whole: what a rule lacks now, the run
        may have measured then.
        """
        run = record.run
        if run.status in (RunStatus.ABANDONED, RunStatus.RUNNING):
            return ()
        measured = MeasuredRun(
            coverage=record.coverage,
            summaries=record.summaries,
            arm_scores=record.arm_scores,
            models=run.models,
        )
        found = Findings(slot=run.slot, status=run.status, reason=run.reason, measured=measured)
        # As in the daemon, a changed configuration begins to learn anew.
        past = tuple(self.past[run.config_hash])
        if past and run.slot <= past[-1].slot:
            return ()
        memory = Memory(
            states=tuple(self.states.values()),
            past=past,
            installation=self.installation,
            accepted=self.accepted,
        )
        judging = self.comparison.judging
        rules = tuple(
            rule for rule in judging.rules if is_whole or rule.kind is not RuleKind.CONDITION
        )
        comparison = replace(self.comparison, judging=replace(judging, rules=rules))
        judgement = judge_findings(comparison, found, memory, at=run.slot)
        self.states |= {(state.alert, state.segment): state for state in judgement.states}
        if run.status is RunStatus.OK:
            self._remember(record, judgement)
        models = write_models(run.models, run.slot)
        lost = find_lost(run.status, record.coverage)
        return add_explanations(judgement.transitions, record.explanation, models, lost=lost)

    def _remember(self, record: RunRecord, judgement: Judgement) -> None:
        alarmed = {
            watch: state.state
            for watch, state in self.states.items()
            if state.state is not State.QUIET
        }
        past = PastRun(
            slot=record.run.slot,
            states=alarmed,
            lessons=to_lessons(judgement.expectations),
            standstills={each.alert: each for each in judgement.standstills},
            summaries=record.summaries if needs_recent(self.comparison) else (),
            models=record.run.models,
        )
        self.past[record.run.config_hash].append(past)
