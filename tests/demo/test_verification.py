from dataclasses import replace
from typing import Any

import pytest

from monitor.demo.http_servers import ReceivedAlert
from monitor.demo.simulation import ChapterStart, LogNote, NoteKind
from monitor.demo.story import Chapter, Scene
from monitor.demo.verification import GAUGES, DemoRecord, is_over, unmet_expectations
from monitor.demo.workspace import EXPECTED_ALERTS
from monitor.model import RunStatus, State

LOW, APART = ("SimilarityLow", "country=DE"), ("ManyUsersApart", "all")


def starts(make: Any, alert: tuple[str, str], seconds: float = 12) -> Any:
    return make.transition(seconds, State.PENDING, State.FIRING, *alert)


def ends(make: Any, alert: tuple[str, str], seconds: float = 22) -> Any:
    return make.transition(seconds, State.FIRING, State.QUIET, *alert)


@pytest.fixture
def good(make: Any) -> DemoRecord:
    transitions = [change for alert in (LOW, APART) for change in (starts(make, alert), ends(make, alert))]
    pending = make.transition(11, State.QUIET, State.PENDING, *LOW)
    notices = [
        ReceivedAlert(at=make.at(23), is_signed=True, status=status, alert=alert, segment=segment)
        for alert, segment in (LOW, APART)
        for status in ("firing", "resolved")
    ]
    return DemoRecord(
        chapters=[
            ChapterStart(at=make.at(0), chapter=Chapter.HEALTHY),
            ChapterStart(at=make.at(10), chapter=Chapter.BROKEN),
            ChapterStart(at=make.at(20), chapter=Chapter.HEALED),
        ],
        seen=make.seen_runs(5, transitions=(pending, *transitions)),
        received=notices,
        exposition="".join(f'{name}{{comparison="home-feed",x="y"}} 1.0\n' for name in GAUGES),
    )


def with_transitions(account: DemoRecord, *transitions: Any) -> DemoRecord:
    return replace(account, seen=replace(account.seen, transitions=transitions))


def test_the_expected_story_leaves_nothing_unmet(good: DemoRecord) -> None:
    assert {LOW, APART} == EXPECTED_ALERTS
    assert unmet_expectations(good) == ()


def test_an_alert_before_the_fault_is_named(good: DemoRecord, make: Any) -> None:
    early = with_transitions(good, starts(make, LOW, 9), *good.seen.transitions[2:])
    assert unmet_expectations(early) == ("SimilarityLow country=DE fired before the fault was let in.",)


def test_an_alert_that_never_fired_is_named(good: DemoRecord) -> None:
    without = with_transitions(good, *good.seen.transitions[3:])
    assert unmet_expectations(without) == ("SimilarityLow country=DE never fired.", "SimilarityLow country=DE never resolved.")


def test_a_story_that_never_came_to_the_repair_says_so(good: DemoRecord, make: Any) -> None:
    stuck = with_transitions(good, starts(make, LOW), starts(make, APART))
    stuck = replace(stuck, chapters=good.chapters[:2], received=[one for one in good.received if one.status == "firing"])
    assert unmet_expectations(stuck) == (
        "ManyUsersApart all never resolved, for it was never repaired.",
        "SimilarityLow country=DE never resolved, for it was never repaired.",
        "On-call was never notified that ManyUsersApart all is resolved.",
        "On-call was never notified that SimilarityLow country=DE is resolved.",
    )


def test_a_resolve_before_the_repair_is_named(good: DemoRecord, make: Any) -> None:
    early = with_transitions(good, starts(make, LOW), ends(make, LOW, 19), starts(make, APART), ends(make, APART))
    assert unmet_expectations(early) == ("SimilarityLow country=DE resolved before it was repaired.",)


def test_an_alert_that_fired_twice_is_named(good: DemoRecord, make: Any) -> None:
    twice = with_transitions(good, starts(make, LOW, 11), *good.seen.transitions)
    assert unmet_expectations(twice) == ("SimilarityLow country=DE fired 2 times instead of once.",)


def test_an_alert_elsewhere_is_named(good: DemoRecord, make: Any) -> None:
    more = with_transitions(good, *good.seen.transitions, starts(make, ("SimilarityLow", "country=FR")))
    assert unmet_expectations(more) == ("SimilarityLow country=FR fired, though nothing was wrong there.",)


def test_a_message_on_call_never_got_is_named(good: DemoRecord) -> None:
    assert unmet_expectations(replace(good, received=good.received[1:])) == (
        "On-call was never notified that SimilarityLow country=DE is firing.",
    )


def test_a_message_without_a_signature_is_counted(good: DemoRecord, make: Any) -> None:
    forged = ReceivedAlert(at=make.at(1), is_signed=False)
    assert unmet_expectations(replace(good, received=[*good.received, forged])) == (
        "1 messages reached on-call without a valid signature.",
    )


@pytest.mark.parametrize("gauge", GAUGES)
def test_a_gauge_that_is_not_on_the_page_is_named(good: DemoRecord, gauge: str) -> None:
    page = good.exposition.replace(gauge + "{", "something_else{")
    assert unmet_expectations(replace(good, exposition=page)) == (f"/metrics shows no {gauge} of home-feed.",)


def test_a_run_that_failed_is_named_with_its_reason(good: DemoRecord, make: Any) -> None:
    bad = make.run(9, status=RunStatus.FAILED, reason="the baseline is down")
    account = replace(good, seen=replace(good.seen, runs=(bad, *good.seen.runs)))
    assert unmet_expectations(account) == ("1 runs failed, the last for this reason: the baseline is down.",)


def test_a_run_that_reached_too_few_users_in_time_is_no_fault_of_the_story(good: DemoRecord, make: Any) -> None:
    slow = make.run(9, status=RunStatus.INSUFFICIENT, reason="only 100 of 300 users answered")
    assert unmet_expectations(replace(good, seen=replace(good.seen, runs=(slow, *good.seen.runs)))) == ()


def test_no_run_at_all_is_named(good: DemoRecord) -> None:
    assert unmet_expectations(replace(good, seen=replace(good.seen, runs=()))) == ("No run ended ok.",)


def test_it_is_over_once_healed_quiet_and_told_of_everything(good: DemoRecord, make: Any) -> None:
    told = tuple(LogNote(at=make.at(23), kind=NoteKind.NOTIFIED, text=str(number)) for number in range(4))
    over = make.status(scene=Scene(day=9, chapter=Chapter.HEALED), seen=good.seen, notes=told)
    assert is_over(over)
    assert not is_over(replace(over, scene=Scene(day=9, chapter=Chapter.BROKEN)))
    assert not is_over(replace(over, notes=told[1:]))
    assert not is_over(replace(over, seen=replace(good.seen, alerts=(make.alert(State.FIRING),))))
