"""Computes what rules with learned limits expect of a run, from healthy earlier runs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from monitor.alerts.rule_evaluation import Figures, segments_of
from monitor.alerts.verdicts import NORMAL_AGAIN
from monitor.model.alerts import NEW_NORMAL, AlertState, Expectation, State, Transition
from monitor.model.arrays import Flags, Floats
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant
from monitor.model.memory import PastRun
from monitor.model.rankings import Arm, CoverageRow
from monitor.model.rules import (
    MIN_HEALTHY_RUNS,
    Comparison,
    CoverageRule,
    Direction,
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
    ListTrait,
)
from monitor.pipeline import rule_series
from monitor.pipeline.score import means_too_similar
from monitor.statistics.reference.history import (
    WINDOW,
    find_median,
    find_scale,
    median_z_while_firing,
)
from monitor.statistics.reference.prediction import (
    Reference,
    compute_p_values,
    compute_reference,
    predict,
    z_of_p_value,
)
from monitor.statistics.reference.sampling_error import judge_rare
from monitor.statistics.reference.season import (
    TrendEvidence,
    correlate,
    count_suspects,
    discount,
    no_evidence,
    raise_to_median,
    update_evidence,
)
from monitor.statistics.reference.spread import SETTLED_RUNS, PastAlerts
from monitor.statistics.reference.thresholds import Budget
from monitor.texts.actions import accept_command
from monitor.texts.model_versions import write_model_changes

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
    usable_past = _UsablePast(runs=[run for run in past if not is_holiday(run.slot)])
    if comparison.judging.by_model:
        usable_past = _select_past_of_models(usable_past.runs, measured)
    alpha = share_alert_budget(comparison, series)
    lessons = rule_series.read_lessons(series, usable_past.runs)
    past_alerts = _find_past_alerts(comparison, series, usable_past.runs, lessons)
    evidence_ends = _find_evidence_ends(past_alerts, usable_past)
    evidence, was_drifting = _collect_evidence(lessons.trend_z, evidence_ends, alpha)
    accepted = [change for change in accepted if change.at <= measured.slot]
    past_alerts = replace(
        past_alerts,
        healthy=past_alerts.healthy & ~was_drifting,
        accepted=_find_accepted_levels(usable_past, accepted),
        runs_until_normal=_runs_until_new_normal(usable_past.runs, measured.slot),
    )
    reference = compute_reference(
        lessons.values,
        lessons.errors,
        phases=rule_series.find_phases(usable_past.runs, measured.slot),
        alerts=past_alerts,
        side=_find_sides(series),
    )
    reference = _allow_level_without_season(series, reference, lessons, past_alerts)
    expectations = _build_expectations(series, figures, reference, evidence, alpha)
    fault_z = median_z_while_firing(lessons.z, past_alerts.firing)
    notes = _describe_levels(comparison.name, usable_past.runs, reference, usable_past.note)
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
) -> list[rule_series.RuleSeries[SeriesRule]]:
    """Return a series for each of these rules in each of its segments."""
    firing = {(state.alert, state.segment) for state in states if state.state is State.FIRING}
    series = []
    for rule in rules:
        for segment in segments_of(rule, figures.segments(rule), states):
            is_firing = (rule.alert, segment) in firing
            series.append(rule_series.RuleSeries(rule, segment, is_firing))
    return series


def _find_unjudged(
    series: rule_series.ManySeries,
    lessons: rule_series.LessonArrays,
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


@immutable
class _UsablePast:
    """The past runs from which a run can learn, oldest first, and a note for people."""

    runs: Sequence[PastRun]
    model_changes: Sequence[int] = ()  # indexes of runs with other models than the run before
    note: str = ""


def _select_past_of_models(past: Sequence[PastRun], measured: MeasuredRun) -> _UsablePast:
    """Select the past runs from which a run of the measured run's models can learn.

    - All runs before the first run of these models, because they show how much runs vary.
    - Of the later runs, only the runs of these models. If an earlier model comes back, its former
      level is normal.

    The first run of new models is not judged, so no past run is selected for it. There is one
    exception: if the last run had new models too, the runs above are selected. Without this
    exception, no run would be judged in a comparison whose models change in each run.
    """
    *past_models, current = _name_models(past, measured)
    is_new = current not in past_models
    first_of_current = len(past_models)
    if not is_new:
        first_of_current = past_models.index(current)
    runs = []
    models = []
    for row, (run, model) in enumerate(zip(past, past_models, strict=True)):
        if row < first_of_current or model == current:
            runs.append(run)
            models.append(model)
    changes = [row for row in range(1, len(runs)) if models[row] != models[row - 1]]
    has_changed_in_last_run = len(runs) - 1 in changes
    if runs and is_new and not has_changed_in_last_run:
        difference = _describe_models(measured, past[-1])
        return _UsablePast(runs=(), note=f"not judged by what was normal before: {difference}")
    note = ""
    if changes and len(runs) - changes[-1] < SETTLED_RUNS:
        last_of_old = runs[changes[-1] - 1]
        first_of_new = runs[changes[-1]]
        since = format_instant(first_of_new.slot)
        note = f"{NEW_NORMAL} {since}: {_describe_models(measured, last_of_old)}"
    return _UsablePast(runs=runs, model_changes=changes, note=note)


def _name_models(past: Sequence[PastRun], measured: MeasuredRun) -> list[tuple[str | None, ...]]:
    """Return the names of both arms' models in each past run, and last in the measured run.

    A run without names of models gets the names of the next run that has names.
    """
    newest_first: list[tuple[str | None, ...]] = []
    names: dict[Arm, str | None] = dict.fromkeys(Arm)
    for models in (measured.models, *(run.models for run in reversed(past))):
        for arm, model in (models or {}).items():
            names[arm] = model.now or names[arm]
        newest_first.append(tuple(names.values()))
    return newest_first[::-1]


def _describe_models(measured: MeasuredRun, run_before: PastRun) -> str:
    return " and ".join(write_model_changes(measured.models, measured.slot, run_before.slot))


def _find_past_alerts(
    comparison: Comparison,
    series: rule_series.ManySeries,
    past: Sequence[PastRun],
    lessons: rule_series.LessonArrays,
) -> PastAlerts:
    """Find the past runs with alerts, and the healthy past runs.

    Only alerts of `learning_rules` count. In an alerting run, such an alert was pending or firing.
    A run is healthy if it is not alerting, if its value is not far from the median (`find_odd`),
    and if it is not new and far from normal (`find_postponed`). The caller removes the runs of
    drifts from the healthy runs.
    """
    alerts = {rule.alert for rule in learning_rules(comparison)}
    alerting = rule_series.find_alerting_runs(series, past, alerts)
    values_without_alerts = np.where(alerting, np.nan, lessons.values)
    is_odd = find_odd(values_without_alerts, lessons.errors, lessons.z)
    is_odd = rule_series.spread_over_segments(series, is_odd)
    return PastAlerts(
        healthy=~alerting & ~is_odd & ~find_postponed(lessons.z),
        alerting=alerting,
        firing=rule_series.find_firings(series, past),
        far_from_normal=lessons.z > NORMAL_AGAIN[Learning.DROP],
    )


def _find_evidence_ends(past_alerts: PastAlerts, past: _UsablePast) -> Flags:
    """Find the runs after which the evidence of a trend is dropped, (runs, series).

    These are runs with a firing alert, and the last run of each model, because the evidence says
    nothing about the next model.
    """
    next_runs = np.arange(1, len(past.runs) + 1)
    is_last_of_model = np.isin(next_runs, past.model_changes)
    return past_alerts.firing | is_last_of_model[:, np.newaxis]


def _find_accepted_levels(
    past: _UsablePast, accepted: Iterable[Transition]
) -> list[tuple[int, int]]:
    """Return two indexes in ``past.runs`` for each accepted level of the series' values.

    They are the indexes of the level's first run, and of the first run after its acceptance. A
    person accepts the level at which an alert began. The level of a new model is accepted with its
    first run. A level without past runs before its acceptance is left out.
    """
    slots = [run.slot for run in past.runs]  # oldest first
    levels = [(change, change + 1) for change in past.model_changes]
    for acceptance in accepted:
        first_run = bisect_left(slots, acceptance.slot)
        first_run_after_acceptance = bisect_right(slots, acceptance.at)
        if first_run < first_run_after_acceptance:
            levels.append((first_run, first_run_after_acceptance))
    return sorted(levels)


def _describe_levels(
    comparison: str, past: Sequence[PastRun], reference: Reference, unchanged_note: str
) -> list[str]:
    """Write a note on the level of each series. ``unchanged_note`` is for an unchanged level."""
    notes = []
    # ``first_run`` is the index of the past run at which the level began, or -1. If the level does
    # not differ from the level before, the series came back to its former level.
    for first_run, is_different in zip(reference.since, reference.has_moved, strict=True):
        if first_run < 0:
            notes.append(unchanged_note)
            continue
        slot = format_instant(past[first_run].slot)
        if is_different:
            command = accept_command(comparison, past[first_run].slot)
            notes.append(f"{NEW_NORMAL} {slot}: accept it ({command}) or roll back")
        else:
            notes.append(f"normal again since {slot}")
    return notes


def _runs_until_new_normal(past: Sequence[PastRun], slot: datetime) -> int:
    """Return how many runs in a row at a changed level make that level the new normal.

    This is the number of runs in the last day, but at least SETTLED_RUNS and at most WINDOW.
    """
    runs_of_a_day = sum(run.slot > slot - timedelta(days=1) for run in past)
    return min(max(runs_of_a_day, SETTLED_RUNS), WINDOW)


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
    series: rule_series.ManySeries, lessons: rule_series.LessonArrays, past_alerts: PastAlerts
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
    is_after_fault: Flags = rule_series.spread_over_segments(series, is_far)[0]
    return is_after_fault


def share_alert_budget(comparison: Comparison, series: rule_series.ManySeries) -> Floats:
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
        return SMALL_WEIGHT if _judges_too_similar(rule) else 1.0
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
    series: rule_series.ManySeries,
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
    values, errors = rule_series.read_values_and_errors(series, figures)
    compared = _compare_with_reference(series, reference, values, errors, alpha)
    # If runs are correlated, a part of z only repeats what earlier runs showed. This part is no
    # evidence of a trend, so `discount` removes it.
    correlation = correlate(reference.used_values, alpha)
    correlation = np.where(compared.is_independent, 0.0, correlation)
    # A low correlation is raised to the median correlation of all segments of the same rule.
    _, rule_numbers = np.unique(
        [one_series.rule.alert for one_series in series], return_inverse=True
    )
    correlation = raise_to_median(correlation, rule_numbers)
    trend_z = discount(compared.z, correlation)
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
            limits = float(compared.limits[column]), float(compared.opposites[column])
            expected, limit, opposite = one_series.show_for_people([center, *limits], figures)
            expectation = replace(
                expectation,
                expected=expected,
                limit=limit,
                opposite=opposite,
                z=_finite(compared.z[column]),
            )
        learned = one_series.rule.limit
        if isinstance(learned, LearnedLimit) and learned.learning is Learning.TREND:
            expectation = replace(expectation, evidence_limit=1.0 / float(alpha[column]))
            if has_limits:
                expectation = replace(expectation, evidence=float(evidence[column]))
        expectations.append(expectation)
    return tuple(expectations)


def _expect_without_limits(one_series: rule_series.RuleSeries[SeriesRule]) -> Expectation:
    return Expectation(
        alert=one_series.rule.alert,
        segment=one_series.segment,
        runs=0,
        series=judged_series(one_series.rule),
    )


def _finite(value: np.float64) -> float | None:
    return float(value) if np.isfinite(value) else None


def _find_sides(series: rule_series.ManySeries) -> Floats:
    """Return for each series 1 if high values alert, and -1 if low values alert, (series,)."""
    is_below = [one_series.rule.direction is Direction.BELOW for one_series in series]
    return np.where(is_below, -1.0, 1.0)


def _allow_former_level(series: rule_series.ManySeries, reference: Reference) -> Reference:
    """Make the former level of each series normal too, until somebody accepts its new level.

    A rule alerts on values that are too high, or on values that are too low. Take a rule on high
    values. If the former level was higher than the new level, the center moves up to the former
    level. Then neither level alerts. If the former level was lower, nothing is moved, because it
    cannot alert. ``used_values`` move too, because `judge_rare` uses them in place of the center.
    """
    # ``before`` is NaN without a former level.
    distance = np.nan_to_num(reference.before - reference.center)
    is_on_alerting_side = distance * _find_sides(series) > 0
    shift = np.where(is_on_alerting_side, distance, 0.0)
    return replace(
        reference, center=reference.center + shift, used_values=reference.used_values + shift
    )


def _allow_level_without_season(
    series: rule_series.ManySeries,
    reference: Reference,
    lessons: rule_series.LessonArrays,
    past_alerts: PastAlerts,
) -> Reference:
    """Make the level of all healthy runs normal too, for rules on lists that are too similar.

    Otherwise, such a rule alerts if a fault that returned regularly does not return any more.
    Nothing is changed if somebody accepted a level, because then some of these runs are outdated.
    """
    if past_alerts.accepted:
        return reference
    level = find_median(np.where(past_alerts.healthy, lessons.values, np.nan))
    is_too_similar = np.array([_judges_too_similar(one_series.rule) for one_series in series])
    has_no_former_level = np.isnan(reference.before)
    has_season = np.abs(level - reference.center) > reference.spread
    is_allowed = is_too_similar & has_no_former_level & has_season
    before = np.where(is_allowed, level, reference.before)
    return replace(reference, before=before)


def _judges_too_similar(rule: SeriesRule) -> bool:
    if isinstance(rule, CoverageRule):
        return False
    return means_too_similar(rule.metric, str(rule.statistic), rule.direction)


@immutable
class _Compared:
    """The limits of a run's series, and how far the run is from normal, (series,) each."""

    limits: Floats  # on the side that alerts
    opposites: Floats  # the limits on the other side
    z: Floats  # in standard deviations, NaN if there are too few healthy runs
    is_independent: Flags  # whether the values of consecutive runs are independent


def _compare_with_reference(
    series: rule_series.ManySeries,
    reference: Reference,
    values: Floats,
    errors: Floats,
    alpha: Floats,
) -> _Compared:
    """Compare the run's values and their errors, (series,) each, with the reference.

    ``alpha`` is the allowed chance of a false alert in one run, (series,).
    """
    rules = [one_series.rule for one_series in series]
    normal = _allow_former_level(series, reference)
    # If the run has no value, its error is NaN. The limits are still shown, as if the error were 0.
    # The p-values are NaN, because such a run is not judged.
    prediction = predict(normal, np.nan_to_num(errors), alpha)
    p_below = compute_p_values(normal, values, errors, direction=Direction.BELOW)
    p_above = compute_p_values(normal, values, errors, direction=Direction.ABOVE)
    is_below = _find_sides(series) < 0
    is_share_of_users = np.array([rule.is_share for rule in rules])
    # Shares of users are judged as angles, see `RuleSeries`. But `judge_rare` judges rare shares as
    # counts, and returns the results of all other series unchanged. It finds only shares that are
    # too high. A share is too low if the share of the other users is too high. So for rules on low
    # shares, the other users are counted.
    is_swapped = is_share_of_users & is_below
    counts_most_common_list = np.array(
        [isinstance(rule, CoverageRule) and rule.share.trait is ListTrait.SHARED for rule in rules]
    )
    uncounted_limits = np.where(is_below, prediction.low, prediction.high)
    uncounted_p = np.where(is_below, p_below, p_above)
    past_angles = _swap_to_other_users(normal.used_values, is_swapped)
    angles = _swap_to_other_users(values, is_swapped)
    swapped_limits = _swap_to_other_users(uncounted_limits, is_swapped)
    swapped_limits, p, is_counted = judge_rare(
        is_share_of_users & np.isfinite(values),
        (past_angles, normal.errors),
        (angles, errors),
        alpha,
        uncounted=(swapped_limits, uncounted_p),
        # Some list is always the most common one, so this share always counts at least one user.
        always=counts_most_common_list.astype(float),
    )
    limits = _swap_to_other_users(swapped_limits, is_swapped)
    opposites = np.where(is_below, prediction.high, prediction.low)
    z = np.where(normal.runs >= MIN_HEALTHY_RUNS, z_of_p_value(p), np.nan)
    # If few users have the most common list, they have it by chance. One run then says nothing
    # about the next run.
    is_independent = counts_most_common_list & is_counted
    return _Compared(limits=limits, opposites=opposites, z=z, is_independent=is_independent)


def _swap_to_other_users(angles: Floats, is_swapped: Flags) -> Floats:
    """Replace the angles of swapped series by the angles of the share of the other users.

    If a share has the angle a, the share of the other users has the angle pi / 2 - a. Swapping
    twice gives the same angles again. ``angles`` have the shape (series,) or (runs, series).
    """
    return np.where(is_swapped, np.pi / 2 - angles, angles)
