"""Computes what rules with learned limits expect of a run, from healthy earlier runs."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from monitor.alerts.rule_evaluation import Figures, segments_of
from monitor.alerts.verdicts import NORMAL_AGAIN
from monitor.model.alerts import AlertState, Expectation, State, Transition
from monitor.model.arrays import Flags, Floats
from monitor.model.memory import PastRun
from monitor.model.rankings import Arm, CoverageRow
from monitor.model.rules import (
    MIN_HEALTHY_RUNS,
    Comparison,
    CoverageRule,
    LearnedLimit,
    Learning,
    Rule,
    SeriesRule,
    StandstillRule,
    is_learned,
    judged_series,
)
from monitor.model.runs import MeasuredRun
from monitor.model.statistics import (
    SIMILAR_LISTS,
    TRAITS_OF_EARLIER_LISTS,
    TRAITS_OF_LISTS_BEFORE_ALERTS,
)
from monitor.pipeline.levels import UsablePast, select_past_of_models
from monitor.pipeline.limits import (
    allow_level_without_season,
    compute_limits,
    find_sides,
    judges_too_similar,
)
from monitor.pipeline.rule_series import (
    LessonArrays,
    ManySeries,
    RuleSeries,
    find_alerting_runs,
    find_firings,
    find_phases,
    read_lessons,
    read_values_and_errors,
    spread_over_segments,
)
from monitor.statistics.reference.history import (
    find_median,
    find_scale,
    median_z_while_firing,
)
from monitor.statistics.reference.prediction import (
    Reference,
    compute_reference,
)
from monitor.statistics.reference.season import (
    TrendEvidence,
    correlate,
    count_suspects,
    discount,
    no_evidence,
    raise_to_median,
    update_evidence,
)
from monitor.statistics.reference.spread import PastAlerts
from monitor.statistics.reference.thresholds import Budget

NEAR_DROP_RUNS = 3
"""If a run is too far from normal to end an alert, rules learn from it only this many runs later.

A small fault stays below the limit of one run, and only a trend shows it after some days. Without
this wait the fault would be normal on its second day.
"""

ODD_SCALES = 8.0
"""A run that no limit judged is a fault if it is farther than this from the median (`find_odd`)."""

SMALL_WEIGHT = 0.15
"""Rules share a budget of false alerts, by weight.

Rules on the baseline, on sudden similarity, on the exposure of items and on shifted lists have this
weight. Other rules have 1. So the shares of the other rules are nearly those of a pack without
these rules. A rule on the exposure or the shifted lists of the baseline has the square.
"""
SUDDEN = (*TRAITS_OF_LISTS_BEFORE_ALERTS, *SIMILAR_LISTS)
"""Traits with a small weight. A fault changes them much, and trainings change them little."""
HOLIDAY = "not judged by what is normal, because the day is one of the comparison's holidays"
AFTER_HOLIDAY = (
    "not judged by what is normal, because the lists are compared with a holiday's lists"
)
AFTER_EXPECTED_FAULT = (
    "not judged by what is normal, because the lists are compared with those of a fault that "
    "returns regularly"
)

REMEMBERED_RUNS = 120
"""A judgement reads at most this many of the newest runs.

A reference uses the newest 60 healthy runs (`reference.WINDOW`), so 60 other runs may have alerts.
120 daily runs are 17 weeks. With more runs, seasons and correlations are hardly better known.
Judging 1,000 series took 0.3 s on one core with 120 runs, and 0.9 s with 1,000 runs.
"""


def learning_rules(comparison: Comparison) -> tuple[Rule, ...]:
    """Return the rules that need earlier runs."""
    return tuple(
        rule
        for rule in comparison.judging.rules
        if is_learned(rule) or isinstance(rule, StandstillRule)
    )


def messages_need_earlier_runs(comparison: Comparison) -> bool:
    """Whether messages show means of earlier runs as normal, because no rule learns."""
    return not learning_rules(comparison) and bool(comparison.judging.similarity_rules)


def compute_expectations(
    comparison: Comparison,
    measured: MeasuredRun,
    past: Sequence[PastRun],
    states: Sequence[AlertState],
    accepted: Sequence[Transition] = (),
) -> tuple[Expectation, ...]:
    """Return what each rule with a learned limit expects in each segment, sorted by rule.

    ``past`` are the ok runs of the same configuration, oldest first. A rule learns from runs that
    were healthy in its segment. A run is healthy if no rule that learns had an alert, in the
    segment or for all users, and if there was no drift. A rule also learns from these runs:

    - runs at a changed level, if the level has lasted so long that it is the new normal,
    - runs at a level that a person has ``accepted``,
    - the first runs of new models.
    """
    coverage_rows = measured.coverage.rows if measured.coverage else ()
    rules = [rule for rule in comparison.judging.rules if is_learned(rule)]
    learnable_rows: Sequence[CoverageRow] = ()
    if any(isinstance(rule, CoverageRule) for rule in rules):
        learnable_rows = coverage_rows
    figures = Figures.of(measured.summaries, learnable_rows, measured.arm_scores)
    if not (figures.summaries or figures.coverage):
        return ()
    series = _find_series(rules, figures, states)
    if not series:
        return ()
    is_holiday = comparison.judging.is_holiday
    if is_holiday(measured.slot):
        return tuple(
            replace(_expect_without_limits(one_series), note=HOLIDAY) for one_series in series
        )
    usable_past = UsablePast(runs=[run for run in past if not is_holiday(run.slot)])
    if comparison.judging.by_model:
        usable_past = select_past_of_models(usable_past.runs, measured)
    alpha = share_alert_budget(comparison, series)
    lessons = read_lessons(series, usable_past.runs)
    past_alerts = _find_past_alerts(comparison, series, usable_past.runs, lessons)
    evidence_ends = _find_evidence_ends(past_alerts, usable_past)
    evidence, was_drifting = _collect_evidence(lessons.trend_z, evidence_ends, alpha)
    accepted = [change for change in accepted if change.at <= measured.slot]
    past_alerts = replace(
        past_alerts,
        healthy=past_alerts.healthy & ~was_drifting,
        accepted=usable_past.find_accepted_levels(accepted),
        runs_until_normal=usable_past.runs_until_new_normal(measured.slot),
    )
    reference = compute_reference(
        lessons.values,
        lessons.errors,
        phases=find_phases(usable_past.runs, measured.slot),
        alerts=past_alerts,
        side=find_sides(series),
    )
    reference = allow_level_without_season(series, reference, lessons, past_alerts)
    expectations = _build_expectations(series, figures, reference, evidence, alpha)
    fault_z = median_z_while_firing(lessons.z, past_alerts.firing)
    notes = usable_past.describe_levels(comparison.name, reference)
    lost_in_used_runs = np.where(np.isnan(reference.used_values), np.nan, lessons.lost)
    usual_lost = np.nan_to_num(find_median(lost_in_used_runs))
    # Values leave out the users without a score. `apply_bounds` uses the share of these users.
    lost_shares = {row.segment: 1.0 - row.paired / row.asked for row in coverage_rows if row.asked}
    unjudged_notes = _find_unjudged(
        series, lessons, past_alerts, is_after_holiday=bool(past) and is_holiday(past[-1].slot)
    )
    completed = []
    for column, expectation in enumerate(expectations):
        if unjudged_notes[column]:
            unjudged = _expect_without_limits(series[column])
            completed.append(replace(unjudged, note=unjudged_notes[column]))
        else:
            judged = replace(
                expectation,
                lost=lost_shares.get(expectation.segment, 0.0),
                usual_lost=float(usual_lost[column]),
                note=notes[column],
                fault_z=_finite(fault_z[column]),
            )
            completed.append(judged)
    return tuple(completed)


def _find_series(
    rules: Sequence[SeriesRule], figures: Figures, states: Sequence[AlertState]
) -> list[RuleSeries[SeriesRule]]:
    """Return a series for each of these rules in each of its segments."""
    firing = {(state.alert, state.segment) for state in states if state.state is State.FIRING}
    series = []
    for rule in rules:
        for segment in segments_of(rule, figures.segments(rule), states):
            is_firing = (rule.alert, segment) in firing
            series.append(RuleSeries(rule, segment, is_firing))
    return series


def _find_unjudged(
    series: ManySeries,
    lessons: LessonArrays,
    past_alerts: PastAlerts,
    *,
    is_after_holiday: bool,
) -> list[str]:
    """Return for each series why it is not judged, or an empty text if it is judged.

    Series that compare with earlier lists are not judged if the last run was no ordinary run.
    """
    is_after_fault = _find_expected_faults(series, lessons, past_alerts)
    notes = []
    for column, one_series in enumerate(series):
        note = ""
        if _compares_with_earlier_lists(one_series.rule):
            if is_after_holiday:
                note = AFTER_HOLIDAY
            elif is_after_fault[column]:
                note = AFTER_EXPECTED_FAULT
        notes.append(note)
    return notes


def _compares_with_earlier_lists(rule: SeriesRule) -> bool:
    return isinstance(rule, CoverageRule) and rule.share.trait in TRAITS_OF_EARLIER_LISTS


def _find_past_alerts(
    comparison: Comparison,
    series: ManySeries,
    past: Sequence[PastRun],
    lessons: LessonArrays,
) -> PastAlerts:
    """Find the past runs with alerts, and the healthy past runs.

    Only alerts of `learning_rules` count. In an alerting run, such an alert was pending or firing.
    A run is healthy if it is not alerting, if its value is not far from the median (`find_odd`),
    and if it is not new and far from normal (`find_postponed`). The caller removes the runs of
    drifts from the healthy runs.
    """
    alerts = {rule.alert for rule in learning_rules(comparison)}
    alerting = find_alerting_runs(series, past, alerts)
    values_without_alerts = np.where(alerting, np.nan, lessons.values)
    is_odd = find_odd(values_without_alerts, lessons.errors, lessons.z)
    is_odd = spread_over_segments(series, is_odd)
    return PastAlerts(
        healthy=~alerting & ~is_odd & ~find_postponed(lessons.z),
        alerting=alerting,
        firing=find_firings(series, past),
        far_from_normal=lessons.z > NORMAL_AGAIN[Learning.DROP],
    )


def _find_evidence_ends(past_alerts: PastAlerts, past: UsablePast) -> Flags:
    """Find the runs after which the evidence of a trend is dropped, (runs, series).

    These are runs with a firing alert, and the last run of each model, because the evidence says
    nothing about the next model.
    """
    next_runs = np.arange(1, len(past.runs) + 1)
    is_last_of_model = np.isin(next_runs, past.model_changes)
    return past_alerts.firing | is_last_of_model[:, np.newaxis]


def find_postponed(z: Floats) -> Flags:
    """Find the newest past runs that are too far from normal to end an alert, (runs, series).

    Rules learn from these runs only when they are older.
    """
    is_new = np.arange(len(z))[:, np.newaxis] >= len(z) - NEAR_DROP_RUNS
    return is_new & (z > NORMAL_AGAIN[Learning.DROP])


def find_odd(values: Floats, errors: Floats, z: Floats) -> Flags:
    """Find past runs that no limit judged and that are far from the median, (runs, series).

    Far means more than `ODD_SCALES` times the spread of the runs, or their typical sampling error
    if this is larger. If a share is 0 in all other runs, their spread is 0. Then the sampling error
    prevents a single user from making a run odd. ``values`` are NaN for runs with an alert.
    """
    was_not_judged = np.isnan(z)
    return was_not_judged & _find_far(values, errors)


def _find_far(values: Floats, errors: Floats) -> Flags:
    scale = np.fmax(find_scale(values), find_median(errors))
    return np.asarray(np.abs(values - find_median(values)) > ODD_SCALES * scale)


def _find_expected_faults(
    series: ManySeries, lessons: LessonArrays, past_alerts: PastAlerts
) -> Flags:
    """Find the series in whose segment the last run had a fault that rules expected, (series,).

    Such a run is far from the median, but caused no alert, because a season expected it. A fault of
    all users concerns every segment. Series that compare with earlier lists do not count, because
    they are far from the median after the fault too.
    """
    if not len(lessons.values):
        return np.zeros(len(series), dtype=bool)
    values = np.where(past_alerts.alerting, np.nan, lessons.values)
    is_far = _find_far(values, lessons.errors)[-1:] & np.isfinite(lessons.z[-1:])
    is_far &= ~np.array([_compares_with_earlier_lists(one_series.rule) for one_series in series])
    is_after_fault: Flags = spread_over_segments(series, is_far)[0]
    return is_after_fault


def share_alert_budget(comparison: Comparison, series: ManySeries) -> Floats:
    """Return for each series the allowed chance of a false alert in one run, (series,)."""
    budget = Budget(
        runs=max(1.0, comparison.judging.runs_per_false_alert),
        segments=[*dict.fromkeys(one_series.segment for one_series in series)],
        looks={one_series.rule.alert: _budget_weight(one_series.rule) for one_series in series},
    )
    return np.array(
        [budget.alpha(one_series.segment, one_series.rule.alert) for one_series in series]
    )


def _budget_weight(rule: SeriesRule) -> float:
    """Return the rule's weight in the budget of false alerts.

    `SMALL_WEIGHT` says which rules have a small weight, and why.
    """
    if not isinstance(rule, CoverageRule):
        return SMALL_WEIGHT if judges_too_similar(rule) else 1.0
    weight = 1.0
    if rule.share.trait in SUDDEN:
        weight *= SMALL_WEIGHT
    # The candidate is being tested, so faults of the baseline are less likely.
    if rule.share.arm is Arm.BASELINE:
        weight *= SMALL_WEIGHT
    return weight


def _collect_evidence(
    trend_z: Floats, evidence_ends: Flags, alpha: Floats
) -> tuple[TrendEvidence, Flags]:
    """Collect the evidence of drift before this run, and find past runs that belong to a drift.

    ``trend_z`` says what each past run adds to the evidence, oldest first. ``evidence_ends`` says
    after which runs the evidence of a series is dropped. ``alpha`` is the allowed chance of a false
    alert in one run, (series,). All other arrays have the shape (runs, series).
    """
    evidence = no_evidence(len(alpha))
    is_drifting = np.zeros(evidence_ends.shape, dtype=bool)
    for row, run_z in enumerate(trend_z):
        evidence = update_evidence(evidence, run_z)
        is_last_run = row == len(trend_z) - 1
        no_more_is_added = evidence_ends[row] | is_last_run
        if no_more_is_added.any():
            # If no more runs are added, the evidence says how many of the runs so far belong to a
            # drift. These are the newest ones.
            drifting_runs = np.where(no_more_is_added, count_suspects(evidence, alpha), 0)
            runs_since = np.arange(row, -1, -1)[:, np.newaxis]
            is_drifting[: row + 1] |= runs_since < drifting_runs
        if evidence_ends[row].any():
            # The evidence of a series is dropped by multiplying it by 0.
            remains = ~evidence_ends[row]
            evidence = TrendEvidence(
                mass=evidence.mass * remains,
                rise=evidence.rise * remains,
                since=evidence.since * remains,
            )
    return evidence, is_drifting


def _build_expectations(
    series: ManySeries,
    figures: Figures,
    reference: Reference,
    evidence_before: TrendEvidence,
    alpha: Floats,
) -> tuple[Expectation, ...]:
    """Return the expectation of each series, in the same order.

    ``evidence_before`` is the evidence of drift before this run. ``alpha`` is the allowed chance of
    a false alert in one run, (series,). An expectation has limits only if there were at least
    `MIN_HEALTHY_RUNS` healthy runs.
    """
    values, errors = read_values_and_errors(series, figures)
    run_limits = compute_limits(series, reference, values, errors, alpha)
    # If runs are correlated, a part of z only repeats what earlier runs showed. This part is no
    # evidence of a trend, so `discount` removes it.
    correlation = correlate(reference.used_values, alpha)
    correlation = np.where(run_limits.is_independent, 0.0, correlation)
    # A low correlation is raised to the median correlation of all segments of the same rule.
    _, rule_numbers = np.unique(
        [one_series.rule.alert for one_series in series], return_inverse=True
    )
    correlation = raise_to_median(correlation, rule_numbers)
    trend_z = discount(run_limits.z, correlation)
    evidence = update_evidence(evidence_before, trend_z).total
    expectations = []
    for column, one_series in enumerate(series):
        has_limits = reference.runs[column] >= MIN_HEALTHY_RUNS
        expectation = replace(
            _expect_without_limits(one_series),
            runs=int(reference.runs[column]),
            judged=_finite(values[column]),
            error=_finite(errors[column]),
            trend_z=_finite(trend_z[column]),
        )
        if has_limits:
            center = float(reference.center[column])
            limits = float(run_limits.limits[column]), float(run_limits.opposites[column])
            expected, limit, opposite = one_series.show_for_people([center, *limits], figures)
            expectation = replace(
                expectation,
                expected=expected,
                limit=limit,
                opposite=opposite,
                z=_finite(run_limits.z[column]),
            )
        learned = one_series.rule.limit
        if isinstance(learned, LearnedLimit) and learned.learning is Learning.TREND:
            expectation = replace(expectation, evidence_limit=1.0 / float(alpha[column]))
            if has_limits:
                expectation = replace(expectation, evidence=float(evidence[column]))
        expectations.append(expectation)
    return tuple(expectations)


def _expect_without_limits(one_series: RuleSeries[SeriesRule]) -> Expectation:
    return Expectation(
        alert=one_series.rule.alert,
        segment=one_series.segment,
        runs=0,
        series=judged_series(one_series.rule),
    )


def _finite(value: np.float64) -> float | None:
    return float(value) if np.isfinite(value) else None
