"""Deliveries: which process may send which one, and when.

A receiver knows the right alerts although it fails, senders die and people intervene.
"""

import shutil
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from sqlalchemy import select

from factories import DAY, HOUR, MINUTE, SLOT, summary
from monitor.model.errors import DeliveryError
from monitor.model.notifications import DeliveryStatus, Treatment, Updates
from monitor.model.pages import ReceiverHealth
from monitor.storage import open_store, rows
from monitor.storage.tables.alert_tables import notifications
from pipeline.alerting_run import store_judged
from pipeline.test_delivery import EACH, SEGMENTS, Scene
from storage.worked import HOOK, LATER, fired, lease, note, resolved, run, select_rows


@pytest.fixture
def owed(store, monkeypatch):
    """Two receivers have to get a start, a start of another segment, and the end of the first one.

    A statement has at most two keys, so three deliveries need more than one statement.
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
    """The attempt fails, and the next one is due at ``again``."""
    changes = {"reason": reason, "next_attempt_at": again}
    failed = [note(each, at, DeliveryStatus.PENDING, **changes) for each in deliveries]
    store.outbox.record(*failed)


def test_all_deliveries_of_a_comparison_are_claimed_together_oldest_first(owed):
    leased = lease(owed)

    assert segments(leased) == ["all", "country=UK", "all"]
    assert [each.transition.is_start for each in leased] == [True, True, False]
    for each in leased:
        assert each.receiver == "hook"
        assert each.status is DeliveryStatus.PENDING
        assert each.attempts == each.may_be_known == 0
    assert lease(owed) == lease(owed, receiver="unknown") == ()
    assert len(lease(owed, receiver="pager")) == 3


def test_the_oldest_comparison_is_claimed_first_and_a_claimed_one_does_not_block_the_others(owed):
    search = fired(SLOT - HOUR, comparison="search")
    run(owed, SLOT, search, comparison="search", receivers=HOOK)
    (first,) = lease(owed)
    assert first.transition.comparison == "search"
    assert segments(lease(owed, limit=2)) == ["all", "country=UK"]
    assert not lease(owed)

    run(owed, NOW, fired(NOW, comparison="late"), comparison="late", receivers=HOOK)
    assert [each.transition.comparison for each in lease(owed)] == ["late"]


def test_an_expired_claim_can_be_taken_and_a_started_delivery_may_have_arrived_and_stays_claimed(
    owed,
):
    first = lease(owed)
    assert not lease(owed, NOW + MINUTE - timedelta(microseconds=1), owner="b:2")
    again = lease(owed, NOW + MINUTE, owner="b:2")
    assert [each.id for each in again] == [each.id for each in first]

    owed.outbox.mark_sending(again[:1], message_key="key", owner="b:2", until=NOW + 3 * MINUTE)
    assert not lease(owed, NOW + 2 * MINUTE)
    assert [each.may_be_known for each in lease(owed, NOW + 3 * MINUTE)] == [True, False, False]


def test_a_failed_delivery_is_due_again_at_its_time_unless_another_process_has_sent_it(owed):
    fail(owed, *lease(owed), at=NOW, again=NOW + HOUR)
    assert not lease(owed, NOW + HOUR - MINUTE)
    again = lease(owed, NOW + HOUR)
    assert [each.attempts for each in again] == [1, 1, 1]

    by_another = lease(owed, NOW + 2 * HOUR, owner="b:2")
    owed.outbox.record(note(by_another[0], NOW + 2 * HOUR))
    fail(owed, again[0], at=NOW + 2 * HOUR, again=NOW)
    assert [each.id for each in lease(owed, NOW + 4 * HOUR)] == [each.id for each in by_another[1:]]


def test_suppressed_deliveries_are_checked_again_and_counted_apart_from_waiting_ones(owed):
    held = DeliveryStatus.HELD
    for each in lease(owed):
        owed.outbox.record(note(each, status=held, reason="s", next_attempt_at=NOW + MINUTE))

    assert owed.outbox.waiting(NOW) == {"pager": (3, 3600.0)}
    assert owed.outbox.waiting(SLOT - DAY)["pager"] == (3, 0.0)
    assert owed.outbox.waiting(NOW, held=True) == {"hook": (2, 3600.0)}
    assert not lease(owed)
    assert [(each.status, each.attempts) for each in lease(owed, NOW + MINUTE)] == [(held, 0)] * 3


def test_failed_deliveries_are_counted_until_they_are_retried_but_not_those_of_removed_receivers(
    owed,
):
    for each, minutes in zip(lease(owed), (0, 1, 1), strict=True):
        refuse(owed, each, at=NOW + minutes * MINUTE)
    for count in (3, 0):
        assert owed.outbox.give_up_removed(configured=["hook"], now=NOW + MINUTE) == count
    assert not owed.outbox.waiting(NOW)
    assert not lease(owed, NOW + HOUR, receiver="pager")

    counts = [owed.outbox.given_up(since=NOW + minutes * MINUTE) for minutes in range(3)]
    assert counts == [{"hook": 3}, {"hook": 2}, {}]
    # A rejected end is retried for a day, and the start of a firing alert at any time.
    assert owed.outbox.retry_refused(NOW + DAY + 2 * MINUTE, receivers=["hook"]) == 1
    assert owed.outbox.retry_refused(NOW + DAY + MINUTE, receivers=["hook"]) == 1
    assert owed.outbox.given_up(since=NOW) == {"hook": 1}


def test_receiver_health_has_the_last_success_and_the_first_occurrence_of_the_last_error(owed):
    sent, failed, joined = lease(owed)
    assert not owed.outbox.receiver_health()
    owed.outbox.record(
        note(sent), note(joined, NOW + MINUTE, reason="joined: no message of its own")
    )
    fail(owed, failed, at=NOW + MINUTE, reason="502", again=NOW)
    for minutes in (2, 3):
        fail(owed, failed, at=NOW + minutes * MINUTE, again=NOW)
    owed.outbox.give_up_removed(configured=["hook"], now=NOW + HOUR)

    assert owed.outbox.receiver_health() == {
        "hook": ReceiverHealth(last_success_at=NOW, last_error_at=NOW + 2 * MINUTE, reason="503")
    }


def test_an_attempt_is_stored_if_its_result_differs_from_the_one_before(owed):
    delivery, *_ = lease(owed)
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


def test_a_fallback_gets_only_rejected_deliveries_and_each_only_once(owed):
    first, second, end = lease(owed)
    for each, fallback in ((first, "mail"), (second, "pager"), (first, "mail")):
        refuse(owed, each, fallback=fallback)

    assert segments(lease(owed, receiver="mail")) == ["all"]
    of_pager = lease(owed, receiver="pager")
    assert len(of_pager) == 3
    owed.outbox.record(*(note(each, status=DeliveryStatus.DROPPED) for each in of_pager))
    assert not lease(owed, NOW + HOUR, receiver="pager")
    refuse(owed, end, fallback="pager")
    (again,) = lease(owed, NOW + HOUR, receiver="pager")
    assert again.transition == end.transition


HELD_FOR = ("acknowledged", "waits for the end of its incident")
FAILURES = st.sampled_from(["refused", "killed after", "lost", "taken", "killed before", "down"])
MEANS = st.sampled_from([(0.1,) * 3, (0.9,) * 3]) | st.tuples(*[st.sampled_from([0.1, 0.9])] * 3)


class KilledError(BaseException):
    """The process was killed, so no code handles this."""


class RecordingReceiver:
    """A receiver that knows the alerts of its messages, and fails as planned.

    The sender cannot distinguish ``lost`` from ``taken``.
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
            is_unclear = fate in ("lost", "taken")
            raise DeliveryError(fate, permanent=fate == "refused", may_be_known=is_unclear)

    def _take(self, message):
        for change in message.changes:
            key = change.dedup_key
            if change.is_start:
                assert key not in self.ended, "a start after its end"
                assert key not in self.firing or key in self.unclear, "a start sent twice"
                self.firing.add(key)
                continue
            assert key in self.firing or key in self.unclear, "news of an unknown alert"
            if change.is_end:
                self.firing.discard(key)
                self.ended.add(key)
        (self.open.add if message.firing else self.open.discard)(message.incident)


class DeliveryMachine(RuleBasedStateMachine):
    """One comparison, one receiver, and people who intervene."""

    template: Path

    def __init__(self):
        super().__init__()
        self.folder = TemporaryDirectory()
        self.file = shutil.copy(self.template, self.folder.name)
        self.process = 0
        self.receiver = RecordingReceiver()
        self.scene = Scene(self._open(), receiver=self.receiver)

    def _open(self):
        return open_store(f"sqlite:///{self.file}", create=False)

    @rule(means=MEANS, fate=st.none() | FAILURES)
    def run_the_next_slot_and_deliver(self, means, fate):
        self.run_the_next_slot(means)
        self.deliver([fate] if fate else [])

    @rule(means=MEANS)
    def run_the_next_slot(self, means):
        self.scene.wait(15 * MINUTE)
        values = zip(SEGMENTS, means, strict=True)
        found = tuple(summary(segment=segment, mean=mean) for segment, mean in values)
        store_judged(self.scene.store, EACH, self.scene.clock.at, found, to=HOOK)

    @rule(failures=st.lists(FAILURES, max_size=3))
    def deliver(self, failures):
        self.receiver.plan = failures
        self.scene.wait(MINUTE)
        try:
            self.scene.open_sender(owner=f"p:{self.process}").deliver_due()
        except KilledError:
            self.process += 1

    @rule(segment=st.sampled_from(SEGMENTS))
    def acknowledge(self, segment):
        self.scene.wait(MINUTE)
        self.scene.acknowledge(segment)

    @rule(segment=st.sampled_from(SEGMENTS))
    def resolve(self, segment):
        self.scene.wait(MINUTE)
        self.scene.resolve(segment)

    @rule(
        matcher=st.sampled_from(["segment=all", "segment=~a=.*", "segment=~("]),
        minutes=st.integers(5, 60),
    )
    def silence(self, matcher, minutes):
        self.scene.silence(matcher, minutes * MINUTE)

    @rule()
    def restart(self):
        self.scene.store.close()
        self.scene.store = self._open()
        self.process += 1
        self.scene.retry_refused("hook")

    def teardown(self):
        """After all failures the outbox is empty, and the receiver knows exactly the firing alerts."""
        try:
            self._heal()
        finally:
            self.scene.store.close()
            self.folder.cleanup()

    def _heal(self):
        self.restart()
        for _ in range(2):
            self.scene.wait(90 * MINUTE)
            self.deliver([])
        waiting = self.scene.store.outbox.deliveries(receiver="hook", given_up_limit=0, limit=1000)
        assert {each.status for each in waiting} <= {DeliveryStatus.HELD}
        assert all(any(why in (each.reason or "") for why in HELD_FOR) for each in waiting), waiting
        held = {each.transition.dedup_key for each in waiting if each.transition.is_start}
        late = [each.transition for each in waiting if each.transition.is_end]
        lasting = [
            start for start in self.scene.store.alerts.firing() if start.dedup_key not in held
        ]
        known = {"dedup_key": self.receiver.firing, "incident": self.receiver.open}
        for name, keys in known.items():
            least = {getattr(change, name) for change in lasting}
            assert least <= keys <= least | {getattr(change, name) for change in late}


def test_a_receiver_knows_the_firing_alerts_after_any_failures_and_interventions(sqlite_template):
    DeliveryMachine.template = sqlite_template
    few = settings(max_examples=5, stateful_step_count=12, deadline=None)
    run_state_machine_as_test(DeliveryMachine, settings=few)
