"""The overview: a row a comparison, worst first; and the daemon itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from monitor.model.alerts import AlertState, State, Transition, normal_band
from monitor.model.comparison import Comparison
from monitor.model.notifications import Delivery
from monitor.model.rankings import ALL
from monitor.model.rules import LearnedLimit, Learning, Severity
from monitor.model.runs import LatestRun, PullProgress, RunStatus
from monitor.web.pages.site import Query, Site, Status

_MOST_FIRING = 4
_SEVERITIES = list(Severity)
_DELIVERIES = 50


class Standing(StrEnum):
    """How a comparison stands, worst first."""

    FIRING = "firing"
    NO_DATA = "no data"
    PENDING = "pending"
    LEARNING = "learning"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One alert that fires, and the segments that it fires for, `all` first.

    ``key``: of the incident of the first.
    """

    alert: str
    segments: tuple[str, ...]
    severity: Severity
    since: datetime
    key: str | None
    acknowledged_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One comparison: how it stands, its similarity over the last runs, and who was compared."""

    name: str
    standing: Standing
    firing: tuple[Firing, ...] = ()
    more: int = 0
    metric: str | None = None
    similarity: float | None = None
    normal: tuple[float | None, float | None] = (None, None)
    recent: tuple[float | None, ...] = ()
    asked: int = 0
    paired: int = 0
    slot: datetime | None = None
    age_s: float | None = None
    reason: str | None = None
    sentence: str | None = None
    ended: Transition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All comparisons."""

    rows: tuple[ComparisonRow, ...]
    counts: dict[str, int]
    notice: str | None
    at: datetime


_ORDER = list(Standing)


def read_overview_page(site: Site, _: Query | None = None) -> Overview:
    """From memory alone, so that it is there while the database is away."""
    now, configured = site.clock.now(), site.comparisons()
    found = {each.run.comparison: each for each in site.latest()}
    rows = [_row(site, each, configured.get(name), now) for name, each in found.items()]
    rows += [
        ComparisonRow(name=name, standing=Standing.NO_DATA, reason="no run has ended yet")
        for name in configured
        if name not in found
    ]
    for gone in site.rows.keys() - found.keys():
        site.rows.pop(gone, None)
    rows.sort(key=_badness)
    counts = {str(standing): sum(row.standing is standing for row in rows) for standing in Standing}
    return Overview(rows=tuple(rows), counts=counts, notice=site.notice(), at=now)


def _badness(row: ComparisonRow) -> tuple[int, int, int, str]:
    worst = min((_SEVERITIES.index(each.severity) for each in row.firing), default=len(_SEVERITIES))
    return _ORDER.index(row.standing), worst, -len(row.firing) - row.more, row.name


def _row(
    site: Site, latest: LatestRun, configured: Comparison | None, now: datetime
) -> ComparisonRow:
    """The row as it was made before, where nothing but the time has changed: a comparison may have thousands of states."""
    known = site.rows.get(latest.run.comparison)
    if known is None or known[0] is not latest or known[1] is not configured:
        known = site.rows[latest.run.comparison] = (
            latest,
            configured,
            _new_row(latest, configured),
        )
    return replace(known[2], age_s=(now - latest.run.slot).total_seconds())


def _new_row(latest: LatestRun, configured: Comparison | None) -> ComparisonRow:
    run, firing = latest.run, firing_of(latest.states)
    metric = latest.leading_metric
    watched = (drop_rule(configured, metric), ALL)
    learned = next(
        (each for each in latest.expectations if (each.alert, each.segment) == watched), None
    )
    summary = next(
        (each for each in latest.summaries if (each.segment, each.metric) == (ALL, metric)), None
    )
    return ComparisonRow(
        name=run.comparison,
        standing=standing_of(latest),
        firing=firing[:_MOST_FIRING],
        more=max(0, len(firing) - _MOST_FIRING),
        metric=metric,
        similarity=None if summary is None else summary.mean,
        normal=(None, None)
        if learned is None
        else normal_band(learned.expected, learned.limit, learned.opposite),
        recent=tuple(mean for _, mean in latest.recent),
        asked=run.asked or 0,
        paired=run.paired or 0,
        slot=run.slot,
        reason=run.reason,
        sentence=None if latest.explanation is None or not firing else latest.explanation.sentence,
        ended=None if firing else latest.ended,
    )


def firing_of(states: Sequence[AlertState]) -> tuple[Firing, ...]:
    """What fires, by alert: most severe first, those for all users before those for segments, older before newer."""
    by_alert: dict[str, list[AlertState]] = {}
    lasting = [each for each in states if each.state is State.FIRING]
    for state in sorted(lasting, key=lambda each: (each.segment != ALL, each.since, each.segment)):
        by_alert.setdefault(state.alert, []).append(state)
    firing = [
        Firing(
            alert=alert,
            segments=tuple(each.segment for each in found),
            severity=min((each.severity for each in found), key=_SEVERITIES.index),
            since=min(each.since for each in found),
            key=found[0].incident or found[0].dedup_key,
            acknowledged_by=found[0].acknowledged_by,
        )
        for alert, found in by_alert.items()
    ]
    return tuple(
        sorted(
            firing,
            key=lambda each: (
                _SEVERITIES.index(each.severity),
                each.segments[0] != ALL,
                each.since,
            ),
        )
    )


def standing_of(latest: LatestRun) -> Standing:
    """How the comparison stands, by its alerts first and then by its newest run."""
    states = {state.state for state in latest.states}
    if State.FIRING in states:
        return Standing.FIRING
    if latest.run.status is not RunStatus.OK:
        return Standing.NO_DATA
    if State.PENDING in states:
        return Standing.PENDING
    expected = [each.expected for each in latest.expectations if each.segment == ALL]
    return (
        Standing.LEARNING if expected and all(each is None for each in expected) else Standing.QUIET
    )


def drop_rule(configured: Comparison | None, metric: str | None) -> str | None:
    """The rule that learns what is normal for the metric's mean; None without one."""
    for rule in configured.judging.similarity_rules if configured else ():
        if isinstance(rule.limit, LearnedLimit) and (rule.limit.learning, rule.subject) == (
            Learning.DROP,
            (metric, "mean"),
        ):
            return rule.alert
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonPage:
    """What the page of the daemon shows."""

    status: Status
    progress: Mapping[str, tuple[PullProgress, ...]]
    sizes: Mapping[str, int]
    pending: Mapping[str, tuple[int, float]]
    held: Mapping[str, tuple[int, float]]
    deliveries: tuple[Delivery, ...]
    at: datetime


def read_daemon_page(site: Site, _: Query) -> DaemonPage:
    """The daemon that answers; its fellows have pages of their own."""
    now, outbox, status = site.clock.now(), site.store.outbox, site.status()
    return DaemonPage(
        status=status,
        progress={
            each.name: found for each in status.schedule if (found := site.progress(each.name))
        },
        sizes={str(kind): size for kind, size in site.store.maintenance.sizes(anew=False).items()},
        pending=outbox.waiting(now),
        held=outbox.waiting(now, held=True),
        deliveries=outbox.deliveries(receiver=None, settled=_DELIVERIES, limit=_DELIVERIES),
        at=now,
    )
