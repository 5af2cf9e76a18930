"""Judges runs that `run_measurement` has measured.

A judgement has expectations, verdicts, states of alerts and transitions. Stored runs can be judged
again by other rules.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from monitor.alerts.conditions import count_standstills
from monitor.alerts.incidents import assign_incidents
from monitor.alerts.rule_evaluation import evaluate_rules
from monitor.measures.metrics import parse
from monitor.measures.summaries import summarize_one
from monitor.model.alerts import AlertState, Expectation, Standstill, State, Transition
from monitor.model.immutable import immutable
from monitor.model.memory import Memory, PastRun, to_lessons
from monitor.model.ports import History
from monitor.model.rankings import ALL
from monitor.model.rules import Comparison, RuleKind, SimilarityRule
from monitor.model.runs import FinishedRun, KeptLists, MeasuredRun, RunStatus, Summary
from monitor.model.statistics import parse_derived
from monitor.pipeline.alert_explanations import add_explanations
from monitor.pipeline.expectations import (
    REMEMBERED_RUNS,
    compute_expectations,
    messages_need_earlier_runs,
)
from monitor.pipeline.score import score_kept_lists, summarize_scores
from monitor.statistics.reference.sampling_error import estimate_interval, share_interval

AVERAGED_RUNS = 10
"""If no rule learns what is normal, messages show the mean of this many earlier runs as normal.

Runs in which the alert was not quiet are left out.
"""


@immutable
class Judgement:
    """The result of judging one run.

    It has the expectations, the new state of every judged alert, and the transitions in the order
    in which they happened.
    """

    expectations: tuple[Expectation, ...]
    standstills: tuple[Standstill, ...]
    states: tuple[AlertState, ...]
    transitions: tuple[Transition, ...]


def judge_run(
    comparison: Comparison,
    measured: MeasuredRun,
    memory: Memory,
    at: datetime,
) -> Judgement:
    """Judge a run at the time ``at``. The same arguments always give the same result."""
    expectations = compute_expectations(
        comparison,
        measured,
        memory.past,
        memory.states,
        memory.accepted,
    )
    standstills: tuple[Standstill, ...] = ()
    if measured.status is RunStatus.OK:
        standstills = count_standstills(comparison, measured, memory.past)
    states, transitions = evaluate_rules(
        comparison,
        measured,
        memory,
        at,
        expectations=expectations,
        standstills=standstills,
    )
    # Incidents are assigned last, because they depend on which alerts begin together.
    states, transitions = assign_incidents(states, transitions, memory.states, comparison.judging)
    context = ValueContext(
        comparison=comparison,
        summaries=measured.summaries,
        expectations=expectations,
        recent=memory.past if messages_need_earlier_runs(comparison) else (),
    )
    return Judgement(
        expectations=expectations,
        standstills=standstills,
        states=states,
        transitions=context.add_to(transitions),
    )


@immutable
class ValueContext:
    """Adds to transitions the confidence interval of the value, and the normal value.

    ``recent`` are earlier runs with summaries, oldest first. It is empty if messages do not need
    earlier runs.
    """

    comparison: Comparison
    summaries: Sequence[Summary]
    expectations: Sequence[Expectation]
    recent: Sequence[PastRun]

    def add_to(self, changes: Iterable[Transition]) -> tuple[Transition, ...]:
        """Return the changes. Changes with a value get an ``interval`` and ``normal``."""
        completed = []
        for change in changes:
            if change.value is None:
                completed.append(change)
                continue
            interval = self._find_interval(change)
            normal = self._find_normal(change)
            completed.append(replace(change, interval=interval, normal=normal))
        return tuple(completed)

    def _find_interval(self, change: Transition) -> tuple[float, float] | None:
        """Return the confidence interval of the change's value.

        None if the series has no summary, or if the rule does not judge similarity or coverage.
        """
        if change.kind is RuleKind.COVERAGE:
            return share_interval(change.value or 0.0, change.users)
        summary = _find_summary(self.summaries, change.segment, change.metric)
        rule = next(rule for rule in self.comparison.judging.rules if rule.alert == change.alert)
        if summary is None or not isinstance(rule, SimilarityRule):
            return None
        return estimate_interval(summary, change.statistic, rule.score_range)

    def _find_normal(self, change: Transition) -> float | None:
        """Return the expected value of the alert's series, or else the mean of its recent values.

        None if neither is known.
        """
        # The alert's rule may have no expectation. Other rules that judge the series may have one.
        alerts_of_series = [change.alert]
        for rule in self.comparison.judging.rules:
            if rule.subject == (change.metric, change.statistic):
                alerts_of_series.append(rule.alert)
        expected_by_alert = {}
        for expectation in self.expectations:
            if expectation.segment == change.segment and expectation.expected is not None:
                expected_by_alert[expectation.alert] = expectation.expected
        for alert in alerts_of_series:
            if alert in expected_by_alert:
                return expected_by_alert[alert]
        recent_values = list(self._recent_values(change))
        if not recent_values:
            return None
        return math.fsum(recent_values) / len(recent_values)

    def _recent_values(self, change: Transition) -> Iterator[float]:
        """Yield the values of the series in recent runs in which the alert was quiet.

        Runs in which the alert was not quiet in the segment, or for all users, are left out.
        """
        for run in self.recent[-AVERAGED_RUNS:]:
            # ``run.states`` has only pending and firing alerts.
            if (change.alert, change.segment) in run.states or (change.alert, ALL) in run.states:
                continue
            summary = _find_summary(run.summaries, change.segment, change.metric)
            value = None if summary is None else summary.value(change.statistic)
            if value is not None:
                yield value


def _find_summary(summaries: Iterable[Summary], segment: str, metric: str) -> Summary | None:
    for summary in summaries:
        if (summary.segment, summary.metric) == (segment, metric):
            return summary
    return None


def add_missing_summaries(
    comparison: Comparison,
    run: FinishedRun,
    history: History,
) -> tuple[FinishedRun, tuple[str, ...]]:
    """Add the summaries that the rules need to a stored run.

    Returns the run, and the alerts of the rules for which a value is still missing.

    The summaries are computed from the lists of the run, for every segment. If the lists are not
    stored, or if a metric needs more than lists, they are computed from the stored scores of all
    users, without segments.
    """
    rules = [
        rule for rule in comparison.judging.similarity_rules if _lacks_value(run.summaries, rule)
    ]
    if not rules:
        return run, ()
    metrics = tuple(dict.fromkeys(rule.metric for rule in rules))
    lists = history.kept_lists(run.id)
    computed = _summarize_lists(comparison, run, lists, metrics)
    metrics_from_lists = {summary.metric for summary in computed}
    for metric in metrics:
        if metric not in metrics_from_lists:
            computed += _summarize_stored_scores(comparison, run, history, metric)
    summary_by_series = {}
    for summary in (*run.summaries, *computed):
        summary_by_series[summary.segment, summary.metric] = summary
    summaries = tuple(summary_by_series.values())
    alerts = tuple(rule.alert for rule in rules if _lacks_value(summaries, rule))
    return replace(run, summaries=summaries), alerts


def _lacks_value(summaries: Sequence[Summary], rule: SimilarityRule) -> bool:
    """Return whether the summaries lack a value that the rule judges."""
    if not summaries:
        # The run measured nothing. Its rules get the verdict ``no_data``, so no value is missing.
        return False
    metric_summaries = [summary for summary in summaries if summary.metric == rule.metric]
    if not metric_summaries:
        return True
    for summary in metric_summaries:
        has_value = summary.value(str(rule.statistic)) is not None
        # A segment without users has no value, so no value is missing.
        if rule.may_judge(summary.segment) and summary.n and not has_value:
            return True
    return False


def _summarize_lists(
    comparison: Comparison,
    run: FinishedRun,
    lists: KeptLists | None,
    names: Iterable[str],
) -> tuple[Summary, ...]:
    """Compute summaries from the run's lists, for every segment.

    ``names`` are metrics and derived series. Derived series, and metrics that need more than lists,
    are left out. Empty if the lists of some paired users were not stored.
    """
    metrics = [parse(name) for name in names if parse_derived(name).derived is None]
    metrics = [metric for metric in metrics if metric.need is None]
    if lists is None or run.coverage is None or not metrics:
        return ()
    users_with_lists = len(lists.segments.get(ALL, ()))
    if users_with_lists != run.coverage.all.paired:
        return ()
    k = comparison.measuring.k
    scores = score_kept_lists(lists, k, metrics)
    return summarize_scores(comparison.judging.similarity_rules, k, lists.segments, scores, metrics)


def _summarize_stored_scores(
    comparison: Comparison,
    run: FinishedRun,
    history: History,
    name: str,
) -> tuple[Summary, ...]:
    """Compute the summary of all users for the metric ``name`` from the run's stored scores.

    Empty if the run stored no summary of this metric, or if the scores of some users were not
    stored.
    """
    stored_summary = _find_summary(run.summaries, ALL, name)
    if stored_summary is None:
        return ()
    stored_scores = history.run_scores(run.id, [name])
    scores = stored_scores.by_metric.get(name, np.empty(0))
    values = np.sort(scores[~np.isnan(scores)])
    if len(values) != stored_summary.n:
        return ()
    statistics = [
        rule.statistic for rule in comparison.judging.similarity_rules if rule.metric == name
    ]
    bounds = (stored_summary.histogram.low, stored_summary.histogram.high)
    summary = summarize_one(ALL, name, values, bounds, statistics)
    return (replace(summary, n_undefined=stored_summary.n_undefined),)


@dataclass(slots=True, kw_only=True)
class Rejudgement:
    """Judges stored runs again, one after the other. Nothing is stored.

    The object keeps the states of alerts and the past runs for the next run. Each run is judged at
    the time of its slot. If all runs are judged in order, with the original rules and
    ``min_paired_share``, the result is the original transitions.

    - ``installation`` makes the keys of firing alerts different from those of other installations.
    - ``accepted`` are accepted levels. A level is normal from the time at which it was accepted.
    """

    comparison: Comparison
    installation: str = ""
    accepted: tuple[Transition, ...] = ()
    states: dict[tuple[str, str], AlertState] = field(default_factory=dict)
    past: dict[str, deque[PastRun]] = field(default_factory=dict)  # by hash of the configuration

    def judge(self, run: FinishedRun, *, has_all_summaries: bool = True) -> tuple[Transition, ...]:
        """Judge the next run, and return the transitions of its alerts.

        Abandoned and running runs, and slots that were judged before, are ignored. If
        ``has_all_summaries`` is False, summaries may have been deleted. This must not look like a
        run without data. So rules on conditions (such as ``no_data``) do not judge the run.
        """
        if run.status in (RunStatus.ABANDONED, RunStatus.RUNNING):
            return ()
        measured = MeasuredRun(
            slot=run.slot,
            status=run.status,
            reasons=run.reasons,
            coverage=run.coverage,
            summaries=run.summaries,
            arm_scores=run.arm_scores,
            models=run.models,
            unpaired=run.unpaired,
        )
        # As in the daemon, rules learn only from runs of the same configuration.
        past = tuple(self.past.get(run.config_hash, ()))
        if past and run.slot <= past[-1].slot:
            return ()
        memory = Memory(
            states=tuple(self.states.values()),
            past=past,
            installation=self.installation,
            accepted=self.accepted,
        )
        comparison = self.comparison
        judging = self.comparison.judging
        if not has_all_summaries:
            rules = tuple(rule for rule in judging.rules if rule.kind is not RuleKind.CONDITION)
            comparison = replace(comparison, judging=replace(judging, rules=rules))
        judgement = judge_run(comparison, measured, memory, at=run.slot)
        self.states |= {(state.alert, state.segment): state for state in judgement.states}
        if run.status is RunStatus.OK:
            self._add_to_past(run, judgement)
        return add_explanations(judgement.transitions, run.explanation, measured)

    def _add_to_past(self, run: FinishedRun, judgement: Judgement) -> None:
        """Add the judged run to the past runs of its configuration."""
        not_quiet = {
            alert_and_segment: state.state
            for alert_and_segment, state in self.states.items()
            if state.state is not State.QUIET
        }
        past_run = PastRun(
            slot=run.slot,
            states=not_quiet,
            lessons=to_lessons(judgement.expectations),
            standstills={standstill.alert: standstill for standstill in judgement.standstills},
            summaries=run.summaries if messages_need_earlier_runs(self.comparison) else (),
            models=run.models,
        )
        newest_runs = self.past.setdefault(run.config_hash, deque(maxlen=REMEMBERED_RUNS))
        newest_runs.append(past_run)
