"""The publisher for Prometheus keeps what the daemon reports.

A comparison is rendered once, until it has something new.
"""

import gzip
import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain, zip_longest

import prometheus_client
import structlog
from prometheus_client.core import InfoMetricFamily
from prometheus_client.exposition import gzip_accepted
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from monitor.errors import DatabaseTrouble
from monitor.export.daemon_metrics import DaemonMetrics
from monitor.export.exposition import DAEMON_GAUGES, Format, Gauges, Lines, Piece, SampleKey
from monitor.export.run_metrics import gauges_before_runs, gauges_of_run
from monitor.export.series import COLLECTORS, SERIES, Kind
from monitor.model.rankings import ALL
from monitor.model.runs import LatestRun
from monitor.ports import Clock

_PLACES = {
    name: series.labels.index("segment")
    for name, series in SERIES.items()
    if "segment" in series.labels
}

Known = Mapping[str, datetime | None]
"""Comparisons that are shown even before they have a run, with the time since when there are."""
log = structlog.get_logger(__name__)
_VARY = "Accept, Accept-Encoding"
_LEVEL = 3
"""Of gzip."""
SHOWN_UNCONFIRMED_S = 60.0
"""How long what was read last is shown while the database cannot be read: a few failures are no reason for gaps."""
_OF_PROCESS = DAEMON_GAUGES - {"database_size_bytes"} | {
    "schedule_interval_seconds",
    "stale_after_seconds",
    "arm_gap_seconds",
}
# When something happened stays true: what is newer is found by `max`, and how old it is by the
# reader's clock.
_FACTS = frozenset({
    "run_last_slot_timestamp_seconds", "run_last_finished_timestamp_seconds", "run_last_ok_timestamp_seconds",
    "comparison_since_timestamp_seconds", "prune_last_success_timestamp_seconds",
})  # fmt: skip
CONFIRMED = frozenset(
    one.name
    for name, one in SERIES.items()
    if one.kind in (Kind.GAUGE, Kind.GAUGE_HISTOGRAM) and name not in _OF_PROCESS | _FACTS
)
"""Full names of the series that show the state in the database."""
_Parts = Mapping[str, Callable[[Format], Iterable[Lines]]]
"""What a page is put together from, by the names in `COLLECTORS`."""


def removable_segments(gauges: Gauges) -> dict[str, list[SampleKey]]:
    """A comparison's samples that may be left out by segment, the largest first.

    Not ``all``, nor what is pending or firing.
    """
    states = gauges.samples.get("alert_state", {})
    groups: dict[str, list[SampleKey]] = defaultdict(list)
    for name, place in _PLACES.items():
        for labels in gauges.samples.get(name, {}):
            is_wanted = name.startswith("alert_") and states.get(labels, 0) > 0
            if labels[place] != ALL and not is_wanted:
                groups[labels[place]].append((name, labels))
    users = {labels[1]: asked for labels, asked in gauges.samples.get("panel_users", {}).items()}
    return {
        segment: groups[segment]
        for segment in sorted(groups, key=lambda each: (-users.get(each, 0), each))
    }


def choose_segments(
    found: Mapping[str, Mapping[str, Sequence[SampleKey]]], most: int | None
) -> dict[str, frozenset[str]]:
    """Segments to show by comparison, ``most`` series in all: each in turn gets its next one, whole, until one does not fit."""
    if (
        most is None
        or sum(len(each) for of_one in found.values() for each in of_one.values()) <= most
    ):
        return {comparison: frozenset(of_one) for comparison, of_one in found.items()}
    shown: dict[str, set[str]] = {comparison: set() for comparison in found}
    room = most
    queues = (
        [(comparison, *each) for each in of_one.items()]
        for comparison, of_one in sorted(found.items())
    )
    for comparison, segment, samples in filter(None, chain.from_iterable(zip_longest(*queues))):
        room -= len(samples)
        if room < 0:
            break
        shown[comparison].add(segment)
    return {comparison: frozenset(segments) for comparison, segments in shown.items()}


class RunSeries:
    """The series of one comparison: of its newest run, or None before the first.

    Made when they are first asked for.
    """

    def __init__(self, comparison: str, latest: LatestRun | None, since: datetime | None) -> None:
        self.comparison, self.latest, self.since = comparison, latest, since
        self._made: tuple[frozenset[str], Piece] | None = None

    def is_of(self, latest: LatestRun | None, since: datetime | None) -> bool:
        """Whether these are still the series of this run."""
        return self.latest is latest and (latest is not None or self.since == since)

    @cached_property
    def _gauges(self) -> Gauges:
        return (
            gauges_before_runs(self.comparison, self.since)
            if self.latest is None
            else gauges_of_run(self.latest)
        )

    @cached_property
    def segments(self) -> Mapping[str, Sequence[SampleKey]]:
        """The series that may be left out, by segment."""
        return removable_segments(self._gauges)

    def piece(self, shown: frozenset[str]) -> Piece:
        """The series with those of the ``shown`` segments."""
        made = self._made
        if made is None or made[0] != shown:
            # Without a reference back to this object, which frees all of it once a run follows.
            families = partial(
                _families_of_run, self.comparison, self._gauges, self.segments, shown
            )
            made = self._made = (shown, Piece(families))
        return made[1]

    def families(self, shown: frozenset[str]) -> tuple[Metric, ...]:
        """The same as families."""
        return _families_of_run(self.comparison, self._gauges, self.segments, shown)


def _families_of_run(
    comparison: str,
    gauges: Gauges,
    segments: Mapping[str, Sequence[SampleKey]],
    shown: frozenset[str],
) -> tuple[Metric, ...]:
    hidden = (samples for segment, samples in segments.items() if segment not in shown)
    left_out = set(chain.from_iterable(hidden))
    cut = Gauges()
    cut.set("series_cut", (comparison,), len(left_out))
    return (*gauges.families(left_out), *cut.families())


class Publication:
    """The newest runs, and ``known`` comparisons without one.

    It never changes, and shows ``most`` series of segments.
    """

    def __init__(
        self, series: Mapping[str, RunSeries] | None = None, most: int | None = None
    ) -> None:
        self._series, self._most = series or {}, most

    def followed_by(
        self, latest: Sequence[LatestRun], known: Known, most: int | None
    ) -> "Publication":
        """The next publication, which takes over the series of each run that it shows already."""
        runs: dict[str, LatestRun | None] = {one.run.comparison: one for one in latest}
        series = {}
        for name, run in (runs | dict.fromkeys(known.keys() - runs)).items():
            old, since = self._series.get(name), known.get(name)
            series[name] = (
                old if old is not None and old.is_of(run, since) else RunSeries(name, run, since)
            )
        return Publication(series, most)

    @property
    def latest(self) -> list[LatestRun]:
        """The newest runs."""
        return [one.latest for one in self._series.values() if one.latest is not None]

    @cached_property
    def _shown(self) -> Mapping[str, frozenset[str]]:
        return choose_segments(
            {name: one.segments for name, one in self._series.items()}, self._most
        )

    @property
    def pieces(self) -> list[Piece]:
        """What a page shows of each comparison."""
        return [one.piece(self._shown[name]) for name, one in self._series.items()]

    def families(self) -> Iterable[Metric]:
        """The same as families, those of each comparison by themselves."""
        return (
            family
            for name, one in self._series.items()
            for family in one.families(self._shown[name])
        )


def find_revision() -> str:
    """The commit, as the image says in RANKWATCH_REVISION, or as pip noted it when it installed from a repository."""
    if given := os.environ.get("RANKWATCH_REVISION"):
        return given
    try:
        noted = json.loads(distribution("rankwatch").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return "unknown"
    return str(noted.get("vcs_info", {}).get("commit_id", "unknown"))


class _Page:
    """Parts, each by itself: one that fails is left out of this page, counted, and logged when it begins to fail."""

    def __init__(self, parts: _Parts) -> None:
        series = SERIES["collector_errors_total"]
        self._parts, self._errors = (
            parts,
            prometheus_client.Counter(series.name, series.help, series.labels, registry=None),
        )
        self._failing: frozenset[str] = frozenset()
        for name in parts:
            self._errors.labels(name)

    def render(self, form: Format, hidden: Container[str]) -> bytes:
        """The page without the ``hidden`` families."""
        found: list[Lines] = []
        failing = set()
        for name, part in self._parts.items():
            try:
                found.extend(list(part(form)))
            except Exception:
                failing.add(name)
                self._errors.labels(name).inc()
                if name not in self._failing:
                    log.exception("metrics left out of the page", collector=name)
        self._failing = frozenset(failing)
        found.append(form.encode(self._errors.collect()))
        return form.page(found, hidden)


class PrometheusPublisher(DaemonMetrics):
    """What the daemon counts and what was published, over a registry of its own.

    Thread-safe; nothing raises or waits.

    Call ``watch`` and ``reloaded`` at the start and after every reload. Without a ``clock`` nothing
    goes stale."""

    def __init__(self, *, version: str, clock: Clock | None = None) -> None:
        super().__init__()
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # in the text format they would be gauges of their own
        self._clock = clock
        self._monotonic = clock.monotonic if clock else lambda: 0.0
        self._doubted_at_s: float | None = None
        build = SERIES["build_info"]
        labels = {
            "version": version,
            "revision": find_revision(),
            "python_version": platform.python_version(),
        }
        self._build = InfoMetricFamily(build.name.removesuffix("_info"), build.help, value=labels)
        self._since: Mapping[str, datetime | None] = {}
        self._most: int | None = None
        self._publication = (
            Publication()
        )  # swapped whole: a scrape sees one publication, never parts of two
        aside = (
            prometheus_client.CollectorRegistry()
        )  # these three insist on a registry of their own
        of_process = (
            prometheus_client.ProcessCollector(registry=aside),
            prometheus_client.PlatformCollector(registry=aside),
            prometheus_client.GCCollector(registry=aside),
        )
        parts: tuple[Callable[[Format], Iterable[Lines]], ...] = (
            self._results,
            self.lines,
            *(partial(_collected, each) for each in of_process),
        )
        self._page = _Page(dict(zip(COLLECTORS, parts, strict=True)))

    def watch(
        self,
        comparisons: Sequence[str],
        receivers: Sequence[str],
        *,
        intervals: Mapping[str, timedelta] | None = None,
        stale_after: Mapping[str, timedelta] | None = None,
        pings: Sequence[str] = (),
        max_series: int | None = None,
    ) -> None:
        """Set the known names: their counters exist from 0, others vanish.

        ``max_series``: most of segments, None for all.

        ``intervals``: the longest time between slots, ``stale_after``: how long no run may end ok;
        alert rules use both."""
        now = self._clock.now() if self._clock else None
        self._since, self._most = (
            {name: self._since.get(name, now) for name in comparisons},
            max_series,
        )
        names = {"comparison": comparisons, "receiver": receivers, "ping": pings}
        self.know(names, intervals or {}, stale_after or {})
        self._show([one for one in self._publication.latest if one.run.comparison in self._since])

    def publish(self, latest: Sequence[LatestRun]) -> None:
        """Replace everything shown about comparisons by these.

        A comparison that is not among them disappears.
        """
        self._show(latest)
        # What is published was just read: it passes for the present again.
        self._doubted_at_s = None

    def _show(self, latest: Sequence[LatestRun]) -> None:
        self._publication = self._publication.followed_by(latest, self._since, self._most)

    def _results(self, form: Format) -> list[Lines]:
        return [
            form.encode((self._build,)),
            *(piece.lines(form) for piece in self._publication.pieces),
        ]

    def database_failed(self, trouble: DatabaseTrouble) -> None:
        """Count an error of the database by its kind."""
        # Everything but a conflict among writers puts what was read before in doubt.
        if trouble is not DatabaseTrouble.CONFLICT and self._doubted_at_s is None:
            self._doubted_at_s = self._monotonic()
        self.count("database_errors_total", trouble)

    @property
    def _hidden(self) -> Container[str]:
        """Families that the database neither confirms nor did until `SHOWN_UNCONFIRMED_S` ago."""
        doubted_at_s = self._doubted_at_s
        return (
            ()
            if doubted_at_s is None or self._monotonic() - doubted_at_s < SHOWN_UNCONFIRMED_S
            else CONFIRMED
        )

    def render(self, accept: str = "", accept_encoding: str = "") -> tuple[bytes, dict[str, str]]:
        """The page for these request headers, and its own."""
        form = Format.accepted_by(accept)
        body, headers = (
            self._page.render(form, self._hidden),
            {"Content-Type": form.content_type, "Vary": _VARY},
        )
        if gzip_accepted(accept_encoding):
            return gzip.compress(body, compresslevel=_LEVEL, mtime=0), {
                **headers,
                "Content-Encoding": "gzip",
            }
        return body, headers

    def final(self) -> tuple[Metric, ...]:
        """What a process leaves behind when it ends: see `monitor.export.exposition`."""
        of_daemon = {SERIES[name].name for name in DAEMON_GAUGES}
        families = (self._build, *self._publication.families(), *self.gauges().families())
        return tuple(family for family in families if family.name not in of_daemon)


def _collected(collector: Collector, form: Format) -> Iterable[Lines]:
    return (form.encode(collector.collect()),)
