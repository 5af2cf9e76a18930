from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from demo.conftest import Make
from monitor.demo.http_servers import ReceivedAlert
from monitor.demo.simulation import ChapterStart, LogNote, NoteKind
from monitor.demo.story import Chapter, Scene
from monitor.demo.verification import GAUGES, DemoRecord, is_over, unmet_expectations
from monitor.demo.workspace import EXPECTED_ALERTS
from monitor.model import RunStatus, State

LOW, APART = ("SimilarityLow", "country=DE"), ("ManyUsersApart", "all")


def starts(alert: tuple[str, str], seconds: float = 12) -> Any:
    return Make.transition(seconds, State.PENDING, State.FIRING, *alert)


def ends(alert: tuple[str, str], seconds: float = 22) -> Any:
    return Make.transition(seconds, State.FIRING, State.QUIET, *alert)


@pytest.fixture
def good() -> DemoRecord:
    transitions = [change for alert in (LOW, APART) for change in (starts(alert), ends(alert))]
    pending = Make.transition(11, State.QUIET, State.PENDING, *LOW)
    notices = [
        ReceivedAlert(at=Make.at(23), is_signed=True, status=status, alert=alert, segment=segment)
        for alert, segment in (LOW, APART)
        for status in ("firing", "resolved")
    ]
    return DemoRecord(
        chapters=[
            ChapterStart(at=Make.at(0), chapter=Chapter.HEALTHY),
            ChapterStart(at=Make.at(10), chapter=Chapter.BROKEN),
            ChapterStart(at=Make.at(20), chapter=Chapter.HEALED),
        ],
        seen=Make.seen_runs(5, transitions=(pending, *transitions)),
        received=notices,
        exposition="".join(f'{name}{{comparison="home-feed",x="y"}} 1.0\n' for name in GAUGES),
    )


def told(good: DemoRecord, *transitions: Any) -> DemoRecord:
    return replace(good, seen=replace(good.seen, transitions=transitions))


def run_too(good: DemoRecord, **changes: Any) -> DemoRecord:
    return replace(good, seen=replace(good.seen, runs=(Make.run(9, **changes), *good.seen.runs)))


def never_repaired(good: DemoRecord) -> DemoRecord:
    received = [one for one in good.received if one.status == "firing"]
    return replace(told(good, starts(LOW), starts(APART)), chapters=good.chapters[:2], received=received)


FORGED = ReceivedAlert(at=Make.at(1), is_signed=False)
DEPARTURES: dict[str, tuple[Callable[[DemoRecord], DemoRecord], tuple[str, ...]]] = {
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
    "a forged message": (
        lambda good: replace(good, received=[*good.received, FORGED]),
        ("1 messages reached on-call without a valid signature.",),
    ),
    "an empty page": (
        lambda good: replace(good, exposition=good.exposition.replace("{", "_else{")),
        tuple(f"/metrics shows no {gauge} of home-feed." for gauge in GAUGES),
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
def test_each_departure_from_the_expected_story_is_named(good: DemoRecord, departure: str) -> None:
    depart, named = DEPARTURES[departure]
    assert {LOW, APART} == EXPECTED_ALERTS
    assert unmet_expectations(depart(good)) == named


def test_it_is_over_once_healed_quiet_and_told_of_everything(good: DemoRecord) -> None:
    told = tuple(LogNote(at=Make.at(23), kind=NoteKind.NOTIFIED, text=str(number)) for number in range(4))
    over = Make.status(scene=Scene(day=9, chapter=Chapter.HEALED), seen=good.seen, notes=told)
    assert is_over(over)
    assert not is_over(replace(over, scene=Scene(day=9, chapter=Chapter.BROKEN)))
    assert not is_over(replace(over, notes=told[1:]))
    assert not is_over(replace(over, seen=replace(good.seen, alerts=(Make.alert(State.FIRING),))))
