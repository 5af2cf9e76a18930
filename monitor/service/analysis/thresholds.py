"""Propose thresholds from stored runs."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from monitor.measures.metrics import Metric, Need, drift_direction, parse
from monitor.model.alerts import Transition
from monitor.model.arrays import Floats
from monitor.model.errors import ConfigError
from monitor.model.immutable import immutable
from monitor.model.memory import MemoryRequest, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import MIN_HEALTHY_RUNS, Comparison, Direction, FixedLimit, SimilarityRule
from monitor.model.runs import Summary
from monitor.model.statistics import Statistic
from monitor.pipeline.expectations import REMEMBERED_RUNS
from monitor.pipeline.judgement import Rejudgement
from monitor.pipeline.rule_series import RuleSeries
from monitor.service.analysis.backtest import all_finished_runs
from monitor.service.runner import pick_comparison
from monitor.settings.configuration import Settings
from monitor.settings.default_rules import name_metrics
from monitor.settings.translation import to_comparison, to_schedule
from monitor.statistics.reference.prediction import compute_reference
from monitor.statistics.reference.thresholds import Budget, Threshold, propose_thresholds
from monitor.storage.run_history import SqlHistory
from monitor.texts.planning import (
    write_not_stored,
    write_too_few_healthy,
    write_too_rare,
    write_uncertain,
)

STATISTICS = ("mean", "p05")
_STEPS_PER_UNIT = 10_000
_FAR_FUTURE = datetime(9999, 1, 1, tzinfo=UTC)


@immutable
class Suggestion:
    """A proposed threshold, or why none can be proposed. Changes have the unit of the statistic."""

    rule: SimilarityRule
    segment: str
    runs: int  # the number of healthy runs
    expected: float | None = None  # the normal value
    usually: float | None = None  # the change that one run detects with a probability of 50 %
    nearly_always: float | None = None  # the change that one run detects with a probability of 95 %
    caught: tuple[Transition, ...] = ()  # the alerts that it would have started in stored runs
    reason: str | None = None  # the reason why there is no threshold
    note: str | None = None  # a warning about the runs


def configured_comparison(
    settings: Settings,
    name: str,
    every: timedelta | None,
) -> tuple[Comparison, timedelta]:
    """Return the configured comparison, and the time between its runs.

    ``every`` replaces the accepted time between two false alerts.
    """
    options = pick_comparison(settings.comparisons_by_name, name)
    comparison = to_comparison(options)
    interval = to_schedule(options).interval
    if every is None:
        return comparison, interval
    judging = replace(comparison.judging, runs_per_false_alert=every / interval)
    return replace(comparison, judging=judging), interval


def suggest_thresholds(
    comparison: Comparison,
    history: SqlHistory,
    *,
    statistics: Sequence[str] = STATISTICS,
    segments: Sequence[str] = (ALL,),
    interval: timedelta,
) -> tuple[Suggestion, ...]:
    """Propose a threshold for each statistic of each metric, in each of the segments.

    The segment ``each`` means all segments. All thresholds together are expected to cause one false
    alert in ``runs_per_false_alert`` runs.

    The thresholds are learned from the newest healthy runs of this configuration, see
    `pick_healthy`. ``interval`` is the time between two runs. Raises ConfigError if there are no ok
    runs.
    """
    past = newest_runs(comparison, history)
    all_series = _find_series(comparison, past, statistics, segments)
    budget = Budget(
        runs=max(1.0, comparison.judging.runs_per_false_alert),
        segments=list(dict.fromkeys(series.segment for series in all_series)),
        looks={_name_alert(series.rule): 1.0 for series in all_series},
    )
    suggestions = []
    for series in all_series:
        worst = _worst_value(series.rule, comparison.measuring.k)
        suggestions.append(_suggest_threshold(series, past, budget, interval, worst))
    return _add_caught(comparison, _number_alerts(suggestions), history)


def newest_runs(comparison: Comparison, history: SqlHistory) -> tuple[PastRun, ...]:
    """Return the newest ok runs of the present configuration with all their summaries.

    Raises ConfigError if there are no such runs.
    """
    request = MemoryRequest(
        comparison=comparison.name,
        config_hash=comparison.config_hash,
        before=_FAR_FUTURE,
        runs=REMEMBERED_RUNS,
        wants_summaries=True,
    )
    past = history.memory_of(request).past
    if not past:
        raise ConfigError(
            f"no ok run of {comparison.name} is stored for its present configuration: run it, or "
            "replay earlier slots"
        )
    return past


def _number_alerts(suggestions: Sequence[Suggestion]) -> list[Suggestion]:
    """Return the suggestions. If an alert's name is used again, a number is appended to it."""
    counts: Counter[str] = Counter()
    named = []
    for suggestion in suggestions:
        alert = suggestion.rule.alert
        counts[alert] += 1
        if counts[alert] > 1:
            rule = replace(suggestion.rule, alert=f"{alert}-{counts[alert]}")
            suggestion = replace(suggestion, rule=rule)  # noqa: PLW2901
        named.append(suggestion)
    return named


def _name_alert(rule: SimilarityRule) -> str:
    return f"{rule.statistic} of {rule.metric}"


def _worst_value(rule: SimilarityRule, k: int) -> float:
    """Return the value of the rule's statistic if all lists are as different as possible."""
    low, high = parse(rule.metric).bounds(k)
    if rule.is_share:
        low = 0.0
        high = np.pi / 2
    return low if rule.direction is Direction.BELOW else high


def _find_series(
    comparison: Comparison,
    past: Sequence[PastRun],
    statistics: Sequence[str],
    segments: Sequence[str],
) -> list[RuleSeries[SimilarityRule]]:
    """Return a series for each metric, statistic and segment. Its rule has no threshold yet."""
    stored_segments: dict[str, set[str]] = defaultdict(set)
    for run in past:
        for summary in run.summaries:
            stored_segments[summary.metric].add(summary.segment)
    parsed = list(map(Statistic.parse, statistics))
    metrics = [
        metric
        for metric in map(parse, comparison.measuring.metrics)
        if metric.need is not Need.RELEVANCE
    ]
    series = []
    for metric, name in zip(metrics, name_metrics(metrics), strict=True):
        stored = stored_segments[str(metric)]
        wanted = [ALL, *sorted(stored - {ALL})] if "each" in segments else segments
        for statistic in parsed:
            for segment in wanted:
                if segment in stored:
                    series.append(RuleSeries(_make_rule(name, metric, statistic, segment), segment))
    if not series:
        raise ConfigError(
            f"no run of {comparison.name} has summaries of {', '.join(segments)}: change --segment"
        )
    return series


def _make_rule(name: str, metric: Metric, statistic: Statistic, segment: str) -> SimilarityRule:
    """Return a rule that alerts if lists become less similar, still without a threshold.

    ``name`` is the word for the metric in the names of alerts.
    """
    direction = drift_direction(str(metric), statistic)
    subject = str(statistic) if segment == ALL else f"{statistic} {segment}"
    alert = name
    for word in re.findall(r"[A-Za-z0-9]+", subject):
        alert += word[0].upper() + word[1:]
    change = "Drop" if direction is Direction.BELOW else "Rise"
    return SimilarityRule(
        alert=alert[: 100 - len(change)] + change,
        metric=str(metric),
        statistic=statistic,
        limit=FixedLimit(direction=direction, value=0.0, resolve_at=0.0),
        segments="all" if segment == ALL else (segment,),
    )


def _suggest_threshold(
    series: RuleSeries[SimilarityRule],
    past: Sequence[PastRun],
    budget: Budget,
    interval: timedelta,
    worst: float,
) -> Suggestion:
    """Propose a threshold for one series, or say why there is none.

    ``interval`` is the time between two runs, and ``worst`` the worst value of the statistic.
    """
    healthy, note = pick_healthy(past, series)
    users = int(np.median([summary.n for summary in healthy])) if healthy else 0
    series = replace(series, rule=replace(series.rule, min_users=max(1, users // 2)))
    # A row has a value and its sampling error. Without runs the shape must be (0, 2).
    rows = [series.read_summary(summary) for summary in healthy]
    values, errors = np.hsplit(np.array(rows).reshape(len(rows), 2), 2)
    reference = compute_reference(values, errors)
    runs = int(reference.runs[0])
    if runs < MIN_HEALTHY_RUNS:
        return _no_threshold(series, runs, _why_so_few(series, healthy, runs))
    alpha = budget.alpha(series.segment, _name_alert(series.rule))
    largest = np.nanmax(errors, axis=0)
    threshold = propose_thresholds(
        reference, largest, alpha, direction=series.rule.direction, worst=worst
    )
    least_alpha = float(threshold.least_alpha[0])
    if least_alpha > alpha:
        # So few runs cannot show what is as rare as the accepted false alerts.
        accepted = budget.runs * interval
        obstacle = write_too_rare(runs, accepted, accepted * alpha / least_alpha)
        return _no_threshold(series, runs, obstacle)
    return replace(_with_threshold(series, users, runs, threshold), note=note)


def pick_healthy(
    past: Sequence[PastRun], series: RuleSeries[SimilarityRule]
) -> tuple[list[Summary], str | None]:
    """Return the summaries of the series in healthy runs, and a note if other runs are included.

    A run is healthy if no alert of the segment, or of the segment ``all``, was pending or firing
    after it. If too few runs are healthy, the summaries of all runs are returned.
    """
    name = (series.segment, series.rule.metric)
    summaries = []
    healthy = []
    for run in past:
        is_healthy = not any(segment in (series.segment, ALL) for _, segment in run.states)
        for summary in run.summaries:
            if (summary.segment, summary.metric) == name and summary.n:
                summaries.append(summary)
                if is_healthy:
                    healthy.append(summary)
    # If few runs are healthy, the present rules fire too often. So their alerts are ignored here.
    if len(healthy) >= MIN_HEALTHY_RUNS or len(healthy) == len(summaries):
        return healthy, None
    return summaries, "learned from all runs, because alerts were active after most of them"


def _no_threshold(series: RuleSeries[SimilarityRule], runs: int, obstacle: str) -> Suggestion:
    return Suggestion(rule=series.rule, segment=series.segment, runs=runs, reason=obstacle)


def _why_so_few(series: RuleSeries[SimilarityRule], healthy: Sequence[Summary], runs: int) -> str:
    """Say why only ``runs`` of the healthy runs have the statistic with a sampling error."""
    statistic = str(series.rule.statistic)
    if len(healthy) >= MIN_HEALTHY_RUNS:
        if all(summary.value(statistic) is None for summary in healthy):
            return write_not_stored(statistic)
        if runs == 0:
            return write_uncertain(statistic)
    return write_too_few_healthy(runs, MIN_HEALTHY_RUNS)


def _with_threshold(
    series: RuleSeries[SimilarityRule],
    users: int,
    runs: int,
    proposed: Threshold,
) -> Suggestion:
    """Return the proposed threshold in the unit of the statistic, for runs with so many users."""

    def show(figure: Floats) -> float:
        return series.show(float(figure[0]), users) or 0.0

    expected = show(proposed.expected)
    direction = series.rule.direction
    # Round to four decimals. Round away from healthy values, so that rounding causes no alert.
    round_away = math.floor if direction is Direction.BELOW else math.ceil
    threshold = round_away(show(proposed.limit) * _STEPS_PER_UNIT) / _STEPS_PER_UNIT
    limit = FixedLimit(direction=direction, value=threshold, resolve_at=threshold)
    return Suggestion(
        rule=replace(series.rule, limit=limit),
        segment=series.segment,
        runs=runs,
        expected=expected,
        usually=abs(show(proposed.usually) - expected),
        nearly_always=abs(show(proposed.nearly_always) - expected),
    )


def _add_caught(
    comparison: Comparison,
    suggestions: Sequence[Suggestion],
    history: SqlHistory,
) -> tuple[Suggestion, ...]:
    """Add the alerts that the suggestions would have started under the present configuration."""
    rules = tuple(suggestion.rule for suggestion in suggestions if suggestion.reason is None)
    judging = replace(comparison.judging, rules=rules)
    rejudging = Rejudgement(comparison=replace(comparison, judging=judging))
    starts: dict[str, list[Transition]] = defaultdict(list)
    for run in all_finished_runs(comparison.name, history, None):
        if run.config_hash != comparison.config_hash:
            continue
        for transition in rejudging.judge(run):
            if transition.is_start:
                starts[transition.alert].append(transition)
    return tuple(
        replace(suggestion, caught=tuple(starts[suggestion.rule.alert]))
        for suggestion in suggestions
    )
