from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

import published
from demo.conftest import APART, LOW, alert, at, change, received, run, runs_of, status
from factories import HeldClock
from monitor.demo.servers import OnCall, Recommenders, Shop
from monitor.demo.simulation import (
    CHAPTER_TEXTS,
    EXPECTED_ALERTS,
    FAST_STORY,
    NORMAL_STORY,
    UNWATCHED_STORY,
    Chapter,
    DemoStatus,
    Simulation,
    Story,
    StoryDay,
    is_over,
    next_day,
    unmet_expectations,
)
from monitor.model.alerts import State
from monitor.model.runs import RunStatus

STORY = Story(day_s=10.0, every="1s", healthy_days=1, broken_days=1, calm_days=None)


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock(at=at(0))


@pytest.fixture
def play(store: Any, clock: HeldClock) -> Simulation:
    recommenders = Recommenders(Shop(users=60, items=60))
    return Simulation(
        recommenders=recommenders, on_call=OnCall(), story=STORY, store=store, now=clock.now, monotonic=clock.monotonic
    )


def test_a_day_that_is_over_brings_new_lists_and_not_before(play: Simulation, clock: HeldClock) -> None:
    lists = play.recommenders.lists
    clock.pass_by(9.9)
    found = play.step()
    assert found.scene.day == 0
    assert found.elapsed_s == pytest.approx(9.9)
    assert play.recommenders.lists is lists
    clock.pass_by(0.1)
    assert play.step().scene.day == 1
    assert play.recommenders.lists == play.recommenders.shop.lists(1, is_broken=False)


def test_the_fault_waits_for_quiet_and_two_runs_the_repair_for_both_alerts_and_two_runs_since_the_fault(
    play: Simulation, clock: HeldClock, store: Any
) -> None:
    low, apart, failed = alert(State.FIRING, LOW), alert(State.FIRING, APART), run(3, status=RunStatus.FAILED)
    before, after = (run(2), run(1)), (run(62), run(61))
    days: tuple[tuple[Any, Any, Chapter], ...] = (
        ((failed, before[1]), (), Chapter.HEALTHY),
        (before, (low,), Chapter.HEALTHY),
        (before, (alert(State.PENDING),), Chapter.BROKEN),
        (before, (low, apart), Chapter.BROKEN),
        ((after[1], *before), (low, apart), Chapter.BROKEN),
        ((*after, *before), (low,), Chapter.BROKEN),
        ((*after, *before), (low, apart), Chapter.HEALED),
        ((*after, *before), (), Chapter.HEALED),
    )
    for store.shown, store.alert_states, chapter in days:
        clock.pass_by(10.0)
        found = play.step()
        assert found.scene.chapter is chapter
        assert play.recommenders.lists == play.recommenders.shop.lists(found.scene.day, is_broken=chapter is Chapter.BROKEN)
    assert found.chapters == ((at(0), Chapter.HEALTHY), (at(30), Chapter.BROKEN), (at(70), Chapter.HEALED))


def test_chapters_runs_that_ended_starts_ends_and_messages_are_noted_in_order_and_pending_is_not() -> None:
    running, ok = run(8, status=RunStatus.RUNNING, finished_at=None), run(3)
    failed = run(1, status=RunStatus.FAILED, asked=None, paired=None, reason="the baseline is down")
    means = {running.slot: {}, ok.slot: {"extended_tau": 0.52, "overlap": 0.7}, failed.slot: {}}
    transitions = (
        change(3, State.QUIET, State.PENDING),
        change(5, State.PENDING, State.FIRING),
        change(9, State.FIRING, State.QUIET),
    )
    shown = status(runs=(running, ok, failed), means=means, transitions=transitions, received=(received(6, "firing"),))
    assert [(note.kind, note.text) for note in shown.notes] == [
        ("STORY", CHAPTER_TEXTS[Chapter.HEALTHY]),
        ("RUN", "failed paired 0/0 the baseline is down"),
        ("RUN", "ok paired 399/400 extended_tau 0.520 overlap 0.700"),
        ("FIRING", "SimilarityLow country=DE: mean 0.21 is below 0.45"),
        ("NOTIFIED", "on-call: SimilarityLow country=DE firing"),
        ("RESOLVED", "SimilarityLow country=DE: mean 0.21 is below 0.45"),
    ]


def test_means_of_runs_are_read_once_and_remembered_by_the_names_in_the_configuration(play: Simulation, store: Any) -> None:
    for seconds, metric, mean in ((0, "rbo(p=0.9)", 0.7), (2, "rbo(p=0.9)@10", 0.2), (4, "rbo(p=0.9)", None)):
        ended = run(seconds)
        store.shown = (run(seconds, status=RunStatus.RUNNING, finished_at=None), *store.shown)
        assert play.step().means[ended.slot] == {}
        store.shown = (ended, *store.shown[1:])
        store.measured = {ended.id: (published.summary(segment="all", metric=metric, mean=mean),)}
        seen = play.step()
    assert [seen.means[each.slot] for each in seen.runs] == [{}, {"rbo(p=0.9)": 0.2}, {"rbo(p=0.9)": 0.7}]
    store.shown = store.shown[:2]  # the store lists no more
    assert set(play.step().means) == {each.slot for each in store.shown}


def starts(named: tuple[str, str], seconds: float = 12) -> Any:
    return change(seconds, State.PENDING, State.FIRING, named)


def ends(named: tuple[str, str], seconds: float = 22) -> Any:
    return change(seconds, State.FIRING, State.QUIET, named)


GOOD = status(
    scene=StoryDay(day=9, chapter=Chapter.HEALED),
    chapters=tuple((at(10 * number), chapter) for number, chapter in enumerate(Chapter)),
    transitions=(starts(LOW), ends(LOW), starts(APART), ends(APART)),
    received=tuple(received(23, became, named) for named in (LOW, APART) for became in ("firing", "resolved")),
    **runs_of(5),
)


def changed(*transitions: Any) -> Callable[[DemoStatus], DemoStatus]:
    return lambda good: replace(good, transitions=transitions)


def run_too(**changes: Any) -> Callable[[DemoStatus], DemoStatus]:
    return lambda good: replace(good, runs=(run(9, **changes), *good.runs))


DEPARTURES: dict[str, tuple[Callable[[DemoStatus], DemoStatus], tuple[str, ...]]] = {
    "the expected story": (lambda good: good, ()),
    "what is only pending": (changed(change(9, State.QUIET, State.PENDING), *GOOD.transitions), ()),
    "an alert before the fault": (
        changed(starts(LOW, 9), *GOOD.transitions[1:]),
        (
            "SimilarityLow country=DE became firing 0 times while the candidate was broken, expected 1.",
            "SimilarityLow country=DE became firing 1 times while the candidate was healthy, expected 0.",
        ),
    ),
    "an alert that fired twice and never ended": (
        changed(starts(LOW, 11), starts(LOW), *GOOD.transitions[2:]),
        (
            "SimilarityLow country=DE became firing 2 times while the candidate was broken, expected 1.",
            "SimilarityLow country=DE became resolved 0 times while the candidate was healed, expected 1.",
        ),
    ),
    "an alert elsewhere": (
        changed(*GOOD.transitions, starts(("SimilarityLow", "country=FR"))),
        ("SimilarityLow country=FR became firing 1 times while the candidate was broken, expected 0.",),
    ),
    "a message that never came": (
        lambda good: replace(good, received=good.received[1:]),
        ("On-call was never notified that SimilarityLow country=DE is firing.",),
    ),
    "a failed run": (
        run_too(status=RunStatus.FAILED, reason="the baseline is down"),
        ("1 runs failed, the last for this reason: the baseline is down.",),
    ),
    "too few users in time, which is no fault of the story": (
        run_too(status=RunStatus.INSUFFICIENT, reason="only 100 of 300 users answered"),
        (),
    ),
    "no run": (lambda good: replace(good, runs=()), ("No run ended ok.",)),
}


@pytest.mark.parametrize("departure", DEPARTURES)
def test_each_departure_from_the_expected_story_is_named(departure: str) -> None:
    depart, named = DEPARTURES[departure]
    assert {LOW, APART} == EXPECTED_ALERTS
    assert tuple(unmet_expectations(depart(GOOD))) == named


def test_it_is_over_once_healed_quiet_and_told_of_everything() -> None:
    assert is_over(GOOD)
    assert not is_over(replace(GOOD, scene=StoryDay(day=9, chapter=Chapter.BROKEN)))
    assert not is_over(replace(GOOD, received=GOOD.received[1:]))
    assert not is_over(replace(GOOD, alerts=(alert(State.FIRING),)))


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
