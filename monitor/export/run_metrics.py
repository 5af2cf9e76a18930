"""Gauges of what each comparison's newest run found, and which segments are shown when there are too many. No clock, no I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, zip_longest

import numpy as np
from prometheus_client.metrics_core import Metric

from monitor.errors import ConfigError
from monitor.export.families import Distribution, Gauges, LabelValues
from monitor.export.series import FINISHED, SERIES
from monitor.model import (
    ALL,
    Arm,
    ArmScore,
    Coverage,
    CoverageReason,
    CoverageRow,
    DerivedMetric,
    LatestRun,
    Outcome,
    Run,
    RunStatus,
    State,
    Statistic,
    Summary,
    parse_derived,
)
from monitor.presentation import score_by_chance

SegmentKey = tuple[str, str]
"""A comparison and a segment of it."""
SampleKey = tuple[str, LabelValues]
"""A series and its labels."""

_PLACES = {name: series.labels.index("segment") for name, series in SERIES.items() if "segment" in series.labels}


def cut_segments(gauges: Gauges, most: int) -> Mapping[str, int]:
    """Take series of segments away until at most ``most`` are left; how many, by comparison.

    Segment ``all`` stays, and so does every alert that is pending or firing; neither counts. Of the others each comparison in
    turn gets its next largest segment (by the users asked, then by name), whole or not at all, until one does not fit.
    """
    samples = _group(gauges)
    if sum(map(len, samples.values())) <= most:
        return {}
    shown, room = set(), most
    for chosen in _take_turns(gauges, samples):
        room -= len(samples[chosen])
        if room < 0:
            break
        shown.add(chosen)
    left_out: Counter[str] = Counter()
    for (comparison, segment), group in samples.items():
        if (comparison, segment) not in shown:
            left_out[comparison] += len(group)
            for name, labels in group:
                gauges.remove(name, labels)
    return left_out


def _group(gauges: Gauges) -> dict[SegmentKey, list[SampleKey]]:
    """The samples that may be left out, by comparison and segment."""
    states = gauges.samples.get("alert_state", {})
    groups: dict[SegmentKey, list[SampleKey]] = defaultdict(list)
    for name, place in _PLACES.items():
        for labels in gauges.samples.get(name, {}):
            is_wanted = name.startswith("alert_") and states.get(labels, 0) > 0
            if labels[place] != ALL and not is_wanted:
                groups[labels[0], labels[place]].append((name, labels))
    return groups


def _take_turns(gauges: Gauges, groups: Mapping[SegmentKey, Sequence[SampleKey]]) -> Iterator[SegmentKey]:
    users = gauges.samples.get("panel_users", {})
    queues: dict[str, list[SegmentKey]] = defaultdict(list)
    for one in sorted(groups, key=lambda one: (-users.get(one, 0), one[1])):
        queues[one[0]].append(one)
    for turn in zip_longest(*(queues[comparison] for comparison in sorted(queues))):
        yield from filter(None, turn)


_STATES = {State.QUIET: 0, State.PENDING: 1, State.FIRING: 2}
_JUDGED = (Outcome.OK, Outcome.BREACH)


def run_families(
    latest: Sequence[LatestRun], *, known: Mapping[str, datetime | None], most: int | None = None
) -> tuple[Metric, ...]:
    """Gauges of the newest finished runs. Values of similarity appear only for a run that is ok.

    Of comparisons that are ``known``, with the time since when, and have no run yet it is shown that they have none. Of the
    series of segments at most ``most`` are shown, see `cut`.
    """
    gauges = Gauges()
    for comparison in {*known} - {one.run.comparison for one in latest}:
        _add_unrun(gauges, comparison, known[comparison])
    for one in latest:
        _add_run(gauges, one)
        if one.coverage is not None:
            _add_coverage(gauges, one.run.comparison, one.coverage)
        is_ok = one.run.status is RunStatus.OK
        if is_ok:
            _add_summaries(gauges, one.run.comparison, one.summaries)
            _add_chance(gauges, one.run, one.summaries)
            _add_arms(gauges, one.run.comparison, one.arm_scores)
        _add_alerts(gauges, one, is_ok=is_ok)
    left_out = {} if most is None else cut_segments(gauges, most)
    for comparison in {*known, *(one.run.comparison for one in latest)}:
        gauges.set("series_cut", (comparison,), left_out.get(comparison, 0))
    return gauges.families()


def _add_unrun(gauges: Gauges, comparison: str, since: datetime | None) -> None:
    for status in FINISHED:
        gauges.set("run_status", (comparison, status.value), 0)
    gauges.set("unlabelled_runs", (comparison,), 0)
    gauges.set("comparison_since_timestamp_seconds", (comparison,), since.timestamp() if since else None)


def _add_run(gauges: Gauges, latest: LatestRun) -> None:
    run = latest.run
    key = (run.comparison,)
    for status in FINISHED:
        gauges.set("run_status", (*key, status.value), run.status is status)
    gauges.set("comparison_since_timestamp_seconds", key, (latest.first_slot or run.slot).timestamp())
    gauges.set("run_last_slot_timestamp_seconds", key, run.slot.timestamp())
    if run.finished_at is not None:
        gauges.set("run_last_finished_timestamp_seconds", key, run.finished_at.timestamp())
    if latest.last_ok_at is not None:
        gauges.set("run_last_ok_timestamp_seconds", key, latest.last_ok_at.timestamp())
    gauges.set("unlabelled_runs", key, latest.unlabelled)


def _add_coverage(gauges: Gauges, comparison: str, coverage: Coverage) -> None:
    for row in coverage.rows:
        gauges.set("panel_users", (comparison, row.segment), row.asked)
        gauges.set("paired_users", (comparison, row.segment), row.paired)
        for arm, reason in _reasons(row):
            users = row.reasons.get((arm, reason), 0)
            gauges.set("coverage_users", (comparison, row.segment, arm.value, reason.value), users)


def _reasons(row: CoverageRow) -> Iterable[tuple[Arm, CoverageReason]]:
    # Every arm and reason for segment ``all``, so that alerts always find a series; elsewhere those that occurred.
    return ((arm, reason) for arm in Arm for reason in CoverageReason) if row.segment == ALL else row.reasons


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
            gauges.distribute("similarity_distribution", (comparison, metric), _distribution(summary, summary.mean))
        for name, value in summary.statistics.items():
            _add_statistic(gauges, key, name, value)


def _distribution(summary: Summary, mean: float) -> Distribution:
    """The histogram, each bin with all below it."""
    histogram = summary.histogram
    edges = np.linspace(histogram.low, histogram.high, len(histogram.counts) + 1)[1:-1]
    # Nothing lies beyond the last bin, so that it may end at ``+Inf``.
    bounds = (*(f"{edge:.6g}" for edge in edges), "+Inf")
    return Distribution(
        buckets=tuple(zip(bounds, accumulate(histogram.counts), strict=True)) or (("+Inf", summary.n),), total=mean * summary.n
    )


def _add_floor(gauges: Gauges, key: tuple[str, ...], derived: DerivedMetric, summary: Summary) -> None:
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


def _add_chance(gauges: Gauges, run: Run, summaries: Iterable[Summary]) -> None:
    for metric in dict.fromkeys(parse_derived(summary.metric)[1] for summary in summaries):
        gauges.set("similarity_by_chance", (run.comparison, metric), score_by_chance(metric, run))


def _add_arms(gauges: Gauges, comparison: str, scores: Iterable[ArmScore]) -> None:
    for score in scores:
        gauges.set("arm_metric", (comparison, score.segment, score.arm.value, score.metric), score.value)


def _add_alerts(gauges: Gauges, latest: LatestRun, *, is_ok: bool) -> None:
    expectations = {(each.alert, each.segment): each for each in latest.expectations} if is_ok else {}
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
