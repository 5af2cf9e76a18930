"""Counters, histograms and gauges of the daemon itself, for the comparisons, receivers and pings that it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, product
from threading import Lock

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from monitor.errors import DatabaseTrouble, DeliveryTrouble
from monitor.export.families import Gauges, counter, histogram, without_created
from monitor.export.run_metrics import FINISHED
from monitor.export.series import PING_OUTCOMES, SEND_OUTCOMES, SERIES, SKIP_REASONS, WATCHED_PARTS, Kind
from monitor.model import Arm, CoverageReason, DataKind, Pruned, RunResult, RunStatus

_OWNERS = ("comparison", "receiver", "ping")
"""First labels that name something in the configuration."""
_FROM_ZERO: Mapping[str, tuple[Iterable[str], ...]] = {
    "runs_total": (FINISHED,),
    "slots_skipped_total": (SKIP_REASONS,),
    "run_duration_seconds": (),
    "schedule_lag_seconds": (),
    "arm_gap_seconds": (),
    "pull_duration_seconds": (Arm,),
    "source_errors_total": (Arm, CoverageReason),
    "notifications_total": (SEND_OUTCOMES,),
    "delivery_errors_total": (DeliveryTrouble,),
    "pings_total": (PING_OUTCOMES,),
    "database_errors_total": (DatabaseTrouble,),
    "pruned_rows_total": (DataKind,),
    "watchdog_restarts_total": (WATCHED_PARTS,),
}
"""Series that exist from 0, by the values of their labels behind the owner's name."""


class DaemonMetrics(Collector):
    """What the daemon counts about itself. Safe to share between threads.

    Until ``know`` is first called every name is known; after that only those given, and others are not counted.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        counted = {name: one.kind for name, one in SERIES.items() if one.kind in (Kind.COUNTER, Kind.HISTOGRAM)}
        del counted["collector_errors_total"]  # counted where pages are made
        self._counters: dict[str, Counter] = {name: counter(name) for name, kind in counted.items() if kind is Kind.COUNTER}
        self._histograms: dict[str, Histogram] = {
            name: histogram(name) for name, kind in counted.items() if kind is Kind.HISTOGRAM
        }
        self._known: dict[str, frozenset[str]] = {}
        self._intervals: Mapping[str, timedelta] = {}
        self._stale_after: Mapping[str, timedelta] = {}
        self._outbox: Mapping[str, Mapping[str, float]] = {}
        self._reload: tuple[bool, datetime | None] | None = None
        self._leadership: Callable[[], tuple[bool, int | None]] | None = None
        self._is_up: bool | None = None
        self._used_bytes: Mapping[DataKind, int] = {}
        self._pruned_at: datetime | None = None
        for name, values in _FROM_ZERO.items():
            if _owner(name) is None:
                self._start_at_zero(name, values)

    def know(
        self,
        intervals: Mapping[str, timedelta],
        stale_after: Mapping[str, timedelta],
        *,
        comparisons: Sequence[str],
        receivers: Sequence[str],
        pings: Sequence[str],
    ) -> None:
        """Make these the known names: new ones start at 0, names that are gone vanish with their counts."""
        with self._lock:
            self._intervals, self._stale_after = dict(intervals), dict(stale_after)
            for owner, names in zip(_OWNERS, (comparisons, receivers, pings), strict=True):
                self._forget(owner, self._known.get(owner, frozenset()) - frozenset(names))
                self._known[owner] = frozenset(names)
                for name, values in _FROM_ZERO.items():
                    if _owner(name) == owner:
                        self._start_at_zero(name, (names, *values))

    def _forget(self, owner: str, gone: Iterable[str]) -> None:
        for name, metric in self._counted.items():
            if _owner(name) == owner:
                for each in gone:
                    metric.remove_by_labels({owner: each})

    def _start_at_zero(self, name: str, values: Iterable[Iterable[str]]) -> None:
        for labels in product(*values):
            self._counted[name].labels(*labels)

    @property
    def _counted(self) -> Mapping[str, Counter | Histogram]:
        return {**self._counters, **self._histograms}

    def _count(self, name: str, *labels: str, by: float = 1) -> None:
        with self._lock:
            if self._is_known(name, labels):
                metric = self._counters[name]
                (metric.labels(*labels) if labels else metric).inc(by)

    def _observe(self, name: str, *labels: str, seconds: float) -> None:
        """Observe a time, which the wall clock may have turned around."""
        with self._lock:
            if self._is_known(name, labels):
                self._histograms[name].labels(*labels).observe(max(0.0, seconds))

    def _is_known(self, name: str, labels: Sequence[str]) -> bool:
        known = self._known.get(_owner(name) or "")
        return known is None or labels[0] in known

    def run_finished(self, result: RunResult) -> None:
        """See ``Publisher.run_finished``."""
        claim, comparison, took = result.claim, result.claim.comparison, result.pull_seconds
        self._count("runs_total", comparison, result.status)
        self._observe("run_duration_seconds", comparison, seconds=(result.finished_at - claim.started_at).total_seconds())
        self._observe("schedule_lag_seconds", comparison, seconds=(claim.started_at - claim.slot).total_seconds())
        for stage, seconds in result.stage_seconds.items():
            self._observe("stage_duration_seconds", comparison, stage, seconds=seconds)
        for arm, seconds in took.items():
            self._observe("pull_duration_seconds", comparison, arm, seconds=seconds)
        if len(took) == len(Arm):
            self._observe("arm_gap_seconds", comparison, seconds=max(took.values()) - min(took.values()))
        for (arm, reason), users in (result.coverage.all.reasons if result.coverage else {}).items():
            self._count("source_errors_total", comparison, arm, reason, by=users)

    def run_abandoned(self, comparison: str) -> None:
        """See ``Publisher.run_abandoned``."""
        self._count("runs_total", comparison, RunStatus.ABANDONED)

    def slots_skipped(self, comparison: str, reason: str, count: int = 1) -> None:
        """See ``Publisher.slots_skipped``."""
        self._count("slots_skipped_total", comparison, reason, by=max(0, count))

    def notified(self, receiver: str, outcome: str) -> None:
        """See ``Publisher.notified``."""
        self._count("notifications_total", receiver, outcome)

    def delivery_failed(self, receiver: str, trouble: DeliveryTrouble) -> None:
        """See ``Publisher.delivery_failed``."""
        self._count("delivery_errors_total", receiver, trouble)

    def pinged(self, ping: str, outcome: str) -> None:
        """Count what became of a dead-man ping: ``sent``, ``failed`` or ``dropped``."""
        self._count("pings_total", ping, outcome)

    def database_failed(self, trouble: DatabaseTrouble) -> None:
        """See ``Publisher.database_failed``."""
        self._count("database_errors_total", trouble)

    def clock_jumped(self) -> None:
        """See ``Publisher.clock_jumped``."""
        self._count("clock_jumps_total")

    def restarted(self, part: str) -> None:
        """See ``Publisher.restarted``."""
        self._count("watchdog_restarts_total", part)

    def pruned(self, pruned: Pruned, *, at: datetime) -> None:
        """See ``Publisher.pruned``."""
        for kind, count in pruned.by_kind.items():
            self._count("pruned_rows_total", kind, by=count)
        self._pruned_at = at

    def outbox(
        self,
        pending: Mapping[str, int],
        oldest_s: Mapping[str, float],
        held: Mapping[str, int],
        given_up: Mapping[str, int],
    ) -> None:
        """See ``Publisher.outbox``; also of receivers that are not configured any more and still have deliveries."""
        self._outbox = {"pending": pending, "held": held, "given_up": given_up, "oldest_age_seconds": oldest_s}

    def led_by(self, leadership: Callable[[], tuple[bool, int | None]]) -> None:
        """Show whether this process leads, and the leader's epoch; asked at each scrape, from memory."""
        self._leadership = leadership

    def database(self, *, is_up: bool) -> None:
        """See ``Publisher.database``."""
        self._is_up = is_up

    def database_sizes(self, used_bytes: Mapping[DataKind, int]) -> None:
        """See ``Publisher.database_sizes``."""
        self._used_bytes = dict(used_bytes)

    def reloaded(self, *, ok: bool, at: datetime) -> None:
        """See ``Publisher.reloaded``; the time moves only when it went well."""
        with self._lock:
            before = self._reload[1] if self._reload else None
            self._reload = (ok, at if ok else before)

    def collect(self) -> Iterator[Metric]:
        """The families as they stand now."""
        yield from self.gauges().families()
        for metric in self._counted.values():
            for family in metric.collect():
                yield without_created(family)

    def gauges(self) -> Gauges:
        """What is shown and not counted."""
        gauges = Gauges()
        gauges.set("database_up", (), self._is_up)
        for comparison, interval in self._intervals.items():
            gauges.set("schedule_interval_seconds", (comparison,), interval.total_seconds())
        for comparison, wait in self._stale_after.items():
            gauges.set("stale_after_seconds", (comparison,), wait.total_seconds())
        for receiver in sorted({*chain(*self._outbox.values()), *self._known.get("receiver", ())}):
            for name in ("pending", "held", "given_up", "oldest_age_seconds"):
                gauges.set(f"outbox_{name}", (receiver,), self._outbox.get(name, {}).get(receiver, 0.0))
        if self._pruned_at is not None:
            gauges.set("prune_last_success_timestamp_seconds", (), self._pruned_at.timestamp())
        if self._reload is not None:
            ok, at = self._reload
            gauges.set("config_last_reload_successful", (), ok)
            gauges.set("config_last_reload_success_timestamp_seconds", (), at.timestamp() if at else None)
        is_leader = True
        if self._leadership is not None:
            is_leader, epoch = self._leadership()
            gauges.set("leader", (), is_leader)
            gauges.set("lease_epoch", (), epoch)
        if is_leader:  # a former leader would go on showing old sizes
            for kind, used in self._used_bytes.items():
                gauges.set("database_size_bytes", (kind.value,), used)
        return gauges


def _owner(name: str) -> str | None:
    """Which of `_OWNERS` the series has as its first label."""
    first = SERIES[name].labels[:1]
    return first[0] if first and first[0] in _OWNERS else None
