"""What becomes of everything that is owed, cell by cell."""

from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from factories import SLOT, transition
from monitor.alerts import (
    Dispatch,
    MaintenanceWindow,
    Matcher,
    NotificationPolicy,
    Route,
    compose_messages,
    compose_repetitions,
)
from monitor.model import ALL, Delivery, DeliveryStatus, FiringSnapshot, Silence, State, Transition, Treatment

SENT, HELD, DROPPED = DeliveryStatus.PENDING, DeliveryStatus.HELD, DeliveryStatus.DROPPED
MINUTE = timedelta(minutes=1)
START = transition(incident="i")
ACKNOWLEDGEMENT = replace(START, from_state=State.FIRING, slot=SLOT + MINUTE, reason="acknowledged by anna")
END = replace(START, from_state=State.FIRING, to_state=State.QUIET, slot=SLOT + 2 * MINUTE)
KEY = START.dedup_key or ""
NEVER, ENDED = "its start was never sent", "it ended before its start was sent"


def owed(*changes: Transition, known: bool = False) -> list[Delivery]:
    numbers = count(1)
    return [
        Delivery(id=n, transition_id=n, receiver="chat", attempts=0, transition=change, may_be_known=known and change.is_start)
        for n, change in zip(numbers, changes, strict=False)
    ]


def decide(
    *changes: Transition,
    lasting: tuple[Transition, ...] = (START,),
    delivered: tuple[str, ...] = (),
    known: bool = False,
    policy: NotificationPolicy | None = None,
    silences: tuple[Silence, ...] = (),
    ungrouped: bool = False,
) -> list[tuple[DeliveryStatus, str | None]]:
    snapshot = FiringSnapshot(firing=lasting, delivered=frozenset(delivered), silences=silences)
    treatment = Treatment(is_ungrouped=ungrouped)
    dispatch = Dispatch(
        snapshot=snapshot, policy=policy or NotificationPolicy(), receiver="chat", treatment=treatment, now=SLOT
    )
    return [(each.status, each.reason) for each in dispatch.decide(owed(*changes, known=known))]


AGAIN = replace(START, dedup_key="again", slot=SLOT + 3 * MINUTE)
TOLD = {"delivered": (KEY,)}
OVER: dict[str, Any] = {"lasting": ()}
SEND = (SENT, None)


@pytest.mark.parametrize(
    ("changes", "known", "becomes"),
    [
        pytest.param((START,), {}, [SEND], id="start of what lasts"),
        pytest.param((START,), OVER, [(DROPPED, ENDED)], id="start of what is over"),
        pytest.param((START,), {"known": True}, [SEND], id="start of what lasts, perhaps told"),
        pytest.param((START, END), OVER, [(DROPPED, ENDED), (DROPPED, NEVER)], id="start and end never told"),
        pytest.param((START, END), {**OVER, "known": True}, [(DROPPED, ENDED), SEND], id="end whose start was perhaps told"),
        pytest.param((END,), {**OVER, **TOLD}, [SEND], id="end whose start was told"),
        pytest.param((END,), OVER, [(DROPPED, NEVER)], id="end whose start was never told"),
        pytest.param((END, AGAIN), {"lasting": (AGAIN,), **TOLD}, [SEND, SEND], id="end although it fires anew"),
        pytest.param((START, ACKNOWLEDGEMENT), {}, [SEND, SEND], id="acknowledgement with its start"),
        pytest.param((ACKNOWLEDGEMENT,), TOLD, [SEND], id="acknowledgement after its start"),
        pytest.param((ACKNOWLEDGEMENT,), {}, [(DROPPED, NEVER)], id="acknowledgement of what was never told"),
        pytest.param((ACKNOWLEDGEMENT,), {**OVER, **TOLD}, [(DROPPED, ENDED)], id="acknowledgement of what is over"),
    ],
)
def test_what_is_owed_is_sent_or_dropped(
    changes: tuple[Transition, ...], known: dict[str, Any], becomes: list[tuple[DeliveryStatus, str | None]]
) -> None:
    assert decide(*changes, **known) == becomes


SILENCE = Silence(
    id=3,
    matchers=("alert=SimilarityLow",),
    author="anna",
    comment="known",
    created_at=SLOT,
    starts_at=SLOT,
    ends_at=SLOT + MINUTE,
)
WINDOW = MaintenanceWindow(name="retraining", matchers=(Matcher.parse("team=ranking"),), ends_at=lambda _: SLOT + MINUTE)


@pytest.mark.parametrize(
    ("policy", "silences", "reason"),
    [
        (NotificationPolicy(), (SILENCE,), "silence 3 of anna until 2024-01-08 00:01 UTC: known"),
        (NotificationPolicy(windows=(WINDOW,)), (), "maintenance retraining until 2024-01-08 00:01 UTC"),
        (NotificationPolicy(muted=frozenset({("home-feed", "SimilarityLow")})), (), "dry run"),
    ],
    ids=["silence", "maintenance", "dry run"],
)
@pytest.mark.parametrize("ungrouped", [False, True])
def test_start_is_held_and_end_of_what_was_told_is_sent_all_the_same(
    policy: NotificationPolicy, silences: tuple[Silence, ...], reason: str, *, ungrouped: bool
) -> None:
    assert decide(START, policy=policy, silences=silences, ungrouped=ungrouped) == [(HELD, reason)]
    assert decide(END, lasting=(), delivered=(KEY,), policy=policy, silences=silences) == [(SENT, None)]
    assert decide(START, END, lasting=(), policy=policy, silences=silences)[1] == (DROPPED, NEVER)


def test_silences_hold_only_in_their_time_and_what_all_their_matchers_match() -> None:
    for other in (
        replace(SILENCE, ends_at=SLOT),
        replace(SILENCE, starts_at=SLOT + MINUTE),
        replace(SILENCE, matchers=("alert=SimilarityLow", "segment=country=UK")),
        replace(SILENCE, matchers=("segment=~(",)),  # cannot be read
    ):
        assert decide(START, silences=(other,)) == [(SENT, None)]


def condition(statistic: str) -> Transition:
    return transition(alert="NoData", metric="condition", statistic=statistic, dedup_key="condition")


@pytest.mark.parametrize(
    ("statistic", "status"), [("error", HELD), ("no_data", HELD), ("stale", HELD), ("too_few", SENT)], ids=str
)
def test_drift_is_held_while_nothing_can_be_said_of_it(statistic: str, status: DeliveryStatus) -> None:
    firing = condition(statistic)
    assert decide(START, lasting=(START, firing))[0][0] is status
    assert decide(firing, lasting=(START, firing)) == [(SENT, None)]
    assert decide(START, lasting=(START, firing), ungrouped=True) == [(SENT, None)]


@pytest.mark.parametrize(("segment", "status"), [(ALL, HELD), ("country=UK", HELD), ("country=FR", SENT)], ids=str)
def test_a_condition_of_one_segment_holds_back_drift_of_that_one_only(segment: str, status: DeliveryStatus) -> None:
    drift = replace(START, segment="country=UK")
    assert [found for found, _ in decide(drift, lasting=(drift, replace(condition("no_data"), segment=segment)))] == [status]
    assert decide(START, lasting=(START, replace(condition("no_data"), segment="country=UK"))) == [(SENT, None)]


def test_a_condition_whose_rule_is_muted_holds_nothing_back() -> None:
    muted = NotificationPolicy(muted=frozenset({("home-feed", "NoData")}))
    assert decide(START, lasting=(START, condition("error")), policy=muted) == [(SENT, None)]


SEGMENT = replace(START, segment="country=UK", dedup_key="uk", slot=SLOT + MINUTE)


def test_segment_is_held_while_all_users_were_told_of_in_an_earlier_run() -> None:
    ((status, reason),) = decide(SEGMENT, lasting=(START, SEGMENT), delivered=(KEY,))
    assert (status, reason) == (HELD, "SimilarityLow fires for all users, which includes this segment")
    assert decide(SEGMENT, lasting=(START, SEGMENT), delivered=(KEY,), ungrouped=True) == [(SENT, None)]


def test_segment_that_begins_with_all_users_is_told_with_them() -> None:
    together = replace(SEGMENT, slot=SLOT)
    assert decide(together, START, lasting=(START, together)) == [(SENT, None), (SENT, None)]


def test_segment_is_told_when_all_users_were_not_told_of_or_another_rule_fires_for_them() -> None:
    assert decide(SEGMENT, lasting=(START, SEGMENT)) == [(SENT, None)]
    other = replace(START, alert="Other")
    assert decide(SEGMENT, lasting=(other, SEGMENT), delivered=(KEY,)) == [(SENT, None)]


def test_end_of_a_segment_waits_for_that_of_all_users() -> None:
    end = replace(END, segment="country=UK", dedup_key="uk")
    ((status, reason),) = decide(end, lasting=(START,), delivered=(KEY, "uk"))
    assert (status, reason) == (HELD, "waits for the end of SimilarityLow for all users")
    assert decide(end, END, lasting=(), delivered=(KEY, "uk")) == [(SENT, None), (SENT, None)]
    assert decide(end, lasting=(START,), delivered=(KEY, "uk"), ungrouped=True) == [(SENT, None)]


def routed(*routes: tuple[str, set[str], bool]) -> NotificationPolicy:
    return NotificationPolicy(
        routes=tuple(
            Route(matchers=(Matcher.parse(text),), receivers=frozenset(names), goes_on=goes_on)
            for text, names, goes_on in routes
        )
    )


@pytest.mark.parametrize(
    ("policy", "is_told"),
    [
        (NotificationPolicy(), True),
        (routed(("severity=critical", {"chat"}, False)), True),
        (routed(("severity=critical", {"pager"}, False)), False),
        (routed(("severity=critical", {"pager"}, False), ("team=ranking", {"chat"}, False)), False),
        (routed(("severity=critical", {"pager"}, True), ("team=ranking", {"chat"}, False)), True),
        (routed(("severity=info", {"pager"}, False)), True),
    ],
    ids=["no routes", "routed here", "elsewhere", "first match decides", "first match goes on", "no match tells all"],
)
def test_routes_choose_who_is_told_and_nothing_falls_between_them(policy: NotificationPolicy, *, is_told: bool) -> None:
    assert decide(START, policy=policy) == [(SENT, None) if is_told else (DROPPED, "routed to other receivers")]
    assert decide(END, lasting=(), delivered=(KEY,), policy=policy) == [(SENT, None)]  # who was told hears of the end


def test_one_message_an_incident_with_what_fires_of_it() -> None:
    other = replace(START, severity=START.severity, dedup_key="other", incident="j", alert="Other")
    situation = FiringSnapshot(firing=(START, SEGMENT, other), delivered=frozenset({"uk"}))
    first, second = compose_messages([START, other], situation)
    assert (first.incident, first.changes, first.firing) == ("i", (START,), (START, SEGMENT))
    assert (second.incident, second.changes, second.firing) == ("j", (other,), (other,))


def test_an_incident_is_resolved_with_its_last_firing() -> None:
    end = replace(END, segment="country=UK", dedup_key="uk")
    (partly,) = compose_messages([end], FiringSnapshot(firing=(START,), delivered=frozenset({KEY, "uk"})))
    (wholly,) = compose_messages([END], FiringSnapshot(firing=(), delivered=frozenset({KEY, "uk"})))
    assert (partly.status, wholly.status) == ("firing", "resolved")


def test_repetitions_tell_what_lasts_by_incident() -> None:
    other = replace(START, dedup_key="other", incident="j")
    first, second = compose_repetitions([START, other, SEGMENT])
    assert (first.firing, first.changes, first.is_repetition, first.status) == ((START, SEGMENT), (), True, "firing")
    assert second.firing == (other,)


def test_what_was_stored_before_there_were_incidents_is_one_of_its_own() -> None:
    old = replace(START, incident=None)
    (message,) = compose_messages([old], FiringSnapshot(firing=(old,), delivered=frozenset()))
    assert (message.incident, message.firing, old.segment) == (KEY, (old,), ALL)
