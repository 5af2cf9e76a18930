"""Rare cases in which on-call could miss a drop or get it twice, from the view of the receiver."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from factories import DAY, HOUR, MINUTE, SLOT, HeldClock, comparison, rule
from messages import explanation, message, repetition, start
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.alerts.state_machine import retire_alerts
from monitor.model.errors import DeliveryError
from monitor.model.explanation import FaultKind
from monitor.model.notifications import Briefing, Treatment, Updates
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
from texts.examples import found

__all__ = ["scene"]

ONLY_PAGER = (RouteOptions(receivers=["pager"]),)  # type: ignore[arg-type]


@pytest.mark.parametrize("routes, order", [((), "pm"), (ONLY_PAGER, "pm"), (ONLY_PAGER, "mp")])
def test_the_fallback_receiver_gets_the_start_and_the_end_even_if_no_route_names_it(
    scene, routes, order
):
    pager = FakeReceiver("pager", errors=[REFUSED])
    mail = FakeReceiver("mail")
    scene.policy = NotificationPolicy(routes=routes, fallbacks={"pager": "mail"})
    scene.fire(to=("pager", "mail") if routes else ("pager",))
    scene.deliver(*({"p": pager, "m": mail}[each] for each in order), mail)
    scene.end(DAY)
    scene.deliver(pager, mail)
    assert not pager.segments
    assert mail.segments == [STARTS, ENDS]


def test_receivers_that_are_fallbacks_of_each_other_are_tried_once_each(scene):
    names = ("pager", "mail")
    pager, mail = (FakeReceiver(name, errors=[REFUSED] * 9) for name in names)
    fallbacks = {"pager": "mail", "mail": "pager"}
    scene.policy = NotificationPolicy(routes=ONLY_PAGER, fallbacks=fallbacks)
    scene.fire(to=names)
    scene.deliver(*[mail, pager] * 3)
    assert pager.batches == mail.batches == [1]


def test_deliveries_behind_many_suppressed_ones_are_sent_and_the_search_ends(scene, monkeypatch):
    monkeypatch.setattr("monitor.pipeline.delivery._MOST_CLAIMED", 20)
    scene.receiver.treatment = Treatment(updates=Updates.EACH)
    scene.silence("segment=~a=.*")
    many = tuple(f"a={n:04d}" for n in range(30))
    scene.fire(segments=("all", *many))
    scene.fire(HOUR, segments=("all", *many, "b=1"))
    looks = iter(range(8))
    scene.deliver(should_stop=lambda: next(looks, None) is None)
    assert scene.receiver.segments == [STARTS, ("starts", "b=1")]
    assert next(looks, None) is not None


def test_acknowledging_a_part_does_not_show_the_whole_incident_as_acknowledged(scene):
    scene.fire_and_deliver(segments=SEGMENTS)
    for segments, status in ((["a=1"], "firing"), (["all", "a=2"], "acknowledged")):
        scene.wait(MINUTE)
        scene.acknowledge(*segments)
        scene.deliver()
        assert scene.receiver.sent[-1].status == status


@pytest.mark.parametrize("stops", [False, True])
def test_an_acknowledgement_is_sent_after_its_start_and_is_released_if_the_sender_stops_between_them(
    scene, stops
):
    scene.receiver.errors = [SILENT]
    scene.fire_and_deliver()
    scene.wait(MINUTE)
    scene.acknowledge("all")
    sent = scene.receiver.sent
    assert scene.deliver(should_stop=lambda: stops and len(sent) > 0).sent == 2 - stops
    assert scene.deliver(owner="another").sent == stops
    assert [message.status for message in sent] == ["firing", "acknowledged"]


def test_an_alert_that_was_acknowledged_before_it_was_sent_wakes_nobody(scene):
    scene.receiver.errors = [DOWN]
    scene.fire_and_deliver()
    scene.wait(MINUTE)
    scene.acknowledge("all")
    scene.deliver()
    assert not scene.receiver.sent
    assert scene.held() == 1
    scene.end(DAY)
    assert scene.deliver().dropped == 2


def test_segments_are_sent_if_the_alert_of_all_users_was_rejected_after_it_may_have_arrived(scene):
    scene.receiver.errors = [SILENT, REFUSED]
    scene.fire_and_deliver()
    scene.deliver(after=MINUTE)
    scene.fire_and_deliver(HOUR, segments=SEGMENTS)
    assert scene.receiver.segments == [("starts", "a=1"), ("starts", "a=2")]


def test_an_end_has_the_labels_of_its_start(scene):
    before, after = (
        comparison(rules=(rule(for_runs=1, labels={"team": team}),))
        for team in ("search", "ranking")
    )
    scene.fire_and_deliver(watched=before)
    scene.end_and_deliver(HOUR, watched=after)
    assert [change.labels for change in scene.receiver.changes] == [{"team": "search"}] * 2


def test_a_failed_repetition_waits_for_its_interval_or_as_long_as_the_receiver_asks(scene):
    scene.receiver.treatment = Treatment(repeat_every_s=3600)
    scene.fire_and_deliver()
    sender = scene.open_sender()
    for error, too_soon_s, later_s in ((REFUSED, 60, 3600), (BUSY, 115, 60)):
        scene.wait(HOUR)
        scene.receiver.errors = [error]
        with pytest.raises(DeliveryError):
            sender.repeat_due()
        scene.clock.pass_by(too_soon_s)
        assert sender.repeat_due() == 0
        scene.clock.pass_by(later_s)
        assert sender.repeat_due() == 1
    assert scene.publisher.counts["fake", "sent"] == 3


def test_a_receiver_that_no_route_names_any_more_gets_the_end_but_no_repetition(scene):
    scene.receiver.treatment = Treatment(repeat_every_s=3600)
    scene.fire_and_deliver()
    scene.policy = NotificationPolicy(routes=ONLY_PAGER)
    scene.wait(HOUR)
    assert scene.open_sender().repeat_due() == 0
    scene.end(DAY)
    assert scene.deliver().sent == 1


def test_if_routes_change_during_an_alert_the_new_receiver_gets_its_start_and_both_get_its_end(
    scene,
):
    pager = FakeReceiver("pager")
    chat = FakeReceiver("chat")
    scene.fire(to=("pager", "chat"))
    for routes in (ONLY_PAGER, (RouteOptions(receivers=["chat"]),)):  # type: ignore[arg-type]
        scene.policy = NotificationPolicy(routes=routes)
        scene.retry_refused("pager", "chat")
        scene.deliver(pager, chat)
    scene.end(DAY)
    scene.deliver(pager, chat)
    assert pager.segments == chat.segments == [STARTS, ENDS]


@pytest.mark.parametrize("before", ["future", "silenced", "claimed", "failed"])
def test_a_clock_that_is_set_back_delays_no_delivery(scene, before):
    scene.fire((6 if before == "future" else 0) * HOUR)
    scene.clock.at = SLOT + 6 * HOUR
    silence = scene.silence("segment=all") if before == "silenced" else None
    if before == "claimed":
        assert scene.claim_elsewhere(RECHECK_AFTER)
    elif before != "future":
        scene.receiver.errors = [DOWN] if before == "failed" else []
        scene.deliver()
    if silence:
        scene.store.alerts.expire_silence(silence.id, now=SLOT + MINUTE / 60)
    scene.clock = HeldClock(SLOT + MINUTE)
    assert scene.deliver().sent == 1


def test_an_alert_that_fires_again_in_the_same_slot_continues_and_ends_once(scene):
    """This happens if a rule is removed and added again, or if the clock is set back."""
    scene.fire_and_deliver()
    alerts = scene.store.alerts
    ends = retire_alerts(alerts.states(), alerts.firing(), [comparison(rules=())], at=SLOT + MINUTE)
    alerts.retire(ends, receivers=("fake",))
    scene.fire()
    scene.deliver(after=2 * MINUTE)
    assert scene.receiver.segments == [STARTS]
    assert scene.held() == 0
    assert len(alerts.firing()) == 1
    scene.end_and_deliver(DAY)
    first, end, second = scene.receiver.changes
    assert scene.receiver.segments == [STARTS, ENDS, ENDS]
    assert first.dedup_key == end.dedup_key != second.dedup_key
    assert scene.receiver.sent[1].status == "resolved"
    assert scene.waiting() == 0


def test_pauses_before_the_next_attempt_agree_with_values_worked_by_hand():
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


def test_a_receiver_that_asks_for_a_pause_gets_nothing_until_the_pause_is_over(scene):
    scene.receiver = FakeReceiver(errors=[BUSY], treatment=Treatment(resend_every_s=1))
    turns = DeliveryTurns(sender=scene.open_sender())
    scene.fire()
    turns.take()
    scene.fire(watched=replace(EACH, name="search"))
    scene.clock.pass_by(119)
    assert not turns.is_due({"fake"})
    turns.take()
    assert not scene.receiver.sent
    scene.wait(DAY)
    assert turns.is_due({"fake"})
    turns.take()
    assert {change.comparison for change in scene.receiver.changes} == {"home-feed", "search"}


def test_a_firing_alert_is_resent_in_the_turn_in_which_it_is_due(scene):
    scene.receiver.treatment = Treatment(resend_every_s=60)
    turns = DeliveryTurns(sender=scene.open_sender())
    scene.fire()
    turns.take()
    for is_due in (False, True):
        scene.clock.pass_by(30)
        assert turns.is_due(scene.due()) == is_due
        turns.take()
    assert [message.is_repetition for message in scene.receiver.sent] == [False, True, True]


def test_a_message_without_a_cause_shows_the_newest_one_and_a_repetition_is_about_the_newest_run():
    """But a repetition is about an earlier run if the newest run did not find its cause again."""
    noise = found(FaultKind.NOISE)
    mixed = found(FaultKind.MIXED_UP)
    briefings = [
        Briefing(explanation=explanation(sentence=sentence, finding=finding))
        for sentence, finding in (("old", mixed), ("new", noise), ("vague", None), ("", noise))
    ]
    slots = [SLOT + number * HOUR for number in range(4)]
    starts = [start(slot=slot, dedup_key=str(slot)) for slot in slots]

    def brief(sent, newest=0):
        outbox = SimpleNamespace(
            briefing=lambda _, slot: briefings[slots.index(slot) if slot else newest]
        )
        return brief_message(sent, outbox, NotificationPolicy()).briefing

    for number, known in ((0, None), (1, None), (2, "new")):
        cause = brief(message(starts[number], firing=tuple(starts[: number + 1]))).known_cause
        assert (cause and (cause.slot, cause.sentence)) == (known and (slots[1], known))
    for number, newest, shown in ((1, 3, 3), (1, 0, 1), (1, 2, 1), (2, 0, 2)):
        assert brief(repetition(starts[number]), newest) == briefings[shown]
