"""What happens when in the demo. Pure: days pass, and what was seen decides when the next chapter may begin."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.demo.shop import BROKEN_COUNTRY


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
"""Each chapter in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The plan: how long a day is, how often a run is due (as in the configuration), how many days each chapter lasts at least.

    ``calm_days`` after the repair the fault comes back, so that a demo left alone goes on showing something; None: never.
    """

    day_s: float
    every: str
    healthy_days: int
    broken_days: int
    calm_days: int | None


NORMAL_STORY = Story(day_s=4.0, every="2s", healthy_days=4, broken_days=3, calm_days=15)
FAST_STORY = Story(day_s=1.5, every="4s", healthy_days=2, broken_days=2, calm_days=None)
UNWATCHED_STORY = Story(day_s=120.0, every="1m", healthy_days=6, broken_days=4, calm_days=11)
"""A fault after 12 minutes, repaired after 8, back after 22: time enough for rules that learn to have learned before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryDay:
    """Where the story stands: today, and since which day in which chapter."""

    day: int = 0
    chapter: Chapter = Chapter.HEALTHY
    since_day: int = 0

    @property
    def is_broken(self) -> bool:
        """Whether the candidate's join is broken today."""
        return self.chapter is Chapter.BROKEN


def next_day(story: Story, scene: StoryDay, *, is_noticed: bool = True) -> StoryDay:
    """Tomorrow's scene. No chapter ends before it ``is_noticed`` by whoever watches, however slow the machine."""
    day, broken = scene.day + 1, scene.is_broken
    days = {Chapter.HEALTHY: story.healthy_days, Chapter.BROKEN: story.broken_days, Chapter.HEALED: story.calm_days}
    lasts = days[scene.chapter]
    if is_noticed and lasts is not None and day - scene.since_day >= lasts:
        return StoryDay(day=day, chapter=Chapter.HEALED if broken else Chapter.BROKEN, since_day=day)
    return StoryDay(day=day, chapter=scene.chapter, since_day=scene.since_day)
