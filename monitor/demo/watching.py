"""Reads the daemon's store again and again, and remembers what each run measured for as long as the screen shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from monitor.demo.configuration import COMPARISON, SHOWN
from monitor.model import AlertState, LatestRun, Run, State, Summary, Transition
from monitor.ports import Store

_RUNS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One look at the store. ``means``: per slot, mean by (segment, metric); runs newest first, transitions oldest first."""

    runs: tuple[Run, ...]
    means: Mapping[datetime, Mapping[tuple[str, str], float]]
    alerts: tuple[AlertState, ...]
    transitions: tuple[Transition, ...]

    @property
    def firing(self) -> int:
        """How many alerts fire."""
        return sum(1 for alert in self.alerts if alert.state is State.FIRING)

    def trend(self, segment: str) -> tuple[float, ...]:
        """The shown metric's mean over the remembered runs, oldest first."""
        means = (self.means.get(run.slot, {}).get((segment, SHOWN)) for run in reversed(self.runs))
        return tuple(mean for mean in means if mean is not None)


@dataclass(slots=True)
class Watcher:
    """Looks at one store. It looks more often than runs end, so none is missed."""

    store: Store
    _means: dict[datetime, Mapping[tuple[str, str], float]] = field(default_factory=dict)

    def look(self) -> Seen:
        """Read the store."""
        for latest in self.store.latest([COMPARISON]):
            self._remember(latest)
        runs = self.store.runs(comparison=COMPARISON, limit=_RUNS)
        shown = {run.slot for run in runs}
        self._means = {slot: means for slot, means in self._means.items() if slot in shown}
        return Seen(
            runs=runs,
            means=dict(self._means),
            alerts=self.store.all_alert_states(),
            transitions=self.store.transitions(comparison=COMPARISON, limit=None),
        )

    def _remember(self, latest: LatestRun) -> None:
        self._means[latest.run.slot] = {
            (summary.segment, _short(summary)): summary.mean for summary in latest.summaries if summary.mean is not None
        }


def _short(summary: Summary) -> str:
    """A metric's name as the configuration has it, without the depth."""
    return summary.metric.partition("@")[0]
