"""Lets the story pass on the stage while the daemon watches: turns days, notes what happens, gives a frame for the screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from monitor.demo.oncall import Notice
from monitor.demo.stage import Stage
from monitor.demo.status import DemoStatus, Note, NoteKind
from monitor.demo.story import NOTED, Chapter, Scene, Story, next_day
from monitor.demo.watching import Seen, Watcher
from monitor.demo.world import COUNTRIES
from monitor.model import ALL, RunStatus, State, Transition

SEGMENTS = (ALL, *(f"country={name}" for name in COUNTRIES), *(f"activity={name}" for name in ("low", "mid", "high")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The moment a chapter began: just before its lists were served."""

    at: datetime
    chapter: Chapter


@dataclass(slots=True, kw_only=True)
class Play:
    """One performance. ``turns`` are the chapters so far."""

    stage: Stage
    story: Story
    watcher: Watcher
    metrics_url: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    scene: Scene = field(default_factory=Scene)
    turns: list[Turn] = field(default_factory=list)
    _began_s: float = 0.0
    _day_began_s: float = 0.0

    def begin(self) -> None:
        """The curtain rises: time counts from here."""
        self._began_s = self._day_began_s = self.monotonic()
        self.turns.append(Turn(at=self.now(), chapter=self.scene.chapter))

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self.monotonic() - self._began_s

    def step(self) -> DemoStatus:
        """Look at the daemon, turn the day when it is over, and say how things stand."""
        # Causes last: what on-call knows by now, the store shows a moment later too.
        notices = self.stage.on_call.notices
        seen = self.watcher.look()
        if self.monotonic() - self._day_began_s >= self.story.day_s:
            self._turn_day(seen)
        return DemoStatus(
            scene=self.scene,
            elapsed_s=self.elapsed_s,
            every=self.story.every,
            seen=seen,
            segments=SEGMENTS,
            notes=_notes(self.turns, seen.transitions, notices),
            metrics_url=self.metrics_url,
            place=self.stage.place,
        )

    def _turn_day(self, seen: Seen) -> None:
        ok_runs = sum(1 for run in seen.runs if run.status is RunStatus.OK and run.started_at >= self.turns[-1].at)
        tomorrow = next_day(self.story, self.scene, ok_runs=ok_runs, firing=seen.firing)
        trained = self.stage.arms.train(tomorrow.day, is_broken=tomorrow.is_broken)
        if tomorrow.chapter is not self.scene.chapter:
            self.turns.append(Turn(at=self.now(), chapter=tomorrow.chapter))
        self.stage.arms.serve(trained)
        self.scene = tomorrow
        self._day_began_s = self.monotonic()


def _notes(turns: Iterable[Turn], transitions: Iterable[Transition], notices: Iterable[Notice]) -> tuple[Note, ...]:
    """Everything worth a line in the log, oldest first."""
    notes = [Note(at=turn.at, kind=NoteKind.STORY, text=NOTED[turn.chapter]) for turn in turns]
    notes += [_transition_note(transition) for transition in transitions if transition.is_announced]
    notes += [_notice_note(notice) for notice in notices]
    return tuple(sorted(notes, key=lambda note: note.at))


def _transition_note(transition: Transition) -> Note:
    kind = NoteKind.FIRING if transition.to_state is State.FIRING else NoteKind.RESOLVED
    return Note(at=transition.at, kind=kind, text=f"{transition.alert} {transition.segment}: {transition.reason}")


def _notice_note(notice: Notice) -> Note:
    if not notice.is_signed:
        return Note(at=notice.at, kind=NoteKind.WRONG, text="on-call got a message without a valid signature")
    text = f"on-call, with a valid signature: {notice.alert} {notice.segment} {notice.status}"
    return Note(at=notice.at, kind=NoteKind.TOLD, text=text)
