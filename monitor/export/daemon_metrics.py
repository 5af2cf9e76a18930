"""Counters, histograms and gauges of the daemon itself, for the comparisons and receivers that it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from threading import Lock

from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from monitor.errors import DatabaseTrouble, DeliveryTrouble
from monitor.export.families import Gauges, counter, histogram, without_created
from monitor.export.run_metrics import FINISHED
from monitor.export.series import PING_OUTCOMES, PRUNE_REASONS, SEND_OUTCOMES, SKIP_REASONS, WATCHED_PARTS
from monitor.model import Arm, CoverageReason, DataKind, RunResult, RunStatus

_OUTBOX = ("pending", "held", "given_up", "oldest_age_seconds")


class DaemonCollector(Collector):
    """What the daemon counts about itself. Until ``watch`` is first called every name is known; after that only those given."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._comparisons: frozenset[str] | None = None
        self._receivers: frozenset[str] | None = None
        self._ping_names: frozenset[str] | None = None
        self._intervals: Mapping[str, timedelta] = {}
        self._stale_after: Mapping[str, timedelta] = {}
        self._runs = counter("runs_total")
        self._skipped = counter("slots_skipped_total")
        self._run_seconds = histogram("run_duration_seconds")
        self._stage_seconds = histogram("stage_duration_seconds")
        self._lag_seconds = histogram("schedule_lag_seconds")
        self._pull_seconds = histogram("pull_duration_seconds")
        self._gap_seconds = histogram("arm_gap_seconds")
        self._source_errors = counter("source_errors_total")
        self._delivery_errors = counter("delivery_errors_total")
        self._pings = counter("pings_total")
        self._notified = counter("notifications_total")
        self._outbox: Mapping[str, Mapping[str, float]] = {}
        self._reload: tuple[bool, datetime | None] | None = None
        self._standing: Callable[[], tuple[bool, int | None]] | None = None
        self._is_up: bool | None = None
        self._database_errors = counter("database_errors_total")
        self._jumps = counter("clock_jumps_total")
        self._restarts = counter("watchdog_restarts_total")
        self._used_bytes: Mapping[DataKind, int] = {}
        self._pruned_rows = counter("pruned_rows_total")
        self._pruned_at: datetime | None = None
        for kind in DataKind:
            for reason in PRUNE_REASONS:
                self._pruned_rows.labels(kind.value, reason)
        for trouble in DatabaseTrouble:
            self._database_errors.labels(trouble.value)
        for part in WATCHED_PARTS:
            self._restarts.labels(part)

    @property
    def _of_comparisons(self) -> tuple[Counter | Histogram, ...]:
        of_runs = (self._runs, self._skipped, self._run_seconds, self._stage_seconds, self._lag_seconds)
        return (*of_runs, self._pull_seconds, self._gap_seconds, self._source_errors)

    def watch(
        self,
        comparisons: Sequence[str],
        receivers: Sequence[str],
        intervals: Mapping[str, timedelta],
        stale_after: Mapping[str, timedelta],
        pings: Sequence[str] = (),
    ) -> None:
        """Make these the known names: new ones start at 0, names that are gone vanish with their counts."""
        with self._lock:
            for gone in (self._comparisons or frozenset()) - frozenset(comparisons):
                for metric in self._of_comparisons:
                    metric.remove_by_labels({"comparison": gone})
            for gone in (self._receivers or frozenset()) - frozenset(receivers):
                for counted in (self._notified, self._delivery_errors):
                    counted.remove_by_labels({"receiver": gone})
            for gone in (self._ping_names or frozenset()) - frozenset(pings):
                self._pings.remove_by_labels({"ping": gone})
            self._comparisons, self._receivers = frozenset(comparisons), frozenset(receivers)
            self._ping_names = frozenset(pings)
            self._intervals, self._stale_after = dict(intervals), dict(stale_after)
            self._start_at_zero(comparisons, receivers, pings)

    def _start_at_zero(self, comparisons: Sequence[str], receivers: Sequence[str], pings: Sequence[str]) -> None:
        for comparison in comparisons:
            self._start_arms_at_zero(comparison)
            for metric in (self._run_seconds, self._lag_seconds, self._gap_seconds):
                metric.labels(comparison)
            for status in FINISHED:
                self._runs.labels(comparison, status.value)
            for reason in SKIP_REASONS:
                self._skipped.labels(comparison, reason)
        for receiver in receivers:
            for outcome in SEND_OUTCOMES:
                self._notified.labels(receiver, outcome)
            for trouble in DeliveryTrouble:
                self._delivery_errors.labels(receiver, trouble.value)
        for ping in pings:
            for outcome in PING_OUTCOMES:
                self._pings.labels(ping, outcome)

    def _start_arms_at_zero(self, comparison: str) -> None:
        for arm in Arm:
            self._pull_seconds.labels(comparison, arm.value)
            for reason in CoverageReason:
                self._source_errors.labels(comparison, arm.value, reason.value)

    def run_finished(self, result: RunResult) -> None:
        """Count a run of a known comparison and observe its times."""
        comparison = result.claim.comparison
        with self._lock:
            if self._comparisons is not None and comparison not in self._comparisons:
                return
            self._runs.labels(comparison, result.status.value).inc()
            took = (result.finished_at - result.claim.started_at).total_seconds()
            self._run_seconds.labels(comparison).observe(max(0.0, took))  # the wall clock may have been set back
            for stage, seconds in result.stage_seconds.items():
                self._stage_seconds.labels(comparison, stage).observe(max(0.0, seconds))
            lag = (result.claim.started_at - result.claim.slot).total_seconds()
            self._lag_seconds.labels(comparison).observe(max(0.0, lag))
            self._observe_arms(result)

    def _observe_arms(self, result: RunResult) -> None:
        comparison, took = result.claim.comparison, result.pull_seconds
        for arm, seconds in took.items():
            self._pull_seconds.labels(comparison, arm.value).observe(seconds)
        if len(took) == len(Arm):
            self._gap_seconds.labels(comparison).observe(max(took.values()) - min(took.values()))
        for (arm, reason), users in (result.coverage.all.reasons if result.coverage else {}).items():
            self._source_errors.labels(comparison, arm.value, reason.value).inc(users)

    def slots_skipped(self, comparison: str, reason: str, count: int) -> None:
        """Count slots of a known comparison that did not run."""
        with self._lock:
            if self._comparisons is None or comparison in self._comparisons:
                self._skipped.labels(comparison, reason).inc(max(0, count))

    def notified(self, receiver: str, outcome: str) -> None:
        """Count an attempt to deliver to a known receiver."""
        with self._lock:
            if self._receivers is None or receiver in self._receivers:
                self._notified.labels(receiver, outcome).inc()

    def delivery_failed(self, receiver: str, trouble: DeliveryTrouble) -> None:
        """Count a failed attempt to deliver to a known receiver."""
        with self._lock:
            if self._receivers is None or receiver in self._receivers:
                self._delivery_errors.labels(receiver, trouble.value).inc()

    def pinged(self, ping: str, outcome: str) -> None:
        """Count what became of a known ping."""
        with self._lock:
            if self._ping_names is None or ping in self._ping_names:
                self._pings.labels(ping, outcome).inc()

    def outbox(self, **by_receiver: Mapping[str, float]) -> None:
        """Keep what waits; shown as given, so that deliveries owed to a receiver no longer configured stay in sight."""
        self._outbox = by_receiver

    def led_by(self, standing: Callable[[], tuple[bool, int | None]]) -> None:
        """Ask this at each scrape: whether this process leads, and the epoch of whoever does."""
        self._standing = standing

    def run_abandoned(self, comparison: str) -> None:
        """Count a run of a known comparison that was given up."""
        with self._lock:
            if self._comparisons is None or comparison in self._comparisons:
                self._runs.labels(comparison, RunStatus.ABANDONED.value).inc()

    def database(self, *, is_up: bool) -> None:
        """Keep whether the database works."""
        self._is_up = is_up

    def database_failed(self, trouble: DatabaseTrouble) -> None:
        """Count an error of the database."""
        self._database_errors.labels(trouble.value).inc()

    def clock_jumped(self) -> None:
        """Count a jump of the wall clock."""
        self._jumps.inc()

    def restarted(self, part: str) -> None:
        """Count a restart by the watchdog."""
        self._restarts.labels(part).inc()

    def database_sizes(self, used_bytes: Mapping[DataKind, int]) -> None:
        """Keep what each kind of data takes."""
        self._used_bytes = dict(used_bytes)

    def pruned(self, rows: Mapping[DataKind, int], reason: str) -> None:
        """Count rows that were deleted."""
        for kind, count in rows.items():
            self._pruned_rows.labels(kind.value, reason).inc(count)

    def pruned_at(self, at: datetime) -> None:
        """Keep when it was last done."""
        self._pruned_at = at

    def reloaded(self, *, ok: bool, at: datetime) -> None:
        """Keep how the last reading of the configuration ended; the time moves only when it went well."""
        with self._lock:
            before = self._reload[1] if self._reload else None
            self._reload = (ok, at if ok else before)

    def collect(self) -> Iterator[Metric]:
        """The families as they stand now."""
        yield from self.gauges().families()
        for metric in self._counted():
            for family in metric.collect():
                yield without_created(family)

    def _counted(self) -> tuple[Counter | Histogram, ...]:
        of_delivery = (self._notified, self._delivery_errors, self._pings)
        of_database = (self._database_errors, self._pruned_rows)
        return (*self._of_comparisons, *of_delivery, *of_database, self._jumps, self._restarts)

    def gauges(self) -> Gauges:
        """What it does not count."""
        gauges = Gauges()
        gauges.set("database_up", (), self._is_up)
        for comparison, interval in self._intervals.items():
            gauges.set("schedule_interval_seconds", (comparison,), interval.total_seconds())
        for comparison, wait in self._stale_after.items():
            gauges.set("stale_after_seconds", (comparison,), wait.total_seconds())
        for receiver in sorted({*chain(*self._outbox.values()), *(self._receivers or ())}):
            for name in _OUTBOX:
                gauges.set(f"outbox_{name}", (receiver,), self._outbox.get(name, {}).get(receiver, 0.0))
        if self._pruned_at is not None:
            gauges.set("prune_last_success_timestamp_seconds", (), self._pruned_at.timestamp())
        if self._reload is not None:
            ok, at = self._reload
            gauges.set("config_last_reload_successful", (), ok)
            gauges.set("config_last_reload_success_timestamp_seconds", (), at.timestamp() if at else None)
        if self._standing is not None:
            is_leader, epoch = self._standing()
            gauges.set("leader", (), is_leader)
            gauges.set("lease_epoch", (), epoch)
            if not is_leader:
                return gauges
        for kind, used in self._used_bytes.items():  # one that led before would go on showing what it saw then
            gauges.set("database_size_bytes", (kind.value,), used)
        return gauges
