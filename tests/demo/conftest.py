"""Statuses, stores and daemons for the demo's tests."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import factories
import published
from monitor.demo.simulation import SEGMENTS, DemoStatus, StoreSnapshot
from monitor.demo.story import Scene
from monitor.demo.workspace import DEMO_COMPARISON, Workspace
from monitor.model import AlertState, LatestRun, Run, State, Summary, Transition
from monitor.ports import Store

START = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Make:
    """Complete values, each field open to change."""

    at = staticmethod(at)

    @staticmethod
    def run(seconds: float, **changes: Any) -> Run:
        own = {"id": int(seconds * 10), "comparison": DEMO_COMPARISON, "asked": 400, "paired": 399, "slot": at(seconds)}
        return published.run(**own | {"started_at": at(seconds), "finished_at": at(seconds + 0.5)} | changes)

    @staticmethod
    def alert(state: State, alert: str = "SimilarityLow", segment: str = "country=DE", **changes: Any) -> AlertState:
        own = {"comparison": DEMO_COMPARISON, "state": state, "alert": alert, "segment": segment, "since": at(0)}
        return published.state(**own | {"reason": f"reason of {alert} {segment}"} | changes)

    @staticmethod
    def transition(
        seconds: float, from_state: State, to_state: State, alert: str = "SimilarityLow", segment: str = "country=DE"
    ) -> Transition:
        own = {"comparison": DEMO_COMPARISON, "alert": alert, "segment": segment, "from_state": from_state}
        return factories.transition(
            **own, to_state=to_state, slot=at(seconds), at=at(seconds), reason="mean 0.21 is below 0.45"
        )

    @staticmethod
    def seen(**changes: Any) -> StoreSnapshot:
        base: dict[str, Any] = {"runs": (), "means": {}, "alerts": (), "transitions": ()}
        return StoreSnapshot(**base | changes)

    @classmethod
    def seen_runs(cls, count: int, mean: float = 0.67, **changes: Any) -> StoreSnapshot:
        """So many ok runs, two seconds apart, all with the same mean everywhere."""
        runs = tuple(cls.run(2 * number) for number in reversed(range(count)))
        means = {run.slot: {(segment, metric): mean for segment in SEGMENTS for metric in METRICS} for run in runs}
        return cls.seen(**{"runs": runs, "means": means} | changes)

    @classmethod
    def status(cls, **changes: Any) -> DemoStatus:
        base: dict[str, Any] = {
            "scene": Scene(day=7),
            "elapsed_s": 61.4,
            "every": "2s",
            "seen": cls.seen(),
            "segments": SEGMENTS,
            "notes": (),
            "url": "http://127.0.0.1:29108",
            "workspace": Workspace(Path("rankwatch-demo")),
        }
        return DemoStatus(**base | changes)

    @staticmethod
    def summary(segment: str, metric: str, mean: float | None) -> Summary:
        return published.summary(segment=segment, metric=metric, mean=mean)

    @staticmethod
    def latest(run: Run, *summaries: Summary) -> LatestRun:
        return LatestRun(run=run, coverage=None, summaries=summaries, states=(), last_ok_slot=None, last_ok_at=None)


@dataclass
class ShownStore:
    """Only what the demo reads from a store; ``on_look`` is called before each look."""

    shown: tuple[Run, ...] = ()
    newest: tuple[LatestRun, ...] = ()
    alert_states: tuple[AlertState, ...] = ()
    changes: tuple[Transition, ...] = ()
    on_look: Callable[[], None] = field(default=lambda: None)

    @property
    def history(self) -> "ShownStore":
        return self

    @property
    def alerts(self) -> "ShownStore":
        return self

    def latest(self, comparisons: list[str]) -> tuple[LatestRun, ...]:
        self.on_look()
        assert comparisons == [DEMO_COMPARISON]
        return self.newest

    def runs(self, *, comparison: str | None, limit: int) -> tuple[Run, ...]:
        assert comparison == DEMO_COMPARISON
        return self.shown[:limit]

    def states(self) -> tuple[AlertState, ...]:
        return self.alert_states

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        assert (comparison, limit) == (DEMO_COMPARISON, None)
        return self.changes


@dataclass
class ShownDaemon:
    """A daemon that does nothing but be started, be looked at and be stopped."""

    config: Path
    shown: ShownStore
    calls: list[str] = field(default_factory=list)
    url: str = "http://127.0.0.1:1"

    @property
    def store(self) -> Store:
        return cast("Store", self.shown)

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def make() -> type[Make]:
    return Make


@pytest.fixture
def store() -> "ShownStore":
    return ShownStore()


@pytest.fixture
def daemon_on(store: ShownStore) -> Callable[[Path], ShownDaemon]:
    return lambda config: ShownDaemon(config, store)
