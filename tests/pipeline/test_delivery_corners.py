"""What makes on-call miss a drop, or hear of it twice: the corners of telling, each with the receiver's side looked at."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from factories import DAY, HOUR, MINUTE, SLOT, HeldClock, comparison, rule
from messages import explanation, message, start
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.alerts.state_machine import retire_alerts
from monitor.model.errors import DeliveryError
from monitor.model.explanation import FaultKind, Finding
from monitor.model.notifications import Briefing, MessageStatus, Treatment, Updates
from monitor.model.rankings import Arm
from monitor.pipeline.briefings import brief_message
from monitor.pipeline.delivery import RECHECK_AFTER
from monitor.pipeline.retry_times import next_notification_at
from monitor.service.daemon.delivery_turns import DeliveryTurns
from monitor.settings.configuration import RouteOptions
from pipeline.test_delivery import (
    BUSY,
    DOWN,
    EACH,
    ENDS,
    REFUSED,
    SEGMENTS,
    SILENT,
    STARTS,
    FakeReceiver,
    scene,
)
from tables import parsed

__all__ = ["scene"]

ONLY_PAGER = (RouteOptions(receivers=["pager"]),)  # type: ignore[arg-type]


@pytest.mark.parametrize(("routes", "order"), [((), "pm"), (ONLY_PAGER, "pm"), (ONLY_PAGER, "mp")])
def test_whoever_stands_in_is_told_of_the_firing_and_its_end_although_no_route_names_them(
    scene, routes, order
):
    pager, mail = FakeReceiver("pager", errors=[REFUSED]), FakeReceiver("mail")
    scene.policy = NotificationPolicy(routes=routes, fallbacks={"pager": "mail"})
    scene.fire(to=("pager", "mail") if routes else ("pager",))
    scene.deliver(*({"p": pager, "m": mail}[each] for each in order), mail)
    scene.end(DAY)
    scene.deliver(pager, mail)
    assert (pager.segments, mail.segments) == ([], [STARTS, ENDS])


def test_of_receivers_that_stand_in_for_each_other_each_is_tried_once(scene):
    pager, mail = (
        FakeReceiver("pager", errors=[REFUSED] * 9),
        FakeReceiver("mail", errors=[REFUSED] * 9),
    )
    scene.policy = NotificationPolicy(
        routes=ONLY_PAGER, fallbacks={"pager": "mail", "mail": "pager"}
    )
    scene.fire(to=("pager", "mail"))
    scene.deliver(*[mail, pager] * 3)
    assert (pager.batches, mail.batches) == ([1], [1])


def test_what_waits_behind_more_than_a_claim_that_is_held_is_told_and_the_look_ends(
    scene, monkeypatch
):
    monkeypatch.setattr("monitor.pipeline.delivery._CLAIMED", 20)
    scene.receiver.treatment = Treatment(updates=Updates.EACH)
    scene.silence("segment=~a=.*")
    many = tuple(f"a={n:04d}" for n in range(30))
    scene.fire(segments=("all", *many))
    scene.fire(HOUR, segments=("all", *many, "b=1"))
    looks = iter(range(8))
    scene.deliver(should_stop=lambda: next(looks, None) is None)
    assert scene.receiver.segments == [STARTS, ("starts", "b=1")]
    assert next(looks, None) is not None


def test_an_acknowledgement_of_a_part_does_not_read_as_one_of_the_whole_incident(scene):
    scene.fire(segments=SEGMENTS)
    scene.deliver()
    for segments, status in (
        (("a=1",), MessageStatus.FIRING),
        (("all", "a=2"), MessageStatus.ACKNOWLEDGED),
    ):
        scene.clock.pass_by(60)
        scene.acknowledge(*segments)
        scene.deliver()
        assert scene.receiver.sent[-1].status is status


@pytest.mark.parametrize("stops", [False, True])
def test_an_acknowledgement_follows_what_it_would_be_lost_behind_and_is_not_left_claimed_by_who_stops_between_the_two(
    scene, stops
):
    scene.receiver.errors = [SILENT]
    scene.fire()
    scene.deliver()
    scene.clock.pass_by(60)
    scene.acknowledge("all")
    assert scene.deliver(should_stop=lambda: stops and len(scene.receiver.sent) > 0).sent == (
        1 if stops else 2
    )
    assert scene.deliver(owner="another").sent == (1 if stops else 0)
    assert [message.status for message in scene.receiver.sent] == [
        MessageStatus.FIRING,
        MessageStatus.ACKNOWLEDGED,
    ]


def test_nobody_is_woken_for_what_somebody_looks_after_by_then(scene):
    scene.receiver.errors = [DOWN]
    scene.fire()
    scene.deliver()
    scene.clock.pass_by(60)
    scene.acknowledge("all")
    scene.deliver()
    assert (scene.receiver.sent, scene.held()) == ([], 1)
    scene.end(DAY)
    assert scene.deliver().dropped == 2


def test_segments_are_told_when_the_telling_of_all_users_that_may_have_arrived_is_given_up(scene):
    scene.receiver.errors = [SILENT, REFUSED]
    scene.fire()
    scene.deliver()
    scene.deliver(after=MINUTE)
    scene.fire(HOUR, segments=SEGMENTS)
    scene.deliver()
    assert scene.receiver.segments == [("starts", "a=1"), ("starts", "a=2")]


def test_an_end_carries_the_labels_under_which_its_start_is_known(scene):
    before, after = (
        comparison(rules=(rule(for_runs=1, labels={"team": team}),))
        for team in ("search", "ranking")
    )
    scene.fire(watched=before)
    scene.deliver()
    scene.end(HOUR, watched=after)
    scene.deliver()
    assert [change.labels for change in scene.receiver.told] == [{"team": "search"}] * 2


def test_a_repetition_that_failed_waits_for_its_time_or_as_long_as_its_receiver_asks(scene):
    scene.receiver.treatment = Treatment(repeat_every_s=3600)
    scene.fire()
    scene.deliver()
    told = scene.outlet()
    for error, too_soon_s, later_s in ((REFUSED, 60, 3600), (BUSY, 115, 60)):
        scene.clock.pass_by(3600)
        scene.receiver.errors = [error]
        with pytest.raises(DeliveryError):
            told.repeat_due()
        scene.clock.pass_by(too_soon_s)
        assert told.repeat_due() == 0
        scene.clock.pass_by(later_s)
        assert told.repeat_due() == 1
    assert scene.publisher.counts["fake", "sent"] == 3


def test_who_is_no_longer_named_by_a_route_is_not_reminded_but_told_the_end(scene):
    scene.receiver.treatment = Treatment(repeat_every_s=3600)
    scene.fire()
    scene.deliver()
    scene.policy = NotificationPolicy(routes=ONLY_PAGER)
    scene.clock.pass_by(3600)
    assert scene.outlet().repeat_due() == 0
    scene.end(DAY)
    assert scene.deliver().sent == 1


def test_routes_that_change_while_something_fires_tell_the_new_one_and_end_it_for_both(scene):
    pager, chat = FakeReceiver("pager"), FakeReceiver("chat")
    scene.fire(to=("pager", "chat"))
    for routes in (ONLY_PAGER, (RouteOptions(receivers=["chat"]),)):  # type: ignore[arg-type]
        scene.policy = NotificationPolicy(routes=routes)
        scene.retry_refused("pager", "chat")
        scene.deliver(pager, chat)
    scene.end(DAY)
    scene.deliver(pager, chat)
    assert pager.segments == chat.segments == [STARTS, ENDS]


@pytest.mark.parametrize("before", ["untold", "held", "leased", "refused"])
def test_a_clock_set_back_by_hours_puts_nothing_off(scene, before):
    scene.fire(6 * HOUR if before == "untold" else 0 * HOUR)
    scene.clock.at = SLOT + 6 * HOUR
    silence = scene.silence("segment=all") if before == "held" else None
    if before == "leased":
        assert scene.lease(RECHECK_AFTER)
    elif before != "untold":
        scene.receiver.errors = [DOWN] if before == "refused" else []
        scene.deliver()
    if silence:
        scene.store.alerts.expire_silence(silence.id, now=SLOT + MINUTE / 60)
    scene.clock = HeldClock(SLOT + MINUTE)
    assert scene.deliver().sent == 1


def test_an_alert_that_fires_again_in_the_slot_in_which_it_fired_before_goes_on_and_ends_once(
    scene,
):
    """A rule that was removed and put back, its slot run again: so does a clock that was set back."""
    scene.fire()
    scene.deliver()
    alerts = scene.store.alerts
    ends = retire_alerts(alerts.states(), alerts.firing(), [comparison(rules=())], at=SLOT + MINUTE)
    alerts.retire(ends, receivers=("fake",))
    scene.fire()
    scene.deliver(after=2 * MINUTE)
    assert (scene.receiver.segments, scene.held(), len(alerts.firing())) == ([STARTS], 0, 1)
    scene.end(DAY)
    scene.deliver()
    first, end, second = scene.receiver.told
    assert scene.receiver.segments == [STARTS, ENDS, ENDS]
    assert first.dedup_key == end.dedup_key != second.dedup_key
    assert (scene.receiver.sent[1].status, scene.owed()) == ("resolved", 0)


def test_the_next_attempt_is_so_many_seconds_away():
    for attempts, draw, asked, seconds in parsed("""
        [5, 0.5, null, 32.0]
        [8, 0.5, null, 150.0]
        [10000, 0.5, null, 150.0]
        [0, 0.0, null, 0.0]
        [0, 0.0, 86400.0, 3600.0]
        [0, 0.0, -5.0, 0.0]
    """):
        again = next_notification_at(attempts, now=SLOT, draw=draw, retry_after_s=asked)
        assert (again - SLOT).total_seconds() == pytest.approx(seconds)


def test_a_receiver_that_asks_for_a_pause_is_told_nothing_at_all_until_it_is_over(scene):
    scene.receiver = FakeReceiver(errors=[BUSY], treatment=Treatment(resend_every_s=1))
    turns = DeliveryTurns(sender=scene.outlet())
    scene.fire()
    turns.take()
    scene.fire(watched=replace(EACH, name="search"))
    scene.clock.pass_by(119)
    turns.take()
    assert scene.receiver.sent == []
    scene.clock.pass_by(DAY.total_seconds())
    turns.take()
    assert {change.comparison for change in scene.receiver.told} == {"home-feed", "search"}


def test_what_lasts_is_told_again_in_the_turn_in_which_it_is_due(scene):
    scene.receiver.treatment = Treatment(resend_every_s=60)
    turns = DeliveryTurns(sender=scene.outlet())
    scene.fire()
    for _ in range(3):
        turns.take()
        scene.clock.pass_by(30)
    assert [message.is_repetition for message in scene.receiver.sent] == [False, True, True]


def test_a_message_whose_run_found_no_cause_has_the_newest_one_of_its_incident():
    slots = [SLOT + number * HOUR for number in range(4)]
    finding = Finding(
        kind=FaultKind.NOISE,
        arms=(Arm.CANDIDATE,),
        segment="all",
        segment_share=1.0,
        users=9,
        compared=9,
    )
    causes = {slots[0]: ("old", finding), slots[1]: ("new", finding), slots[2]: ("vague", None)}
    briefings = {
        slot: Briefing(explanation=explanation(sentence=sentence, finding=found))
        for slot, (sentence, found) in causes.items()
    }
    outbox = SimpleNamespace(briefing=lambda _, slot: briefings.get(slot, Briefing()))
    starts = [start(slot=slot, dedup_key=str(slot)) for slot in slots]
    for number, known in ((0, None), (1, None), (2, "new"), (3, "new")):
        sent = message(starts[number], firing=tuple(starts[: number + 1]))
        told = brief_message(sent, outbox, NotificationPolicy()).briefing
        assert told is not None
        cause = told.known_cause
        assert (cause and (cause.slot, cause.sentence)) == (known and (slots[1], known))
