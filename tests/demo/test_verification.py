from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from demo.conftest import Make
from monitor.demo.simulation import ChapterStart, DemoStatus
from monitor.demo.story import Chapter, Scene
from monitor.demo.verification import GAUGES, is_over, unmet_expectations
from monitor.demo.workspace import EXPECTED_ALERTS
from monitor.model import RunStatus, State

LOW, APART = ("SimilarityLow", "country=DE"), ("ManyUsersApart", "all")


def starts(alert: tuple[str, str], seconds: float = 12) -> Any:
    return Make.transition(seconds, State.PENDING, State.FIRING, *alert)


def ends(alert: tuple[str, str], seconds: float = 22) -> Any:
    return Make.transition(seconds, State.FIRING, State.QUIET, *alert)


@pytest.fixture
def good() -> DemoStatus:
    transitions = [change for alert in (LOW, APART) for change in (starts(alert), ends(alert))]
    pending = Make.transition(11, State.QUIET, State.PENDING, *LOW)
    return Make.status(
        scene=Scene(day=9, chapter=Chapter.HEALED),
        chapters=[ChapterStart(at=Make.at(10 * number), chapter=chapter) for number, chapter in enumerate(Chapter)],
        seen=Make.seen_runs(5, transitions=(pending, *transitions)),
        received=[Make.received(23, status, *alert) for alert in (LOW, APART) for status in ("firing", "resolved")],
    )


EXPOSITION = "".join(f'{name}{{comparison="home-feed",x="y"}} 1.0\n' for name in GAUGES)


def told(good: DemoStatus, *transitions: Any) -> DemoStatus:
    return replace(good, seen=replace(good.seen, transitions=transitions))


def run_too(good: DemoStatus, **changes: Any) -> DemoStatus:
    return replace(good, seen=replace(good.seen, runs=(Make.run(9, **changes), *good.seen.runs)))


def never_repaired(good: DemoStatus) -> DemoStatus:
    received = tuple(one for one in good.received if one.status == "firing")
    return replace(told(good, starts(LOW), starts(APART)), chapters=good.chapters[:2], received=received)


DEPARTURES: dict[str, tuple[Callable[[DemoStatus], DemoStatus], tuple[str, ...]]] = {
    "the expected story": (lambda good: good, ()),
    "an alert before the fault": (
        lambda good: told(good, starts(LOW, 9), *good.seen.transitions[2:]),
        ("SimilarityLow country=DE fired before the fault was let in.",),
    ),
    "an alert that never fired": (
        lambda good: told(good, *good.seen.transitions[3:]),
        ("SimilarityLow country=DE never fired.", "SimilarityLow country=DE never resolved."),
    ),
    "no repair": (
        never_repaired,
        (
            "ManyUsersApart all never resolved, for it was never repaired.",
            "SimilarityLow country=DE never resolved, for it was never repaired.",
            "On-call was never notified that ManyUsersApart all is resolved.",
            "On-call was never notified that SimilarityLow country=DE is resolved.",
        ),
    ),
    "a resolve before the repair": (
        lambda good: told(good, starts(LOW), ends(LOW, 19), starts(APART), ends(APART)),
        ("SimilarityLow country=DE resolved before it was repaired.",),
    ),
    "an alert that fired twice": (
        lambda good: told(good, starts(LOW, 11), *good.seen.transitions),
        ("SimilarityLow country=DE fired 2 times instead of once.",),
    ),
    "an alert elsewhere": (
        lambda good: told(good, *good.seen.transitions, starts(("SimilarityLow", "country=FR"))),
        ("SimilarityLow country=FR fired, though nothing was wrong there.",),
    ),
    "a message that never came": (
        lambda good: replace(good, received=good.received[1:]),
        ("On-call was never notified that SimilarityLow country=DE is firing.",),
    ),
    "a failed run": (
        lambda good: run_too(good, status=RunStatus.FAILED, reason="the baseline is down"),
        ("1 runs failed, the last for this reason: the baseline is down.",),
    ),
    "too few users in time, which is no fault of the story": (
        lambda good: run_too(good, status=RunStatus.INSUFFICIENT, reason="only 100 of 300 users answered"),
        (),
    ),
    "no run": (lambda good: replace(good, seen=replace(good.seen, runs=())), ("No run ended ok.",)),
}


@pytest.mark.parametrize("departure", DEPARTURES)
def test_each_departure_from_the_expected_story_is_named(good: DemoStatus, departure: str) -> None:
    depart, named = DEPARTURES[departure]
    assert {LOW, APART} == EXPECTED_ALERTS
    assert unmet_expectations(depart(good), EXPOSITION) == named


def test_a_page_that_shows_other_comparisons_only_is_named(good: DemoStatus) -> None:
    missing = tuple(f"/metrics shows no {gauge} of home-feed." for gauge in GAUGES)
    assert unmet_expectations(good, EXPOSITION.replace("home-feed", "other")) == missing


def test_it_is_over_once_healed_quiet_and_told_of_everything(good: DemoStatus) -> None:
    assert is_over(good)
    assert not is_over(replace(good, scene=Scene(day=9, chapter=Chapter.BROKEN)))
    assert not is_over(replace(good, received=good.received[1:]))
    assert not is_over(replace(good, seen=replace(good.seen, alerts=(Make.alert(State.FIRING),))))
