"""A comparison over time: one metric of one segment, its distribution, segments, coverage, arms and rules."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from monitor.model.alerts import AlertState, State
from monitor.model.comparison import Comparison
from monitor.model.notifications import Silence
from monitor.model.pages import FiringChange, SegmentMeans, SeriesKey, SeriesPoint, tell_changes
from monitor.model.rankings import ALL, CoverageRow
from monitor.model.rules import FixedLimit
from monitor.model.runs import ArmScore, Histogram, LatestRun, PullProgress
from monitor.presentation import score_by_chance
from monitor.web.pages.alerts import Incident, read_ended
from monitor.web.pages.overview import (
    ComparisonRow,
    Firing,
    Standing,
    drop_rule,
    firing_of,
    read_overview_page,
    standing_of,
)
from monitor.web.pages.site import Query, Site, require_slot

PERIODS = {
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
    "1y": timedelta(days=366),
}
MOST_RUNS = 240
"""Runs that one chart shows; of more, each group of neighbours by its lowest."""
_DETAILS = 120
_USUAL_RUNS = 28
_SMALL_RUNS = 24
MOST_SEGMENTS = 24
MOST_QUIET = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSpan:
    """From when to when an alert fired; None while it lasts."""

    alert: str
    segment: str
    start: datetime
    end: datetime | None
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPage:
    """What the page of one comparison shows, for what was chosen.

    ``blamed``: the segment that the sentence names.
    """

    name: str
    standing: Standing
    progress: tuple[PullProgress, ...]
    grid: Mapping[str, Mapping[str, ComparisonRow]]
    firing: tuple[Firing, ...]
    sentence: str | None
    since: datetime | None
    blamed: str | None
    ended: Incident | None
    reason: str | None
    slot: datetime | None
    metric: str | None
    metrics: tuple[str, ...]
    segment: str
    segments: tuple[str, ...]
    period: str
    points: tuple[SeriesPoint, ...]
    marks: tuple[tuple[datetime, str], ...]
    limits: tuple[tuple[str, float], ...]
    by_chance: float | None
    spans: tuple[AlertSpan, ...]
    silences: tuple[Silence, ...]
    distribution: tuple[tuple[datetime, Histogram], ...]
    coverage: tuple[tuple[datetime, CoverageRow], ...]
    parts: tuple[SegmentMeans, ...]
    more_parts: int
    arms: tuple[ArmScore, ...]
    rules: tuple[AlertState, ...]
    quiet: tuple[AlertState, ...]
    more_quiet: int


def read_comparison_page(site: Site, query: Query) -> ComparisonPage:
    """AbsentPageError for an unknown comparison.

    A choice that is not there falls back. ``from`` and ``to`` beat a period.
    """
    name = query.path["name"]
    site.require(name)
    latest, configured = site.latest_of(name), site.comparison(name)
    measured = (
        latest.summaries if latest else ()
    )  # nothing where the newest run failed: earlier ones are shown then
    metrics = tuple(dict.fromkeys(each.metric for each in measured)) or (
        configured.measuring.metrics if configured else ()
    )
    leading = latest.leading_metric if latest else None
    metric = (
        chosen
        if (chosen := query.chosen.get("metric")) in metrics
        else leading or next(iter(metrics), None)
    )
    segments = tuple(dict.fromkeys(each.segment for each in measured)) or (ALL,)
    told, rows = (latest.explanation, latest.states) if latest else (None, ())
    alert = drop_rule(configured, metric)
    blamed = told.segment if told and told.finding and told.segment in {*segments} - {ALL} else None
    firing = {each.segment for each in rows if (each.alert, each.state) == (alert, State.FIRING)}
    opening = blamed if blamed and firing and ALL not in firing else ALL
    segment = chosen if (chosen := query.chosen.get("segment", opening)) in segments else ALL
    period = (
        chosen if (chosen := query.chosen.get("period", "")) in PERIODS else _usual_period(latest)
    )
    until = site.clock.now() if latest is None else max(site.clock.now(), latest.run.slot)
    until = latest.run.slot if latest and until - latest.run.slot > PERIODS[period] else until
    until = require_slot(query.chosen["to"]) if "to" in query.chosen else until
    since = (
        require_slot(query.chosen["from"]) if "from" in query.chosen else until - PERIODS[period]
    )
    pages = site.store.pages
    series = SeriesKey(name, metric or "", segment)
    points = pages.series(series, alert=alert, since=since, until=until, most=MOST_RUNS)
    thinned = {point.run_id: point.slot for point in points[:: max(1, -(-len(points) // _DETAILS))]}
    shapes = pages.histograms([*thinned], metric, segment) if metric else {}
    covered = pages.coverage([*thinned], segment)
    parts = (
        pages.segments(name, metric, until=until, runs=_SMALL_RUNS)
        if metric and len(segments) > 1
        else ()
    )
    ranked = sorted((each for each in parts if each.segment != ALL), key=_fall, reverse=True)
    changes = pages.changes(name, segment, since=since, until=max(until, site.clock.now()))
    spans = alert_spans(changes, [each for each in rows if each.segment == segment], since)
    quiet = [row for row in rows if row.state is State.QUIET]
    grid = _read_grid(site, configured.family if configured else name)
    return ComparisonPage(
        name=name,
        standing=Standing.NO_DATA if latest is None else standing_of(latest),
        progress=site.progress(name),
        grid=grid,
        firing=firing_of(rows),
        sentence=told.sentence if told else None,
        since=told.since if told else None,
        blamed=blamed,
        ended=read_ended(site, latest.ended)
        if latest and latest.ended and not firing_of(rows)
        else None,
        reason=latest.run.reason if latest else None if grid else "no run has ended yet",
        slot=latest.run.slot if latest else None,
        metric=metric,
        metrics=metrics,
        segment=segment,
        segments=segments,
        period=period,
        points=points,
        marks=tuple(_find_marks(points)),
        limits=_fixed_limits(configured, metric),
        by_chance=score_by_chance(metric, latest.run) if metric and latest else None,
        spans=tuple(each for each in spans if each.start <= until),
        silences=tuple(
            each
            for each in site.store.alerts.silences(ending_after=since)
            if _may_silence(each, name) and each.starts_at <= until
        ),
        distribution=tuple(
            (slot, shapes[run_id]) for run_id, slot in thinned.items() if run_id in shapes
        ),
        coverage=tuple(
            (slot, covered[run_id]) for run_id, slot in thinned.items() if run_id in covered
        ),
        parts=tuple(ranked[:MOST_SEGMENTS]),
        more_parts=max(0, len(ranked) - MOST_SEGMENTS),
        arms=latest.arm_scores if latest else (),
        rules=tuple(row for row in rows if row.state is not State.QUIET),
        quiet=tuple(quiet[:MOST_QUIET]),
        more_quiet=max(0, len(quiet) - MOST_QUIET),
    )


def _read_grid(site: Site, family: str | None) -> Mapping[str, Mapping[str, ComparisonRow]]:
    """How the comparisons of a family of several candidates stand, by the names of both arms."""
    of_family = {
        name: each.arms for name, each in site.comparisons().items() if each.family == family
    }
    members = {
        name: [arm.removeprefix(f"{family}.") for arm in arms] for name, arms in of_family.items()
    }
    rows = {row.name: row for row in read_overview_page(site).rows} if len(members) > 1 else {}
    return {
        first: {second: rows[name] for name, (its, second) in members.items() if its == first}
        for first, _ in members.values()
        if rows
    }


def _usual_period(latest: LatestRun | None) -> str:
    """A week, or for comparisons that run daily or less often a month or a year."""
    slots = [slot for slot, _ in latest.recent] if latest else []
    pace = (slots[-1] - slots[0]) / (len(slots) - 1) if slots[1:] else timedelta(0)
    return next(
        name for name in ("7d", "30d", "1y") if pace <= PERIODS[name] / _USUAL_RUNS or name == "1y"
    )


def _find_marks(points: Sequence[SeriesPoint]) -> Iterator[tuple[datetime, str]]:
    for before, each in pairwise(points):
        if told := [*tell_changes(before, each.slot, each.config_hash, each.k, each.models)]:
            yield each.slot, "; ".join(told)


def _fixed_limits(
    configured: Comparison | None, metric: str | None
) -> tuple[tuple[str, float], ...]:
    rules = configured.judging.similarity_rules if configured else ()
    return tuple(
        (rule.alert, rule.limit.value)
        for rule in rules
        if isinstance(rule.limit, FixedLimit) and rule.subject == (metric, "mean")
    )


def _fall(part: SegmentMeans) -> float:
    """How far the newest mean lies below the median of those before."""
    known = [mean for mean in part.means if mean is not None]
    if not known[1:] or part.means[-1] is None:
        return -1.0
    *before, now = known
    return sorted(before)[len(before) // 2] - now


def alert_spans(
    changes: Iterable[FiringChange], states: Sequence[AlertState], since: datetime
) -> tuple[AlertSpan, ...]:
    """Firings that reach into the time from ``since`` on: that ended or began in it, or last by the states."""
    begun: dict[tuple[str, str], AlertSpan] = {}
    ended: list[AlertSpan] = []
    for each in changes:
        if each.is_start:
            begun[each.alert, each.segment] = _span(each, each.slot, each.key)
        else:
            ended.append(
                replace(
                    begun.pop((each.alert, each.segment), _span(each, since, each.key)),
                    end=each.slot,
                )
            )
    firing = (
        each
        for each in states
        if each.state is State.FIRING and (each.alert, each.segment) not in begun
    )
    return (
        *ended,
        *begun.values(),
        *(_span(each, each.since, each.incident or each.dedup_key) for each in firing),
    )


def _span(of: FiringChange | AlertState, start: datetime, key: str | None) -> AlertSpan:
    return AlertSpan(alert=of.alert, segment=of.segment, start=start, end=None, key=key)


def _may_silence(silence: Silence, name: str) -> bool:
    return any(name in matcher for matcher in silence.matchers) or not any(
        "comparison" in each for each in silence.matchers
    )
