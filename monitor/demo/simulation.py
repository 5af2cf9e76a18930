"""Simulation of days while the daemon watches: it begins the days, reads the daemon's store, and gathers what is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from monitor.demo.environment import Environment
from monitor.demo.http_servers import ReceivedAlert
from monitor.demo.story import CHAPTER_NOTES, Chapter, Scene, Story, next_day
from monitor.demo.workspace import DEMO_COMPARISON, SHOWN_METRIC, Workspace
from monitor.demo.world import COUNTRIES
from monitor.model import ALL, AlertState, Run, RunStatus, State, Transition
from monitor.ports import Store

_REMEMBERED_RUNS = 60


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
        means = (self.means.get(run.slot, {}).get((segment, SHOWN_METRIC)) for run in reversed(self.runs))
        return tuple(mean for mean in means if mean is not None)


@dataclass(slots=True)
class StoreReader:
    """Reads one store."""

    store: Store
    _means: dict[datetime, Mapping[tuple[str, str], float]] = field(default_factory=dict)

    def read(self) -> StoreSnapshot:
        """Read the store."""
        # Read more often than runs end, so that none is missed: the store gives the newest of each comparison only.
        for latest in self.store.history.latest([DEMO_COMPARISON]):
            # The configuration names metrics without the depth.
            self._means[latest.run.slot] = {
                (each.segment, each.metric.partition("@")[0]): each.mean for each in latest.summaries if each.mean is not None
            }
        runs = self.store.history.runs(comparison=DEMO_COMPARISON, limit=_REMEMBERED_RUNS)
        shown = {run.slot for run in runs}
        self._means = {slot: means for slot, means in self._means.items() if slot in shown}
        return StoreSnapshot(
            runs=runs,
            means=dict(self._means),
            alerts=self.store.alerts.states(),
            transitions=self.store.alerts.transitions(comparison=DEMO_COMPARISON, limit=None),
        )


class NoteKind(StrEnum):
    """What a note in the log is about."""

    STORY = "story"
    FIRING = "firing"
    RESOLVED = "resolved"
    NOTIFIED = "notified"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNote:
    """Something that happened, for the log on the screen."""

    at: datetime
    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStatus:
    """What is shown. ``segments`` in the order to show; ``notes`` oldest first; ``every`` as in the configuration."""

    scene: Scene
    elapsed_s: float
    every: str
    seen: StoreSnapshot
    segments: tuple[str, ...]
    notes: tuple[LogNote, ...]
    url: str
    workspace: Workspace


SEGMENTS = (ALL, *(f"country={name}" for name in COUNTRIES), *(f"activity={name}" for name in ("low", "mid", "high")))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterStart:
    """The moment a chapter began: just before its lists were served."""

    at: datetime
    chapter: Chapter


@dataclass(slots=True, kw_only=True)
class Simulation:
    """One run of the story. ``chapters`` are those so far; ``url`` is where the daemon listens."""

    environment: Environment
    story: Story
    reader: StoreReader
    url: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    scene: Scene = field(default_factory=Scene)
    chapters: list[ChapterStart] = field(default_factory=list)
    _began_s: float = 0.0
    _day_began_s: float = 0.0

    def begin(self) -> None:
        """Let time count from here."""
        self._began_s = self._day_began_s = self.monotonic()
        self.chapters.append(ChapterStart(at=self.now(), chapter=self.scene.chapter))

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self.monotonic() - self._began_s

    def step(self) -> DemoStatus:
        """Read the daemon's store, begin the next day when this one is over, and return what there is to show."""
        # On-call first: what it knows by now, the store shows a moment later too.
        received = self.environment.on_call.received
        seen = self.reader.read()
        if self.monotonic() - self._day_began_s >= self.story.day_s:
            self._begin_next_day(seen)
        return DemoStatus(
            scene=self.scene,
            elapsed_s=self.elapsed_s,
            every=self.story.every,
            seen=seen,
            segments=SEGMENTS,
            notes=_notes(self.chapters, seen.transitions, received),
            url=self.url,
            workspace=self.environment.workspace,
        )

    def _begin_next_day(self, seen: StoreSnapshot) -> None:
        ok_runs = sum(1 for run in seen.runs if run.status is RunStatus.OK and run.started_at >= self.chapters[-1].at)
        tomorrow = next_day(self.story, self.scene, ok_runs=ok_runs, firing=seen.firing)
        trained = self.environment.arms.train(tomorrow.day, is_broken=tomorrow.is_broken)
        if tomorrow.chapter is not self.scene.chapter:
            self.chapters.append(ChapterStart(at=self.now(), chapter=tomorrow.chapter))
        self.environment.arms.serve(trained)
        self.scene = tomorrow
        self._day_began_s = self.monotonic()


def _notes(
    chapters: Iterable[ChapterStart], transitions: Iterable[Transition], received: Iterable[ReceivedAlert]
) -> tuple[LogNote, ...]:
    """Everything worth a line in the log, oldest first."""
    notes = [LogNote(at=each.at, kind=NoteKind.STORY, text=CHAPTER_NOTES[each.chapter]) for each in chapters]
    notes += [_transition_note(transition) for transition in transitions if transition.is_announced]
    notes += [_received_note(alert) for alert in received]
    return tuple(sorted(notes, key=lambda note: note.at))


def _transition_note(transition: Transition) -> LogNote:
    kind = NoteKind.FIRING if transition.to_state is State.FIRING else NoteKind.RESOLVED
    return LogNote(at=transition.at, kind=kind, text=f"{transition.alert} {transition.segment}: {transition.reason}")


def _received_note(received: ReceivedAlert) -> LogNote:
    if not received.is_signed:
        return LogNote(at=received.at, kind=NoteKind.WRONG, text="on-call got a message without a valid signature")
    text = f"on-call, with a valid signature: {received.alert} {received.segment} {received.status}"
    return LogNote(at=received.at, kind=NoteKind.NOTIFIED, text=text)
