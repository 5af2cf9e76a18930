"""Deliveries: who may send what when.

What a receiver comes to believe while it fails, senders die and people intervene.
"""

import shutil
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from sqlalchemy import select

from factories import DAY, HOUR, MINUTE, SLOT, comparison, summary
from factories import rule as alert_rule
from monitor.model.errors import DeliveryError
from monitor.model.notifications import DeliveryStatus, Treatment, Updates
from monitor.model.pages import ReceiverHealth
from monitor.pipeline.delivery import OutboxSender
from monitor.storage import open_store, rows
from monitor.storage.tables.alert_tables import notifications
from pipeline.alerting_run import CountingPublisher, store_judged
from storage.worked import HOOK, LATER, fired, lease, note, resolved, run, select_rows, silence


@pytest.fixture
def owed(store, monkeypatch):
    """A firing and its end, and a firing of another segment between them, owed to two receivers.

    A statement takes two keys, so that three deliveries need more than one.
    """
    monkeypatch.setattr(rows, "IN_LIST", 2)
    firing = fired()
    other = fired(segment="country=UK")
    run(store, SLOT, firing, other, receivers=("hook", "pager"))
    run(store, LATER, resolved(LATER, firing[0]), receivers=("hook", "pager"))
    return store


NOW = LATER


def segments(deliveries):
    return [each.transition.segment for each in deliveries]


def refuse(store, *deliveries, at=NOW, **changes):
    store.outbox.record(
        *(note(each, at, DeliveryStatus.DEAD, reason="401", **changes) for each in deliveries)
    )


def fail(store, *deliveries, at, reason="503", again):
    """The attempt fails, and is to be made again at that time."""
    failed = [
        note(each, at, DeliveryStatus.PENDING, reason=reason, next_attempt_at=again)
        for each in deliveries
    ]
    store.outbox.record(*failed)


def test_all_deliveries_of_a_comparison_are_claimed_together_oldest_first(owed):
    leased = lease(owed, NOW)

    told = [(each.transition.segment, each.transition.is_start) for each in leased]
    assert told == [("all", True), ("country=UK", True), ("all", False)]
    assert {(each.receiver, each.attempts, each.status, each.may_be_known) for each in leased} == {
        ("hook", 0, DeliveryStatus.PENDING, False)
    }
    assert lease(owed, NOW) == lease(owed, NOW, receiver="unknown") == ()
    assert len(lease(owed, NOW, receiver="pager")) == 3


def test_the_oldest_comparison_is_claimed_first_and_a_claimed_one_does_not_block_the_others(owed):
    run(
        owed,
        SLOT,
        fired(SLOT - HOUR, comparison="search"),
        comparison="search",
        receivers=HOOK,
    )
    (first,) = lease(owed, NOW)
    assert first.transition.comparison == "search"
    assert segments(lease(owed, NOW, limit=2)) == ["all", "country=UK"]
    assert lease(owed, NOW) == ()

    run(owed, NOW, fired(NOW, comparison="late"), comparison="late", receivers=HOOK)
    assert [each.transition.comparison for each in lease(owed, NOW)] == ["late"]


def test_an_expired_claim_can_be_taken_and_a_started_delivery_may_have_arrived_and_stays_claimed(
    owed,
):
    first = lease(owed, NOW)
    assert lease(owed, NOW + MINUTE - timedelta(microseconds=1), owner="b:2") == ()
    again = lease(owed, NOW + MINUTE, owner="b:2")
    assert [each.id for each in again] == [each.id for each in first]

    owed.outbox.mark_sending(again[:1], message_key="key", owner="b:2", until=NOW + 3 * MINUTE)
    assert lease(owed, NOW + 2 * MINUTE) == ()
    assert [each.may_be_known for each in lease(owed, NOW + 3 * MINUTE)] == [True, False, False]


def test_a_failed_delivery_is_due_again_at_its_time_unless_another_process_has_sent_it(owed):
    fail(owed, *lease(owed, NOW), at=NOW, again=NOW + HOUR)
    assert lease(owed, NOW + HOUR - MINUTE) == ()
    again = lease(owed, NOW + HOUR)
    assert [each.attempts for each in again] == [1, 1, 1]

    by_another = lease(owed, NOW + 2 * HOUR, owner="b:2")
    owed.outbox.record(note(by_another[0], NOW + 2 * HOUR))
    fail(owed, again[0], at=NOW + 2 * HOUR, again=NOW)
    assert [each.id for each in lease(owed, NOW + 4 * HOUR)] == [each.id for each in by_another[1:]]


def test_suppressed_deliveries_are_checked_again_and_counted_separately(owed):
    for each in lease(owed, NOW):
        owed.outbox.record(
            note(each, NOW, DeliveryStatus.HELD, reason="silence 3", next_attempt_at=NOW + MINUTE)
        )

    assert owed.outbox.waiting(NOW).get("hook") is None
    assert owed.outbox.waiting(NOW, held=True) == {"hook": (2, 3600.0)}
    assert lease(owed, NOW) == ()
    assert [(each.status, each.attempts) for each in lease(owed, NOW + MINUTE)] == [
        (DeliveryStatus.HELD, 0)
    ] * 3


def test_failed_deliveries_are_counted_until_they_are_retried_but_not_those_of_removed_receivers(
    owed,
):
    for each, minutes in zip(lease(owed, NOW), (0, 1, 1), strict=True):
        refuse(owed, each, at=NOW + minutes * MINUTE)
    assert [
        owed.outbox.give_up_removed(configured=["hook"], now=NOW + MINUTE) for _ in range(2)
    ] == [3, 0]
    assert owed.outbox.waiting(NOW) == {}
    assert lease(owed, NOW + HOUR, receiver="pager") == ()

    counts = [owed.outbox.given_up(since=NOW + minutes * MINUTE) for minutes in range(3)]
    assert counts == [{"hook": 3}, {"hook": 2}, {}]
    # A refused end is tried again for a day, and the start of what lasts whenever.
    assert owed.outbox.retry_refused(NOW + DAY + 2 * MINUTE, receivers=["hook"]) == 1
    assert owed.outbox.retry_refused(NOW + DAY + MINUTE, receivers=["hook"]) == 1
    assert owed.outbox.given_up(since=NOW) == {"hook": 1}


def test_receiver_health_has_the_last_success_and_the_first_occurrence_of_the_last_error(owed):
    sent, failed, joined = lease(owed, NOW)
    assert owed.outbox.receiver_health() == {}
    owed.outbox.record(
        note(sent, NOW), note(joined, NOW + MINUTE, reason="joined: no message of its own")
    )
    fail(owed, failed, at=NOW + MINUTE, reason="502", again=NOW)
    for minutes in (2, 3):
        fail(owed, failed, at=NOW + minutes * MINUTE, again=NOW)
    owed.outbox.give_up_removed(configured=["hook"], now=NOW + HOUR)

    assert owed.outbox.receiver_health() == {
        "hook": ReceiverHealth(last_success_at=NOW, last_error_at=NOW + 2 * MINUTE, reason="503")
    }


def test_an_attempt_is_stored_if_its_result_differs_from_the_one_before(owed):
    delivery, *_ = lease(owed, NOW)
    for minutes, reason in enumerate(["503\x00", "503\x00", "504"]):
        at = NOW + minutes * MINUTE
        fail(owed, delivery, at=at, reason=reason, again=at + MINUTE)
    refuse(owed, delivery, at=NOW + HOUR)

    kept = select_rows(owed, select(notifications).order_by(notifications.c.id))
    assert [(row.at, row.status, row.reason, row.next_attempt_at) for row in kept] == [
        (NOW, "pending", "503\x00", NOW + MINUTE),
        (NOW + 2 * MINUTE, "pending", "504", NOW + 3 * MINUTE),
        (NOW + HOUR, "dead", "401", None),
    ]


def test_a_repetition_is_due_at_its_time_and_then_at_the_next(owed):
    lasting = lease(owed, NOW)[1]
    owed.outbox.record(note(lasting, NOW, repeat_at=NOW + HOUR))

    def due(now, receiver="hook"):
        return bool(owed.outbox.due_repetitions(receiver, now=now, limit=9))

    assert not due(NOW + HOUR - MINUTE)
    assert due(NOW + HOUR)
    assert not due(NOW + HOUR, "pager")
    owed.outbox.schedule_repetition([lasting], at=NOW + 2 * HOUR, message_key=None)
    assert not due(NOW + HOUR)
    assert due(NOW + 2 * HOUR)


def test_the_outbox_counts_waiting_deliveries_and_the_age_of_the_oldest(owed):
    owed.outbox.record(*(note(delivery, NOW) for delivery in lease(owed, NOW)[:2]))

    assert owed.outbox.waiting(NOW + MINUTE) == {"hook": (1, 60.0), "pager": (3, 3660.0)}
    assert owed.outbox.waiting(SLOT)["hook"] == (1, 0.0)


def test_a_fallback_gets_only_rejected_deliveries_and_each_only_once(owed):
    first, second, end = lease(owed, NOW)
    for each, fallback in ((first, "mail"), (second, "pager"), (first, "mail")):
        refuse(owed, each, fallback=fallback)

    assert segments(lease(owed, NOW, receiver="mail")) == ["all"]
    of_pager = lease(owed, NOW, receiver="pager")
    assert len(of_pager) == 3
    owed.outbox.record(*(note(each, NOW, DeliveryStatus.DROPPED) for each in of_pager))
    assert lease(owed, NOW + HOUR, receiver="pager") == ()
    refuse(owed, end, fallback="pager")
    assert [each.transition for each in lease(owed, NOW + HOUR, receiver="pager")] == [
        end.transition
    ]


def test_a_receiver_knows_the_starts_that_arrived_or_may_have_arrived(owed):
    first, second, _ = lease(owed, NOW)
    changes = [first.transition, second.transition]
    owed.outbox.mark_sending([second], message_key="key", owner="a:1", until=NOW + MINUTE)

    def known(comparison="home-feed", receiver="hook"):
        return {*owed.outbox.firing_snapshot(comparison, receiver, changes, now=NOW).delivered}

    assert known() == {second.transition.dedup_key}
    owed.outbox.record(note(first, NOW))
    assert known() == {change.dedup_key for change in changes}
    assert owed.outbox.firing_snapshot("home-feed", "hook", changes, now=NOW).firing == (
        second.transition,
    )
    assert known(receiver="pager") == known("search") == set()


SEGMENTS = ("all", "a=1", "a=2")
WATCHED = comparison(rules=(alert_rule(for_runs=1, segments="each"),))
HELD_FOR = ("acknowledged", "waits for the end of its incident")
FAILURES = st.sampled_from(["refused", "killed after", "lost", "taken", "killed before", "down"])
MEANS = st.sampled_from([(0.1,) * 3, (0.9,) * 3]) | st.tuples(*[st.sampled_from([0.1, 0.9])] * 3)


class KilledError(BaseException):
    """Stands for a process that is no more: nothing catches it."""


class Believer:
    """A receiver that keeps what it was told, and fails as planned.

    ``lost`` and ``taken`` look the same to who sends.
    """

    name = "hook"
    treatment = Treatment(updates=Updates.QUIET)

    def __init__(self):
        self.plan = []
        self.firing, self.ended, self.unclear, self.open = (set[str | None]() for _ in range(4))

    def send(self, message, *, now):
        fate = self.plan.pop(0) if self.plan else "well"
        if fate in ("well", "taken", "killed after"):
            self._take(message)
        if fate in ("lost", "taken", "killed before", "killed after"):
            self.unclear |= {change.dedup_key for change in message.changes}
        if fate.startswith("killed"):
            raise KilledError
        if fate != "well":
            raise DeliveryError(
                fate, permanent=fate == "refused", may_be_known=fate in ("lost", "taken")
            )

    def _take(self, message):
        for change in message.changes:
            key = change.dedup_key
            if change.is_start:
                assert key not in self.ended, "a start after its end"
                assert key not in self.firing or key in self.unclear, "a start told twice"
                self.firing.add(key)
                continue
            assert key in self.firing or key in self.unclear, "news of what is not known"
            if change.is_end:
                self.firing.discard(key)
                self.ended.add(key)
        (self.open.add if message.firing else self.open.discard)(message.incident)


class Told(RuleBasedStateMachine):
    """One comparison, one receiver, and everybody who meddles."""

    template: Path

    def __init__(self):
        super().__init__()
        self.folder = TemporaryDirectory()
        self.file = shutil.copy(self.template, self.folder.name)
        self.store = self._open()
        self.at = SLOT
        self.process = 0
        self.receiver = Believer()

    def _open(self):
        return open_store(f"sqlite:///{self.file}", create=False)

    def now(self):
        return self.at

    def monotonic(self):
        return (self.at - SLOT).total_seconds()

    @rule(means=MEANS, fate=st.none() | FAILURES)
    def run_the_next_slot_and_tell(self, means, fate):
        self.run_the_next_slot(means)
        self.deliver([fate] if fate else [])

    @rule(means=MEANS)
    def run_the_next_slot(self, means):
        self.at += 15 * MINUTE
        found = tuple(
            summary(segment=segment, mean=mean)
            for segment, mean in zip(SEGMENTS, means, strict=True)
        )
        store_judged(self.store, WATCHED, self.at, found, to=HOOK)

    @rule(failures=st.lists(FAILURES, max_size=3))
    def deliver(self, failures):
        self.receiver.plan = failures
        self.at += MINUTE
        sender = OutboxSender(
            owner=f"p:{self.process}",
            draw=lambda: 0.5,
            clock=self,
            publisher=CountingPublisher(),
            receiver=self.receiver,
            outbox=self.store.outbox,
        )
        try:
            sender.deliver_due()
        except KilledError:
            self.process += 1

    @rule(segment=st.sampled_from(SEGMENTS))
    def acknowledge(self, segment):
        self.at += MINUTE
        self.store.alerts.acknowledge(
            WATCHED.name, [("SimilarityLow", segment)], author="a", reason="a looks", at=self.at
        )

    @rule(segment=st.sampled_from(SEGMENTS))
    def resolve(self, segment):
        self.at += MINUTE
        self.store.alerts.resolve(
            WATCHED.name, [("SimilarityLow", segment)], reason="closed", at=self.at
        )

    @rule(
        matcher=st.sampled_from(["segment=all", "segment=~a=.*", "segment=~("]),
        minutes=st.integers(5, 60),
    )
    def silence(self, matcher, minutes):
        self.store.alerts.add_silence(silence(self.at, self.at + minutes * MINUTE, matcher))

    @rule()
    def restart(self):
        self.store.close()
        self.store = self._open()
        self.process = self.process + 1
        self.store.outbox.retry_refused(self.at, receivers=HOOK)

    def teardown(self):
        """Everything is well again: nothing is owed, and what is believed to fire is what fires."""
        try:
            self._heal()
        finally:
            self.store.close()
            self.folder.cleanup()

    def _heal(self):
        self.restart()
        for _ in range(2):
            self.at += 90 * MINUTE
            self.deliver([])
        waiting = self.store.outbox.deliveries(receiver="hook", given_up_limit=0, limit=1000)
        assert {each.status for each in waiting} <= {DeliveryStatus.HELD}
        assert all(any(why in (each.reason or "") for why in HELD_FOR) for each in waiting), waiting
        held = {each.transition.dedup_key for each in waiting if each.transition.is_start}
        late = [each.transition for each in waiting if each.transition.is_end]
        lasting = [start for start in self.store.alerts.firing() if start.dedup_key not in held]
        for believed, name in (
            (self.receiver.firing, "dedup_key"),
            (self.receiver.open, "incident"),
        ):
            least, more = (
                {getattr(change, name) for change in changes} for changes in (lasting, late)
            )
            assert least <= believed <= least | more


def test_a_receiver_knows_the_firing_alerts_after_any_failures_and_interventions(sqlite_template):
    Told.template = sqlite_template
    run_state_machine_as_test(
        Told, settings=settings(max_examples=5, stateful_step_count=12, deadline=None)
    )
