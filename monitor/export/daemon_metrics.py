"""Counters, histograms and gauges of the daemon, its comparisons, receivers and pings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from itertools import chain, product
from threading import Lock

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import Metric

from monitor.export.exposition import FamilyGroup, Format, Gauges, LabelValues, Lines, make_counter
from monitor.export.series import OWNERS, SERIES, SeriesKind
from monitor.model.retention import DataKind, Pruned
from monitor.model.runs import RunResult

_COUNTED = (SeriesKind.COUNTER, SeriesKind.HISTOGRAM)
_OF_PAGES = "collector_errors_total"
"""The publisher counts this series itself when it makes a page."""
_Ages = Mapping[str, tuple[int, float]]
"""For each receiver, its number of deliveries, and the age of the oldest one in seconds."""


class _Counts:
    """Counters and histograms of one owner: a comparison, a receiver or a ping.

    ``owner`` is the label that contains the owner's name. It is None for counts of the whole
    process. Without a ``name``, pages show the families of owners without samples.
    """

    def __init__(self, owner: str | None, name: str = "") -> None:
        names = (name,) if name else ()
        self._metrics: dict[str, Counter | Histogram] = {}
        self.families = FamilyGroup(self._families)
        for series_name, series in SERIES.items():
            if series.kind not in _COUNTED or series.owner != owner or series_name == _OF_PAGES:
                continue
            metric = make_counter(series_name)
            self._metrics[series_name] = metric
            if series.starts_at_zero and (owner is None or name):
                for labels in product(*series.values):
                    metric.labels(*names, *labels)

    def add(self, name: str, labels: tuple[str, ...], value: float) -> None:
        """Add to the counter, or observe the value in the histogram."""
        metric = self._metrics[name]
        if labels:
            metric = metric.labels(*labels)
        if isinstance(metric, Counter):
            metric.inc(value)
        else:
            # If the wall clock was set back, a duration may be negative.
            metric.observe(max(0.0, value))
        self.families.changed()

    def _families(self) -> Iterable[Metric]:
        return chain.from_iterable(metric.collect() for metric in self._metrics.values())


class DaemonMetrics:
    """Counts what the daemon does, for the names that were last set with ``set_names``.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # With these, pages show every family, even if it has no samples yet.
        self._nameless = {(owner, ""): _Counts(owner) for owner in (None, *OWNERS)}
        self._counts: dict[tuple[str | None, str], _Counts] = dict(self._nameless)
        self._gauges = Gauges()
        self._names: dict[str, frozenset[str]] = {}
        self._gaps: dict[str, Mapping[str, Mapping[str, float]]] = {}
        self._outbox: tuple[_Ages, _Ages, Mapping[str, int]] = ({}, {}, {})
        self._shown: dict[str, float | Callable[[], float | None]] = {}

    def set_names(
        self,
        names: Mapping[str, Sequence[str]],
        intervals: Mapping[str, timedelta],
        stale_after: Mapping[str, timedelta],
    ) -> None:
        """Register the names of comparisons, receivers and pings. ``names`` has them by label.

        Counts of a new name start at 0. Counts of a removed name disappear.
        """
        with self._lock:
            self._gauges.replace("schedule_interval_seconds", _seconds(intervals))
            self._gauges.replace("stale_after_seconds", _seconds(stale_after))
            counts: dict[tuple[str | None, str], _Counts] = dict(self._nameless)
            for owner in OWNERS:
                self._names[owner] = frozenset(names[owner])
                for name in names[owner]:
                    counts[owner, name] = self._counts.get((owner, name)) or _Counts(owner, name)
            self._counts = counts

    def count(self, name: str, *labels: str, value: float = 1) -> None:
        """Add ``value`` to the counter ``name``, or observe it in the histogram ``name``.

        The name has no prefix. If the series has an owner, the first of ``labels`` is the owner's
        name. Unknown owners are ignored.
        """
        owner = SERIES[name].owner
        owner_name = labels[0] if owner else ""
        key = (owner, owner_name)
        with self._lock:
            if owner in self._names and owner_name not in self._names[owner]:
                return
            if key not in self._counts:
                self._counts = {**self._counts, key: _Counts(owner, owner_name)}
            self._counts[key].add(name, labels, value)

    def run_finished(self, result: RunResult) -> None:
        """Count a run by status, and observe how long the run and its stages took."""
        comparison = result.claim.comparison
        started_at = result.claim.started_at
        duration_s = (result.finished_at - started_at).total_seconds()
        lag_s = (started_at - result.claim.slot).total_seconds()
        self.count("runs_total", comparison, result.status)
        self.count("run_duration_seconds", comparison, value=duration_s)
        self.count("schedule_lag_seconds", comparison, value=lag_s)
        for stage, seconds in result.stage_seconds.items():
            self.count("stage_duration_seconds", comparison, stage, value=seconds)
        for arm, seconds in result.pull_seconds.items():
            self.count("pull_duration_seconds", comparison, arm, value=seconds)
        self._gaps[comparison] = result.gap_s
        if result.coverage:
            for (arm, reason), users in result.coverage.all.users_by_reason.items():
                self.count("source_errors_total", comparison, arm, reason, value=users)

    def pruned(self, pruned: Pruned, *, at: datetime) -> None:
        """Count deleted rows, and show when rows were last deleted."""
        for kind, count in pruned.deleted_by_kind.items():
            self.count("pruned_rows_total", kind, value=count)
        self.show("prune_last_success_timestamp_seconds", at.timestamp())

    def show_deliveries(
        self,
        pending: _Ages,
        held: _Ages,
        given_up: Mapping[str, int],
    ) -> None:
        """Show the deliveries of each receiver, including receivers that are no longer configured.

        ``pending`` deliveries wait to be sent. ``held`` deliveries are silenced or inhibited.
        ``given_up`` counts the deliveries that were given up in the last hour.
        """
        self._outbox = (pending, held, given_up)

    def show(self, name: str, value: float | Callable[[], float | None]) -> None:
        """Set the value of the series ``name`` (without prefix), which has no labels.

        If the value is a function, it is called at each scrape.
        """
        with self._lock:
            self._shown[name] = value

    def show_database_sizes(self, used_bytes: Mapping[DataKind, int]) -> None:
        """Show the size of each kind of data."""
        samples: dict[LabelValues, float] = {}
        for kind, size_bytes in used_bytes.items():
            samples[kind.value,] = size_bytes
        with self._lock:
            self._gauges.replace("database_size_bytes", samples)

    def reloaded(self, *, ok: bool, at: datetime) -> None:
        """Show whether the last read of the configuration succeeded, and if so, when that was."""
        self.show("config_last_reload_successful", ok)
        if ok:
            self.show("config_last_reload_success_timestamp_seconds", at.timestamp())

    def lines(self, form: Format) -> list[Lines]:
        """Return all series with their current values, encoded."""
        lines = [form.encode(self.gauges().families())]
        for counts in self._counts.values():
            lines.append(counts.families.lines(form))
        return lines

    def gauges(self) -> Gauges:
        """Return all gauges with their current values."""
        with self._lock:
            gauges = deepcopy(self._gauges)
            shown = dict(self._shown)
            gaps = dict(self._gaps)
        pending, held, given_up = self._outbox
        receivers = set(self._names.get("receiver", ())).union(pending, held, given_up)
        for receiver in sorted(receivers):
            count, oldest_s = pending.get(receiver, (0, 0.0))
            held_count, _ = held.get(receiver, (0, 0.0))
            gauges.set(
                (receiver,),
                outbox_pending=count,
                outbox_oldest_age_seconds=oldest_s,
                outbox_held=held_count,
                outbox_given_up=given_up.get(receiver, 0),
            )
        # Before `set_names`, all comparisons are shown.
        comparisons = self._names.get("comparison", gaps)
        for comparison, quantiles_by_lists in gaps.items():
            if comparison not in comparisons:
                continue
            for lists, quantiles in quantiles_by_lists.items():
                for q, seconds in quantiles.items():
                    gauges.set((comparison, lists, q), arm_gap_seconds=seconds)
        for name, value in shown.items():
            gauges.set((), **{name: value() if callable(value) else value})
        leader = gauges.samples.get("leader", {})
        if leader.get(()) == 0.0:
            # A daemon that no longer leads does not measure the sizes, so they are not shown.
            gauges.replace("database_size_bytes", {})
        return gauges


def _seconds(durations: Mapping[str, timedelta]) -> dict[LabelValues, float]:
    return {(name,): duration.total_seconds() for name, duration in durations.items()}
