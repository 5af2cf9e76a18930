"""Gauges of what a comparison's newest run found. No clock, no I/O."""

from collections.abc import Iterable
from datetime import datetime
from itertools import accumulate

import numpy as np

from monitor.errors import ConfigError
from monitor.export.exposition import Distribution, Gauges
from monitor.export.series import FINISHED
from monitor.model.alerts import Outcome, State
from monitor.model.rankings import ALL, Arm, Coverage, CoverageReason, CoverageRow
from monitor.model.runs import LatestRun, RunStatus, Summary, untrusted_floor
from monitor.model.statistics import DerivedMetric, Statistic, parse_derived
from monitor.presentation import score_by_chance

_STATES = {State.QUIET: 0, State.PENDING: 1, State.FIRING: 2}
_JUDGED = (Outcome.OK, Outcome.BREACH)


def gauges_of_run(latest: LatestRun) -> Gauges:
    """Gauges of a comparison's newest finished run.

    Values of similarity appear only for a run that is ok.
    """
    gauges = Gauges()
    _add_run(gauges, latest)
    if latest.coverage is not None:
        _add_coverage(gauges, latest.run.comparison, latest.coverage)
    is_ok = latest.run.status is RunStatus.OK
    if is_ok:
        gauges.set(
            "noise_floor_untrusted",
            (latest.run.comparison,),
            untrusted_floor(latest.run.reason) is not None,
        )
        _add_summaries(gauges, latest.run.comparison, latest.summaries)
        for metric in dict.fromkeys(
            parse_derived(summary.metric)[1] for summary in latest.summaries
        ):
            gauges.set(
                "similarity_by_chance",
                (latest.run.comparison, metric),
                score_by_chance(metric, latest.run),
            )
        for score in latest.arm_scores:
            key = (latest.run.comparison, score.segment, score.arm.value, score.metric)
            gauges.set("arm_metric", key, score.value)
    _add_alerts(gauges, latest, is_ok=is_ok)
    return gauges


def gauges_before_runs(comparison: str, since: datetime | None) -> Gauges:
    """Gauges of a comparison that has no run yet, with the time since when there is the comparison."""
    gauges = Gauges()
    for status in FINISHED:
        gauges.set("run_status", (comparison, status.value), 0)
    gauges.set("unlabelled_runs", (comparison,), 0)
    gauges.set(
        "comparison_since_timestamp_seconds", (comparison,), since.timestamp() if since else None
    )
    return gauges


def _add_run(gauges: Gauges, latest: LatestRun) -> None:
    run = latest.run
    key = (run.comparison,)
    for status in FINISHED:
        gauges.set("run_status", (*key, status.value), run.status is status)
    gauges.set(
        "comparison_since_timestamp_seconds", key, (latest.first_slot or run.slot).timestamp()
    )
    gauges.set("run_last_slot_timestamp_seconds", key, run.slot.timestamp())
    if run.finished_at is not None:
        gauges.set("run_last_finished_timestamp_seconds", key, run.finished_at.timestamp())
    if latest.last_ok_at is not None:
        gauges.set("run_last_ok_timestamp_seconds", key, latest.last_ok_at.timestamp())
    gauges.set("unlabelled_runs", key, latest.unlabelled)
    for arm, model in (run.models or {}).items():
        if model.now is not None:
            gauges.set("model_version_info", (*key, arm.value, model.now), 1)


def _add_coverage(gauges: Gauges, comparison: str, coverage: Coverage) -> None:
    for row in coverage.rows:
        gauges.set("panel_users", (comparison, row.segment), row.asked)
        gauges.set("paired_users", (comparison, row.segment), row.paired)
        for arm, reason in _reasons(row):
            users = row.reasons.get((arm, reason), 0)
            gauges.set("coverage_users", (comparison, row.segment, arm.value, reason.value), users)


def _reasons(row: CoverageRow) -> Iterable[tuple[Arm, CoverageReason]]:
    # Every arm and reason for segment ``all``, so that alerts always find a series; elsewhere those
    # that occurred.
    return (
        ((arm, reason) for arm in Arm for reason in CoverageReason)
        if row.segment == ALL
        else row.reasons
    )


def _add_summaries(gauges: Gauges, comparison: str, summaries: Iterable[Summary]) -> None:
    for summary in summaries:
        derived, metric = parse_derived(summary.metric)
        key = (comparison, summary.segment, metric)
        if derived is not None:
            _add_floor(gauges, key, derived, summary)
            continue
        gauges.set("similarity_users", key, summary.n)
        gauges.set("similarity_undefined_users", key, summary.n_undefined)
        gauges.set("similarity_mean", key, summary.mean)
        gauges.set("similarity_standard_error", key, summary.standard_error)
        if summary.segment == ALL and summary.mean is not None:
            gauges.set(
                "similarity_distribution",
                (comparison, metric),
                _distribution(summary, summary.mean),
            )
        for name, value in summary.statistics.items():
            _add_statistic(gauges, key, name, value)


def _distribution(summary: Summary, mean: float) -> Distribution:
    """The histogram, each bin with all below it."""
    histogram = summary.histogram
    edges = np.linspace(histogram.low, histogram.high, len(histogram.counts) + 1)[1:-1]
    # Nothing lies beyond the last bin, so that it may end at ``+Inf``.
    bounds = (*(f"{edge:.6g}" for edge in edges), "+Inf")
    return Distribution(
        buckets=tuple(zip(bounds, accumulate(histogram.counts), strict=True))
        or (("+Inf", summary.n),),
        total=mean * summary.n,
    )


def _add_floor(
    gauges: Gauges, key: tuple[str, ...], derived: DerivedMetric, summary: Summary
) -> None:
    if derived is DerivedMetric.FLOOR:
        gauges.set("noise_floor_mean", key, summary.mean)
        gauges.set("noise_floor_users", key, summary.n)
    else:
        gauges.set("over_floor_mean", key, summary.mean)
        gauges.set("over_floor_standard_error", key, summary.standard_error)


def _add_statistic(gauges: Gauges, key: tuple[str, ...], name: str, value: float) -> None:
    try:
        statistic = Statistic.parse(name)
    except ConfigError:
        return  # stored by a newer version, which this one has no series for
    if statistic.quantile is not None:
        gauges.set("similarity_quantile", (*key, f"{statistic.quantile:g}"), value)
    elif statistic.floor is not None:
        gauges.set("similarity_share_below_ratio", (*key, f"{statistic.floor:g}"), value)


def _add_alerts(gauges: Gauges, latest: LatestRun, *, is_ok: bool) -> None:
    expectations = (
        {(each.alert, each.segment): each for each in latest.expectations} if is_ok else {}
    )
    for state in latest.states:
        key = (state.comparison, state.alert, state.segment, state.severity.value)
        gauges.set("alert_state", key, _STATES[state.state])
        gauges.set("alert_threshold", key, state.threshold)
        gauges.set("alert_judged", key, is_ok and state.outcome in _JUDGED)
        if is_ok and state.value is not None:
            gauges.set("alert_value", key, state.value)
            gauges.set("alert_users", key, state.users)
        if (found := expectations.get((state.alert, state.segment))) is None:
            continue
        gauges.set("alert_expected", key, found.expected)
        if found.limit is not None and found.opposite is not None:
            gauges.set("alert_normal_lower", key, min(found.limit, found.opposite))
            gauges.set("alert_normal_upper", key, max(found.limit, found.opposite))
