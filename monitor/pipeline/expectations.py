"""Computes what rules with learned limits expect of a run, from healthy earlier runs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from monitor.alerts.rule_evaluation import Figures, segments_of
from monitor.alerts.verdicts import NORMAL_AGAIN
from monitor.model.alerts import NEW_NORMAL, AlertState, Expectation, Transition
from monitor.model.arrays import Flags, Floats
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant
from monitor.model.memory import PastRun
from monitor.model.rankings import Arm
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
from monitor.model.statistics import OF_EARLIER_LISTS, SIMILAR_LISTS, ListTrait
from monitor.pipeline import rule_series
from monitor.pipeline.score import means_too_similar
from monitor.statistics.reference.history import find_median, find_scale, median_z_while_firing
from monitor.statistics.reference.prediction import (
    WINDOW,
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
SUDDEN = (ListTrait.EXPOSURE, ListTrait.SHIFTED, *SIMILAR_LISTS)
"""Traits with a small weight. A fault changes them much, and trainings change them little."""
HOLIDAY = "not judged by what is normal, because the day is one of the comparison's holidays"
AFTER_HOLIDAY = (
    "not judged by what is normal, because the lists are compared with a holiday's lists"
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


def needs_recent(comparison: Comparison) -> bool:
    """Whether messages need summaries of earlier runs, because no rule learns what is normal."""
    return not learning_rules(comparison) and bool(comparison.judging.similarity_rules)


def compute_expectations(
    comparison: Comparison,
    measured: MeasuredRun,
    past: Sequence[PastRun],
    states: Sequence[AlertState],
    accepted: Sequence[Transition] = (),
) -> tuple[Expectation, ...]:
    """Return what each rule with a learned limit expects in each segment, sorted by rule.

    ``past`` are the ok runs of the same configuration, oldest first. A rule learns from a run if
    the run was healthy in the rule's segment. This means that no rule that learns had an alert
    there or for all users, and that no drift was under way. A rule also learns from these runs:

    - runs of a new normal,
    - runs of an ``accepted`` level,
    - runs of another model, which has its own normal.
    """
    rows = measured.coverage.rows if measured.coverage else ()
    rules = [rule for rule in comparison.judging.rules if is_learned(rule)]
    learns_coverage = any(isinstance(rule, CoverageRule) for rule in rules)
    figures = Figures.of(measured.summaries, rows if learns_coverage else (), measured.arm_scores)
    if not (figures.summaries or figures.coverage):
        return ()
    series = []
    for rule in rules:
        for segment in segments_of(rule, figures.segments(rule), states):
            series.append(rule_series.RuleSeries(rule, segment))
    if not series:
        return ()
    is_holiday = comparison.judging.is_holiday
    if is_holiday(measured.slot):
        return tuple(replace(_without_limit(judged), note=HOLIDAY) for judged in series)
    model_past = _ModelPast(runs=[run for run in past if not is_holiday(run.slot)])
    if comparison.judging.by_model:
        model_past = _find_past_of_models(model_past.runs, measured)
    alpha = share_out(comparison, series)
    lessons = rule_series.read_lessons(series, model_past.runs)
    past_alerts = _find_past_alerts(comparison, series, model_past.runs, lessons)
    evidence, was_drifting = _collect_evidence(
        _find_resets(past_alerts, model_past), lessons.steady, alpha
    )
    accepted = [change for change in accepted if change.at <= measured.slot]
    past_alerts = replace(
        past_alerts,
        healthy=past_alerts.healthy & ~was_drifting,
        accepted=_find_accepted_levels(model_past, accepted),
        settled=_runs_of_a_new_normal(model_past.runs, measured.slot),
    )
    reference = compute_reference(
        lessons.values,
        lessons.errors,
        phases=rule_series.find_phases(model_past.runs, measured.slot),
        alerts=past_alerts,
        side=_find_sides(series),
    )
    expectations = _build_expectations(series, figures, reference, evidence, alpha)
    faults = median_z_while_firing(lessons.z, past_alerts.firing)
    notes = _describe_levels(comparison.name, model_past.runs, reference, model_past.note)
    lost_in_healthy = np.where(np.isnan(reference.used_values), np.nan, lessons.lost)
    usual_lost = np.nan_to_num(find_median(lost_in_healthy))
    # The values leave out users that could not be compared. `apply_bounds` allows for these users.
    lost_share_of = {row.segment: 1.0 - row.paired / row.asked for row in rows if row.asked}
    is_after_holiday = bool(past) and is_holiday(past[-1].slot)
    completed = []
    for column, expectation in enumerate(expectations):
        if is_after_holiday and _needs_earlier_lists(series[column].rule):
            completed.append(replace(_without_limit(series[column]), note=AFTER_HOLIDAY))
            continue
        completed.append(
            replace(
                expectation,
                lost=lost_share_of.get(expectation.segment, 0.0),
                usual_lost=float(usual_lost[column]),
                note=notes[column],
                fault=_finite(faults[column]),
            )
        )
    return tuple(completed)


def _needs_earlier_lists(rule: SeriesRule) -> bool:
    return isinstance(rule, CoverageRule) and rule.share.trait in OF_EARLIER_LISTS


@immutable
class _ModelPast:
    """The past runs from which a run can learn, oldest first, and a note for people."""

    runs: Sequence[PastRun]
    starts: Sequence[int] = ()  # rows of the first runs of other models than in the run before
    note: str = ""


def _find_past_of_models(past: Sequence[PastRun], measured: MeasuredRun) -> _ModelPast:
    """Select the past runs from which a run of these models can learn.

    All runs before the first run of the current models are selected, because they show how much
    runs vary. Of the later runs, only runs of the current models are selected. So if an earlier
    model comes back, its own level is normal.

    The first run of new models is not judged, so no run is selected for it. The second run is
    judged by the first. If models change in two runs in a row, the second of these runs is judged.
    Otherwise no run would be judged if each run had new models.
    """
    *past_models, current = _name_models(past, measured)
    is_new = current not in past_models
    first_of_current = len(past_models) if is_new else past_models.index(current)
    runs = []
    models = []
    for row, (run, model) in enumerate(zip(past, past_models, strict=True)):
        if row < first_of_current or model == current:
            runs.append(run)
            models.append(model)
    starts = [row for row in range(1, len(runs)) if models[row] != models[row - 1]]
    has_changed_in_last_run = len(runs) - 1 in starts
    if runs and is_new and not has_changed_in_last_run:
        change = _describe_models(measured, past[-1])
        return _ModelPast(runs=(), note=f"not judged by what was normal before: {change}")
    note = ""
    if starts and len(runs) - starts[-1] < SETTLED_RUNS:
        last_of_old = runs[starts[-1] - 1]
        first_of_new = runs[starts[-1]]
        since = format_instant(first_of_new.slot)
        note = f"{NEW_NORMAL} {since}: {_describe_models(measured, last_of_old)}"
    return _ModelPast(runs=runs, starts=starts, note=note)


def _name_models(past: Sequence[PastRun], measured: MeasuredRun) -> list[tuple[str | None, ...]]:
    """Return the names of both arms' models in each past run, and in this run, which is the last.

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

    Only alerts of `learning_rules` count. A run is healthy if it had no such alert, if it is not
    odd (`find_odd`), and if rules may already learn from it (`find_waiting`). Drifts are not
    considered, so the caller must remove their runs from the healthy runs.
    """
    alerts = {rule.alert for rule in learning_rules(comparison)}
    alerting = rule_series.find_alerting_runs(series, past, alerts)
    values_without_alerts = np.where(alerting, np.nan, lessons.values)
    is_odd = find_odd(values_without_alerts, lessons.errors, lessons.z)
    is_odd = rule_series.spread_over_segments(series, is_odd)
    return PastAlerts(
        healthy=~alerting & ~is_odd & ~find_waiting(lessons.z),
        alerting=alerting,
        firing=rule_series.find_firings(series, past),
        far_from_normal=lessons.z > NORMAL_AGAIN[Learning.DROP],
    )


def _find_resets(past_alerts: PastAlerts, past: _ModelPast) -> Flags:
    """Find the runs after which the evidence of a trend is dropped, (runs, series).

    These are runs with a firing alert, and the last runs of a model, because their evidence is
    about this model.
    """
    is_last_of_model = np.isin(np.arange(len(past.runs)) + 1, past.starts)
    return past_alerts.firing | is_last_of_model[:, np.newaxis]


def _find_accepted_levels(
    past: _ModelPast, accepted: Iterable[Transition]
) -> list[tuple[int, int]]:
    """Return the indexes of each accepted level's first run, and of the first run after acceptance.

    They are indexes in ``past.runs``. A level is a new normal. A person accepts the level of an
    alert. The level of a new model is accepted with its first run. Levels that were accepted before
    their first past run are left out.
    """
    slots = [run.slot for run in past.runs]  # oldest first
    rows = [(start, start + 1) for start in past.starts]
    for change in accepted:
        first_run = bisect_left(slots, change.slot)
        first_run_after_acceptance = bisect_right(slots, change.at)
        if first_run < first_run_after_acceptance:
            rows.append((first_run, first_run_after_acceptance))
    return sorted(rows)


def _describe_levels(
    comparison: str, past: Sequence[PastRun], reference: Reference, otherwise: str
) -> list[str]:
    """Write a note on the level of each series, or ``otherwise`` if its level has not changed."""
    notes = []
    # ``since`` is the index of the past run that began the level, or -1.
    for since, is_new in zip(reference.since, reference.has_moved, strict=True):
        if since < 0:
            notes.append(otherwise)
            continue
        slot = format_instant(past[since].slot)
        if is_new:
            command = accept_command(comparison, past[since].slot)
            notes.append(f"{NEW_NORMAL} {slot}: accept it ({command}) or roll back")
        else:
            notes.append(f"normal again since {slot}")
    return notes


def _runs_of_a_new_normal(past: Sequence[PastRun], slot: datetime) -> int:
    """Return how many runs in a row at a changed level make that level the new normal.

    This is the number of runs in the last day, but at least SETTLED_RUNS and at most WINDOW.
    """
    runs_of_a_day = sum(run.slot > slot - timedelta(days=1) for run in past)
    return min(max(runs_of_a_day, SETTLED_RUNS), WINDOW)


def find_waiting(z: Floats) -> Flags:
    """Find the newest past runs that are too far from normal to end an alert, (runs, series).

    Rules do not learn from these runs yet.
    """
    is_new = np.arange(len(z))[:, np.newaxis] >= len(z) - NEAR_DROP_RUNS
    return is_new & (z > NORMAL_AGAIN[Learning.DROP])


def find_odd(values: Floats, errors: Floats, z: Floats) -> Flags:
    """Find past runs that no limit judged and that are far from the median, (runs, series).

    They are more than ODD_SCALES scales away. The scale is the spread of the runs or their typical
    sampling error, whichever is larger. So one user without a list makes no run odd. ``values`` are
    NaN for runs with an alert.
    """
    scale = np.fmax(find_scale(values), find_median(errors))
    return np.isnan(z) & (np.abs(values - find_median(values)) > ODD_SCALES * scale)


def share_out(comparison: Comparison, series: rule_series.ManySeries) -> Floats:
    """Return for each series the allowed chance of a false alert in one run, (series,)."""
    budget = Budget(
        runs=max(1.0, comparison.judging.runs_per_false_alert),
        segments=[*dict.fromkeys(judged.segment for judged in series)],
        looks={judged.rule.alert: _budget_weight(judged.rule) for judged in series},
    )
    return np.array([budget.share(judged.segment, judged.rule.alert) for judged in series])


def _budget_weight(rule: SeriesRule) -> float:
    """Return the rule's weight in the budget of false alerts. See `SMALL_WEIGHT`."""
    if not isinstance(rule, CoverageRule):
        return SMALL_WEIGHT if _is_on_rise(rule) else 1.0
    weight = 1.0
    if rule.share.trait in SUDDEN:
        weight *= SMALL_WEIGHT
    # A fault is more likely in the candidate, because it is the arm that is being tried.
    if rule.share.arm is Arm.BASELINE:
        weight *= SMALL_WEIGHT
    return weight


def _is_on_rise(rule: SeriesRule) -> bool:
    if isinstance(rule, CoverageRule):
        return rule.share.trait in SIMILAR_LISTS
    return means_too_similar(rule.metric, str(rule.statistic), rule.direction)


def _collect_evidence(resets: Flags, z: Floats, alpha: Floats) -> tuple[TrendEvidence, Flags]:
    """Collect the evidence of drift before this run, and find past runs that belong to a drift.

    ``z`` says how far past runs were from normal, oldest first, (runs, series). ``resets`` says
    after which of these runs the evidence of a series is dropped, (runs, series). ``alpha`` is the
    allowed chance of a false alert in one run, (series,). The flags have the shape (runs, series).
    """
    evidence = no_evidence(len(alpha))
    is_drifting = np.zeros(resets.shape, dtype=bool)
    for row, run_z in enumerate(z):
        evidence = update_evidence(evidence, run_z)
        # Only when the evidence of a series ends is it known which runs belong to the drift.
        ends = resets[row] | (row == len(z) - 1)
        if ends.any():
            # The drift has the newest ``suspects`` runs. The run in ``row`` has the age 0.
            suspects = np.where(ends, count_suspects(evidence, alpha), 0)
            age = np.arange(row, -1, -1)[:, np.newaxis]
            is_drifting[: row + 1] |= age < suspects
        # The evidence of a series that is reset starts again from 0.
        stays = ~resets[row]
        evidence = TrendEvidence(
            mass=evidence.mass * stays,
            rise=evidence.rise * stays,
            since=evidence.since * stays,
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

    ``evidence_before`` is the evidence of drift before this run. ``alpha`` is the result of
    `share_out`. An expectation has limits only if there were at least `MIN_HEALTHY_RUNS` healthy
    runs.
    """
    values, errors = rule_series.measure_all(series, figures)
    compared = _compare_with_reference(series, reference, values, errors, alpha)
    # If runs are correlated, a part of z only repeats what earlier runs showed.
    of_series = np.where(compared.is_independent, 0.0, correlate(reference.used_values, alpha))
    # The segments of one rule are a group.
    _, rule_numbers = np.unique([judged.rule.alert for judged in series], return_inverse=True)
    correlation = raise_to_median(of_series, rule_numbers)
    steady = discount(compared.z, correlation)
    evidence = update_evidence(evidence_before, steady).total
    expectations = []
    for column, judged in enumerate(series):
        has_limits = reference.runs[column] >= MIN_HEALTHY_RUNS
        shown: list[float | None] = [None, None, None]
        z = None
        if has_limits:
            of_column = reference.center, compared.limits, compared.opposites
            shown = judged.show_of_run([float(each[column]) for each in of_column], figures)
            z = _finite(compared.z[column])
        expected, limit, opposite = shown
        evidence_now = None
        evidence_limit = None
        learned = judged.rule.limit
        if isinstance(learned, LearnedLimit) and learned.learning is Learning.TREND:
            evidence_now = float(evidence[column]) if has_limits else None
            evidence_limit = 1.0 / float(alpha[column])
        expectation = replace(
            _without_limit(judged),
            runs=int(reference.runs[column]),
            expected=expected,
            limit=limit,
            opposite=opposite,
            judged=_finite(values[column]),
            error=_finite(errors[column]),
            z=z,
            steady=_finite(steady[column]),
            evidence=evidence_now,
            evidence_limit=evidence_limit,
        )
        expectations.append(expectation)
    return tuple(expectations)


def _without_limit(judged: rule_series.RuleSeries[SeriesRule]) -> Expectation:
    return Expectation(
        alert=judged.rule.alert,
        segment=judged.segment,
        runs=0,
        series=judged_series(judged.rule),
    )


def _finite(value: np.float64) -> float | None:
    return float(value) if np.isfinite(value) else None


def _find_sides(series: rule_series.ManySeries) -> Floats:
    """Return 1 for each series whose high values alert, and -1 if its low values do, (series,)."""
    is_below = [judged.rule.direction is Direction.BELOW for judged in series]
    return np.where(is_below, -1.0, 1.0)


def _allow_return(series: rule_series.ManySeries, reference: Reference) -> Reference:
    """Move the center of each series to the level before, if that level is on the side that alerts.

    So until somebody accepts a new level, a return to the level before it is no alert. The newest
    level stays allowed, because each rule judges one side. ``used_values`` move too, because
    `judge_rare` uses them in place of the center.
    """
    to_former = np.nan_to_num(reference.before - reference.center)
    shift = np.where(to_former * _find_sides(series) > 0, to_former, 0.0)
    return replace(
        reference, center=reference.center + shift, used_values=reference.used_values + shift
    )


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
    rules = [judged.rule for judged in series]
    normal = _allow_return(series, reference)
    # Limits are shown even if the run has no value, so they need an error that is a number. With
    # the error 0, the limits are those of past runs. `compute_p_values` gets NaN and returns NaN,
    # because such a run is not judged.
    prediction = predict(normal, np.nan_to_num(errors), alpha)
    p_below = compute_p_values(normal, values, errors, direction=Direction.BELOW)
    p_above = compute_p_values(normal, values, errors, direction=Direction.ABOVE)
    is_below = _find_sides(series) < 0
    is_share_of_users = np.array([rule.is_share for rule in rules])
    # `judge_rare` judges rare shares of users as counts, and keeps the results of other series. It
    # looks for shares that are too high. So a rule on low shares is judged by the share of the
    # other users.
    is_mirrored = is_share_of_users & is_below
    counts_most_common_list = np.array(
        [isinstance(rule, CoverageRule) and rule.share.trait is ListTrait.SHARED for rule in rules]
    )
    limits_by_angle = np.where(is_below, prediction.low, prediction.high)
    p_by_angle = np.where(is_below, p_below, p_above)
    mirrored_limits, p, is_counted = judge_rare(
        is_share_of_users & np.isfinite(values),
        (_mirror_angles(normal.used_values, is_mirrored), normal.errors),
        (_mirror_angles(values, is_mirrored), errors),
        alpha,
        by_angle=(_mirror_angles(limits_by_angle, is_mirrored), p_by_angle),
        # Some list is always the most common one, so at least one user has it.
        always=counts_most_common_list.astype(float),
    )
    limits = _mirror_angles(mirrored_limits, is_mirrored)
    opposites = np.where(is_below, prediction.high, prediction.low)
    z = np.where(normal.runs >= MIN_HEALTHY_RUNS, z_of_p_value(p), np.nan)
    # A few users may get the most common list by chance. Whether they do in one run says nothing
    # about the next run. So while this share is rare, its runs are independent.
    is_independent = counts_most_common_list & is_counted
    return _Compared(limits=limits, opposites=opposites, z=z, is_independent=is_independent)


def _mirror_angles(angles: Floats, is_mirrored: Flags) -> Floats:
    """Replace the angles of mirrored series by the angles of the share of the other users.

    If a share has the angle a, the share of the other users has the angle pi / 2 - a. Mirroring
    twice gives the same angles again. ``angles`` have the shape (series,) or (runs, series).
    """
    return np.where(is_mirrored, np.pi / 2 - angles, angles)
