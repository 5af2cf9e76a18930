"""What the screen shows at one moment, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.demo.place import Place
from monitor.demo.story import Scene
from monitor.demo.watching import Seen


class NoteKind(StrEnum):
    """What a note in the log is about."""

    STORY = "story"
    FIRING = "firing"
    RESOLVED = "resolved"
    TOLD = "told"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that happened, for the log on the screen."""

    at: datetime
    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStatus:
    """One frame. ``segments`` in the order to show; ``notes`` oldest first; ``every`` as the configuration says it."""

    scene: Scene
    elapsed_s: float
    every: str
    seen: Seen
    segments: tuple[str, ...]
    notes: tuple[Note, ...]
    metrics_url: str
    place: Place
