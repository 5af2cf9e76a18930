"""Makes the gauges of a comparison's newest run, without clock and without I/O."""

from datetime import datetime
from itertools import accumulate, product

import numpy as np

from monitor.export.exposition import Distribution, Gauges
from monitor.export.series import FINISHED_STATUSES
from monitor.measures.presentation import score_by_chance
from monitor.model.alerts import State
from monitor.model.errors import ConfigError
from monitor.model.rankings import ALL, Arm, Coverage, CoverageReason
from monitor.model.run_reasons import RunReasonKind, find_reason
from monitor.model.runs import LatestRun, RunStatus, Summary
from monitor.model.statistics import UNPAIRED_SERIES, DerivedMetric, Statistic, parse_derived

_STATES = {State.QUIET: 0, State.PENDING: 1, State.FIRING: 2}


def gauges_of_run(latest: LatestRun) -> Gauges:
    """Return the gauges of a comparison's newest finished run.

    Values of similarity are shown only if the run's status is ok.
    """
    gauges = Gauges()
    _add_run(gauges, latest)
    if latest.coverage is not None:
        _add_coverage(gauges, latest.comparison, latest.coverage)
    if latest.status is RunStatus.OK:
        _add_results(gauges, latest)
    _add_alerts(gauges, latest)
    return gauges


def gauges_before_runs(comparison: str, since: datetime | None) -> Gauges:
    """Return the gauges of a comparison that has no runs, and was first configured at ``since``."""
    gauges = Gauges()
    for status in FINISHED_STATUSES:
        gauges.set("run_status", (comparison, status.value), 0)
    gauges.set("unlabelled_runs", (comparison,), 0)
    if since is not None:
        gauges.set("comparison_since_timestamp_seconds", (comparison,), since.timestamp())
    return gauges


def _add_run(gauges: Gauges, latest: LatestRun) -> None:
    key = (latest.comparison,)
    for status in FINISHED_STATUSES:
        gauges.set("run_status", (*key, status.value), latest.status is status)
    first_slot = latest.first_slot or latest.slot
    gauges.set("comparison_since_timestamp_seconds", key, first_slot.timestamp())
    gauges.set("run_last_slot_timestamp_seconds", key, latest.slot.timestamp())
    if latest.finished_at is not None:
        gauges.set("run_last_finished_timestamp_seconds", key, latest.finished_at.timestamp())
    if latest.last_ok_at is not None:
        gauges.set("run_last_ok_timestamp_seconds", key, latest.last_ok_at.timestamp())
    gauges.set("unlabelled_runs", key, latest.unlabelled)
    if latest.unpaired is not None:
        gauges.set("split_log_evidence", key, latest.unpaired.log_e)
        gauges.set("switched_users", key, latest.unpaired.switched)
        for arm, users in latest.unpaired.users.items():
            gauges.set("assigned_users", (*key, arm.value), users.assigned)
    for arm, model in (latest.models or {}).items():
        if model.now is not None:
            gauges.set("model_version_info", (*key, arm.value, model.now), 1)


def _add_coverage(gauges: Gauges, comparison: str, coverage: Coverage) -> None:
    for row in coverage.rows:
        gauges.set("panel_users", (comparison, row.segment), row.asked)
        gauges.set("paired_users", (comparison, row.segment), row.paired)
        counts: dict[tuple[Arm, CoverageReason], int] = {}
        if row.segment == ALL:
            # Includes every arm and reason, so that alert rules always find a series.
            counts = dict.fromkeys(product(Arm, CoverageReason), 0)
        counts.update(row.users_by_reason)
        for (arm, reason), users in counts.items():
            gauges.set("coverage_users", (comparison, row.segment, arm.value, reason.value), users)


def _add_results(gauges: Gauges, latest: LatestRun) -> None:
    doubt = find_reason(latest.reasons, RunReasonKind.UNTRUSTED_FLOOR)
    gauges.set("noise_floor_untrusted", (latest.comparison,), doubt is not None)
    for summary in latest.summaries:
        derived, metric = parse_derived(summary.metric)
        key = (latest.comparison, summary.segment, metric)
        if derived in UNPAIRED_SERIES:
            gauges.set("unpaired_mean", (*key, derived.value), summary.mean)
            gauges.set("unpaired_standard_error", (*key, derived.value), summary.standard_error)
            continue
        gauges.set(
            "similarity_by_chance", (latest.comparison, metric), score_by_chance(metric, latest)
        )
        if derived is None:
            _add_similarity(gauges, key, summary)
        elif derived is DerivedMetric.FLOOR:
            gauges.set("noise_floor_mean", key, summary.mean)
            gauges.set("noise_floor_users", key, summary.n)
        else:
            gauges.set("over_floor_mean", key, summary.mean)
            gauges.set("over_floor_standard_error", key, summary.standard_error)
    for score in latest.arm_scores:
        arm_key = (latest.comparison, score.segment, score.arm.value, score.metric)
        gauges.set("arm_metric", arm_key, score.value)


def _add_similarity(gauges: Gauges, key: tuple[str, str, str], summary: Summary) -> None:
    comparison, segment, metric = key
    gauges.set("similarity_users", key, summary.n)
    gauges.set("similarity_undefined_users", key, summary.n_undefined)
    gauges.set("similarity_mean", key, summary.mean)
    gauges.set("similarity_standard_error", key, summary.standard_error)
    if segment == ALL and summary.mean is not None:
        distribution = _distribution(summary, summary.mean)
        gauges.set("similarity_distribution", (comparison, metric), distribution)
    for name, value in summary.statistics.items():
        try:
            statistic = Statistic.parse(name)
        except ConfigError:
            continue  # a newer version stored it, and this version has no series for it
        if statistic.quantile is not None:
            gauges.set("similarity_quantile", (*key, f"{statistic.quantile:g}"), value)
        elif statistic.below is not None:
            gauges.set("similarity_share_below_ratio", (*key, f"{statistic.below:g}"), value)


def _distribution(summary: Summary, mean: float) -> Distribution:
    """Return the cumulative histogram: each bin counts all users at or below its upper edge."""
    histogram = summary.histogram
    edges = np.linspace(histogram.low, histogram.high, len(histogram.counts) + 1)[1:-1]
    bounds = [f"{edge:.6g}" for edge in edges]
    bounds.append("+Inf")  # no score is above the last bin, so its upper bound may be infinite
    buckets = tuple(zip(bounds, accumulate(histogram.counts), strict=True))
    return Distribution(buckets=buckets, total=mean * summary.n)


def _add_alerts(gauges: Gauges, latest: LatestRun) -> None:
    is_ok = latest.status is RunStatus.OK
    expectations = {(each.alert, each.segment): each for each in latest.expectations}
    for state in latest.states:
        key = (state.comparison, state.alert, state.segment, state.severity.value)
        gauges.set("alert_state", key, _STATES[state.state])
        gauges.set("alert_threshold", key, state.threshold)
        gauges.set("alert_judged", key, is_ok and state.is_judged)
        if is_ok and state.value is not None:
            gauges.set("alert_value", key, state.value)
            gauges.set("alert_users", key, state.users)
        expectation = expectations.get((state.alert, state.segment))
        if not is_ok or expectation is None:
            continue
        gauges.set("alert_expected", key, expectation.expected)
        if expectation.limit is not None and expectation.opposite is not None:
            ends = (expectation.limit, expectation.opposite)
            gauges.set("alert_normal_lower", key, min(ends))
            gauges.set("alert_normal_upper", key, max(ends))
