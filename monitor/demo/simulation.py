"""Simulation of days while the daemon watches: it begins the days, reads the daemon's store, and gathers what is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from monitor.demo.servers import OnCall, ReceivedAlert, Recommenders
from monitor.demo.shop import ACTIVITIES, COUNTRIES
from monitor.demo.story import CHAPTER_NOTES, Chapter, Story, StoryDay, next_day
from monitor.demo.workspace import DEMO_COMPARISON, DEMO_METRICS, EXPECTED_ALERTS, SHOWN_METRIC, Workspace
from monitor.model import ALL, AlertState, Run, RunStatus, State, Transition
from monitor.ports import Store

SEGMENTS = (ALL, *(f"country={name}" for name in COUNTRIES), *(f"activity={name}" for name in ACTIVITIES))
_REMEMBERED_RUNS = 60
_RUNS_FIRST = 2
"""So many ok runs are wanted in a chapter before the next may begin, however slow the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSnapshot:
    """One reading of the store. ``means``: per slot, mean by (segment, metric); runs newest first, transitions oldest first."""

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
        means = (self.means[run.slot].get((segment, SHOWN_METRIC)) for run in reversed(self.runs))
        return tuple(mean for mean in means if mean is not None)


@dataclass(slots=True)
class StoreReader:
    """Reads one store, and remembers what the runs measured, which does not change."""

    store: Store
    _means: dict[datetime, Mapping[tuple[str, str], float]] = field(default_factory=dict)

    def read(self) -> StoreSnapshot:
        """Read the store."""
        runs = self.store.history.runs(comparison=DEMO_COMPARISON, limit=_REMEMBERED_RUNS)
        self._means = {run.slot: self._means.get(run.slot) or self._read_means(run) for run in runs}
        return StoreSnapshot(
            runs=runs,
            means=self._means,
            alerts=self.store.alerts.states(),
            transitions=self.store.alerts.transitions(comparison=DEMO_COMPARISON, limit=None),
        )

    def _read_means(self, run: Run) -> Mapping[tuple[str, str], float]:
        record = self.store.history.record(run.id) if run.status is RunStatus.OK else None
        found = record.summaries if record else ()
        # The configuration names metrics without the depth.
        return {(each.segment, each.metric.partition("@")[0]): each.mean for each in found if each.mean is not None}


class NoteKind(StrEnum):
    """What a note in the log is about."""

    STORY = "story"
    RUN = "run"
    FIRING = "firing"
    RESOLVED = "resolved"
    NOTIFIED = "notified"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNote:
    """Something that happened, for the log on the screen."""

    at: datetime
    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterStart:
    """The moment a chapter began: just before its lists were served."""

    at: datetime
    chapter: Chapter


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStatus:
    """All that is known at one moment. ``chapters`` begun and what on-call ``received`` oldest first."""

    workspace: Workspace
    url: str
    every: str
    elapsed_s: float
    scene: StoryDay
    chapters: tuple[ChapterStart, ...]
    seen: StoreSnapshot
    received: tuple[ReceivedAlert, ...]

    @property
    def notes(self) -> list[LogNote]:
        """Everything worth a line in the log, oldest first."""
        return sorted(self._notes(), key=lambda note: note.at)

    def _notes(self) -> Iterator[LogNote]:
        for each in self.chapters:
            yield LogNote(at=each.at, kind=NoteKind.STORY, text=CHAPTER_NOTES[each.chapter])
        for run in self.seen.runs:
            if run.finished_at is not None:
                yield LogNote(at=run.finished_at, kind=NoteKind.RUN, text=_run_text(run, self.seen.means[run.slot]))
        for change in self.seen.transitions:
            if change.is_announced:
                kind = NoteKind.FIRING if change.to_state is State.FIRING else NoteKind.RESOLVED
                yield LogNote(at=change.at, kind=kind, text=f"{change.alert} {change.segment}: {change.reason}")
        for alert in self.received:
            text = f"on-call, with a valid signature: {alert.alert} {alert.segment} {alert.status}"
            yield LogNote(at=alert.at, kind=NoteKind.NOTIFIED, text=text)


def _run_text(run: Run, means: Mapping[tuple[str, str], float]) -> str:
    values = [f"{metric} {value:.3f}" for metric in DEMO_METRICS if (value := means.get((ALL, metric))) is not None]
    reason = [run.reason] if run.reason else []
    return " ".join([f"{run.status} paired {run.paired or 0}/{run.asked or 0}", *values, *reason])


@dataclass(slots=True, kw_only=True)
class Simulation:
    """One run of the story, which begins when this is made; ``url`` is where the daemon listens."""

    workspace: Workspace
    recommenders: Recommenders
    on_call: OnCall
    story: Story
    reader: StoreReader
    url: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    _scene: StoryDay = field(default_factory=StoryDay)
    _chapters: tuple[ChapterStart, ...] = ()
    _began_s: float = 0.0
    _day_began_s: float = 0.0

    def __post_init__(self) -> None:
        """Let time count from here."""
        self._began_s = self._day_began_s = self.monotonic()
        self._chapters = (ChapterStart(at=self.now(), chapter=self._scene.chapter),)

    def step(self) -> DemoStatus:
        """Read the daemon's store, begin the next day when this one is over, and return what there is to show."""
        # On-call first: what it knows by now, the store shows a moment later too.
        received = self.on_call.received
        seen = self.reader.read()
        if self.monotonic() - self._day_began_s >= self.story.day_s:
            self._begin_next_day(seen)
        return DemoStatus(
            workspace=self.workspace,
            url=self.url,
            every=self.story.every,
            elapsed_s=self.monotonic() - self._began_s,
            scene=self._scene,
            chapters=self._chapters,
            seen=seen,
            received=received,
        )

    def _begin_next_day(self, seen: StoreSnapshot) -> None:
        ok_runs = sum(1 for run in seen.runs if run.status is RunStatus.OK and run.started_at >= self._chapters[-1].at)
        # The fault is repaired only when as many alerts fire as it should cause, and let in only when all is quiet.
        is_noticed = seen.firing >= len(EXPECTED_ALERTS) if self._scene.is_broken else not seen.firing
        tomorrow = next_day(self.story, self._scene, is_noticed=is_noticed and ok_runs >= _RUNS_FIRST)
        if tomorrow.chapter is not self._scene.chapter:
            self._chapters += (ChapterStart(at=self.now(), chapter=tomorrow.chapter),)
        self.recommenders.retrain(tomorrow.day, is_broken=tomorrow.is_broken)
        self._scene, self._day_began_s = tomorrow, self.monotonic()
