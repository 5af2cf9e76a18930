"""What the rules with a learned limit expect of a run, computed from the healthy runs before it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np

from monitor.alerts.rule_evaluation import Figures, segments_of
from monitor.alerts.verdicts import NORMAL_AGAIN
from monitor.model.alerts import NEW_NORMAL, AlertState, Expectation, Transition
from monitor.model.arrays import Flags, Floats
from monitor.model.comparison import Comparison
from monitor.model.instants import format_instant
from monitor.model.memory import PastRun
from monitor.model.model_versions import ArmModel, tell_models
from monitor.model.rankings import Arm
from monitor.model.rules import (
    MIN_HEALTHY_RUNS,
    CoverageRule,
    Direction,
    LearnedLimit,
    Learning,
    Rule,
    SeriesRule,
    StandstillRule,
    describe_series,
    is_learned,
)
from monitor.model.runs import Findings
from monitor.model.statistics import Lack
from monitor.pipeline import rule_series
from monitor.reference.history import find_fault, find_median, find_scale
from monitor.reference.prediction import WINDOW, Reference, predict, refer, surprise, to_normal
from monitor.reference.sampling_error import judge_rare
from monitor.reference.season import (
    TrendEvidence,
    correlate,
    count_suspects,
    discount,
    no_evidence,
    update_evidence,
)
from monitor.reference.spread import SETTLED_RUNS, PastAlarms
from monitor.reference.thresholds import Budget

NEAR_DROP_Z = 3.0
NEAR_DROP_RUNS = 3
"""Runs for which one that lies so many standard deviations out is not learned from: a fault that just misses the limit on its
first day would otherwise count as normal on its second."""

ODD_SCALES = 8.0
"""A run that no limit has judged, since too little was learned, is taken for a fault if it lies so far from the median."""

WEIGHT_OF_BASELINE = 0.2
HOLIDAY = "not judged by what is normal: the day is one of the holidays of the comparison"

REMEMBERED = 120
"""Newest runs that are looked back at. A reference takes the newest 60 that count (`reference.WINDOW`), which leaves room for
as many in alarm; seasons and correlation, seen over 17 weeks of days, gain little from more. Judging 1,000 series took 0.3 s
on one core, with 1,000 runs in place of 120 it took 0.9 s."""


def learning_rules(comparison: Comparison) -> tuple[Rule, ...]:
    """The rules that look back at earlier runs."""
    return tuple(
        rule
        for rule in comparison.judging.rules
        if is_learned(rule) or isinstance(rule, StandstillRule)
    )


def compute_expectations(
    comparison: Comparison,
    found: Findings,
    past: Sequence[PastRun],
    states: Sequence[AlertState],
    accepted: Sequence[Transition] = (),
) -> tuple[Expectation, ...]:
    """What each rule with a learned limit expects of each segment of this run, in the order of rules and segments.

    ``past`` are ok runs of the same configuration, oldest first. A run counts for a rule and a segment if no rule that learns
    was in alarm there or for all users, and no drift was under way. So do those of a level that is the new normal, or was
    ``accepted`` before the slot, or that of another model where each has its own.
    """
    rules = [rule for rule in comparison.judging.rules if is_learned(rule)]
    rows = found.measured.coverage.rows if found.measured.coverage else ()
    learns_coverage = any(isinstance(rule, CoverageRule) for rule in rules)
    figures = Figures.of(
        found.measured.summaries, rows if learns_coverage else (), found.measured.arm_scores
    )
    if not (figures.summaries or figures.coverage):
        return ()
    series = [
        rule_series.RuleSeries(rule, segment)
        for rule in rules
        for segment in segments_of(rule, figures.segments(rule), states)
    ]
    if not series:
        return ()
    is_holiday = comparison.judging.is_holiday
    if is_holiday(found.slot):
        return tuple(
            Expectation(
                alert=each.rule.alert,
                segment=each.segment,
                runs=0,
                series=describe_series(each.rule),
                note=HOLIDAY,
            )
            for each in series
        )
    past, starts, note = [run for run in past if not is_holiday(run.slot)], list[int](), ""
    if comparison.judging.by_model:
        past, starts, note = find_past_of_models(past, found)
    shares, lessons = share_out(comparison, series), rule_series.read_lessons(series, past)
    evidence, alarms = _look_back(comparison, series, past, (lessons, shares), starts)
    known = _find_rows(past, [each for each in accepted if each.at <= found.slot])
    levels = sorted([*known, *((start, start + 1) for start in starts)])
    alarms = replace(alarms, accepted=levels, settled=_runs_of_a_new_normal(past, found.slot))
    reference = refer(
        lessons.values,
        lessons.errors,
        phases=rule_series.find_phases(past, found.slot),
        alarms=alarms,
    )
    expected = _build(series, figures, reference, evidence, shares)
    usual = np.nan_to_num(find_median(np.where(np.isnan(reference.taught), np.nan, lessons.lost)))
    notes = [
        _describe_level(comparison.name, past[row].slot, is_new=is_new) if row >= 0 else note
        for row, is_new in zip(reference.since, reference.has_moved, strict=True)
    ]
    # Users that could not be compared are missing from the value; `apply_bounds` weighs them.
    lost = {row.segment: 1.0 - row.paired / row.asked for row in rows if row.asked}
    faults = find_fault(lessons.z, alarms.firing)
    return tuple(
        replace(
            each,
            lost=lost.get(each.segment, 0.0),
            usual_lost=float(usual[n]),
            note=notes[n],
            fault=_finite(faults[n]),
        )
        for n, each in enumerate(expected)
    )


def find_past_of_models(
    past: Sequence[PastRun], found: Findings
) -> tuple[list[PastRun], list[int], str]:
    """The past runs that say what is normal of a run by its models, rows at which other models begin, and a note for people.

    Runs of the same models, after all from before the first of them, which say how much runs vary: a model that comes back
    finds its own level. The first run of new models is judged by nothing, but the second of two in a row by the first. Models
    that are not known yet are those that came next.
    """
    names, later = list[tuple[str | None, ...]](), tuple[str | None, ...]((None,) * len(Arm))
    for models in (found.measured.models, *(run.models for run in reversed(past))):
        later = tuple(
            (models or {}).get(arm, ArmModel()).now or after
            for arm, after in zip(Arm, later, strict=True)
        )
        names.insert(0, later)
    *names, now = names
    first = names.index(now) if now in names else len(names)
    rows = [row for row, each in enumerate(names) if row < first or each == now]
    starts = [
        place for place, (row, after) in enumerate(pairwise(rows), 1) if names[row] != names[after]
    ]
    if rows and first == len(names) and len(rows) - 1 not in starts:
        why = " and ".join(tell_models(found.measured.models, found.slot, past[-1].slot))
        return [], [], f"not judged by what was normal before: {why}"
    note = ""
    if starts and len(rows) - (place := starts[-1]) < SETTLED_RUNS:
        why = " and ".join(
            tell_models(found.measured.models, found.slot, past[rows[place - 1]].slot)
        )
        note = f"{NEW_NORMAL} {format_instant(past[rows[place]].slot)}: {why}"
    return [past[row] for row in rows], starts, note


def _look_back(
    comparison: Comparison,
    series: Sequence[rule_series.RuleSeries[SeriesRule]],
    past: Sequence[PastRun],
    learned: tuple[rule_series.LessonArrays, Floats],
    starts: Sequence[int],
) -> tuple[TrendEvidence, PastAlarms]:
    """The evidence of trends before this run, and which of the past runs were healthy."""
    lessons, shares = learned
    fired = rule_series.find_firings(series, past)
    # Evidence against one model says nothing of the next.
    is_last = np.isin(np.arange(len(past)) + 1, starts)
    evidence, was_drifting = _gather(fired | is_last[:, np.newaxis], lessons.steady, shares)
    alarms = rule_series.find_alarms(
        series, past, {rule.alert for rule in learning_rules(comparison)}
    )
    calm = np.where(alarms, np.nan, lessons.values)
    is_odd = rule_series.spread_over_segments(series, find_odd(calm, lessons.errors, lessons.z))
    # A run in alarm, in a drift or close to a drop must not become part of what is normal.
    healthy = ~alarms & ~is_odd & ~was_drifting & ~find_waiting(lessons.z)
    far = lessons.z > NORMAL_AGAIN[Learning.DROP]
    return evidence, PastAlarms(healthy=healthy, alarms=alarms, firing=fired, far=far)


def _find_rows(past: Sequence[PastRun], accepted: Iterable[Transition]) -> list[tuple[int, int]]:
    """The first run of each level that was accepted, and the first one after that."""
    slots = [run.slot for run in past]
    rows = [(bisect_left(slots, each.slot), bisect_right(slots, each.at)) for each in accepted]
    return [(start, following) for start, following in rows if start < following]


def _describe_level(comparison: str, since: datetime, *, is_new: bool) -> str:
    slot = format_instant(since)
    if not is_new:
        return f"normal again since {slot}"
    return (
        f"{NEW_NORMAL} {slot}: accept it (rankwatch accept {comparison} --from {slot}) or roll back"
    )


def _runs_of_a_new_normal(past: Sequence[PastRun], slot: datetime) -> int:
    """Runs at one level that make it the new normal: a day of them, and SETTLED_RUNS at least."""
    of_a_day = sum(run.slot > slot - timedelta(days=1) for run in past)
    return min(max(of_a_day, SETTLED_RUNS), WINDOW)


def find_waiting(z: Floats) -> Flags:
    """The past runs, (runs, m), that nearly were a drop, so that later runs show first whether that was chance."""
    is_new = np.arange(len(z))[:, np.newaxis] >= len(z) - NEAR_DROP_RUNS
    return is_new & (z > NEAR_DROP_Z)


def find_odd(values: Floats, errors: Floats, z: Floats) -> Flags:
    """The past runs without alarm, (runs, m), that nobody judged and that lie ODD_SCALES from the median, by what varies more.

    That is the scale of the runs or the sampling error of a typical one: one user without a list is not odd.
    """
    scale = np.fmax(find_scale(values), find_median(errors))
    return np.isnan(z) & (np.abs(values - find_median(values)) > ODD_SCALES * scale)


def share_out(
    comparison: Comparison, series: Sequence[rule_series.RuleSeries[SeriesRule]]
) -> Floats:
    """The chance of a false alarm that each series may take in one run, (m,)."""
    budget = Budget(
        runs=max(1.0, comparison.judging.runs_a_false_page),
        segments=[*dict.fromkeys(each.segment for each in series)],
        looks={each.rule.alert: _weight(each.rule) for each in series},
    )
    return np.array([budget.share(each.segment, each.rule.alert) for each in series])


def _weight(rule: SeriesRule) -> float:
    # On trial is the candidate.
    return (
        WEIGHT_OF_BASELINE
        if isinstance(rule, CoverageRule) and rule.share.arm is Arm.BASELINE
        else 1.0
    )


def _gather(fired: Flags, z: Floats, shares: Floats) -> tuple[TrendEvidence, Flags]:
    """Evidence of drift before this run, and the past runs, (runs, m), of a drift that is under way or has fired."""
    evidence = no_evidence(len(shares))
    drifting = np.zeros(fired.shape, dtype=np.bool_)
    for row, now in enumerate(z):
        evidence = update_evidence(evidence, now)
        # Only where evidence ends is it known which runs belonged to the drift.
        is_last = fired[row] | (row == len(z) - 1)
        if is_last.any():
            suspects = np.where(is_last, count_suspects(evidence, shares), 0)
            drifting[: row + 1] |= np.arange(row, -1, -1)[:, np.newaxis] < suspects
        if fired[row].any():
            # What led to an alert stays left out.
            kept = ~fired[row]
            evidence = TrendEvidence(
                mass=evidence.mass * kept, rise=evidence.rise * kept, since=evidence.since * kept
            )
    return evidence, drifting


def _build(
    series: Sequence[rule_series.RuleSeries[SeriesRule]],
    figures: Figures,
    reference: Reference,
    before: TrendEvidence,
    shares: Floats,
) -> tuple[Expectation, ...]:
    values, errors = rule_series.measure_all(series, figures)
    (limits, opposites), z, is_chance = _hold_against(series, reference, (values, errors), shares)
    steady = discount(z, np.where(is_chance, 0.0, correlate(reference.taught, shares)))
    evidence = update_evidence(before, steady).total
    found = []
    for n, each in enumerate(series):
        users = each.count_users(figures)
        is_trend = (
            isinstance(each.rule.limit, LearnedLimit) and each.rule.limit.learning is Learning.TREND
        )
        is_known = reference.runs[n] >= MIN_HEALTHY_RUNS
        found.append(
            Expectation(
                alert=each.rule.alert,
                segment=each.segment,
                runs=int(reference.runs[n]),
                expected=each.show(reference.center[n], users) if is_known else None,
                limit=each.show(limits[n], users) if is_known else None,
                opposite=each.show(opposites[n], users) if is_known else None,
                z=_finite(z[n]) if is_known else None,
                evidence=float(evidence[n]) if is_known and is_trend else None,
                evidence_limit=1.0 / float(shares[n]) if is_trend else None,
                series=describe_series(each.rule),
                judged=_finite(values[n]),
                error=_finite(errors[n]),
                steady=_finite(steady[n]),
            )
        )
    return tuple(found)


def _finite(value: np.float64) -> float | None:
    return float(value) if np.isfinite(value) else None


def _hold_against(
    series: Sequence[rule_series.RuleSeries[SeriesRule]],
    reference: Reference,
    now: tuple[Floats, Floats],
    shares: Floats,
) -> tuple[tuple[Floats, Floats], Floats, Flags]:
    """The limits on the watched side and on the other, how far out the run lies (z), and what chance alone moves, (m,) each."""
    values, errors = now
    prediction = predict(reference, np.nan_to_num(errors), shares)
    far = {side: surprise(reference, values, errors, direction=side) for side in Direction}
    is_below = np.array([each.rule.direction is Direction.BELOW for each in series])
    can_be_rare = (
        np.array([each.rule.is_share for each in series]) & ~is_below & np.isfinite(values)
    )
    # The most common list is at least that of one user. Who else has it by chance says nothing of
    # the next run.
    is_shared = np.array(
        [
            isinstance(each.rule, CoverageRule) and each.rule.share.lack is Lack.SHARED
            for each in series
        ]
    )
    high, p, is_counted = judge_rare(
        can_be_rare,
        (reference.taught, reference.errors),
        now,
        shares,
        by_angle=(prediction.high, far[Direction.ABOVE]),
        always=is_shared.astype(np.float64),
    )
    z = to_normal(np.where(is_below, far[Direction.BELOW], p))
    limits = (
        np.where(is_below, prediction.low, high),
        np.where(is_below, prediction.high, prediction.low),
    )
    # While too little is known, z is NaN.
    return limits, np.where(reference.runs >= MIN_HEALTHY_RUNS, z, np.nan), is_shared & is_counted
