from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from types import SimpleNamespace

import pytest

from factories import DAY, HOUR, MINUTE, HeldClock, comparison, rule
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.model.errors import DeliveryError, DeliveryErrorKind
from monitor.model.notifications import Message, Treatment, Updates
from monitor.model.rules import Severity
from monitor.pipeline.delivery import CLAIM, RESEND_ENDS_FOR, OutboxSender, deliver_all
from monitor.storage import SqlStore
from pipeline.owed_run import CountingPublisher, store_run
from servers.pagerduty import KEY, pagerduty  # noqa: F401 - a fixture
from storage import worked

AT_ONCE = timedelta(0)


@dataclass
class FakeReceiver:
    """Takes what it is sent, after raising what it was told to raise."""

    name: str = "fake"
    treatment: Treatment = field(default_factory=Treatment)
    errors: list[Exception] = field(default_factory=list)
    refuse: Callable[[Message], Exception | None] = lambda _: None
    sent: list[Message] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def send(self, message, *, now):
        assert now.tzinfo is UTC
        self.batches.append(len(message.changes))
        if self.errors:
            raise self.errors.pop(0)
        if refusal := self.refuse(message):
            raise refusal
        self.sent.append(message)

    @property
    def told(self):
        return [change for message in self.sent for change in message.changes]

    @property
    def segments(self):
        return [("starts" if change.is_start else "ends", change.segment) for change in self.told]


DOWN = DeliveryError("fake is down", permanent=False)
SILENT = DeliveryError("fake did not answer", permanent=False, may_be_known=True)
BUSY = DeliveryError("fake answered 429", permanent=False, retry_after_s=120)
REFUSED = DeliveryError("fake answered 401", permanent=True)
ILL_FORMED = DeliveryError("fake answered 400", permanent=True, of_message=True)
EACH = comparison(rules=(rule(for_runs=1, segments="each"),))
SEGMENTS = ("all", "a=1", "a=2")
STARTS, ENDS = ("starts", "all"), ("ends", "all")


def outlet(store, receiver, clock, publisher=None, **options):
    counted = publisher or CountingPublisher()
    given = {"owner": "me", "draw": lambda: 0.5, **options}
    return OutboxSender(
        outbox=store.outbox, receiver=receiver, clock=clock, publisher=counted, **given
    )


@dataclass
class Scene:
    """Time passes, runs are stored, and what is owed is delivered: to one receiver where no others are named."""

    store: SqlStore
    clock: HeldClock = field(default_factory=HeldClock)
    receiver: FakeReceiver = field(default_factory=FakeReceiver)
    publisher: CountingPublisher = field(default_factory=CountingPublisher)
    policy: NotificationPolicy = field(default_factory=NotificationPolicy)

    def fire(self, after=AT_ONCE, mean=0.1, **options):
        """After that time a run that breaches is stored."""
        self.clock.pass_by(after.total_seconds())
        return store_run(self.store, mean, slot=self.clock.at, **{"watched": EACH, **options})

    def end(self, after=AT_ONCE, **options):
        """After that time a run that is well again is stored."""
        return self.fire(after, 0.9, **options)

    def outlet(self, receiver=None, **options):
        given = {"publisher": self.publisher, "policy": self.policy, **options}
        return outlet(self.store, receiver or self.receiver, self.clock, **given)

    def deliver(self, *receivers, after=AT_ONCE, should_stop=lambda: False, **options):
        """What came of it with the last of them, by outcome, and until when it rests."""
        self.clock.pass_by(after.total_seconds())
        before, name = Counter(self.publisher.counts), (receivers or (self.receiver,))[-1].name
        for each in receivers or (None,):
            pause = self.outlet(each, **options).deliver_due(should_stop=should_stop)
        counts = Counter(self.publisher.counts) - before
        waiting = self.store.outbox.deliveries(receiver=name, given_up_limit=0, limit=100)
        return SimpleNamespace(
            **{outcome: counts[name, outcome] for outcome in ("sent", "retry", "dead", "dropped")},
            held=sum(each.status == "held" for each in waiting),
            retry_at=pause and pause.until,
        )

    def lease(self, lasts=CLAIM):
        """Somebody else is about to tell what is owed."""
        until = self.clock.at + lasts
        return self.store.outbox.claim_deliveries(
            "fake", owner="you", now=self.clock.at, until=until, limit=10
        )

    def owed(self):
        return self.store.outbox.waiting(self.clock.now()).get("fake", (0, 0.0))[0]

    def held(self):
        return self.store.outbox.waiting(self.clock.now(), held=True).get("fake", (0, 0.0))[0]

    def retry_refused(self, *names):
        """As a restart does."""
        return self.store.outbox.retry_refused(self.clock.at, receivers=names or ("fake",))

    def acknowledge(self, *segments):
        alerts = [("SimilarityLow", segment) for segment in segments]
        done = self.store.alerts.acknowledge(
            "home-feed", alerts, author="anna", reason="acknowledged by anna", at=self.clock.at
        )
        assert done

    def silence(self, matcher):
        """For a day."""
        asked = worked.silence(self.clock.at, self.clock.at + DAY, matcher)
        return self.store.alerts.add_silence(asked)


@pytest.fixture
def scene(store):
    return Scene(store)


def test_what_fires_in_one_run_is_told_in_one_message_and_its_ends_in_one(scene):
    scene.fire(segments=SEGMENTS)
    assert scene.deliver().sent == 3
    scene.end(DAY, segments=SEGMENTS)
    assert (scene.owed(), scene.deliver().sent, scene.deliver().sent) == (3, 3, 0)

    first, last = scene.receiver.sent
    for changes in (first.changes, first.firing, last.changes):
        assert tuple(each.segment for each in changes) == SEGMENTS
    assert (first.comparison, first.is_repetition) == ("home-feed", False)
    assert (last.incident, last.firing, last.status) == (first.incident, (), "resolved")
    assert scene.publisher.counts == {("fake", "sent"): 6}
    assert scene.owed() == 0


def test_a_failure_that_may_pass_is_tried_again_later_and_later_or_when_it_is_asked_for(scene):
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


def test_what_is_refused_for_good_is_given_up_and_its_end_is_not_told(scene):
    scene.receiver.errors = [REFUSED]
    scene.fire()
    assert scene.deliver().dead == 1
    scene.end(DAY)
    assert scene.deliver().dropped == 1
    assert (scene.receiver.sent, scene.owed()) == ([], 0)
    assert scene.publisher.counts == {("fake", "dead"): 1, ("fake", "dropped"): 1}
    assert scene.publisher.troubles == {("fake", DeliveryErrorKind.REFUSED): 1}


@pytest.mark.parametrize("errors", [[REFUSED], [SILENT, REFUSED]])
def test_a_start_that_was_given_up_is_tried_again_after_a_restart_although_it_may_have_arrived(
    scene, errors
):
    scene.receiver.errors = list(errors)
    scene.fire()
    for _ in errors:
        scene.deliver()
        scene.clock.pass_by(60)
    assert [scene.retry_refused("other"), scene.retry_refused()] == [0, 1]
    scene.deliver()
    assert scene.receiver.segments == [STARTS]
    assert scene.retry_refused() == 0


def test_of_a_message_that_is_refused_for_what_it_says_only_the_bad_part_is_given_up(scene):
    receiver = FakeReceiver(
        refuse=lambda message: (
            ILL_FORMED if "a=3" in {each.segment for each in message.changes} else None
        )
    )
    scene.fire(segments=(*SEGMENTS, "a=3", "a=4"))
    counts = scene.deliver(receiver)
    assert (counts.sent, counts.dead) == (4, 1)
    assert sorted(change.segment for change in receiver.told) == ["a=1", "a=2", "a=4", "all"]
    assert len({message.key for message in receiver.sent}) == len(receiver.sent) > 1


def test_an_end_never_overtakes_its_start(scene):
    scene.receiver.errors = [SILENT]
    (firing,) = scene.fire()
    scene.deliver()
    assert scene.lease() == ()
    scene.deliver(after=MINUTE)
    scene.end(DAY)
    scene.deliver()
    told = [(change.dedup_key, change.is_start) for change in scene.receiver.told]
    assert told == [(firing.dedup_key, True), (firing.dedup_key, False)]


def test_what_another_is_telling_now_is_not_overtaken_by_what_is_newer(scene):
    scene.fire()
    assert scene.lease(DAY + CLAIM)
    scene.end(DAY)
    assert scene.deliver().sent == 0
    scene.deliver(after=CLAIM)
    assert scene.receiver.sent == []  # it ended before anybody told of it


def test_a_receiver_that_is_down_is_tried_once_a_round_and_others_are_not_held_up(scene):
    names = ("fake", "other")
    scene.fire(segments=SEGMENTS, to=names)
    scene.fire(watched=replace(EACH, name="search"), segments=SEGMENTS, to=names)
    scene.receiver.errors = [DOWN] * 9
    assert scene.deliver().retry == 3
    assert scene.receiver.batches == [3]
    assert scene.deliver(FakeReceiver("other")).sent == 6


def test_a_comparison_that_is_refused_over_and_over_does_not_starve_the_rest(scene):
    scene.fire()
    scene.fire(watched=replace(EACH, name="search"))
    receiver = FakeReceiver(
        refuse=lambda message: DOWN if message.comparison == "home-feed" else None
    )
    scene.deliver(receiver)
    scene.deliver(receiver)
    assert [message.comparison for message in receiver.sent] == ["search"]


def test_a_defect_is_raised_and_the_delivery_is_put_off_not_lost(scene):
    scene.receiver.errors = [KeyError("canary")]
    scene.fire()
    with pytest.raises(KeyError):
        scene.deliver()
    assert scene.publisher.counts == {("fake", "retry"): 1}
    assert scene.deliver().sent == 0
    assert scene.deliver(after=timedelta(seconds=5)).sent == 1


def test_it_sends_nothing_once_it_is_told_to_stop_or_is_no_longer_sure_to_be_alone(scene):
    scene.fire()
    assert scene.deliver(should_stop=lambda: True).sent == 0
    assert scene.deliver(is_sole_sender=lambda: False).sent == 0
    assert scene.receiver.sent == []


def test_what_was_told_is_told_again_by_incidents_while_it_fires_and_once_ended_for_five_minutes(
    scene, monkeypatch
):
    monkeypatch.setattr("monitor.pipeline.due_messages._LARGEST_GROUP", 5)
    both = [replace(EACH, name=name) for name in ("feed", "shop")]
    for watched in both:
        scene.fire(watched=watched, segments=SEGMENTS)
    receiver = scene.receiver
    receiver.treatment = Treatment(resend_every_s=60, updates=Updates.EACH)
    assert scene.outlet().resend_alerts() == 0  # nothing was told yet
    scene.deliver()

    receiver.sent.clear()
    assert scene.outlet().resend_alerts() == 6
    assert [{change.comparison for change in message.changes} for message in receiver.sent] == [
        {"feed"},
        {"shop"},
    ]
    assert {change.is_start for change in receiver.told} == {True}

    for watched in both:
        scene.end(DAY, watched=watched, segments=SEGMENTS)
    scene.deliver()
    receiver.sent.clear()
    scene.clock.at += RESEND_ENDS_FOR
    assert scene.outlet().resend_alerts() == 6
    assert {change.is_end for change in receiver.told} == {True}
    scene.clock.pass_by(1)
    assert scene.outlet().resend_alerts() == 0


def test_a_resend_has_one_comparison_and_stops_once_another_process_may_be_sending(scene):
    for name in ("feed", "shop"):
        scene.fire(watched=replace(EACH, name=name), segments=SEGMENTS)
    scene.receiver.treatment = Treatment(resend_every_s=60, updates=Updates.EACH)
    scene.deliver()
    scene.receiver.sent.clear()
    answers = iter([True, False])
    assert scene.outlet(is_sole_sender=lambda: next(answers)).resend_alerts() == 3
    (message,) = scene.receiver.sent
    assert {change.comparison for change in message.changes} == {message.comparison}


def test_a_receiver_that_wants_no_resends_gets_none_and_a_failed_resend_is_counted_and_raised(
    scene,
):
    again = FakeReceiver("again", treatment=Treatment(resend_every_s=60))
    scene.fire(to=("fake", "again"))
    scene.deliver(scene.receiver, again)
    assert scene.outlet().resend_alerts() == 0
    again.errors.append(DOWN)
    with pytest.raises(DeliveryError):
        scene.outlet(again).resend_alerts()
    assert scene.publisher.troubles == {("again", DOWN.kind): 1}
    assert scene.publisher.counts["again", "sent"] == 1
    assert scene.outlet(again).resend_alerts() == 1
    assert scene.publisher.counts["again", "sent"] == 2


def test_what_lasts_is_repeated_at_its_interval_with_what_joined_it_until_somebody_looks_after_it(
    scene,
):
    scene.receiver.treatment = Treatment(repeat_every_s=3600)
    scene.fire()
    scene.deliver()
    scene.fire(HOUR / 2, segments=SEGMENTS)
    scene.deliver()
    counts = []
    for _ in range(4):
        scene.clock.pass_by(1800)
        counts += [scene.outlet().repeat_due(), scene.outlet().repeat_due()]
    assert counts == [3, 0, 0, 0, 3, 0, 0, 0]
    start, *_, repeated = scene.receiver.sent
    assert len(scene.receiver.sent) == 3
    assert (repeated.is_repetition, repeated.changes, len(repeated.firing)) == (True, (), 3)
    assert repeated.incident == start.incident

    scene.acknowledge(*SEGMENTS)
    scene.deliver()
    assert scene.receiver.sent[-1].status == "acknowledged"
    scene.clock.pass_by(7200)
    assert scene.outlet().repeat_due() == 0


def test_who_looks_after_a_firing_stays_known_through_later_runs_and_ends_with_it(scene):
    (start,) = scene.fire(to=())
    scene.acknowledge("all")
    scene.fire(DAY, mean=0.2)
    (state,) = scene.store.alerts.states("home-feed")
    assert (state.acknowledged_by, state.incident, state.dedup_key) == (
        "anna",
        start.incident,
        start.dedup_key,
    )
    scene.end(DAY)
    scene.fire(DAY)
    (state,) = scene.store.alerts.states("home-feed")
    assert state.acknowledged_by is None
    assert state.incident != start.incident


def test_a_firing_that_is_ended_by_hand_is_told_as_ended_and_may_fire_again(scene):
    (start,) = scene.fire()
    scene.deliver()
    scene.clock.pass_by(60)
    closed = [("SimilarityLow", "all"), ("Other", "all")]
    (end,) = scene.store.alerts.resolve(
        "home-feed", closed, reason="closed by anna", at=scene.clock.at
    )
    scene.deliver()
    scene.fire(DAY)
    scene.deliver()
    assert (end.dedup_key, end.reason) == (start.dedup_key, "closed by anna")
    assert scene.receiver.segments == [STARTS, ENDS, STARTS]
    assert scene.receiver.told[2].dedup_key != start.dedup_key


def test_what_joins_an_incident_is_no_message_of_its_own_and_ends_with_it(scene):
    pager = FakeReceiver("pager", treatment=Treatment(updates=Updates.QUIET))
    both = {"watched": EACH, "to": ("fake", "pager")}
    scene.fire(**both)
    scene.deliver(scene.receiver, pager)
    scene.fire(HOUR, segments=SEGMENTS, **both)
    scene.deliver(scene.receiver, pager)
    scene.clock.pass_by(60)
    scene.store.alerts.resolve(
        "home-feed", [("SimilarityLow", "all")], reason="closed", at=scene.clock.at
    )
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
    assert (over.status, over.firing, scene.held()) == ("resolved", (), 0)


def test_an_incident_pages_again_when_it_becomes_worse_and_anew_once_its_end_was_sent(scene):
    calm, loud = (
        rule(alert="Calm", for_runs=1, severity=Severity.WARNING),
        rule(alert="Loud", for_runs=1),
    )
    sent = scene.receiver.sent
    scene.fire(watched=comparison(rules=(calm,)))
    scene.deliver()
    scene.fire(HOUR, watched=comparison(rules=(calm, loud)))
    scene.deliver()
    assert [(each.wake_ups, each.severity, each.worse) for each in sent] == [
        (1, Severity.WARNING, None),
        (2, Severity.CRITICAL, "its severity rose from warning to critical"),
    ]
    # What is silenced keeps the incident open here, not for who was never sent it.
    silence = scene.silence("segment=a=1")
    scene.fire(
        HOUR, watched=comparison(rules=(calm, loud, *EACH.judging.rules)), segments=("all", "a=1")
    )
    scene.deliver()
    closed = [(alert, "all") for alert in ("Calm", "Loud", "SimilarityLow")]
    scene.store.alerts.resolve("home-feed", closed, reason="closed", at=scene.clock.at)
    scene.deliver(after=MINUTE)
    assert (sent[-1].status, scene.held()) == ("resolved", 1)
    scene.store.alerts.expire_silence(silence.id, now=scene.clock.at)
    scene.deliver(after=MINUTE)
    ended = [(each.status, each.is_update, each.wake_ups) for each in sent[2:]]
    assert ended == [("resolved", False, 2), ("firing", False, 1)]
    assert [[start.alert for start in each.first] for each in sent[:3]] == [["Calm"]] * 3


def drained(scene, *receivers, budget_s=30):
    deliver_all(
        [scene.outlet(receiver) for receiver in receivers],
        budget_s=budget_s,
        pause=scene.clock.pass_by,
    )


def test_draining_ends_with_its_time_and_leaves_the_rest_in_the_outbox(scene):
    scene.fire()
    scene.receiver.errors = [DOWN] * 1000
    drained(scene, scene.receiver, budget_s=10)
    assert ("fake", "sent") not in scene.publisher.counts
    assert scene.clock.seconds == pytest.approx(10)
    assert scene.owed() == 1


def test_draining_waits_for_retries_that_come_due_and_ends_when_nobody_is_owed_anything(scene):
    scene.fire(to=("fake", "other", "gone"))
    scene.receiver.errors = [DOWN, DOWN]
    drained(scene, scene.receiver, FakeReceiver("other"))
    told = {("fake", "retry"): 2, ("fake", "sent"): 1, ("other", "sent"): 1}
    assert scene.publisher.counts == told
    waited = scene.clock.seconds
    assert 0 < waited < 30
    drained(scene, scene.receiver)
    assert (scene.publisher.counts, scene.clock.seconds) == (told, waited)
