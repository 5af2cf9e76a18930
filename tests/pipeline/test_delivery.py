import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from factories import SLOT, HeldClock, comparison, rule
from forking import ended, start
from monitor.alerts import MaintenanceWindow, Matcher, NotificationPolicy, Route, retire_alerts
from monitor.errors import DatabaseError, DeliveryError, DeliveryTrouble
from monitor.model import Message, Silence, Transition, Treatment
from monitor.pipeline.delivery import LEASE, RECHECK_AFTER, RESEND_ENDS_FOR, OutboxSender, drain
from monitor.ports import Receiver
from monitor.receivers import ReceiverOptions, open_receivers
from monitor.storage import SqlStore, open_store
from pipeline.outbox_process import CountingPublisher, deliver_and_die, store_run
from servers import free_port
from servers.alertmanager import AlertmanagerServer, make_alertmanager
from servers.daemon import wait_for
from servers.webhook import Collector, answer, collector, hang, serve

__all__ = ["collector", "make_alertmanager"]

DAY = timedelta(days=1)


@dataclass
class FakeReceiver:
    """Takes what it is sent, after raising what it was told to raise."""

    name: str = "fake"
    treatment: Treatment = field(default_factory=Treatment)
    errors: list[Exception] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def send(self, message: Message, *, now: datetime) -> None:
        assert now.tzinfo is UTC
        self.batches.append(len(message.changes))
        if self.errors:
            raise self.errors.pop(0)
        self.sent.append(message)

    @property
    def told(self) -> list[Transition]:
        return [change for message in self.sent for change in message.changes]

    @property
    def segments(self) -> list[tuple[str, str]]:
        return [("starts" if change.is_start else "ends", change.segment) for change in self.told]

    def close(self) -> None:
        pass


DOWN = DeliveryError("fake is down", permanent=False)
SILENT = DeliveryError("fake did not answer", permanent=False, may_be_known=True)
REFUSED = DeliveryError("fake answered 401", permanent=True)
ILL_FORMED = DeliveryError("fake answered 400", permanent=True, of_message=True)
EACH = comparison(rules=(rule(for_runs=1, segments="each"),))
SEGMENTS = ("all", "a=1", "a=2")


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rankwatch.db'}"


def outlet(store: Any, receiver: Any, clock: HeldClock, publisher: Any = None, **options: Any) -> OutboxSender:
    counted: Any = publisher or CountingPublisher()
    given = {"owner": "me", "draw": lambda: 0.5, **options}
    return OutboxSender(outbox=store.outbox, receiver=receiver, clock=clock, publisher=counted, **given)


def deliver(store: Any, receiver: Any, clock: HeldClock, publisher: Any = None, **options: Any) -> Any:
    should_stop = options.pop("should_stop", lambda: False)
    return outlet(store, receiver, clock, publisher, **options).deliver_due(should_stop=should_stop)


def owed(store: SqlStore, clock: HeldClock, name: str = "fake") -> int:
    return store.outbox.pending(clock.now()).get(name, (0, 0.0))[0]


def silenced(store: SqlStore, *matchers: str, ends_at: datetime = SLOT + DAY) -> Silence:
    silence = Silence(id=0, matchers=matchers, author="anna", comment="known", created_at=SLOT, starts_at=SLOT, ends_at=ends_at)
    return store.alerts.add_silence(silence)


def test_what_fires_in_one_run_is_told_in_one_message_and_its_ends_in_one(store: SqlStore) -> None:
    clock, receiver, publisher = HeldClock(), FakeReceiver(), CountingPublisher()
    store_run(store, 0.1, watched=EACH, segments=SEGMENTS)

    assert deliver(store, receiver, clock, publisher).sent == 3
    (first,) = receiver.sent
    assert [change.segment for change in first.changes] == ["all", "a=1", "a=2"]
    assert [start.segment for start in first.firing] == ["all", "a=1", "a=2"]
    assert (first.comparison, first.is_repetition, owed(store, clock)) == ("home-feed", False, 0)

    clock.at += DAY
    store_run(store, 0.9, watched=EACH, segments=SEGMENTS, slot=SLOT + DAY)
    deliver(store, receiver, clock, publisher)
    assert (receiver.sent[1].incident, receiver.sent[1].firing) == (first.incident, ())
    assert receiver.segments[3:] == [("ends", "all"), ("ends", "a=1"), ("ends", "a=2")]
    assert publisher.counts == {("fake", "sent"): 6}
    assert deliver(store, receiver, clock).sent == 0


def test_a_failure_that_may_pass_is_tried_again_later_and_later(store: SqlStore) -> None:
    clock, publisher = HeldClock(), CountingPublisher()
    receiver = FakeReceiver(errors=[DOWN, DOWN, DOWN])
    store_run(store, 0.1)

    waits = []
    for _ in range(3):
        counts = deliver(store, receiver, clock, publisher)
        waits.append((counts.retry_at - clock.now()).total_seconds())
        assert deliver(store, receiver, clock, publisher).retry == 0
        clock.at = counts.retry_at

    assert waits == [1.0, 2.0, 4.0]
    assert deliver(store, receiver, clock, publisher).sent == 1
    assert publisher.counts == {("fake", "retry"): 3, ("fake", "sent"): 1}
    assert sum(publisher.troubles.values()) == 3


def test_retry_after_is_honoured(store: SqlStore) -> None:
    clock = HeldClock()
    store_run(store, 0.1)
    receiver = FakeReceiver(errors=[DeliveryError("slow down", permanent=False, retry_after_s=120)])
    assert deliver(store, receiver, clock).retry_at == SLOT + timedelta(seconds=121)


def test_an_hour_without_the_receiver_is_one_firing_if_it_still_fires(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver(errors=[DOWN] * 100)
    store_run(store, 0.1)
    while clock.at < SLOT + timedelta(hours=1):
        clock.at = deliver(store, receiver, clock).retry_at
    receiver.errors.clear()
    deliver(store, receiver, clock)
    assert receiver.segments == [("starts", "all")]


def test_an_hour_without_the_receiver_is_nothing_if_it_ended_meanwhile(store: SqlStore) -> None:
    clock, receiver, publisher = HeldClock(), FakeReceiver(errors=[DOWN] * 100), CountingPublisher()
    store_run(store, 0.1)
    while clock.at < SLOT + timedelta(hours=1):
        clock.at = deliver(store, receiver, clock).retry_at
    store_run(store, 0.9, slot=SLOT + timedelta(hours=1))
    receiver.errors.clear()
    counts = deliver(store, receiver, clock, publisher)
    assert (receiver.sent, counts.dropped, owed(store, clock)) == ([], 2, 0)
    assert publisher.counts == {("fake", "dropped"): 2}


def test_what_may_have_arrived_before_it_ended_is_told_as_ended(store: SqlStore) -> None:
    clock, receiver = HeldClock(SLOT + DAY), FakeReceiver(errors=[SILENT])
    store_run(store, 0.1)
    deliver(store, receiver, clock)
    store_run(store, 0.9, slot=SLOT + DAY)
    clock.pass_by(60)
    deliver(store, receiver, clock)
    assert receiver.segments == [("ends", "all")]


def test_what_is_refused_for_good_is_given_up_and_its_end_is_not_told(store: SqlStore) -> None:
    clock, receiver, publisher = HeldClock(), FakeReceiver(errors=[REFUSED]), CountingPublisher()
    store_run(store, 0.1)
    assert deliver(store, receiver, clock, publisher).dead == 1
    store_run(store, 0.9, slot=SLOT + DAY)
    clock.at += DAY
    assert deliver(store, receiver, clock, publisher).dropped == 1
    assert (receiver.sent, owed(store, clock)) == ([], 0)
    assert publisher.counts == {("fake", "dead"): 1, ("fake", "dropped"): 1}
    assert publisher.troubles == {("fake", DeliveryTrouble.REFUSED): 1}


def test_whoever_stands_in_is_told_what_was_refused_for_good_and_its_end(store: SqlStore) -> None:
    clock, refusing, mail = HeldClock(), FakeReceiver(errors=[REFUSED]), FakeReceiver("mail")
    store_run(store, 0.1)
    policy = NotificationPolicy(fallbacks={"fake": "mail"})
    deliver(store, refusing, clock, policy=policy)
    deliver(store, mail, clock, policy=policy)
    store_run(store, 0.9, slot=SLOT + DAY)
    clock.at += DAY
    for receiver in (refusing, mail):
        deliver(store, receiver, clock, policy=policy)
    assert (refusing.segments, mail.segments) == ([], [("starts", "all"), ("ends", "all")])


def test_what_was_refused_is_tried_again_after_a_restart_if_it_still_fires(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver(errors=[REFUSED])
    store_run(store, 0.1)
    deliver(store, receiver, clock)
    assert store.outbox.retry_refused(clock.now(), receivers=["other"]) == 0
    assert store.outbox.retry_refused(clock.now(), receivers=["fake"]) == 1
    deliver(store, receiver, clock)
    assert receiver.segments == [("starts", "all")]
    assert store.outbox.retry_refused(clock.now(), receivers=["fake"]) == 0


def test_of_a_message_that_is_refused_for_what_it_says_only_the_bad_part_is_given_up(store: SqlStore) -> None:
    class Choosy(FakeReceiver):
        def send(self, message: Message, *, now: datetime) -> None:
            if any(change.segment == "a=3" for change in message.changes):
                raise ILL_FORMED
            super().send(message, now=now)

    receiver = Choosy()
    store_run(store, 0.1, watched=EACH, segments=(*SEGMENTS, "a=3", "a=4"))
    counts = deliver(store, receiver, HeldClock())
    assert (counts.sent, counts.dead) == (4, 1)
    assert sorted(change.segment for change in receiver.told) == ["a=1", "a=2", "a=4", "all"]


def test_an_end_never_overtakes_its_start(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver(errors=[SILENT])
    (firing,) = store_run(store, 0.1)
    deliver(store, receiver, clock)
    assert store.outbox.claim_deliveries("fake", owner="you", now=clock.at, until=clock.at + LEASE, limit=9) == ()
    clock.pass_by(60)
    deliver(store, receiver, clock)
    store_run(store, 0.9, slot=SLOT + DAY)
    clock.at += DAY
    deliver(store, receiver, clock)
    assert [(change.dedup_key, change.is_start) for change in receiver.told] == [
        (firing.dedup_key, True),
        (firing.dedup_key, False),
    ]


def test_what_another_is_telling_now_is_not_overtaken_by_what_is_newer(store: SqlStore) -> None:
    clock, receiver = HeldClock(SLOT + DAY), FakeReceiver()
    store_run(store, 0.1)
    assert store.outbox.claim_deliveries("fake", owner="you", now=clock.at, until=clock.at + LEASE, limit=9)
    store_run(store, 0.9, slot=SLOT + DAY)
    assert deliver(store, receiver, clock).sent == 0
    clock.at += LEASE
    deliver(store, receiver, clock)
    assert receiver.sent == []  # it ended before anybody told of it


def test_a_receiver_that_is_down_is_tried_once_a_round_and_others_are_not_held_up(store: SqlStore) -> None:
    names = ("fake", "other")
    store_run(store, 0.1, watched=EACH, segments=SEGMENTS, to=names)
    store_run(store, 0.1, watched=comparison(name="search", rules=EACH.judging.rules), segments=SEGMENTS, to=names)
    down, other = FakeReceiver(errors=[DOWN] * 9), FakeReceiver("other")
    assert deliver(store, down, HeldClock()).retry == 3
    assert down.batches == [3]
    assert deliver(store, other, HeldClock()).sent == 6


def test_a_comparison_that_is_refused_over_and_over_does_not_starve_the_rest(store: SqlStore) -> None:
    class Choosy(FakeReceiver):
        def send(self, message: Message, *, now: datetime) -> None:
            if message.comparison == "home-feed":
                raise DOWN
            super().send(message, now=now)

    store_run(store, 0.1)
    store_run(store, 0.1, watched=comparison(name="search", rules=EACH.judging.rules))
    receiver = Choosy()
    deliver(store, receiver, HeldClock())
    deliver(store, receiver, HeldClock())
    assert [message.comparison for message in receiver.sent] == ["search"]


def test_a_defect_is_raised_and_the_delivery_is_put_off_not_lost(store: SqlStore) -> None:
    clock, publisher = HeldClock(), CountingPublisher()
    receiver = FakeReceiver(errors=[KeyError("canary")])
    store_run(store, 0.1)
    with pytest.raises(KeyError):
        deliver(store, receiver, clock, publisher)
    assert publisher.counts == {("fake", "retry"): 1}
    assert deliver(store, receiver, clock).sent == 0
    clock.pass_by(5)
    assert deliver(store, receiver, clock).sent == 1


def test_what_was_sent_and_not_recorded_goes_out_again_after_the_lease_under_the_same_key(store: SqlStore) -> None:
    class Forgetful:
        def __getattr__(self, name: str) -> Any:
            return getattr(store.outbox, name)

        def record(self, *_notifications: object) -> None:
            msg = "the disk is full"
            raise DatabaseError(msg)

    clock, receiver = HeldClock(), FakeReceiver()
    store_run(store, 0.1)
    with pytest.raises(DatabaseError):
        deliver(SimpleNamespace(outbox=Forgetful()), receiver, clock)
    assert deliver(store, receiver, clock).sent == 0
    clock.at += LEASE
    assert deliver(store, receiver, clock).sent == 1
    first, second = receiver.sent
    assert (first.incident, first.changes) == (second.incident, second.changes)


def test_it_sends_nothing_once_it_is_told_to_stop_or_is_no_longer_sure_to_be_alone(store: SqlStore) -> None:
    store_run(store, 0.1)
    receiver = FakeReceiver()
    assert deliver(store, receiver, HeldClock(), should_stop=lambda: True).sent == 0
    assert deliver(store, receiver, HeldClock(), is_sure=lambda: False).sent == 0
    assert receiver.sent == []


def test_two_senders_at_once_send_each_once(store: SqlStore) -> None:
    names = [f"feed-{number}" for number in range(8)]
    for name in names:
        store_run(store, 0.1, watched=comparison(name=name, rules=EACH.judging.rules), segments=SEGMENTS)
    receiver, clock = FakeReceiver(), HeldClock()
    threads = [
        threading.Thread(target=outlet(store, receiver, clock, owner=owner).deliver_due, name=owner) for owner in ("one", "two")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(message.comparison for message in receiver.sent) == Counter(names)


def test_what_was_told_is_told_again_in_batches_while_it_fires_and_once_ended_for_five_minutes(store: SqlStore) -> None:
    segments = ("all", *(f"a={number:03}" for number in range(299)))
    started = store_run(store, 0.1, watched=EACH, segments=segments)
    clock, receiver = HeldClock(), FakeReceiver(treatment=Treatment(resend_every_s=60, is_ungrouped=True))
    assert outlet(store, receiver, clock).resend_firing() == 0  # nothing was told yet
    deliver(store, receiver, clock)

    receiver.sent.clear()
    assert outlet(store, receiver, clock).resend_firing() == 300
    assert [len(message.changes) for message in receiver.sent] == [250, 50]
    assert [change.segment for change in receiver.told] == [start.segment for start in started]

    clock.at += DAY
    store_run(store, 0.9, slot=SLOT + DAY, watched=EACH, segments=segments)
    deliver(store, receiver, clock)
    receiver.sent.clear()
    clock.at += RESEND_ENDS_FOR
    assert outlet(store, receiver, clock).resend_firing() == 300
    assert {change.is_end for change in receiver.told} == {True}
    clock.pass_by(1)
    assert outlet(store, receiver, clock).resend_firing() == 0


def test_a_receiver_that_wants_no_resends_gets_none_and_a_failed_resend_is_raised(store: SqlStore) -> None:
    clock = HeldClock()
    store_run(store, 0.1, to=("fake", "again"))
    once, again = FakeReceiver(), FakeReceiver("again", treatment=Treatment(resend_every_s=60))
    for receiver in (once, again):
        deliver(store, receiver, clock)
    assert outlet(store, once, clock).resend_firing() == 0
    again.errors.append(DOWN)
    with pytest.raises(DeliveryError):
        outlet(store, again, clock).resend_firing()


def test_what_lasts_is_repeated_at_its_interval_until_somebody_looks_after_it(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver(treatment=Treatment(repeat_every_s=3600))
    store_run(store, 0.1, watched=EACH, segments=SEGMENTS)
    deliver(store, receiver, clock)
    told = outlet(store, receiver, clock)
    assert told.repeat_due() == 0

    for _ in range(2):
        clock.pass_by(3600)
        assert told.repeat_due() == 3
        assert told.repeat_due() == 0
    repeated = receiver.sent[-1]
    assert (repeated.is_repetition, repeated.changes, len(repeated.firing)) == (True, (), 3)
    assert repeated.incident == receiver.sent[0].incident

    alerts = [("SimilarityLow", segment) for segment in SEGMENTS]
    store.alerts.acknowledge("home-feed", alerts, author="anna", reason="acknowledged by anna", at=clock.at)
    deliver(store, receiver, clock)
    assert receiver.sent[-1].status == "acknowledged"
    clock.pass_by(7200)
    assert told.repeat_due() == 0


def test_who_looks_after_a_firing_stays_known_through_later_runs_and_ends_with_it(store: SqlStore) -> None:
    (start,) = store_run(store, 0.1, to=())
    store.alerts.acknowledge("home-feed", [("SimilarityLow", "all")], author="anna", reason="anna looks", at=SLOT)
    store_run(store, 0.2, slot=SLOT + DAY)
    (state,) = store.alerts.states("home-feed")
    assert (state.acknowledged_by, state.incident, state.dedup_key) == ("anna", start.incident, start.dedup_key)
    store_run(store, 0.9, slot=SLOT + 2 * DAY)
    store_run(store, 0.1, slot=SLOT + 3 * DAY)
    (state,) = store.alerts.states("home-feed")
    assert state.acknowledged_by is None
    assert state.incident != start.incident


def test_a_firing_that_is_ended_by_hand_is_told_as_ended_and_may_fire_again(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver()
    (start,) = store_run(store, 0.1)
    deliver(store, receiver, clock)
    clock.pass_by(60)
    (end,) = store.alerts.resolve(
        "home-feed", [("SimilarityLow", "all"), ("Other", "all")], reason="closed by anna", at=clock.at
    )
    deliver(store, receiver, clock)
    store_run(store, 0.1, slot=SLOT + DAY)
    clock.at += DAY
    deliver(store, receiver, clock)
    assert (end.dedup_key, end.reason) == (start.dedup_key, "closed by anna")
    assert receiver.segments == [("starts", "all"), ("ends", "all"), ("starts", "all")]
    assert receiver.told[2].dedup_key != start.dedup_key


def test_what_is_silenced_is_held_and_told_when_the_silence_ends_if_it_still_fires(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver()
    silence = silenced(store, "alert=SimilarityLow", 'segment=~"a=.*|all"')
    store_run(store, 0.1)
    assert deliver(store, receiver, clock).held == 1
    assert (owed(store, clock), store.outbox.held(clock.now())) == (0, {"fake": (1, 0.0)})
    assert store.alerts.expire_silence(silence.id, now=clock.at)
    clock.at += RECHECK_AFTER
    assert deliver(store, receiver, clock).sent == 1


def test_what_ended_while_it_was_silenced_is_never_told(store: SqlStore) -> None:
    clock, receiver = HeldClock(SLOT + DAY), FakeReceiver()
    silenced(store, "comparison=home-feed", ends_at=SLOT + 2 * DAY)
    store_run(store, 0.1)
    deliver(store, receiver, clock)
    store_run(store, 0.9, slot=SLOT + DAY)
    clock.at += 3 * DAY
    assert deliver(store, receiver, clock).dropped == 2
    assert receiver.sent == []


def test_an_end_is_told_although_its_alert_is_silenced_by_now(store: SqlStore) -> None:
    clock, receiver = HeldClock(SLOT + timedelta(hours=1)), FakeReceiver()
    store_run(store, 0.1)
    deliver(store, receiver, clock)
    silenced(store, "severity=critical")
    store_run(store, 0.9, slot=SLOT + timedelta(hours=1))
    deliver(store, receiver, clock)
    assert receiver.segments == [("starts", "all"), ("ends", "all")]


def test_maintenance_holds_back_and_a_muted_rule_is_never_told_but_recorded(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver()
    store_run(store, 0.1)
    window = MaintenanceWindow(
        name="retraining", matchers=(), ends_at=lambda now: SLOT + RECHECK_AFTER if now < SLOT + RECHECK_AFTER else None
    )
    assert deliver(store, receiver, clock, policy=NotificationPolicy(windows=(window,))).held == 1
    clock.at += RECHECK_AFTER
    muted = NotificationPolicy(windows=(window,), muted=frozenset({("home-feed", "SimilarityLow")}))
    assert deliver(store, receiver, clock, policy=muted).held == 1
    clock.at += RECHECK_AFTER
    assert deliver(store, receiver, clock, policy=NotificationPolicy(windows=(window,))).sent == 1


def test_only_those_whom_a_route_names_are_told(store: SqlStore) -> None:
    clock, pager, chat = HeldClock(), FakeReceiver("pager"), FakeReceiver("chat")
    store_run(store, 0.1, watched=EACH, segments=SEGMENTS, to=("pager", "chat"))
    routes = (
        Route(matchers=(Matcher.parse("segment=all"),), receivers=frozenset({"pager"}), goes_on=True),
        Route(matchers=(), receivers=frozenset({"chat"})),
    )
    for receiver in (pager, chat):
        deliver(store, receiver, clock, policy=NotificationPolicy(routes=routes))
    assert (pager.segments, len(chat.told)) == ([("starts", "all")], 3)


def test_segments_that_follow_all_users_are_held_and_end_with_them(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver()
    store_run(store, 0.1, watched=EACH)
    deliver(store, receiver, clock)
    store_run(store, 0.1, watched=EACH, segments=SEGMENTS, slot=SLOT + DAY)
    clock.at += DAY
    assert deliver(store, receiver, clock).held == 2
    store_run(store, 0.9, watched=EACH, segments=SEGMENTS, slot=SLOT + 2 * DAY)
    clock.at += DAY
    deliver(store, receiver, clock)
    assert receiver.segments == [("starts", "all"), ("ends", "all")]


def drained(store: SqlStore, receivers: Sequence[Any], clock: HeldClock, budget_s: float = 30) -> Any:
    outlets = [outlet(store, receiver, clock) for receiver in receivers]
    return drain(outlets, budget_s=budget_s, pause=clock.pass_by)


def test_draining_ends_when_nobody_is_owed_anything(store: SqlStore) -> None:
    store_run(store, 0.1, to=("fake", "other", "gone"))
    clock, receivers = HeldClock(), [FakeReceiver(), FakeReceiver("other")]
    assert drained(store, receivers, clock).sent == 2
    assert clock.seconds == 0


def test_draining_waits_for_retries_that_come_due(store: SqlStore) -> None:
    store_run(store, 0.1, to=("fake", "other"))
    clock, failing, other = HeldClock(), FakeReceiver(errors=[DOWN, DOWN]), FakeReceiver("other")
    counts = drained(store, [failing, other], clock)
    assert (counts.sent, counts.retry) == (2, 2)
    assert clock.seconds < 30


def test_draining_ends_with_its_time_and_leaves_the_rest_in_the_outbox(store: SqlStore) -> None:
    store_run(store, 0.1)
    clock = HeldClock()
    counts = drained(store, [FakeReceiver(errors=[DOWN] * 1000)], clock, budget_s=10)
    assert counts.sent == 0
    assert clock.seconds == pytest.approx(10)
    assert owed(store, clock) == 1


def test_a_rule_that_was_removed_ends_its_firing_under_the_same_key(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver()
    (firing,) = store_run(store, 0.1)
    deliver(store, receiver, clock)
    gone = retire_alerts(store.alerts.states(), store.alerts.firing(), [comparison(rules=())], at=SLOT + DAY)
    store.alerts.retire(gone, receivers=["fake"])
    clock.at += DAY
    deliver(store, receiver, clock)
    assert [sent.dedup_key for sent in receiver.told] == [firing.dedup_key] * 2
    assert (receiver.told[1].is_end, receiver.told[1].labels, store.alerts.firing()) == (True, firing.labels, ())


# Real receivers and real processes from here on.


def opened(*entries: dict[str, Any]) -> tuple[Receiver, ...]:
    return open_receivers([ReceiverOptions.model_validate(entry) for entry in entries], external_url="http://rankwatch.test")


def test_a_webhook_that_was_down_for_a_while_gets_its_message_once(store: SqlStore) -> None:
    port = free_port()
    (firing,) = store_run(store, 0.1, to=["webhook"])
    clock = HeldClock()
    (receiver,) = opened({"webhook": {"url": f"http://127.0.0.1:{port}/hook"}})
    with closing(receiver):
        assert deliver(store, receiver, clock).retry == 1
        clock.pass_by(60)
        with contextmanager(serve)(port=port) as hook:
            assert deliver(store, receiver, clock).sent == 1
            assert deliver(store, receiver, clock).sent == 0
        (request,) = hook.requests
    (alert,) = json.loads(request.body)["alerts"]
    assert alert["annotations"]["dedup_key"] == firing.dedup_key


def test_a_webhook_that_hangs_is_cut_off_and_one_that_says_429_is_left_alone(store: SqlStore, collector: Collector) -> None:
    store_run(store, 0.1, to=["webhook"])
    clock = HeldClock()
    collector.replies.extend([hang, answer(429, {"Retry-After": "100"})])
    (receiver,) = opened({"webhook": {"url": collector.url, "timeout": "300ms"}})
    with closing(receiver):
        assert deliver(store, receiver, clock).retry == 1
        clock.pass_by(60)
        assert deliver(store, receiver, clock).retry_at == clock.at + timedelta(seconds=102)
        clock.pass_by(103)
        assert deliver(store, receiver, clock).sent == 1


def test_each_peer_of_an_alertmanager_is_told_and_one_that_is_down_is_told_when_it_is_back(
    store: SqlStore, make_alertmanager: Callable[..., AlertmanagerServer]
) -> None:
    up, down = make_alertmanager(), make_alertmanager()
    up.start()
    clock = HeldClock(datetime.now(UTC))
    peers = opened({"alertmanager": {"urls": [up.url, down.url]}})
    names = [peer.name for peer in peers]
    began = clock.at - timedelta(minutes=1)
    (firing,) = store_run(store, 0.1, slot=began, to=names)

    first = [deliver(store, peer, clock) for peer in peers]
    assert [(counts.sent, counts.retry) for counts in first] == [(1, 0), (0, 1)]
    assert len(up.alerts()) == 1

    down.start()
    clock.pass_by(5)
    assert deliver(store, peers[1], clock).sent == 1
    (held,) = down.alerts()
    assert held["labels"]["alertname"] == firing.alert

    for peer in peers:
        assert outlet(store, peer, clock).resend_firing() == 1
    assert [len(server.alerts()) for server in (up, down)] == [1, 1]

    store_run(store, 0.9, slot=datetime.now(UTC), to=names)
    clock.at = datetime.now(UTC) + timedelta(seconds=10)
    assert [deliver(store, peer, clock).sent for peer in peers] == [1, 1]
    for server in (up, down):
        wait_for(lambda server=server: server.alerts() == [], "the alert is gone")  # type: ignore[misc]  # a default binds
    for peer in peers:
        peer.close()


def killed(database: str, url: str, step: str) -> None:
    """A process that stores a firing and is killed at that step."""
    assert ended(start(deliver_and_die, database, url, step), 100) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("step", "at_once", "in_all"), [("after storing", 1, 1), ("before send", 0, 1), ("before record", 1, 2)], ids=str
)
def test_a_process_killed_on_the_way_loses_nothing_and_repeats_only_what_was_not_recorded(
    database: str, collector: Collector, step: str, at_once: int, in_all: int
) -> None:
    killed(database, collector.url, step)

    clock = HeldClock()
    (receiver,) = opened({"webhook": {"url": collector.url}})
    with closing(open_store(database, create=False)) as store, closing(receiver):
        deliver(store, receiver, clock)
        assert len(collector.requests) == at_once
        for _ in range(3):
            clock.at += LEASE
            deliver(store, receiver, clock)
        (firing,) = store.alerts.firing()
        assert store.outbox.pending(clock.now()) == {}

    keys = [request.headers["Idempotency-Key"] for request in collector.requests]
    assert len(keys) == in_all
    assert len(set(keys)) == 1
    assert all(key.startswith(f"{firing.incident}:") for key in keys)
