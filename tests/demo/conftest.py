"""Statuses and stores for the demo's tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import factories
import published
from monitor.demo.servers import ReceivedAlert
from monitor.demo.simulation import DEMO_COMPARISON, DEMO_METRICS, Chapter, DemoStatus, StoryDay
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.runs import RunRecord

START = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
LOW, APART = ("SimilarityLow", "country=DE"), ("ManyUsersApart", "all")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def run(seconds: float, means: Mapping[str, float | None] = {}, **changes: Any) -> RunRecord:
    own = {"id": int(seconds * 10), "comparison": DEMO_COMPARISON, "asked": 400, "paired": 399, "slot": at(seconds)}
    found = published.run(**own | {"started_at": at(seconds), "finished_at": at(seconds + 0.5)} | changes)
    measured = (published.summary(segment="all", metric=name, mean=mean) for name, mean in means.items())
    return RunRecord(run=found, coverage=None, summaries=tuple(measured))


def alert(state: State, named: tuple[str, str] = LOW) -> AlertState:
    return published.state(comparison=DEMO_COMPARISON, state=state, alert=named[0], segment=named[1], since=at(0))


def change(seconds: float, from_state: State, to_state: State, named: tuple[str, str] = LOW) -> Transition:
    own = {"comparison": DEMO_COMPARISON, "alert": named[0], "segment": named[1], "from_state": from_state}
    return factories.transition(**own, to_state=to_state, slot=at(seconds), at=at(seconds), reason="mean 0.21 is below 0.45")


def received(seconds: float, status: str, named: tuple[str, str] = LOW) -> ReceivedAlert:
    return ReceivedAlert(at=at(seconds), status=status, alert=named[0], segment=named[1])


def runs_of(count: int, mean: float = 0.67) -> tuple[RunRecord, ...]:
    """So many ok runs, two seconds apart, all with the same mean everywhere."""
    return tuple(run(2 * number, dict.fromkeys(DEMO_METRICS, mean)) for number in range(count))


def status(**changes: Any) -> DemoStatus:
    own: dict[str, Any] = {"scene": StoryDay(day=7), "chapters": ((at(-1), Chapter.HEALTHY),)}
    return DemoStatus(**own | changes)


@dataclass
class ShownStore:
    """Only what the demo reads from a store; ``on_look`` is called before each look."""

    shown: tuple[RunRecord, ...] = ()
    alert_states: tuple[AlertState, ...] = ()
    on_look: Callable[[], None] = field(default=lambda: None)

    @property
    def history(self) -> "ShownStore":
        return self

    @property
    def alerts(self) -> "ShownStore":
        return self

    def run_records(self, comparison: str, *, after: datetime | None, limit: int) -> tuple[RunRecord, ...]:
        self.on_look()
        assert comparison == DEMO_COMPARISON
        return tuple(each for each in self.shown if after is None or each.run.slot > after)[:limit]

    def states(self) -> tuple[AlertState, ...]:
        return self.alert_states

    def transitions(self, *, comparison: str | None, limit: int | None) -> tuple[Transition, ...]:
        assert (comparison, limit) == (DEMO_COMPARISON, None)
        return ()


@pytest.fixture
def store() -> "ShownStore":
    return ShownStore()
