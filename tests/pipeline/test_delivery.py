from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from factories import DAY, HOUR, MINUTE, SECOND, HeldClock, comparison, rule
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.model.errors import DeliveryError
from monitor.model.notifications import Treatment, Updates
from monitor.model.rules import Severity
from monitor.pipeline.delivery import CLAIM, RESEND_ENDS_FOR, OutboxSender, deliver_all
from monitor.storage import SqlStore
from pipeline.alerting_run import CountingPublisher, store_run
from storage import worked

AT_ONCE = timedelta(0)


@dataclass
class FakeReceiver:
    """Keeps the messages that it accepts. First it raises each of its errors once."""

    name: str = "fake"
    treatment: Treatment = field(default_factory=Treatment)
    errors: Any = field(default_factory=list)
    refuse: Any = lambda _: None
    sent: Any = field(default_factory=list)
    batches: Any = field(default_factory=list)

    def send(self, message, *, now):
        assert now.tzinfo is UTC
        self.batches.append(len(message.changes))
        if self.errors:
            raise self.errors.pop(0)
        if refusal := self.refuse(message):
            raise refusal
        self.sent.append(message)

    @property
    def changes(self):
        return [change for message in self.sent for change in message.changes]

    @property
    def segments(self):
        return [("starts" if each.is_start else "ends", each.segment) for each in self.changes]


DOWN = DeliveryError("fake is down", permanent=False)
SILENT = DeliveryError("fake did not answer", permanent=False, may_be_known=True)
BUSY = DeliveryError("fake answered 429", permanent=False, retry_after_s=120)
REFUSED = DeliveryError("fake answered 401", permanent=True)
ILL_FORMED = DeliveryError("fake answered 400", permanent=True, of_message=True)
EACH = comparison(rules=(rule(for_runs=1, segments="each"),))
SEGMENTS = ("all", "a=1", "a=2")
STARTS = ("starts", "all")
ENDS = ("ends", "all")


def open_sender(store, receiver, clock, **options):
    usual = {"owner": "me", "draw": lambda: 0.5, "publisher": CountingPublisher()}
    return OutboxSender(outbox=store.outbox, receiver=receiver, clock=clock, **{**usual, **options})


@dataclass
class Scene:
    """A store and a clock. Runs are stored, and their alerts are delivered to one receiver or to the named ones."""

    store: SqlStore
    clock: HeldClock = field(default_factory=HeldClock)
    receiver: Any = field(default_factory=FakeReceiver)
    publisher: CountingPublisher = field(default_factory=CountingPublisher)
    policy: NotificationPolicy = field(default_factory=NotificationPolicy)

    def wait(self, time):
        self.clock.pass_by(time.total_seconds())

    def fire(self, after=AT_ONCE, mean=0.1, **options):
        """Store a run that breaches after this time."""
        self.wait(after)
        return store_run(self.store, mean, slot=self.clock.at, **{"watched": EACH} | options)

    def end(self, after=AT_ONCE, **options):
        """Store a run that is healthy again after this time."""
        return self.fire(after, 0.9, **options)

    def fire_and_deliver(self, *arguments, **options):
        transitions = self.fire(*arguments, **options)
        self.deliver()
        return transitions

    def end_and_deliver(self, after, **options):
        return self.fire_and_deliver(after, 0.9, **options)

    def open_sender(self, receiver=None, **options):
        own = {"publisher": self.publisher, "policy": self.policy}
        return open_sender(self.store, receiver or self.receiver, self.clock, **own, **options)

    def deliver(self, *receivers, after=AT_ONCE, should_stop=lambda: False, **options):
        """Return the counts of the last receiver by outcome, and when it is tried again."""
        self.wait(after)
        before = Counter(self.publisher.counts)
        name = (receivers or (self.receiver,))[-1].name
        for each in receivers or (None,):
            pause = self.open_sender(each, **options).deliver_due(should_stop=should_stop)
        counts = Counter(self.publisher.counts) - before
        waiting = self.store.outbox.deliveries(receiver=name, given_up_limit=0, limit=100)
        return SimpleNamespace(
            **{outcome: counts[name, outcome] for outcome in ("sent", "retry", "dead", "dropped")},
            held=sum(each.status == "held" for each in waiting),
            retry_at=pause and pause.until,
        )

    def claim_elsewhere(self, lasts=CLAIM):
        """Another process claims the deliveries."""
        until = self.clock.at + lasts
        return self.store.outbox.claim_deliveries(
            "fake", owner="you", now=self.clock.at, until=until, limit=10
        )

    def due(self):
        return self.store.outbox.due_receivers(["fake"], now=self.clock.at)

    def waiting(self, **held):
        return self.store.outbox.waiting(self.clock.now(), **held).get("fake", (0, 0.0))[0]

    def held(self):
        return self.waiting(held=True)

    def retry_refused(self, *names):
        """A restart does this."""
        return self.store.outbox.retry_refused(self.clock.at, receivers=names or ("fake",))

    def acknowledge(self, *segments):
        alerts = [("SimilarityLow", segment) for segment in segments]
        self.store.alerts.acknowledge(
            "home-feed", alerts, author="anna", reason="acknowledged by anna", at=self.clock.at
        )

    def resolve(self, segment, alerts=("SimilarityLow",)):
        """A person resolves these alerts of the segment."""
        closed = [(alert, segment) for alert in alerts]
        return self.store.alerts.resolve("home-feed", closed, reason="closed", at=self.clock.at)

    def silence(self, matcher, lasts=DAY):
        asked = worked.silence(self.clock.at, self.clock.at + lasts, matcher)
        return self.store.alerts.add_silence(asked)


@pytest.fixture
def scene(store):
    return Scene(store)


def test_alerts_of_one_run_are_sent_in_one_message_and_so_are_their_ends(scene):
    scene.fire(segments=SEGMENTS)
    assert scene.deliver().sent == 3
    scene.end(DAY, segments=SEGMENTS)
    assert scene.deliver().sent == 3
    assert scene.deliver().sent == 0

    first, last = scene.receiver.sent
    for changes in (first.changes, first.firing, last.changes):
        assert tuple(each.segment for each in changes) == SEGMENTS
    assert last.incident == first.incident
    assert not last.firing
    assert last.status == "resolved"
    assert scene.waiting() == 0


def test_a_temporary_failure_is_retried_with_growing_pauses_or_when_the_receiver_asks_for_it(scene):
    scene.receiver.errors = [DOWN, DOWN, DOWN, BUSY]
    scene.fire()

    waits = []
    for _ in range(4):
        counts = scene.deliver()
        waits.append((counts.retry_at - scene.clock.now()).total_seconds())
        assert scene.deliver().retry == 0
        scene.clock.at = counts.retry_at

    assert waits == [1.0, 2.0, 4.0, 128.0]
    assert scene.deliver().sent == 1
    assert scene.publisher.counts == {("fake", "retry"): 4, ("fake", "sent"): 1}
    assert sum(scene.publisher.troubles.values()) == 4


@pytest.mark.parametrize("errors", [[REFUSED], [SILENT, REFUSED]])
def test_a_rejected_start_is_retried_after_a_restart_even_if_it_may_have_arrived(scene, errors):
    scene.receiver.errors = list(errors)
    scene.fire()
    for _ in errors:
        scene.deliver()
        scene.wait(MINUTE)
    assert scene.retry_refused("other") == 0
    assert scene.retry_refused() == 1
    scene.deliver()
    assert scene.receiver.segments == [STARTS]
    assert scene.retry_refused() == 0


def test_if_the_content_of_a_message_is_rejected_only_the_bad_part_is_not_sent(scene):
    receiver = FakeReceiver(
        refuse=lambda message: (
            ILL_FORMED if "a=3" in {each.segment for each in message.changes} else None
        )
    )
    scene.fire(segments=(*SEGMENTS, "a=3", "a=4"))
    counts = scene.deliver(receiver)
    assert counts.sent == 4
    assert counts.dead == 1
    assert sorted(change.segment for change in receiver.changes) == ["a=1", "a=2", "a=4", "all"]
    assert len({message.key for message in receiver.sent}) == len(receiver.sent) > 1


def test_if_a_part_of_a_rejected_message_must_wait_the_receiver_gets_its_pause(scene):
    scene.receiver.refuse = lambda message: ILL_FORMED if len(message.changes) > 1 else BUSY
    scene.fire(segments=SEGMENTS)
    assert scene.deliver().retry_at


def test_a_message_whose_picture_is_rejected_is_sent_without_it(scene):
    scene.receiver.treatment = Treatment(shows_pictures=True)
    scene.receiver.refuse = lambda message: message.picture and ILL_FORMED
    scene.fire()
    scene.deliver(picture_of=lambda _: b"png")
    assert scene.receiver.batches == [1, 1]
    assert scene.receiver.segments == [STARTS]


def test_an_end_is_never_sent_before_its_start(scene):
    scene.receiver.errors = [SILENT]
    (firing,) = scene.fire_and_deliver()
    assert not scene.claim_elsewhere()
    scene.deliver(after=MINUTE)
    scene.end_and_deliver(DAY)
    assert {each.dedup_key for each in scene.receiver.changes} == {firing.dedup_key}
    assert scene.receiver.segments == [STARTS, ENDS]


def test_a_newer_delivery_waits_while_another_process_sends_an_older_one(scene):
    scene.fire()
    assert scene.claim_elsewhere(DAY + CLAIM)
    scene.end(DAY)
    assert scene.deliver().sent == 0
    scene.deliver(after=CLAIM)
    assert not scene.receiver.sent  # it ended before its start was sent


def test_a_receiver_that_is_down_is_tried_once_a_round_and_does_not_delay_the_others(scene):
    names = ("fake", "other")
    scene.fire(segments=SEGMENTS, to=names)
    scene.fire(watched=replace(EACH, name="search"), segments=SEGMENTS, to=names)
    scene.receiver.errors = [DOWN] * 9
    assert scene.deliver().retry == 3
    assert scene.receiver.batches == [3]
    assert scene.deliver(FakeReceiver("other")).sent == 6


def test_after_a_bug_the_error_is_raised_and_the_delivery_is_retried(scene):
    scene.receiver.errors = [KeyError("canary")]
    scene.fire()
    with pytest.raises(KeyError):
        scene.deliver()
    assert scene.publisher.counts == {("fake", "retry"): 1}
    assert scene.deliver().sent == 0
    assert scene.deliver(after=5 * SECOND).sent == 1


def test_nothing_is_sent_after_a_stop_or_if_another_process_may_be_sending(scene):
    scene.fire()
    assert scene.deliver(should_stop=lambda: True).sent == 0
    assert scene.deliver(is_sole_sender=lambda: False).sent == 0
    assert not scene.receiver.sent


def test_alerts_are_resent_by_comparison_until_another_process_may_be_sending_and_ends_for_five_minutes(
    scene, monkeypatch
):
    monkeypatch.setattr("monitor.pipeline.due_messages._LARGEST_GROUP", 6)
    both = [replace(EACH, name=name) for name in ("feed", "shop")]
    for watched in both:
        scene.fire(watched=watched, segments=SEGMENTS)
    receiver = scene.receiver
    receiver.treatment = Treatment(resend_every_s=60, updates=Updates.EACH)
    assert scene.open_sender().resend_alerts() == 0  # nothing was sent yet
    scene.deliver()

    receiver.sent.clear()
    assert scene.open_sender().resend_alerts() == 6
    found = [{each.comparison for each in message.changes} for message in receiver.sent]
    assert found == [{"feed"}, {"shop"}] == [{message.comparison} for message in receiver.sent]
    assert {change.is_start for change in receiver.changes} == {True}
    assert all(message.briefing for message in receiver.sent)
    answers = iter([True, False])
    assert scene.open_sender(is_sole_sender=lambda: next(answers)).resend_alerts() == 3

    for watched in both:
        scene.end(DAY, watched=watched, segments=SEGMENTS)
    scene.deliver()
    receiver.sent.clear()
    scene.clock.at += RESEND_ENDS_FOR
    assert scene.open_sender().resend_alerts() == 6
    assert {change.is_end for change in receiver.changes} == {True}
    scene.clock.pass_by(1)
    assert scene.open_sender().resend_alerts() == 0


def test_a_receiver_without_resends_gets_none_and_a_failed_resend_is_counted_and_raised(scene):
    again = FakeReceiver("again", treatment=Treatment(resend_every_s=60))
    scene.fire(to=("fake", "again"))
    scene.deliver(scene.receiver, again)
    assert scene.open_sender().resend_alerts() == 0
    again.errors.append(DOWN)
    with pytest.raises(DeliveryError):
        scene.open_sender(again).resend_alerts()
    assert scene.publisher.troubles == {("again", DOWN.kind): 1}
    assert scene.publisher.counts["again", "sent"] == 1
    assert scene.open_sender(again).resend_alerts() == 1
    assert scene.publisher.counts["again", "sent"] == 2


def test_an_incident_is_repeated_at_its_interval_with_all_its_alerts_until_it_is_acknowledged(
    scene,
):
    scene.receiver.treatment = Treatment(repeat_every_s=3600)
    scene.fire_and_deliver()
    scene.fire_and_deliver(HOUR / 2, segments=SEGMENTS)
    other = FakeReceiver("other", treatment=scene.receiver.treatment)
    counts = []
    for _ in range(4):
        scene.wait(HOUR / 2)
        assert scene.open_sender(other).repeat_due() == 0
        for _ in range(2):
            due = scene.due()
            counts.append(scene.open_sender().repeat_due())
            assert due == ({"fake"} if counts[-1] else set())
    assert counts == [3, 0, 0, 0, 3, 0, 0, 0]
    start, _, repeated = scene.receiver.sent
    assert repeated.is_repetition
    assert not repeated.changes
    assert len(repeated.firing) == 3
    assert repeated.incident == start.incident
    assert repeated.briefing.slot == repeated.firing[-1].slot

    scene.acknowledge(*SEGMENTS)
    scene.deliver()
    assert scene.receiver.sent[-1].status == "acknowledged"
    scene.wait(2 * HOUR)
    assert scene.open_sender().repeat_due() == 0
    assert not scene.due()


def test_an_acknowledgement_lasts_through_later_runs_and_ends_with_the_alert(scene):
    (start,) = scene.fire(to=())
    scene.acknowledge("all")
    scene.fire(DAY, mean=0.2)
    (state,) = scene.store.alerts.states("home-feed")
    found = (state.acknowledged_by, state.incident, state.dedup_key)
    assert found == ("anna", start.incident, start.dedup_key)
    scene.end(DAY)
    scene.fire(DAY)
    (state,) = scene.store.alerts.states("home-feed")
    assert state.acknowledged_by is None
    assert state.incident != start.incident


def test_alerts_that_join_an_incident_are_not_sent_on_their_own_and_end_with_the_incident(scene):
    pager = FakeReceiver("pager", treatment=Treatment(updates=Updates.QUIET))
    both = {"watched": EACH, "to": ("fake", "pager")}
    scene.fire(**both)
    scene.deliver(scene.receiver, pager)
    scene.fire(HOUR, segments=SEGMENTS, **both)
    scene.deliver(scene.receiver, pager)
    scene.wait(MINUTE)
    scene.resolve("all")
    assert scene.deliver(scene.receiver, pager).held == 1
    scene.end(DAY, segments=SEGMENTS, **both)
    scene.deliver(scene.receiver, pager)

    begins, over = scene.receiver.sent
    assert [(each.is_update, len(each.changes)) for each in pager.sent] == [
        (False, 1),
        (True, 2),
        (False, 3),
    ]
    assert scene.receiver.segments == [STARTS, ENDS, ("ends", "a=1"), ("ends", "a=2")]
    assert {each.incident for each in (over, *pager.sent)} == {begins.incident}
    assert over.status == "resolved"
    assert not over.firing
    assert scene.held() == 0


def test_an_incident_wakes_up_again_if_it_becomes_worse_or_begins_again_after_its_end_was_sent(
    scene,
):
    calm = rule(alert="Calm", for_runs=1, severity=Severity.WARNING)
    loud = rule(alert="Loud", for_runs=1)
    sent = scene.receiver.sent
    scene.fire_and_deliver(watched=comparison(rules=(calm,)))
    scene.fire_and_deliver(HOUR, watched=comparison(rules=(calm, loud)))
    assert [(each.wake_ups, each.severity, each.worse) for each in sent] == [
        (1, Severity.WARNING, None),
        (2, Severity.CRITICAL, "its severity rose from warning to critical"),
    ]
    # A silenced alert keeps the incident open in the store, but the receiver does not know it.
    silence = scene.silence("segment=a=1")
    three = comparison(rules=(calm, loud, *EACH.judging.rules))
    scene.fire_and_deliver(HOUR, watched=three, segments=("all", "a=1"))
    scene.resolve("all", ("Calm", "Loud", "SimilarityLow"))
    scene.deliver(after=MINUTE)
    assert sent[-1].status == "resolved"
    assert scene.held() == 1
    scene.store.alerts.expire_silence(silence.id, now=scene.clock.at)
    scene.deliver(after=MINUTE)
    ended = [(each.status, each.is_update, each.wake_ups) for each in sent[2:]]
    assert ended == [("resolved", False, 2), ("firing", False, 1)]
    assert [[start.alert for start in each.first] for each in sent[:3]] == [["Calm"]] * 3


def drained(scene, *receivers, budget_s=30):
    deliver_all(
        [scene.open_sender(receiver) for receiver in receivers],
        budget_s=budget_s,
        pause=scene.clock.pass_by,
    )


def test_the_final_delivery_ends_in_time_and_leaves_the_rest_in_the_outbox(scene):
    scene.fire()
    scene.receiver.errors = [DOWN] * 1000
    drained(scene, scene.receiver, budget_s=10)
    assert ("fake", "sent") not in scene.publisher.counts
    assert scene.clock.seconds == pytest.approx(10)
    assert scene.waiting() == 1


def test_the_final_delivery_waits_for_retries_and_ends_when_nothing_is_left(scene):
    scene.fire(to=("fake", "other", "gone"))
    scene.receiver.errors = [DOWN, DOWN]
    drained(scene, scene.receiver, FakeReceiver("other"))
    counts = {("fake", "retry"): 2, ("fake", "sent"): 1, ("other", "sent"): 1}
    assert scene.publisher.counts == counts
    waited = scene.clock.seconds
    assert 0 < waited < 30
    drained(scene, scene.receiver)
    assert scene.publisher.counts == counts
    assert scene.clock.seconds == waited


def test_an_alert_that_a_person_resolved_is_reported_as_resolved_and_may_fire_again(scene):
    (start,) = scene.fire_and_deliver()
    scene.wait(MINUTE)
    (end,) = scene.resolve("all", ("SimilarityLow", "Other"))
    scene.deliver()
    scene.fire_and_deliver(DAY)
    assert end.dedup_key == start.dedup_key
    assert end.reason == "closed"
    assert scene.receiver.segments == [STARTS, ENDS, STARTS]
    assert scene.receiver.changes[2].dedup_key != start.dedup_key
