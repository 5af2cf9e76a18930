"""Computes the limits of a run's series, and how far the run is from normal."""

from dataclasses import replace

import numpy as np

from monitor.model.arrays import Flags, Floats
from monitor.model.immutable import immutable
from monitor.model.rules import MIN_HEALTHY_RUNS, CoverageRule, Direction, SeriesRule
from monitor.model.statistics import ListTrait
from monitor.pipeline.rule_series import LessonArrays, ManySeries
from monitor.pipeline.score import means_too_similar
from monitor.statistics.reference.history import find_median
from monitor.statistics.reference.prediction import (
    Reference,
    compute_p_values,
    predict,
    z_of_p_value,
)
from monitor.statistics.reference.sampling_error import judge_rare
from monitor.statistics.reference.spread import PastAlerts


def find_sides(series: ManySeries) -> Floats:
    """Return for each series 1 if high values alert, and -1 if low values alert, (series,)."""
    is_below = [one_series.rule.direction is Direction.BELOW for one_series in series]
    return np.where(is_below, -1.0, 1.0)


def _allow_former_level(series: ManySeries, reference: Reference) -> Reference:
    """Make the former level of each series normal too, until somebody accepts its new level.

    A rule alerts on values that are too high, or on values that are too low. Take a rule on high
    values. If the former level was higher than the new level, the center moves up to the former
    level. Then neither level alerts. If the former level was lower, nothing is moved, because it
    cannot alert. ``used_values`` move too, because `judge_rare` uses them in place of the center.
    """
    # ``before`` is NaN without a former level.
    distance = np.nan_to_num(reference.before - reference.center)
    is_on_alerting_side = distance * find_sides(series) > 0
    shift = np.where(is_on_alerting_side, distance, 0.0)
    return replace(
        reference, center=reference.center + shift, used_values=reference.used_values + shift
    )


def allow_level_without_season(
    series: ManySeries,
    reference: Reference,
    lessons: LessonArrays,
    past_alerts: PastAlerts,
) -> Reference:
    """Make the level of all healthy runs normal too, for rules on lists that are too similar.

    Otherwise, such a rule alerts if a fault that returned regularly does not return any more.
    Nothing is changed if somebody accepted a level, because then some of these runs are outdated.
    """
    if past_alerts.accepted:
        return reference
    level = find_median(np.where(past_alerts.healthy, lessons.values, np.nan))
    is_too_similar = np.array([judges_too_similar(one_series.rule) for one_series in series])
    has_no_former_level = np.isnan(reference.before)
    has_season = np.abs(level - reference.center) > reference.spread
    is_allowed = is_too_similar & has_no_former_level & has_season
    before = np.where(is_allowed, level, reference.before)
    return replace(reference, before=before)


def judges_too_similar(rule: SeriesRule) -> bool:
    """Return whether a breach of the rule means that lists are too similar."""
    if isinstance(rule, CoverageRule):
        return False
    return means_too_similar(rule.metric, str(rule.statistic), rule.direction)


@immutable
class RunLimits:
    """The limits of a run's series, and how far the run is from normal, (series,) each."""

    limits: Floats  # on the side that alerts
    opposites: Floats  # the limits on the other side
    z: Floats  # in standard deviations, NaN if there are too few healthy runs
    is_independent: Flags  # whether the values of consecutive runs are independent


def compute_limits(
    series: ManySeries, reference: Reference, values: Floats, errors: Floats, alpha: Floats
) -> RunLimits:
    """Compare the run's values and their errors, (series,) each, with the reference.

    ``alpha`` is the allowed chance of a false alert in one run, (series,).
    """
    normal = _allow_former_level(series, reference)
    # If the run has no value, its error is NaN. The limits are still shown, as if the error were 0.
    # The p-values are NaN, because such a run is not judged.
    prediction = predict(normal, np.nan_to_num(errors), alpha)
    p_below = compute_p_values(normal, values, errors, direction=Direction.BELOW)
    p_above = compute_p_values(normal, values, errors, direction=Direction.ABOVE)
    rules = [one_series.rule for one_series in series]
    is_share = np.array([rule.is_share for rule in rules])
    counts_most_common_list = np.array(
        [isinstance(rule, CoverageRule) and rule.share.trait is ListTrait.SHARED for rule in rules]
    )
    is_below = find_sides(series) < 0
    # Shares of users are angles, see `RuleSeries`.
    limits, p, is_counted = judge_rare(
        is_share & np.isfinite(values),
        (normal.used_values, normal.errors),
        (values, errors),
        alpha,
        uncounted=(
            np.where(is_below, prediction.low, prediction.high),
            np.where(is_below, p_below, p_above),
        ),
        # Some list is always the most common one, so this share always counts at least one user.
        always=counts_most_common_list.astype(float),
        is_low=is_below,
    )
    return RunLimits(
        limits=limits,
        opposites=np.where(is_below, prediction.high, prediction.low),
        z=np.where(normal.runs >= MIN_HEALTHY_RUNS, z_of_p_value(p), np.nan),
        # If few users have the most common list, they have it by chance. One run then says nothing
        # about the next run.
        is_independent=counts_most_common_list & is_counted,
    )
