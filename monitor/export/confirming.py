"""Leaves out what was read from the database once nobody can confirm it: a gauge that stands still would pass for the present.

Of several daemons the one without a database would otherwise win every `max` over them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from monitor.export.series import SERIES, Kind

PATIENCE_S = 60.0
"""How long what was read last is shown while the database cannot be read: a few failures are no reason for gaps."""
_OF_PROCESS = frozenset({
    "leader", "lease_epoch", "database_up", "schedule_interval_seconds", "stale_after_seconds",
    "config_last_reload_successful", "config_last_reload_success_timestamp_seconds",
})  # fmt: skip
_FACTS = frozenset({
    "run_last_slot_timestamp_seconds", "run_last_finished_timestamp_seconds", "run_last_ok_timestamp_seconds",
    "comparison_since_timestamp_seconds", "prune_last_success_timestamp_seconds",
})  # fmt: skip
"""When something happened stays true: what is newer is found by `max`, and how old it is by the reader's clock."""
CONFIRMED = frozenset(
    one.name
    for name, one in SERIES.items()
    if one.kind in (Kind.GAUGE, Kind.GAUGE_HISTOGRAM) and name not in _OF_PROCESS | _FACTS
)
"""Full names of the series that say how things stand as the database has it."""


@dataclass(slots=True, kw_only=True)
class Confirmation:
    """Whether what was read last may still pass for the present. ``monotonic``: seconds that only grow."""

    monotonic: Callable[[], float]
    _doubted_at_s: float | None = None

    def confirm(self) -> None:
        """It was just read."""
        self._doubted_at_s = None

    def doubt(self) -> None:
        """The database failed; only what is read after it counts again."""
        if self._doubted_at_s is None:
            self._doubted_at_s = self.monotonic()

    @property
    def is_lost(self) -> bool:
        """Whether it has been in doubt for PATIENCE_S."""
        doubted_at_s = self._doubted_at_s
        return doubted_at_s is not None and self.monotonic() - doubted_at_s >= PATIENCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed(Collector):
    """What another collector shows, but for what nobody can confirm."""

    inner: Collector
    confirmation: Confirmation

    def collect(self) -> Iterator[Metric]:
        """The families that may be shown now."""
        is_lost = self.confirmation.is_lost
        return (family for family in self.inner.collect() if not (is_lost and family.name in CONFIRMED))
