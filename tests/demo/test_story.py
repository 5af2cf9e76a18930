from itertools import pairwise

import pytest

from monitor.demo.story import CHAPTER_NOTES, CHAPTER_TEXTS, FAST_STORY, NORMAL_STORY, Chapter, Scene, Story, next_day

PLAN = Story(day_s=1.0, every="1s", healthy_days=3, broken_days=2, calm_days=4)


def play(story: Story, days: int) -> list[Scene]:
    """Scenes when everything goes well: alerts fire from the fault's second day on and are quiet again at once."""
    scenes = [Scene()]
    for _ in range(days):
        now = scenes[-1]
        firing = story.alerts if now.is_broken and now.day > now.since_day else 0
        scenes.append(next_day(story, now, ok_runs=9, firing=firing))
    return scenes


def test_days_follow_one_another() -> None:
    assert all(after.day == before.day + 1 for before, after in pairwise(play(PLAN, 30)))


def test_the_fault_comes_after_the_healthy_days_and_is_repaired_after_its_own() -> None:
    chapters = [scene.chapter for scene in play(PLAN, 5)]
    assert chapters == [Chapter.HEALTHY] * 3 + [Chapter.BROKEN] * 2 + [Chapter.HEALED]


def test_the_fault_comes_back_after_the_calm_days_where_the_plan_says_so() -> None:
    broken = [scene.day for scene in play(PLAN, 16) if scene.is_broken]
    assert broken == [3, 4, 9, 10, 15, 16]


def test_the_fault_never_comes_back_where_the_plan_has_no_calm_days() -> None:
    assert {scene.chapter for scene in play(FAST_STORY, 200)[10:]} == {Chapter.HEALED}


def test_the_fault_waits_until_enough_healthy_runs_were_seen() -> None:
    late = Scene(day=50, chapter=Chapter.HEALTHY, since_day=0)
    assert not next_day(PLAN, late, ok_runs=PLAN.runs_first - 1, firing=0).is_broken
    assert next_day(PLAN, late, ok_runs=PLAN.runs_first, firing=0).is_broken


def test_the_fault_is_not_let_in_while_anything_fires() -> None:
    late = Scene(day=50, chapter=Chapter.HEALED, since_day=0)
    assert not next_day(PLAN, late, ok_runs=9, firing=1).is_broken


@pytest.mark.parametrize("firing", [0, 1])
def test_the_repair_waits_until_all_expected_alerts_fire(firing: int) -> None:
    late = Scene(day=50, chapter=Chapter.BROKEN, since_day=0)
    assert next_day(PLAN, late, ok_runs=9, firing=firing).is_broken
    assert next_day(PLAN, late, ok_runs=9, firing=2).chapter is Chapter.HEALED
    assert next_day(PLAN, late, ok_runs=9, firing=3).chapter is Chapter.HEALED


def test_the_normal_story_fires_within_40_seconds_and_the_fast_one_is_told_within_25() -> None:
    runs_to_fire = 2
    fault_s = NORMAL_STORY.healthy_days * NORMAL_STORY.day_s
    assert fault_s + (runs_to_fire + 1) * float(NORMAL_STORY.every.removesuffix("s")) < 40
    fast_s = (FAST_STORY.healthy_days + FAST_STORY.broken_days + 1) * FAST_STORY.day_s
    assert fast_s + (runs_to_fire + 2) * float(FAST_STORY.every.removesuffix("s")) < 25


def test_every_chapter_is_told_in_two_lines_of_a_narrow_terminal() -> None:
    assert set(CHAPTER_TEXTS) == set(CHAPTER_NOTES) == set(Chapter)
    assert all(len(text) <= 2 * 70 for text in CHAPTER_TEXTS.values())
