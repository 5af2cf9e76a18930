"""What happens when in the demo. Pure: days pass, and what was seen decides when the next chapter may begin."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.demo.recommenders import BROKEN_COUNTRY
from monitor.demo.workspace import EXPECTED_ALERTS


class Chapter(StrEnum):
    """How things stand with the candidate."""

    HEALTHY = "healthy"
    BROKEN = "broken"
    HEALED = "healed"


CHAPTER_TEXTS = {
    Chapter.HEALTHY: "Both models are retrained every day. They differ a little, as two good models do.",
    Chapter.BROKEN: (
        f"The candidate was deployed with a broken join: it no longer finds what users in {BROKEN_COUNTRY} bought, "
        "and shows them the popular items."
    ),
    Chapter.HEALED: f"The join is repaired: users in {BROKEN_COUNTRY} get their own recommendations again.",
}
"""Each chapter in a sentence for the screen, at most two lines of 76 characters."""
CHAPTER_NOTES = {
    Chapter.HEALTHY: "both arms are healthy",
    Chapter.BROKEN: f"fault let into the candidate: users in {BROKEN_COUNTRY} get the popular items",
    Chapter.HEALED: "fault repaired",
}
"""The beginning of each chapter for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The plan. ``runs_first`` ok runs are wanted in a chapter before the next may begin, however slow the machine.

    ``alerts`` should fire together because of the fault.
    ``calm_days`` after the repair the fault comes back, so that a demo left alone goes on showing something; None: never.
    """

    day_s: float
    every: str
    healthy_days: int
    broken_days: int
    calm_days: int | None
    runs_first: int = 2
    alerts: int = len(EXPECTED_ALERTS)


NORMAL_STORY = Story(day_s=4.0, every="2s", healthy_days=4, broken_days=3, calm_days=15)
FAST_STORY = Story(day_s=1.5, every="4s", healthy_days=2, broken_days=2, calm_days=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where the story stands: today, and since which day in which chapter."""

    day: int = 0
    chapter: Chapter = Chapter.HEALTHY
    since_day: int = 0

    @property
    def is_broken(self) -> bool:
        """Whether the candidate's join is broken today."""
        return self.chapter is Chapter.BROKEN


def next_day(story: Story, scene: Scene, *, ok_runs: int, firing: int) -> Scene:
    """Tomorrow's scene. ``ok_runs``: runs begun in this chapter that ended ok; ``firing``: how many alerts fire now."""
    day = scene.day + 1
    lasts = day - scene.since_day >= _days(story, scene.chapter)
    # The fault is repaired only when as many alerts fire as it should cause, and let in only when all is quiet.
    is_seen = firing >= story.alerts if scene.is_broken else not firing
    if lasts and is_seen and ok_runs >= story.runs_first:
        chapter = Chapter.HEALED if scene.is_broken else Chapter.BROKEN
        return Scene(day=day, chapter=chapter, since_day=day)
    return Scene(day=day, chapter=scene.chapter, since_day=scene.since_day)


def _days(story: Story, chapter: Chapter) -> float:
    """How many days the chapter lasts at least."""
    calm = float("inf") if story.calm_days is None else story.calm_days
    return {Chapter.HEALTHY: story.healthy_days, Chapter.BROKEN: story.broken_days, Chapter.HEALED: calm}[chapter]
