from itertools import groupby

import pytest

from monitor.demo.story import (
    CHAPTER_TEXTS,
    FAST_STORY,
    NORMAL_STORY,
    UNWATCHED_STORY,
    Chapter,
    Story,
    StoryDay,
    next_day,
)


def chapters(story: Story, days: int) -> list[tuple[Chapter, int]]:
    """The chapters and how many days each took, where all is noticed."""
    scenes = [StoryDay()]
    while len(scenes) < days:
        scenes.append(next_day(story, scenes[-1]))
    assert [scene.day for scene in scenes] == list(range(days))
    return [(chapter, len(list(each))) for chapter, each in groupby(scenes, lambda scene: scene.chapter)]


def test_the_fault_comes_after_the_healthy_days_is_repaired_and_comes_back_after_the_calm_ones_if_any() -> None:
    broken, calm = (Chapter.BROKEN, 4), (Chapter.HEALED, 11)
    assert chapters(UNWATCHED_STORY, 40) == [(Chapter.HEALTHY, 6), broken, calm, broken, calm, broken]

    assert chapters(FAST_STORY, 200) == [(Chapter.HEALTHY, 2), (Chapter.BROKEN, 2), (Chapter.HEALED, 196)]


@pytest.mark.parametrize("chapter", [Chapter.HEALTHY, Chapter.BROKEN])
def test_a_chapter_that_nobody_has_noticed_goes_on(chapter: Chapter) -> None:
    late = StoryDay(day=50, chapter=chapter)
    assert next_day(NORMAL_STORY, late, is_noticed=False) == StoryDay(day=51, chapter=chapter)
    assert next_day(NORMAL_STORY, late).since_day == 51


def test_the_normal_story_fires_within_40_seconds_and_the_fast_one_is_told_within_25() -> None:
    runs_to_fire = 2
    fault_s = NORMAL_STORY.healthy_days * NORMAL_STORY.day_s
    assert fault_s + (runs_to_fire + 1) * float(NORMAL_STORY.every.removesuffix("s")) < 40
    fast_s = (FAST_STORY.healthy_days + FAST_STORY.broken_days + 1) * FAST_STORY.day_s
    assert fast_s + (runs_to_fire + 2) * float(FAST_STORY.every.removesuffix("s")) < 25


def test_every_chapter_has_its_sentence_of_two_lines_on_a_narrow_terminal() -> None:
    assert set(CHAPTER_TEXTS) == set(Chapter)
    assert all(len(text) <= 2 * 70 for text in CHAPTER_TEXTS.values())
