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
        gauges.set((comparison, status.value), run_status=0)
    gauges.set((comparison,), unlabelled_runs=0)
    if since is not None:
        gauges.set((comparison,), comparison_since_timestamp_seconds=since.timestamp())
    return gauges


def _add_run(gauges: Gauges, latest: LatestRun) -> None:
    key = (latest.comparison,)
    for status in FINISHED_STATUSES:
        gauges.set((*key, status.value), run_status=latest.status is status)
    first_slot = latest.first_slot or latest.slot
    gauges.set(
        key,
        comparison_since_timestamp_seconds=first_slot.timestamp(),
        run_last_slot_timestamp_seconds=latest.slot.timestamp(),
        unlabelled_runs=latest.unlabelled,
    )
    if latest.finished_at is not None:
        gauges.set(key, run_last_finished_timestamp_seconds=latest.finished_at.timestamp())
    if latest.last_ok_at is not None:
        gauges.set(key, run_last_ok_timestamp_seconds=latest.last_ok_at.timestamp())
    if latest.unpaired is not None:
        gauges.set(
            key,
            split_log_evidence=latest.unpaired.log_e,
            switched_users=latest.unpaired.switched,
        )
        for arm, users in latest.unpaired.users.items():
            gauges.set((*key, arm.value), assigned_users=users.assigned)
    for arm, model in (latest.models or {}).items():
        if model.now is not None:
            gauges.set((*key, arm.value, model.now), model_version_info=1)


def _add_coverage(gauges: Gauges, comparison: str, coverage: Coverage) -> None:
    for row in coverage.rows:
        key = (comparison, row.segment)
        gauges.set(key, panel_users=row.asked, paired_users=row.paired)
        counts: dict[tuple[Arm, CoverageReason], int] = {}
        if row.segment == ALL:
            # Includes every arm and reason, so that alert rules always find a series.
            counts = dict.fromkeys(product(Arm, CoverageReason), 0)
        counts.update(row.users_by_reason)
        for (arm, reason), users in counts.items():
            gauges.set((*key, arm.value, reason.value), coverage_users=users)


def _add_results(gauges: Gauges, latest: LatestRun) -> None:
    doubt = find_reason(latest.reasons, RunReasonKind.UNTRUSTED_FLOOR)
    gauges.set((latest.comparison,), noise_floor_untrusted=doubt is not None)
    for summary in latest.summaries:
        derived, metric = parse_derived(summary.metric)
        key = (latest.comparison, summary.segment, metric)
        if derived in UNPAIRED_SERIES:
            gauges.set(
                (*key, derived.value),
                unpaired_mean=summary.mean,
                unpaired_standard_error=summary.standard_error,
            )
            continue
        gauges.set(
            (latest.comparison, metric), similarity_by_chance=score_by_chance(metric, latest)
        )
        if derived is None:
            _add_similarity(gauges, key, summary)
        elif derived is DerivedMetric.FLOOR:
            gauges.set(key, noise_floor_mean=summary.mean, noise_floor_users=summary.n)
        else:
            gauges.set(
                key,
                over_floor_mean=summary.mean,
                over_floor_standard_error=summary.standard_error,
            )
    for score in latest.arm_scores:
        arm_key = (latest.comparison, score.segment, score.arm.value, score.metric)
        gauges.set(arm_key, arm_metric=score.value)


def _add_similarity(gauges: Gauges, key: tuple[str, str, str], summary: Summary) -> None:
    comparison, segment, metric = key
    gauges.set(
        key,
        similarity_users=summary.n,
        similarity_undefined_users=summary.n_undefined,
        similarity_mean=summary.mean,
        similarity_standard_error=summary.standard_error,
    )
    if segment == ALL and summary.mean is not None:
        distribution = _distribution(summary, summary.mean)
        gauges.set((comparison, metric), similarity_distribution=distribution)
    for name, value in summary.statistics.items():
        try:
            statistic = Statistic.parse(name)
        except ConfigError:
            continue  # a newer version stored it, and this version has no series for it
        if statistic.quantile is not None:
            gauges.set((*key, f"{statistic.quantile:g}"), similarity_quantile=value)
        elif statistic.below is not None:
            gauges.set((*key, f"{statistic.below:g}"), similarity_share_below_ratio=value)


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
    expectations = {
        (expectation.alert, expectation.segment): expectation for expectation in latest.expectations
    }
    for state in latest.states:
        key = (state.comparison, state.alert, state.segment, state.severity.value)
        gauges.set(
            key,
            alert_state=_STATES[state.state],
            alert_threshold=state.threshold,
            alert_judged=is_ok and state.is_judged,
        )
        if is_ok and state.value is not None:
            gauges.set(key, alert_value=state.value, alert_users=state.users)
        expectation = expectations.get((state.alert, state.segment))
        if not is_ok or expectation is None:
            continue
        gauges.set(key, alert_expected=expectation.expected)
        if expectation.limit is not None and expectation.opposite is not None:
            ends = (expectation.limit, expectation.opposite)
            gauges.set(key, alert_normal_lower=min(ends), alert_normal_upper=max(ends))
