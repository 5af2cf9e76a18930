"""The publisher for Prometheus keeps what the daemon reports, and writes it as pages.

The series of a comparison are made once for each run.
"""

import gzip
import math
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial

import prometheus_client
import structlog
from prometheus_client.core import InfoMetricFamily
from prometheus_client.exposition import gzip_accepted
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from monitor.export.daemon_metrics import DaemonMetrics
from monitor.export.exposition import DAEMON_GAUGES, FamilyGroup, Format, Gauges, Lines, SampleKey
from monitor.export.run_metrics import gauges_before_runs, gauges_of_run
from monitor.export.series import COLLECTORS, SERIES, SeriesKind
from monitor.model.errors import DatabaseErrorKind
from monitor.model.ports import Clock
from monitor.model.rankings import ALL
from monitor.model.runs import LatestRun

_SEGMENT_POSITIONS = {
    name: series.labels.index("segment")
    for name, series in SERIES.items()
    if "segment" in series.labels
}

StartTimes = Mapping[str, datetime | None]
"""When each configured comparison was first read. The time is None without a clock."""
log = structlog.get_logger(__name__)
_VARY = "Accept, Accept-Encoding"
_GZIP_LEVEL = 3
SHOWN_UNCONFIRMED_S = 60.0
"""How long earlier values are shown while the database cannot be read.

Short failures therefore leave no gaps.
"""
_OF_PROCESS = DAEMON_GAUGES - {"database_size_bytes"} | {
    "schedule_interval_seconds",
    "stale_after_seconds",
    "arm_gap_seconds",
}
# The time of an event stays true while the database cannot be read. Prometheus' alert rules take
# the newest time with `max`, and compute its age with Prometheus' own clock.
_EVENT_TIMES = frozenset({
    "run_last_slot_timestamp_seconds", "run_last_finished_timestamp_seconds",
    "run_last_ok_timestamp_seconds", "comparison_since_timestamp_seconds",
    "prune_last_success_timestamp_seconds",
})  # fmt: skip
CONFIRMED = frozenset(
    series.name
    for name, series in SERIES.items()
    if series.kind in (SeriesKind.GAUGE, SeriesKind.GAUGE_HISTOGRAM)
    and name not in _OF_PROCESS | _EVENT_TIMES
)
"""Full names of the series whose values are read from the database."""


def removable_segments(gauges: Gauges) -> dict[str, list[SampleKey]]:
    """Return which samples of a comparison may be left out, by segment. Large segments come first.

    Samples of the segment ``all`` and of pending or firing alerts are always shown.
    """
    states = gauges.samples.get("alert_state", {})
    removable: dict[str, list[SampleKey]] = defaultdict(list)
    for name, position in _SEGMENT_POSITIONS.items():
        for labels in gauges.samples.get(name, {}):
            is_active = name.startswith("alert_") and states.get(labels, 0) > 0
            if labels[position] != ALL and not is_active:
                removable[labels[position]].append((name, labels))
    panel = gauges.samples.get("panel_users", {})
    users = {segment: count for (_, segment), count in panel.items()}

    def largest_first(segment: str) -> tuple[float, str]:
        return -users.get(segment, 0), segment

    return {segment: removable[segment] for segment in sorted(removable, key=largest_first)}


def choose_segments(
    removable: Mapping[str, Mapping[str, Sequence[SampleKey]]], most: int | None
) -> dict[str, set[str]]:
    """Choose which segments of each comparison to show, with at most ``most`` series in total.

    ``most`` None means no limit. The comparisons take turns, and each turn adds all series of one
    more segment. The choice ends at the first segment that does not fit.
    """
    queue = []
    for comparison, segments in removable.items():
        for turn, (segment, samples) in enumerate(segments.items()):
            queue.append((turn, comparison, segment, len(samples)))
    shown: dict[str, set[str]] = {comparison: set() for comparison in removable}
    room = math.inf if most is None else most
    for _, comparison, segment, size in sorted(queue):
        room -= size
        if room < 0:
            break
        shown[comparison].add(segment)
    return shown


@dataclass(eq=False)
class RunSeries:
    """The series of a comparison's newest run. Before the first run, ``latest`` is None.

    The series are made for the first page that needs them.
    """

    comparison: str
    latest: LatestRun | None
    since: datetime | None
    _group: tuple[set[str], FamilyGroup] | None = None

    def is_of(self, latest: LatestRun | None, since: datetime | None) -> bool:
        """Return whether the series are those of this run.

        ``latest`` is None before the first run of a comparison, which was started at ``since``.
        """
        return self.latest is latest and (latest is not None or self.since == since)

    @cached_property
    def _gauges(self) -> Gauges:
        if self.latest is None:
            return gauges_before_runs(self.comparison, self.since)
        return gauges_of_run(self.latest)

    @cached_property
    def segments(self) -> Mapping[str, Sequence[SampleKey]]:
        """The samples that may be left out, by segment."""
        return removable_segments(self._gauges)

    def group(self, shown: set[str]) -> FamilyGroup:
        """Return the series. Of the segments, only the ``shown`` ones are included."""
        if self._group is None or self._group[0] != shown:
            left_out: set[SampleKey] = set()
            for segment, samples in self.segments.items():
                if segment not in shown:
                    left_out.update(samples)
            gauges = self._gauges
            gauges.set((self.comparison,), series_cut=len(left_out))
            # The group has no reference to this object, so that both are freed after the next run.
            self._group = (shown, FamilyGroup(partial(gauges.families, left_out)))
        return self._group[1]


@dataclass(frozen=True)
class Publication:
    """The series of all comparisons at one time.

    At most ``most`` series of segments are shown. If it is None, all are shown.
    """

    series: Mapping[str, RunSeries] = field(default_factory=dict)
    most: int | None = None

    def followed_by(
        self,
        latest: Sequence[LatestRun],
        since: StartTimes,
        most: int | None,
    ) -> "Publication":
        """Return the next publication. It reuses the series of unchanged runs.

        It shows the ``latest`` runs, and those comparisons in ``since`` that have no run.
        """
        runs: dict[str, LatestRun | None] = dict.fromkeys(since)
        for newest in latest:
            runs[newest.comparison] = newest
        series = {}
        for name, run in runs.items():
            of_run = self.series.get(name)
            if of_run is None or not of_run.is_of(run, since.get(name)):
                of_run = RunSeries(name, run, since.get(name))
            series[name] = of_run
        return Publication(series, most)

    @property
    def latest(self) -> list[LatestRun]:
        """The newest run of each comparison that has a run."""
        return [series.latest for series in self.series.values() if series.latest is not None]

    @cached_property
    def groups(self) -> list[FamilyGroup]:
        """One group of families for each comparison."""
        removable = {name: series.segments for name, series in self.series.items()}
        shown = choose_segments(removable, self.most)
        return [series.group(shown[name]) for name, series in self.series.items()]


class PrometheusPublisher(DaemonMetrics):
    """All series of the daemon. Threads may share it. No method raises or waits.

    Call ``register`` and ``reloaded`` at the start and after each reload. Without a ``clock``,
    values from the database are shown for ever.
    """

    def __init__(self, *, version: str, clock: Clock | None = None) -> None:
        super().__init__()
        # In the text format, each creation time would be a separate gauge.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._clock = clock
        self._unconfirmed_since_s: float | None = None
        build = SERIES["build_info"]
        labels = {
            "version": version,
            "revision": os.environ.get("RANKWATCH_REVISION", "unknown"),
            "python_version": platform.python_version(),
        }
        self._build = InfoMetricFamily(build.name.removesuffix("_info"), build.help, value=labels)
        self._since: StartTimes = {}
        self._most: int | None = None
        # This is always replaced as a whole, so that a scrape never sees parts of two publications.
        self._publication = Publication()
        registry = prometheus_client.CollectorRegistry()  # the three collectors need a registry
        # The parts of a page by their names in COLLECTORS.
        self._parts: dict[str, Callable[[Format], Iterable[Lines]]] = {
            "results": self._results,
            "daemon": self.lines,
            "process": partial(_collect, prometheus_client.ProcessCollector(registry=registry)),
            "platform": partial(_collect, prometheus_client.PlatformCollector(registry=registry)),
            "gc": partial(_collect, prometheus_client.GCCollector(registry=registry)),
        }
        self._failing: set[str] = set()
        errors = SERIES["collector_errors_total"]
        self._errors = prometheus_client.Counter(
            errors.name,
            errors.help,
            errors.labels,
            registry=None,
        )
        for name in COLLECTORS:
            self._errors.labels(name)

    def register(
        self,
        comparisons: Sequence[str],
        receivers: Sequence[str],
        *,
        intervals: Mapping[str, timedelta] | None = None,
        stale_after: Mapping[str, timedelta] | None = None,
        pings: Sequence[str] = (),
        max_series: int | None = None,
    ) -> None:
        """Register the configured comparisons, receivers and pings by their names.

        Their counters start at 0. Counters of other names disappear. ``max_series`` limits the
        series of segments. None means no limit. The alert rules of Prometheus use ``intervals`` and
        ``stale_after``. ``intervals`` are the longest times between slots. ``stale_after`` are the
        longest times without an ok run.
        """
        now = self._clock.now() if self._clock else None
        self._since = {name: self._since.get(name, now) for name in comparisons}
        self._most = max_series
        names = {"comparison": comparisons, "receiver": receivers, "ping": pings}
        self.set_names(names, intervals or {}, stale_after or {})
        latest = self._publication.latest
        self._show([one for one in latest if one.comparison in self._since])

    def publish(self, latest: Sequence[LatestRun]) -> None:
        """Replace all results by these results. The series of other comparisons disappear."""
        self._show(latest)
        # The results were just read from the database.
        self._unconfirmed_since_s = None

    def _show(self, latest: Sequence[LatestRun]) -> None:
        self._publication = self._publication.followed_by(latest, self._since, self._most)

    def _results(self, form: Format) -> list[Lines]:
        lines = [form.encode((self._build,))]
        for group in self._publication.groups:
            lines.append(group.lines(form))
        return lines

    def database_failed(self, kind: DatabaseErrorKind) -> None:
        """Count an error of the database by its kind."""
        # After a conflict between writers, the values that were read before are still right.
        if (
            self._clock
            and kind is not DatabaseErrorKind.CONFLICT
            and self._unconfirmed_since_s is None
        ):
            self._unconfirmed_since_s = self._clock.monotonic()
        self.count("database_errors_total", kind)

    @property
    def _hidden(self) -> Container[str]:
        """The families that are hidden because the database could not be read for too long."""
        since_s = self._unconfirmed_since_s
        if not self._clock or since_s is None:
            return ()
        is_recent = self._clock.monotonic() - since_s < SHOWN_UNCONFIRMED_S
        return () if is_recent else CONFIRMED

    def render(self, accept: str = "", accept_encoding: str = "") -> tuple[bytes, dict[str, str]]:
        """Return the page for these request headers, and the headers of the answer.

        A part that fails is left out and counted. It is logged when it begins to fail.
        """
        form = Format.accepted_by(accept)
        lines = []
        failing = set()
        for name, part in self._parts.items():
            try:
                lines += list(part(form))
            except Exception:
                failing.add(name)
                self._errors.labels(name).inc()
                if name not in self._failing:
                    log.exception("metrics left out of the page", collector=name)
        self._failing = failing
        lines.append(form.encode(self._errors.collect()))
        body = form.page(lines, self._hidden)
        headers = {"Content-Type": form.content_type, "Vary": _VARY}
        if gzip_accepted(accept_encoding):
            body = gzip.compress(body, compresslevel=_GZIP_LEVEL, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return body, headers

    def final(self) -> tuple[Metric, ...]:
        """Return the families that still make sense after the process has ended."""
        of_daemon = {SERIES[name].name for name in DAEMON_GAUGES}
        families = [self._build, *self.gauges().families()]
        for group in self._publication.groups:
            families += group.families()
        return tuple(family for family in families if family.name not in of_daemon)


def _collect(collector: Collector, form: Format) -> Iterable[Lines]:
    return (form.encode(collector.collect()),)
