"""What makes on-call miss a drop, or hear of it twice: the corners of telling, each with the receiver's side looked at."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from factories import SLOT, HeldClock, comparison, rule
from monitor.alerts import Matcher, NotificationPolicy, Route, retire_alerts
from monitor.errors import DeliveryError
from monitor.model import MessageStatus, Severity, Transition, Treatment
from monitor.pipeline.delivery import RECHECK_AFTER
from monitor.storage import SqlStore
from pipeline.outbox_process import store_run
from pipeline.test_delivery import (
    DAY,
    DOWN,
    EACH,
    REFUSED,
    SEGMENTS,
    SILENT,
    FakeReceiver,
    deliver,
    outlet,
    owed,
    silenced,
)

HOUR = timedelta(hours=1)
ONLY_PAGER = (Route(matchers=(), receivers=frozenset({"pager"})),)
ALERT = "SimilarityLow"


@pytest.mark.parametrize("is_dropped_before", [True, False])
def test_whoever_stands_in_is_told_although_no_route_names_them(store: SqlStore, is_dropped_before: bool) -> None:
    clock, pager, mail = HeldClock(), FakeReceiver("pager", errors=[REFUSED]), FakeReceiver("mail")
    policy = NotificationPolicy(routes=ONLY_PAGER, fallbacks={"pager": "mail"})
    store_run(store, 0.1, to=("pager", "mail"))
    for receiver in (mail, pager) if is_dropped_before else (pager, mail):
        deliver(store, receiver, clock, policy=policy)
    deliver(store, mail, clock, policy=policy)
    store_run(store, 0.9, slot=SLOT + DAY)
    clock.at += DAY
    for receiver in (pager, mail):
        deliver(store, receiver, clock, policy=policy)
    assert (pager.segments, mail.segments) == ([], [("starts", "all"), ("ends", "all")])


def test_of_receivers_that_stand_in_for_each_other_each_is_tried_once(store: SqlStore) -> None:
    clock, pager, mail = HeldClock(), FakeReceiver("pager", errors=[REFUSED] * 9), FakeReceiver("mail", errors=[REFUSED] * 9)
    policy = NotificationPolicy(routes=ONLY_PAGER, fallbacks={"pager": "mail", "mail": "pager"})
    store_run(store, 0.1, to=("pager", "mail"))
    for _ in range(3):
        deliver(store, mail, clock, policy=policy)
        deliver(store, pager, clock, policy=policy)
    assert (pager.batches, mail.batches) == ([1], [1])


def test_what_waits_behind_more_than_a_claim_that_is_held_is_told_and_the_look_ends(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.pipeline.delivery._CLAIMED", 20)
    clock, receiver = HeldClock(), FakeReceiver(treatment=Treatment(is_ungrouped=True))
    silenced(store, "segment=~a=.*")
    many = tuple(f"a={n:04d}" for n in range(30))
    store_run(store, 0.1, watched=EACH, segments=("all", *many))
    store_run(store, 0.1, watched=EACH, segments=("all", *many, "b=1"), slot=SLOT + HOUR)
    looks = iter(range(8))
    deliver(store, receiver, clock, should_stop=lambda: next(looks, None) is None)
    assert receiver.segments == [("starts", "all"), ("starts", "b=1")]
    assert next(looks, None) is not None


def test_who_died_in_telling_of_one_comparison_holds_up_no_other(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver()
    store_run(store, 0.1, watched=EACH)
    store.outbox.claim_deliveries("fake", owner="dead", now=clock.at, until=clock.at + HOUR / 12, limit=10)
    store_run(store, 0.1, watched=EACH, segments=SEGMENTS, slot=SLOT + timedelta(minutes=1))
    store_run(store, 0.1, watched=replace(EACH, name="search"), slot=SLOT + timedelta(minutes=2))
    clock.pass_by(180)
    deliver(store, receiver, clock)
    assert [change.comparison for change in receiver.told] == ["search"]


def test_it_stops_between_two_messages_and_the_rest_is_not_left_leased(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver()
    two = comparison(rules=(rule(for_runs=1), rule(alert="Other", for_runs=1, severity=Severity.WARNING)))
    store_run(store, 0.1, watched=two)
    assert deliver(store, receiver, clock, should_stop=lambda: len(receiver.sent) > 0).sent == 1
    assert deliver(store, receiver, clock, owner="another").sent == 1


def acknowledge(store: SqlStore, at: datetime, *segments: str) -> None:
    alerts = [(ALERT, segment) for segment in segments]
    assert store.alerts.acknowledge("home-feed", alerts, author="anna", reason="acknowledged by anna", at=at)


def test_an_acknowledgement_of_a_part_does_not_read_as_one_of_the_whole_incident(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver()
    store_run(store, 0.1, watched=EACH, segments=SEGMENTS)
    deliver(store, receiver, clock)
    for segments, status in ((("a=1",), MessageStatus.FIRING), (("all", "a=2"), MessageStatus.ACKNOWLEDGED)):
        clock.pass_by(60)
        acknowledge(store, clock.at, *segments)
        deliver(store, receiver, clock)
        assert receiver.sent[-1].status is status


def test_an_acknowledgement_follows_in_its_own_message_what_it_would_be_lost_behind(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver(errors=[SILENT])
    store_run(store, 0.1)
    deliver(store, receiver, clock)
    clock.pass_by(60)
    acknowledge(store, clock.at, "all")
    deliver(store, receiver, clock)
    assert [message.status for message in receiver.sent] == [MessageStatus.FIRING, MessageStatus.ACKNOWLEDGED]


def test_nobody_is_woken_for_what_somebody_looks_after_by_then(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver(errors=[DOWN])
    store_run(store, 0.1)
    deliver(store, receiver, clock)
    clock.pass_by(60)
    acknowledge(store, clock.at, "all")
    deliver(store, receiver, clock)
    assert (receiver.sent, store.outbox.held(clock.now())["fake"][0]) == ([], 1)
    store_run(store, 0.9, slot=SLOT + DAY)
    clock.at += DAY
    assert deliver(store, receiver, clock).dropped == 2


def test_segments_are_told_when_the_telling_of_all_users_that_may_have_arrived_is_given_up(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver(errors=[SILENT, REFUSED])
    store_run(store, 0.1, watched=EACH)
    for _ in range(2):
        deliver(store, receiver, clock)
        clock.pass_by(60)
    store_run(store, 0.1, watched=EACH, segments=SEGMENTS, slot=SLOT + HOUR)
    clock.at += HOUR
    deliver(store, receiver, clock)
    assert receiver.segments == [("starts", "a=1"), ("starts", "a=2")]


def test_a_start_that_was_given_up_is_tried_again_after_a_restart_although_it_may_have_arrived(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver(errors=[SILENT, REFUSED])
    store_run(store, 0.1)
    for _ in range(2):
        deliver(store, receiver, clock)
        clock.pass_by(60)
    assert store.outbox.retry_refused(clock.now(), receivers=["fake"]) == 1
    deliver(store, receiver, clock)
    assert receiver.segments == [("starts", "all")]


def test_an_end_that_was_refused_is_tried_again_after_a_restart_for_a_day(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver()
    store_run(store, 0.1)
    deliver(store, receiver, clock)
    store_run(store, 0.9, slot=SLOT + HOUR)
    clock.at += HOUR
    receiver.errors = [REFUSED]
    assert deliver(store, receiver, clock).dead == 1
    assert store.outbox.retry_refused(clock.now() + 2 * DAY, receivers=["fake"]) == 0
    assert store.outbox.retry_refused(clock.now(), receivers=["fake"]) == 1
    deliver(store, receiver, clock)
    assert receiver.segments == [("starts", "all"), ("ends", "all")]


def test_an_end_carries_the_labels_under_which_its_start_is_known(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver(treatment=Treatment(is_ungrouped=True))
    before, after = (comparison(rules=(rule(for_runs=1, labels={"team": team}),)) for team in ("search", "ranking"))
    store_run(store, 0.1, watched=before)
    deliver(store, receiver, clock)
    store_run(store, 0.9, watched=after, slot=SLOT + HOUR)
    clock.at += HOUR
    deliver(store, receiver, clock)
    assert [change.labels for change in receiver.told] == [{"team": "search"}] * 2


def repeating(store: SqlStore, clock: HeldClock, **options: Any) -> Any:
    return outlet(store, FakeReceiver(treatment=Treatment(repeat_every_s=3600)), clock, **options)


def test_a_repetition_that_is_refused_for_good_is_not_tried_again_before_its_time(store: SqlStore) -> None:
    clock = HeldClock()
    told = repeating(store, clock)
    store_run(store, 0.1)
    told.deliver_due()
    clock.pass_by(3600)
    told.receiver.errors = [REFUSED]
    with pytest.raises(DeliveryError):
        told.repeat_due()
    clock.pass_by(60)
    assert told.repeat_due() == 0
    clock.pass_by(3600)
    assert told.repeat_due() == 1


def test_a_repetition_waits_as_long_as_its_receiver_asks(store: SqlStore) -> None:
    clock = HeldClock()
    told = repeating(store, clock)
    store_run(store, 0.1)
    told.deliver_due()
    clock.pass_by(3600)
    told.receiver.errors = [DeliveryError("busy", permanent=False, retry_after_s=300)]
    with pytest.raises(DeliveryError):
        told.repeat_due()
    clock.pass_by(290)
    assert told.repeat_due() == 0
    clock.pass_by(60)
    assert told.repeat_due() == 1


def test_who_is_no_longer_named_by_a_route_is_not_reminded_but_told_the_end(store: SqlStore) -> None:
    clock = HeldClock()
    told = repeating(store, clock)
    store_run(store, 0.1)
    told.deliver_due()
    told = replace(told, policy=NotificationPolicy(routes=ONLY_PAGER))
    clock.pass_by(3600)
    assert told.repeat_due() == 0
    store_run(store, 0.9, slot=SLOT + DAY)
    clock.at += DAY
    assert told.deliver_due().sent == 1


def test_routes_that_change_while_something_fires_tell_the_new_one_and_end_it_for_both(store: SqlStore) -> None:
    clock, pager, chat = HeldClock(), FakeReceiver("pager"), FakeReceiver("chat")
    names = ("pager", "chat")
    store_run(store, 0.1, to=names)
    to_chat = NotificationPolicy(routes=(Route(matchers=(Matcher.parse("severity=critical"),), receivers=frozenset({"chat"})),))
    for policy in (NotificationPolicy(routes=ONLY_PAGER), to_chat):
        store.outbox.retry_refused(clock.now(), receivers=names)
        for receiver in (pager, chat):
            deliver(store, receiver, clock, policy=policy)
    store_run(store, 0.9, slot=SLOT + DAY)
    clock.at += DAY
    for receiver in (pager, chat):
        deliver(store, receiver, clock, policy=to_chat)
    assert pager.segments == chat.segments == [("starts", "all"), ("ends", "all")]


@pytest.mark.parametrize("before", ["untold", "held", "leased", "refused"])
def test_a_clock_set_back_by_hours_puts_nothing_off(store: SqlStore, before: str) -> None:
    ahead = HeldClock(SLOT + 6 * HOUR)
    receiver = FakeReceiver(errors=[DOWN] if before == "refused" else [])
    if before == "untold":
        store_run(store, 0.1, slot=ahead.at)
    else:
        store_run(store, 0.1)
    silence = silenced(store, "segment=all") if before == "held" else None
    if before == "leased":
        assert store.outbox.claim_deliveries("fake", owner="dead", now=ahead.at, until=ahead.at + RECHECK_AFTER, limit=10)
    elif before != "untold":
        deliver(store, receiver, ahead)
    if silence:
        store.alerts.expire_silence(silence.id, now=SLOT + timedelta(seconds=1))
    clock = HeldClock(SLOT + timedelta(minutes=1))
    assert deliver(store, receiver, clock).sent == 1


def test_an_alert_that_fires_again_in_the_slot_in_which_it_fired_before_is_told_as_new(store: SqlStore) -> None:
    """A rule that was removed and put back, its slot run again: so does a clock that was set back."""
    clock, receiver = HeldClock(), FakeReceiver()
    store_run(store, 0.1)
    deliver(store, receiver, clock)
    ends = retire_alerts(store.alerts.states(), store.alerts.firing(), [comparison(rules=())], at=SLOT + timedelta(minutes=1))
    store.alerts.retire(ends, receivers=("fake",))
    run_again(store, 0.1)
    clock.pass_by(120)
    deliver(store, receiver, clock)
    assert receiver.segments == [("starts", "all"), ("ends", "all"), ("starts", "all")]
    first, end, second = receiver.told
    assert first.dedup_key == end.dedup_key != second.dedup_key
    assert [state.dedup_key for state in store.alerts.states("home-feed")] == [second.dedup_key]
    assert (owed(store, clock), len(store.alerts.firing())) == (0, 1)


def run_again(store: SqlStore, mean: float) -> tuple[Transition, ...]:
    return store_run(store, mean, rerun=True)
