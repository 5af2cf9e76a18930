"""The overview with one row for each comparison, and the page of the daemon."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum

from monitor.model.alerts import AlertState, State, Transition, normal_band
from monitor.model.daemon_state import DaemonState
from monitor.model.immutable import immutable
from monitor.model.notifications import Delivery
from monitor.model.pages import ReceiverHealth
from monitor.model.rankings import ALL
from monitor.model.rules import Comparison, LearnedLimit, Learning, Severity
from monitor.model.runs import LatestRun, PullProgress, RunStatus
from monitor.web.pages.site import CachedRow, PageRequest, Site, Status

_MOST_FIRING = 4
_SEVERITIES = list(Severity)
_MOST_DELIVERIES = 50


class ComparisonState(StrEnum):
    """The states of a comparison. The worst state comes first."""

    FIRING = "firing"
    NO_DATA = "no_data"
    PENDING = "pending"
    LEARNING = "learning"
    QUIET = "quiet"


_ORDER = list(ComparisonState)


@immutable
class Firing:
    """A firing alert with its segments, `all` first. ``incident`` is that of the first segment."""

    alert: str
    segments: tuple[str, ...]
    severity: Severity
    since: datetime
    incident: str | None
    acknowledged_by: str | None


@immutable
class ComparisonRow:
    """One comparison: its state, the similarity in its last runs, and its number of users."""

    comparison: str
    state: ComparisonState
    firing: tuple[Firing, ...] = ()
    more_firing: int = 0
    metric: str | None = None
    similarity: float | None = None
    normal_band: tuple[float | None, float | None] = (None, None)
    recent: tuple[float | None, ...] = ()
    asked: int = 0
    paired: int = 0
    slot: datetime | None = None
    age_s: float | None = None
    reason: str | None
    sentence: str | None = None
    last_end: Transition | None = None


@immutable
class Overview:
    """All comparisons, worst first. ``counts`` has the number of comparisons by state."""

    rows: tuple[ComparisonRow, ...]
    counts: dict[str, int]
    daemon: DaemonState | None  # None if no daemon runs
    at: datetime


def read_overview_page(site: Site, _: PageRequest | None = None) -> Overview:
    """Return all comparisons from memory, so that the page works while the database is away."""
    now = site.clock.now()
    daemon = site.daemon
    reason = "no run has ended yet"
    outage = None if daemon is None else daemon.away
    if outage is not None and outage.read_at is None:
        reason = "not read from the database yet"
    configured = site.comparisons
    rows = {}
    for name in configured:
        rows[name] = ComparisonRow(comparison=name, state=ComparisonState.NO_DATA, reason=reason)
    for latest in site.latest:
        row = _cached_row(site, latest, configured.get(latest.comparison))
        age = now - latest.slot
        rows[latest.comparison] = replace(row, age_s=age.total_seconds())
    # Delete cached rows of comparisons that do not exist any more.
    for removed in site.rows.keys() - rows.keys():
        site.rows.pop(removed, None)
    counts = dict.fromkeys(map(str, ComparisonState), 0)
    for row in rows.values():
        counts[row.state] += 1
    ordered = sorted(rows.values(), key=_rank_of_row)
    return Overview(rows=tuple(ordered), counts=counts, daemon=daemon, at=now)


def _rank_of_row(row: ComparisonRow) -> tuple[int, int, int, str]:
    """Return the sort key: the state, the severity, the number of firing alerts, the name."""
    severity = len(_SEVERITIES)
    if row.firing:
        severity = _SEVERITIES.index(row.firing[0].severity)
    firing_alerts = len(row.firing) + row.more_firing
    return _ORDER.index(row.state), severity, -firing_alerts, row.comparison


def _cached_row(site: Site, latest: LatestRun, configured: Comparison | None) -> ComparisonRow:
    """Return the row of `_new_row` from a cache, because thousands of alert states take long."""
    entry = site.rows.get(latest.comparison)
    # Make the row again after another run, and after a reload of the configuration.
    if entry is None or entry.latest is not latest or entry.configured is not configured:
        entry = CachedRow(latest, configured, _new_row(latest, configured))
        site.rows[latest.comparison] = entry
    row: ComparisonRow = entry.row
    return row


def _new_row(latest: LatestRun, configured: Comparison | None) -> ComparisonRow:
    """Return the row of a comparison in the table of the overview, without ``age_s``."""
    metric = latest.leading_metric
    alert = find_drop_alert(configured, metric)
    similarity = None
    for summary in latest.summaries:
        if summary.segment == ALL and summary.metric == metric:
            similarity = summary.mean
    normal: tuple[float | None, float | None] = (None, None)
    for expectation in latest.expectations:
        if expectation.alert == alert and expectation.segment == ALL:
            normal = normal_band(expectation.expected, expectation.limit, expectation.opposite)
    firing = list_firing(latest.states)
    sentence = None
    if firing and latest.explanation is not None:
        sentence = latest.explanation.sentence
    return ComparisonRow(
        comparison=latest.comparison,
        state=state_of(latest),
        firing=firing[:_MOST_FIRING],
        more_firing=max(0, len(firing) - _MOST_FIRING),
        metric=metric,
        similarity=similarity,
        normal_band=normal,
        recent=tuple(mean for _, mean in latest.recent),
        asked=latest.asked or 0,
        paired=latest.paired or 0,
        slot=latest.slot,
        reason=latest.reason,
        sentence=sentence,
        last_end=None if firing else latest.last_end,
    )


def list_firing(states: Sequence[AlertState]) -> tuple[Firing, ...]:
    """Return one `Firing` for each alert that fires in at least one segment.

    The most severe alert comes first. Of alerts with the same severity, alerts that fire for all
    users come first. Of these, alerts that the newest run could judge come first.
    """
    firing_states = [state for state in states if state.state is State.FIRING]
    # The state of the segment ``all`` comes first. The other states follow. States that the newest
    # run could not judge come last, and older states come before newer states.
    firing_states.sort(
        key=lambda state: (state.segment != ALL, not state.is_judged, state.since, state.segment)
    )
    states_by_alert: dict[str, list[AlertState]] = {}
    for state in firing_states:
        states_by_alert.setdefault(state.alert, []).append(state)
    firing = []
    for alert, alert_states in states_by_alert.items():
        first = alert_states[0]
        firing.append(
            Firing(
                alert=alert,
                segments=tuple(state.segment for state in alert_states),
                severity=min((state.severity for state in alert_states), key=_SEVERITIES.index),
                since=min(state.since for state in alert_states),
                incident=first.incident,
                acknowledged_by=first.acknowledged_by,
            )
        )
    firing.sort(key=_rank_of_firing)
    return tuple(firing)


def _rank_of_firing(firing: Firing) -> tuple[int, bool]:
    """Return the sort key: the severity, and whether it is only about segments."""
    return _SEVERITIES.index(firing.severity), firing.segments[0] != ALL


def state_of(latest: LatestRun) -> ComparisonState:
    """Return the first state that applies: firing, no data, pending, learning or quiet.

    ``no data`` applies if the newest run is not ok.
    """
    states = {state.state for state in latest.states}
    if State.FIRING in states:
        return ComparisonState.FIRING
    if latest.status is not RunStatus.OK:
        return ComparisonState.NO_DATA
    if State.PENDING in states:
        return ComparisonState.PENDING
    # Each rule that learns has an expectation, which is None until the rule has learned enough.
    expected = [
        expectation.expected for expectation in latest.expectations if expectation.segment == ALL
    ]
    if expected and all(value is None for value in expected):
        return ComparisonState.LEARNING
    return ComparisonState.QUIET


def find_drop_alert(configured: Comparison | None, metric: str | None) -> str | None:
    """Return the name of the alert on a drop of the metric's mean.

    It is the alert of the first rule with ``learned: drop``. Returns None if there is no such rule,
    or if the comparison is not configured any more.
    """
    if configured is None:
        return None
    for rule in configured.judging.similarity_rules:
        limit = rule.limit
        learns_drop = isinstance(limit, LearnedLimit) and limit.learning == Learning.DROP
        if learns_drop and rule.subject == (metric, "mean"):
            return rule.alert
    return None


@immutable
class DaemonPage:
    """The data of the daemon's page. While the database is away, its data is left out."""

    process: Status
    progress: Mapping[str, tuple[PullProgress, ...]]
    at: datetime
    bytes_by_kind: Mapping[str, int] = field(default_factory=dict)
    # For each receiver: the number of deliveries that wait to be sent or that are held back, and
    # the age of the oldest one in seconds.
    pending: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    held: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    records: Mapping[str, ReceiverHealth] = field(default_factory=dict)
    deliveries: tuple[Delivery, ...] = ()


def read_daemon_page(site: Site, _: PageRequest) -> DaemonPage:
    """Return the page of this daemon. Other daemons have their own pages."""
    now = site.clock.now()
    outbox = site.store.outbox
    status = site.status()
    progress = {}
    for run in status.schedule:
        pulls = site.pulls_of(run.comparison)
        if pulls:
            progress[run.comparison] = pulls
    page = DaemonPage(process=status, progress=progress, at=now)
    is_database_away = status.daemon.away is not None
    if is_database_away:
        return page  # all other data is in the database
    sizes = site.store.maintenance.sizes(refresh=False)
    return replace(
        page,
        bytes_by_kind={str(kind): size_bytes for kind, size_bytes in sizes.items()},
        pending=outbox.waiting(now),
        held=outbox.waiting(now, held=True),
        records=outbox.receiver_health(),
        deliveries=outbox.deliveries(
            receiver=None, given_up_limit=_MOST_DELIVERIES, limit=_MOST_DELIVERIES
        ),
    )
