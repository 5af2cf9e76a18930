from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from demo.conftest import APART, LOW, alert, at, change, received, run, runs_of, status
from monitor.demo.simulation import DemoStatus
from monitor.demo.story import Chapter, StoryDay
from monitor.demo.verification import is_over, unmet_expectations
from monitor.demo.workspace import EXPECTED_ALERTS
from monitor.model import RunStatus, State


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
