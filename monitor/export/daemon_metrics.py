"""Counters, histograms and gauges of the daemon itself, for the comparisons, receivers and pings that it knows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from itertools import chain, product
from threading import Lock

from prometheus_client import Counter
from prometheus_client.metrics_core import Metric

from monitor.export.exposition import Format, Gauges, LabelValues, Lines, Piece, counted
from monitor.export.series import OWNERS, SERIES, Kind
from monitor.model.retention import DataKind, Pruned
from monitor.model.runs import RunResult

_COUNTED = (Kind.COUNTER, Kind.HISTOGRAM)
_OF_PAGES = "collector_errors_total"
"""Counted where pages are made."""


class _Counts:
    """Counters and histograms of one owner, or of the process for None.

    Without a ``name`` those of no owner in particular.
    """

    def __init__(self, owner: str | None, *name: str) -> None:
        names = [
            each
            for each, one in SERIES.items()
            if one.kind in _COUNTED and one.owner == owner and each != _OF_PAGES
        ]
        self._metrics = {each: counted(each) for each in names}
        self.piece = Piece(self._families)
        if owner is None or name:
            for each, metric in self._metrics.items():
                for labels in product(*SERIES[each].values) if SERIES[each].starts_at_zero else ():
                    metric.labels(*name, *labels)

    def add(self, name: str, labels: tuple[str, ...], value: float) -> None:
        """Count or observe."""
        metric = self._metrics[name]
        one = metric.labels(*labels) if labels else metric
        if isinstance(one, Counter):
            one.inc(value)
        else:
            # Not below 0: the wall clock may have turned times around.
            one.observe(max(0.0, value))
        self.piece.changed()

    def _families(self) -> Iterable[Metric]:
        return chain.from_iterable(metric.collect() for metric in self._metrics.values())


class DaemonMetrics:
    """What the daemon counts about itself: every name, once ``know`` was called those given.

    Safe to share between threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # The first ones of each owner hold no samples: they say what there is when nobody owns any.
        self._counts: dict[tuple[str | None, str], _Counts] = {
            (owner, ""): _Counts(owner) for owner in (None, *OWNERS)
        }
        self._gauges = Gauges()
        self._known: dict[str, frozenset[str]] = {}
        self._gaps: dict[str, Mapping[str, Mapping[str, float]]] = {}
        self._outbox: Mapping[str, Mapping[str, float]] = {}
        self._shown: dict[str, float | Callable[[], float | None]] = {}

    def know(
        self,
        names: Mapping[str, Sequence[str]],
        intervals: Mapping[str, timedelta],
        stale_after: Mapping[str, timedelta],
    ) -> None:
        """The known comparisons, receivers and pings by label: new ones start at 0, others vanish with their counts."""
        with self._lock:
            self._gauges.replace("schedule_interval_seconds", _seconds(intervals))
            self._gauges.replace("stale_after_seconds", _seconds(stale_after))
            kept: dict[tuple[str | None, str], _Counts] = {
                (owner, ""): self._counts[owner, ""] for owner in (None, *OWNERS)
            }
            for owner in OWNERS:
                self._known[owner] = frozenset(names[owner])
                for name in names[owner]:
                    kept[owner, name] = self._counts.get((owner, name)) or _Counts(owner, name)
            self._counts = kept

    def count(self, name: str, *labels: str, value: float = 1) -> None:
        """Count, or observe, in the series of that name (without prefix).

        One with an owner has that for its first label.
        """
        owner = SERIES[name].owner
        key = (owner, labels[0] if owner else "")
        with self._lock:
            if owner in self._known and key[1] not in self._known[owner]:
                return
            if key not in self._counts:
                self._counts = {**self._counts, key: _Counts(*key)}
            self._counts[key].add(name, labels, value)

    def run_finished(self, result: RunResult) -> None:
        """Count a run by status and observe how long it and its stages took."""
        claim, comparison, took = result.claim, result.claim.comparison, result.pull_seconds
        self.count("runs_total", comparison, result.status)
        self.count(
            "run_duration_seconds",
            comparison,
            value=(result.finished_at - claim.started_at).total_seconds(),
        )
        self.count(
            "schedule_lag_seconds",
            comparison,
            value=(claim.started_at - claim.slot).total_seconds(),
        )
        for stage, seconds in result.stage_seconds.items():
            self.count("stage_duration_seconds", comparison, stage, value=seconds)
        for arm, seconds in took.items():
            self.count("pull_duration_seconds", comparison, arm, value=seconds)
        self._gaps[comparison] = result.gap_seconds
        for (arm, reason), users in (
            result.coverage.all.reasons if result.coverage else {}
        ).items():
            self.count("source_errors_total", comparison, arm, reason, value=users)

    def pruned(self, pruned: Pruned, *, at: datetime) -> None:
        """Count what was deleted, and show when that was last done."""
        for kind, count in pruned.by_kind.items():
            self.count("pruned_rows_total", kind, value=count)
        self.show("prune_last_success_timestamp_seconds", at.timestamp())

    def outbox(
        self,
        pending: Mapping[str, tuple[int, float]],
        held: Mapping[str, tuple[int, float]],
        given_up: Mapping[str, int],
    ) -> None:
        """Deliveries waiting and held back, each with the oldest's age, and lately given up, by receiver, configured or not."""
        self._outbox = {
            "pending": {name: count for name, (count, _) in pending.items()},
            "oldest_age_seconds": {name: oldest_s for name, (_, oldest_s) in pending.items()},
            "held": {name: count for name, (count, _) in held.items()},
            "given_up": given_up,
        }

    def show(self, name: str, value: float | Callable[[], float | None]) -> None:
        """Show this in the series of that name (without prefix), which has no labels.

        A call is made at each scrape.
        """
        with self._lock:
            self._shown[name] = value

    def database_sizes(self, used_bytes: Mapping[DataKind, int]) -> None:
        """Show what each kind of data takes."""
        with self._lock:
            self._gauges.replace(
                "database_size_bytes", {(kind.value,): used for kind, used in used_bytes.items()}
            )

    def reloaded(self, *, ok: bool, at: datetime) -> None:
        """Show whether the configuration file last read is the one in force.

        The time moves only when it went well.
        """
        self.show("config_last_reload_successful", ok)
        if ok:
            self.show("config_last_reload_success_timestamp_seconds", at.timestamp())

    def lines(self, form: Format) -> list[Lines]:
        """Everything as it stands now, encoded."""
        return [
            form.encode(self.gauges().families()),
            *(counts.piece.lines(form) for counts in self._counts.values()),
        ]

    def gauges(self) -> Gauges:
        """What is shown and not counted."""
        with self._lock:
            gauges, shown, gaps = deepcopy(self._gauges), dict(self._shown), dict(self._gaps)
        for receiver in sorted({*chain(*self._outbox.values()), *self._known.get("receiver", ())}):
            for name in ("pending", "held", "given_up", "oldest_age_seconds"):
                gauges.set(
                    f"outbox_{name}", (receiver,), self._outbox.get(name, {}).get(receiver, 0.0)
                )
        for comparison in filter(self._known.get("comparison", gaps).__contains__, gaps):
            for lists, quantiles in gaps[comparison].items():
                for q, seconds in quantiles.items():
                    gauges.set("arm_gap_seconds", (comparison, lists, q), seconds)
        for name, value in shown.items():
            gauges.set(name, (), value() if callable(value) else value)
        if gauges.samples.get("leader") == {
            (): 0.0
        }:  # a former leader would go on showing old sizes
            gauges.replace("database_size_bytes", {})
        return gauges


def _seconds(times: Mapping[str, timedelta]) -> dict[LabelValues, float]:
    return {(name,): time.total_seconds() for name, time in times.items()}
