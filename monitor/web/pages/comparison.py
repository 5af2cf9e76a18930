"""The page of a comparison: a metric over time, its histogram, segments, coverage and rules."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import TypeVar

from monitor.alerts.unmatched_names import may_concern
from monitor.measures.presentation import score_by_chance
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.explanation import Explanation
from monitor.model.immutable import extend, immutable
from monitor.model.notifications import Silence
from monitor.model.pages import ReceiverHealth, SegmentMeans, SeriesKey, SeriesPoint
from monitor.model.rankings import ALL, CoverageRow
from monitor.model.rules import Comparison, FixedLimit
from monitor.model.runs import ArmScore, Histogram, LatestRun, PullProgress, RunStatus, Summary
from monitor.model.statistics import GAPS, parse_derived
from monitor.model.unpaired import UnpairedResults
from monitor.texts.model_versions import write_changes
from monitor.web.pages.alerts import Incident, read_ended, read_firing_incident
from monitor.web.pages.overview import (
    ComparisonRow,
    ComparisonState,
    Firing,
    find_drop_alert,
    list_firing,
    read_overview_page,
    state_of,
)
from monitor.web.pages.site import PageRequest, Site

PERIODS = {
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
    "1y": timedelta(days=366),
}
# The number of newest runs in the small chart of each segment.
_SMALL_CHART_RUNS = 24
MOST_CHART_POINTS = 240
"""A chart has at most this many points. If there are more runs, a point shows the lowest of
several runs.
"""
_MOST_DETAILED_RUNS = 120
_USUAL_RUNS = 28
MOST_SEGMENT_MEANS = 24
MOST_QUIET = 100
_ValueT = TypeVar("_ValueT")


@immutable
class AlertSpan:
    """The time in which an alert fired. ``ended_at`` is None while the alert fires."""

    alert: str
    segment: str
    started_at: datetime
    ended_at: datetime | None
    incident: str | None


@immutable
class Choice:
    """What the page shows: one metric, for one segment, in one period.

    ``blamed`` is the segment that the explanation names.
    """

    comparison: str
    metric: str | None
    metrics: tuple[str, ...]
    segment: str
    segments: tuple[str, ...]
    blamed: str | None
    period: str


@immutable
class Course(Choice):
    """The chosen metric in each run of the period, and what happened in the period."""

    points: tuple[SeriesPoint, ...]
    marks: tuple[tuple[datetime, str], ...]
    limits: tuple[tuple[str, float], ...]
    spans: tuple[AlertSpan, ...]
    silences: tuple[Silence, ...]
    distribution: tuple[tuple[datetime, Histogram], ...]
    coverage: tuple[tuple[datetime, CoverageRow], ...]
    segment_means: tuple[SegmentMeans, ...]
    more_segments: int


@immutable
class ComparisonPage(Course):
    """The data of a comparison's page.

    ``grid`` has the overview's rows of the comparison's family, by the names of both arms.
    """

    progress: tuple[PullProgress, ...]
    grid: Mapping[str, Mapping[str, ComparisonRow]]
    firing: tuple[Firing, ...]
    firing_incident: Incident | None  # the incident of the first firing alert
    reason: str | None
    alert_states: tuple[AlertState, ...]
    quiet_states: tuple[AlertState, ...]
    more_quiet: int
    unjudged: int  # how many of the quiet alerts the newest run could not judge
    records: Mapping[str, ReceiverHealth]  # the last results of each receiver
    # These values come from the newest finished run.
    state: ComparisonState = ComparisonState.NO_DATA
    slot: datetime | None = None
    sentence: str | None = None
    since: datetime | None = None
    ended_incident: Incident | None = None
    by_chance: float | None = None
    arm_scores: tuple[ArmScore, ...] = ()
    unpaired: UnpairedResults | None = None
    status: RunStatus | None = None
    is_split_off: bool = False  # whether users are not split between the arms as planned

    @property
    def lead_elsewhere(self) -> AlertState | None:
        """The most important firing alert, if it judges another value than the chart shows."""
        lead = self.firing_incident.lead if self.firing_incident else None
        if lead is None:
            return None
        is_in_chart = (lead.metric, lead.statistic) == (self.metric, "mean")
        if is_in_chart:
            return None
        for state in self.alert_states:
            is_lead = (state.alert, state.segment) == (lead.alert, lead.segment)
            if is_lead and state.value is not None:
                return state
        return None

    @property
    def has_alerted(self) -> bool:
        """Whether an alert of the comparison fires, or whether one has ended."""
        return bool(self.firing) or self.ended_incident is not None


def read_comparison_page(site: Site, query: PageRequest) -> ComparisonPage:
    """Return the page of one comparison over time. Unknown metrics and segments are ignored."""
    name = query.path["name"]
    site.require(name)
    configured = site.comparison(name)
    latest = site.latest_of(name)
    states = _states_of(latest)
    firing = list_firing(states)
    incident = firing[0].incident if firing else None
    firing_incident = None
    lead = None  # the start of the most important firing alert
    if latest is not None and incident is not None:
        firing_incident = read_firing_incident(site, latest, incident)
    if firing_incident is not None:
        lead = firing_incident.lead
    family = name if configured is None else configured.family
    # The name of a family may have no run, but its page shows the grid.
    grid = _read_grid(site, family)
    reason = None if grid else "no run has ended yet"
    quiet = [state for state in states if state.state is State.QUIET]
    quiet.sort(key=attrgetter("is_judged"))  # alerts that could not be judged come first
    page = extend(
        ComparisonPage,
        _read_course(site, query, latest, lead),
        progress=site.pulls_of(name),
        grid=grid,
        firing=firing,
        firing_incident=firing_incident,
        reason=reason,
        alert_states=tuple(state for state in states if state.state is not State.QUIET),
        quiet_states=tuple(quiet[:MOST_QUIET]),
        more_quiet=max(0, len(quiet) - MOST_QUIET),
        unjudged=sum(not state.is_judged for state in quiet),
        records=_read_receiver_health(site),
    )
    if latest is None:
        return page
    page = replace(
        page,
        state=state_of(latest),
        reason=latest.reason,
        slot=latest.slot,
        arm_scores=latest.arm_scores,
        unpaired=latest.unpaired,
        status=latest.status,
        is_split_off=latest.is_split_off,
    )
    explanation = latest.explanation
    if explanation is not None:
        page = replace(page, sentence=explanation.sentence, since=explanation.since)
    if page.metric is not None:
        page = replace(page, by_chance=score_by_chance(page.metric, latest))
    if latest.last_end is not None and not firing:
        page = replace(page, ended_incident=read_ended(site, latest.last_end))
    return page


def _read_receiver_health(site: Site) -> Mapping[str, ReceiverHealth]:
    """Return the last results of each configured receiver."""
    names = site.receivers
    if not names:
        return {}
    records = site.store.outbox.receiver_health()
    return {name: records.get(name, ReceiverHealth()) for name in names}


def _states_of(latest: LatestRun | None) -> tuple[AlertState, ...]:
    return latest.states if latest else ()


def _choose_series(
    site: Site,
    query: PageRequest,
    latest: LatestRun | None,
    lead: Transition | None,
    period: str,
) -> Choice:
    """Choose the metric and the segment in the query, if the newest run measured them.

    Otherwise choose the metric of ``lead``, the start of the most important firing alert, or else
    the leading metric of the newest run. The segment is then chosen by `_default_segment`.
    """
    name = query.path["name"]
    configured = site.comparison(name)
    summaries: Sequence[Summary] = ()
    explanation = None
    default_metric = None
    if latest is not None:
        summaries = latest.summaries  # a failed run has none
        explanation = latest.explanation
        default_metric = latest.leading_metric
    metrics = tuple(dict.fromkeys(summary.metric for summary in summaries))
    if not metrics and configured:
        metrics = configured.measuring.metrics
    if lead is not None and lead.metric in metrics:
        default_metric = lead.metric
    if default_metric is None:
        default_metric = next(iter(metrics), None)
    metric = query.chosen.get("metric")
    if metric not in metrics:
        metric = default_metric
    segments = tuple(dict.fromkeys(summary.segment for summary in summaries)) or (ALL,)
    blamed = _blamed_segment(explanation, segments)
    drop_alert = find_drop_alert(configured, metric)
    segment = query.chosen.get("segment")
    if segment not in segments:
        segment = _default_segment(drop_alert, blamed, _states_of(latest))
    return Choice(
        comparison=name,
        metric=metric,
        metrics=metrics,
        segment=segment,
        segments=segments,
        blamed=blamed,
        period=period,
    )


def _read_course(
    site: Site, query: PageRequest, latest: LatestRun | None, lead: Transition | None
) -> Course:
    """Read the chosen metric in each run of the period, and what happened in the period.

    ``lead`` is the start of the most important firing alert. If the query names no metric, the
    metric of this alert is chosen.
    """
    now = site.clock.now()
    period, since, until = _choose_time(query, latest, now)
    choice = _choose_series(site, query, latest, lead, period)
    name = choice.comparison
    segment = choice.segment
    metric = choice.metric or ""  # empty if the run measured nothing
    configured = site.comparison(name)
    pages = site.store.pages
    points = pages.series(
        SeriesKey(name, metric, segment),
        alert=find_drop_alert(configured, metric),
        since=since,
        until=until,
        max_points=MOST_CHART_POINTS,
    )
    # Histograms and coverage are shown for every run, or else for every second, third or later one.
    step = max(1, math.ceil(len(points) / _MOST_DETAILED_RUNS))
    slots = {point.run_id: point.slot for point in points[::step]}
    histograms = {}
    for run_id, histogram in pages.histograms([*slots], metric, segment).items():
        # A gap between the arms is one value, so it has no histogram over users.
        if histogram.counts:
            histograms[run_id] = histogram
    segment_means = _read_segment_means(site, choice, until)
    # An alert of the period may have ended after the period.
    transitions = pages.changes(name, segment, since=since, until=max(until, now))
    states = [state for state in _states_of(latest) if state.segment == segment]
    spans = alert_spans(transitions, states, since)
    silences = []
    for silence in site.store.alerts.silences(ending_after=since):
        if silence.starts_at <= until and may_concern(silence, name):
            silences.append(silence)
    return extend(
        Course,
        choice,
        points=points,
        marks=tuple(_find_marks(points)),
        limits=tuple(_fixed_limits(configured, metric)),
        spans=tuple(span for span in spans if span.started_at <= until),
        silences=tuple(silences),
        distribution=_with_slots(histograms, slots),
        coverage=_with_slots(pages.coverage([*slots], segment), slots),
        segment_means=tuple(segment_means[:MOST_SEGMENT_MEANS]),
        more_segments=max(0, len(segment_means) - MOST_SEGMENT_MEANS),
    )


def _read_segment_means(site: Site, choice: Choice, until: datetime) -> list[SegmentMeans]:
    """Return the means of the chosen metric in each segment but ``all``, worst change first."""
    if not choice.metric or len(choice.segments) <= 1:
        return []
    means = site.store.pages.segments(
        choice.comparison, choice.metric, until=until, runs=_SMALL_CHART_RUNS
    )
    # If the arms drift apart, a gap between them rises, but a similarity falls.
    sign = -1.0 if parse_derived(choice.metric).derived in GAPS else 1.0
    parts = [mean for mean in means if mean.segment != ALL]
    parts.sort(key=partial(_worsening, sign=sign), reverse=True)
    return parts


def _with_slots(
    values: Mapping[int, _ValueT], slots: Mapping[int, datetime]
) -> tuple[tuple[datetime, _ValueT], ...]:
    """Return the slot and the value of each run that has a value, in the order of ``slots``.

    The keys of both mappings are ids of runs.
    """
    return tuple((slot, values[run_id]) for run_id, slot in slots.items() if run_id in values)


def _read_grid(site: Site, family: str | None) -> Mapping[str, Mapping[str, ComparisonRow]]:
    """Return a family's rows by the names of both arms.

    Empty if there is no family, or if it has only one candidate.
    """
    grid: dict[str, dict[str, ComparisonRow]] = {}
    if family is None:
        return grid
    configured = site.comparisons.values()
    members = [comparison for comparison in configured if comparison.family == family]
    if len(members) <= 1:
        return grid
    rows = {row.comparison: row for row in read_overview_page(site).rows}
    for member in members:
        baseline, candidate = (arm.removeprefix(f"{family}.") for arm in member.arms)
        rows_of_baseline = grid.setdefault(baseline, {})
        rows_of_baseline[candidate] = rows[member.name]
    return grid


def _blamed_segment(explanation: Explanation | None, segments: Sequence[str]) -> str | None:
    """Return the segment that the explanation names, if the run measured it."""
    if explanation is None or not explanation.finding or explanation.segment == ALL:
        return None
    return explanation.segment if explanation.segment in segments else None


def _default_segment(alert: str | None, blamed: str | None, states: Iterable[AlertState]) -> str:
    """Return ``blamed`` if the alert fires only in segments, and otherwise ``all``.

    ``blamed`` is the segment that the explanation names. None if it names no segment.
    """
    firing_segments = set()
    for state in states:
        if state.alert == alert and state.state is State.FIRING:
            firing_segments.add(state.segment)
    if blamed is None or not firing_segments or ALL in firing_segments:
        return ALL
    return blamed


def _choose_time(
    query: PageRequest,
    latest: LatestRun | None,
    now: datetime,
) -> tuple[str, datetime, datetime]:
    """Return the period, its start and its end. By default it ends now or at the newest run."""
    period = query.chosen.get("period")
    if period not in PERIODS:
        period = _usual_period(latest)
    until = now
    if latest is not None:
        until = max(now, latest.slot)
        # A period without runs would show nothing.
        if until - latest.slot > PERIODS[period]:
            until = latest.slot
    until = query.chosen.get("to", until)
    since = query.chosen.get("from", until - PERIODS[period])
    return period, since, until


def _usual_period(latest: LatestRun | None) -> str:
    """Return the period to show first: a week, or more if the comparison runs rarely.

    It is the shortest of ``7d``, ``30d`` and ``1y`` that contains about `_USUAL_RUNS` runs.
    """
    slots = [slot for slot, _ in latest.recent] if latest is not None else []
    if len(slots) <= 1:
        return "7d"
    # The oldest run comes first.
    interval = (slots[-1] - slots[0]) / (len(slots) - 1)
    for period in ("7d", "30d"):
        if _USUAL_RUNS * interval <= PERIODS[period]:
            return period
    return "1y"


def _find_marks(points: Sequence[SeriesPoint]) -> Iterator[tuple[datetime, str]]:
    """Yield the slot of each run with other settings or models than the run before, and a text."""
    for point_before, point in pairwise(points):
        changes = write_changes(point_before, point.slot, point.config_hash, point.k, point.models)
        label = "; ".join(changes)
        if label:
            yield point.slot, label


def _fixed_limits(configured: Comparison | None, metric: str | None) -> Iterator[tuple[str, float]]:
    """Yield the alert and the limit of each rule with a fixed limit on the mean of the metric."""
    if configured is not None:
        for rule in configured.judging.similarity_rules:
            if isinstance(rule.limit, FixedLimit) and rule.subject == (metric, "mean"):
                yield rule.alert, rule.limit.value


def _worsening(part: SegmentMeans, sign: float) -> float:
    """Return how much worse the newest mean is than the median of the earlier means.

    ``sign`` is 1 if lower means are worse, and -1 if higher means are worse. If a mean is unknown,
    -1 is returned, so that the segment comes after the segments that became worse.
    """
    *earlier, newest = part.means
    earlier_means = sorted(sign * mean for mean in earlier if mean is not None)
    if not earlier_means or newest is None:
        return -1.0
    median = earlier_means[len(earlier_means) // 2]
    return median - sign * newest


def alert_spans(
    transitions: Iterable[Transition],
    states: Iterable[AlertState],
    since: datetime,
) -> tuple[AlertSpan, ...]:
    """Return when alerts fired after ``since``: first ended alerts, then alerts that still fire.

    ``transitions`` are the starts and ends after ``since``, the oldest first. ``states`` are the
    current states. If a start is missing, the alert started before ``since``.
    """
    still_firing = {}
    ended = []
    for transition in transitions:
        alert = (transition.alert, transition.segment)
        if transition.is_start:
            still_firing[alert] = _span(transition, transition.slot)
        else:
            span = still_firing.pop(alert, None) or _span(transition, since)
            ended.append(replace(span, ended_at=transition.slot))
    for state in states:
        if state.state is State.FIRING:
            span = _span(state, state.since)
            still_firing.setdefault((state.alert, state.segment), span)
    return (*ended, *still_firing.values())


def _span(firing: Transition | AlertState, started_at: datetime) -> AlertSpan:
    return AlertSpan(
        alert=firing.alert,
        segment=firing.segment,
        started_at=started_at,
        ended_at=None,
        incident=firing.incident,
    )
