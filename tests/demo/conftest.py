"""Statuses, stores and daemons for the demo's tests."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import factories
import published
from monitor.demo.servers import ReceivedAlert
from monitor.demo.simulation import SEGMENTS, ChapterStart, DemoStatus, StoreSnapshot
from monitor.demo.story import Chapter, StoryDay
from monitor.demo.workspace import DEMO_COMPARISON, DEMO_METRICS, Workspace
from monitor.model import AlertState, Run, RunRecord, State, Summary, Transition

START = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)


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
    def seen(*runs: Run, **changes: Any) -> StoreSnapshot:
        base: dict[str, Any] = {"runs": runs, "means": {run.slot: {} for run in runs}, "alerts": (), "transitions": ()}
        return StoreSnapshot(**base | changes)

    @classmethod
    def seen_runs(cls, count: int, mean: float = 0.67, **changes: Any) -> StoreSnapshot:
        """So many ok runs, two seconds apart, all with the same mean everywhere."""
        runs = tuple(cls.run(2 * number) for number in reversed(range(count)))
        means = {run.slot: {(segment, metric): mean for segment in SEGMENTS for metric in DEMO_METRICS} for run in runs}
        return cls.seen(*runs, **{"means": means} | changes)

    @classmethod
    def status(cls, **changes: Any) -> DemoStatus:
        base: dict[str, Any] = {
            "workspace": Workspace(Path("rankwatch-demo")),
            "url": "http://127.0.0.1:29108",
            "every": "2s",
            "elapsed_s": 61.4,
            "scene": StoryDay(day=7),
            "chapters": (ChapterStart(at=cls.at(-1), chapter=Chapter.HEALTHY),),
            "seen": cls.seen(),
            "received": (),
        }
        return DemoStatus(**base | changes)

    @staticmethod
    def received(seconds: float, status: str, alert: str = "SimilarityLow", segment: str = "country=DE") -> ReceivedAlert:
        return ReceivedAlert(at=at(seconds), status=status, alert=alert, segment=segment)


@dataclass
class ShownStore:
    """Only what the demo reads from a store; ``on_look`` is called before each look."""

    shown: tuple[Run, ...] = ()
    measured: dict[int, tuple[Summary, ...]] = field(default_factory=dict)
    alert_states: tuple[AlertState, ...] = ()
    on_look: Callable[[], None] = field(default=lambda: None)

    @property
    def history(self) -> "ShownStore":
        return self

    @property
    def alerts(self) -> "ShownStore":
        return self

    def runs(self, *, comparison: str | None, limit: int) -> tuple[Run, ...]:
        self.on_look()
        assert comparison == DEMO_COMPARISON
        return self.shown[:limit]

    def record(self, run_id: int) -> RunRecord:
        run = next(each for each in self.shown if each.id == run_id)
        return RunRecord(run=run, coverage=None, summaries=self.measured.pop(run_id, ()))  # asked for once

    def states(self) -> tuple[AlertState, ...]:
        return self.alert_states

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        assert (comparison, limit) == (DEMO_COMPARISON, None)
        return ()


@pytest.fixture
def make() -> type[Make]:
    return Make


@pytest.fixture
def store() -> "ShownStore":
    return ShownStore()
