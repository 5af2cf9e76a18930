"""Deliveries: who may send what when; what a receiver comes to believe while it fails, senders die and people intervene."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from sqlalchemy import select

from factories import HOUR, MINUTE, SLOT, comparison, summary
from factories import rule as alert_rule
from monitor.errors import DatabaseError, DeliveryError
from monitor.model.alerts import Transition
from monitor.model.notifications import DeliveryStatus, Message, Silence, Treatment, Updates
from monitor.pipeline.delivery import OutboxSender
from monitor.storage import SqlStore, rows
from monitor.storage.tables.alert_tables import notifications
from pipeline.owed_run import CountingPublisher, store_judged
from statements import count_statements
from storage.test_alert_store import OverAFile
from storage.worked import claimed, fired, lease, note, resolved, result, run


@pytest.fixture
def owed(store: SqlStore) -> SqlStore:
    """A firing and its end, and a firing of another segment between them, owed to two receivers."""
    firing, other = fired(SLOT), fired(SLOT, segment="country=UK")
    run(store, SLOT, firing, other, receivers=("hook", "pager"))
    run(store, SLOT + HOUR, resolved(SLOT + HOUR, firing[0]), receivers=("hook", "pager"))
    return store


NOW = SLOT + HOUR


def test_all_that_waits_of_a_comparison_is_leased_at_once_oldest_first_whoever_else_was_told(
    owed: SqlStore,
) -> None:
    leased = lease(owed, NOW)

    assert [(each.transition.segment, each.transition.is_start) for each in leased] == [
        ("all", True),
        ("country=UK", True),
        ("all", False),
    ]
    assert {(each.receiver, each.attempts, each.status, each.may_be_known) for each in leased} == {
        ("hook", 0, DeliveryStatus.PENDING, False)
    }
    assert lease(owed, NOW) == ()
    assert (len(lease(owed, NOW, receiver="pager")), lease(owed, NOW, receiver="unknown")) == (3, ())


def test_the_comparison_that_is_due_longest_comes_first(owed: SqlStore) -> None:
    run(owed, SLOT, fired(SLOT - HOUR, comparison="search"), comparison="search", receivers=("hook",))

    assert [each.transition.comparison for each in lease(owed, NOW)] == ["search"]
    assert len(lease(owed, NOW)) == 3


def test_the_limit_is_kept_and_a_comparison_that_somebody_is_telling_holds_up_no_other(owed: SqlStore) -> None:
    assert [each.transition.segment for each in lease(owed, NOW, limit=2)] == ["all", "country=UK"]
    assert lease(owed, NOW) == ()
    run(owed, NOW, fired(NOW, comparison="search"), comparison="search", receivers=("hook",))

    assert [each.transition.comparison for each in lease(owed, NOW)] == ["search"]


def test_a_lease_that_ran_out_is_taken_by_whoever_comes(owed: SqlStore) -> None:
    first = lease(owed, NOW)
    assert lease(owed, NOW + MINUTE - timedelta(microseconds=1), owner="b:2") == ()

    assert [delivery.id for delivery in lease(owed, NOW + MINUTE, owner="b:2")] == [delivery.id for delivery in first]


def test_what_is_begun_may_be_known_and_stays_leased_meanwhile(owed: SqlStore) -> None:
    first = lease(owed, NOW)[0]
    owed.outbox.mark_sending([first], message_key="key", owner="a:1", until=NOW + 2 * MINUTE)

    assert lease(owed, NOW + MINUTE, owner="b:2") == ()
    assert [each.may_be_known for each in lease(owed, NOW + 2 * MINUTE, owner="b:2")] == [True, False, False]


def test_what_failed_is_due_again_at_its_time_with_all_that_waits(owed: SqlStore) -> None:
    failed = [note(each, NOW, DeliveryStatus.PENDING, reason="503", next_attempt_at=NOW + HOUR) for each in lease(owed, NOW)]
    owed.outbox.record(*failed)

    assert lease(owed, NOW + HOUR - MINUTE) == ()
    assert [each.attempts for each in lease(owed, NOW + HOUR)] == [1, 1, 1]


def test_what_is_held_back_is_looked_at_again_and_counted_apart(owed: SqlStore) -> None:
    for each in lease(owed, NOW):
        owed.outbox.record(note(each, NOW, DeliveryStatus.HELD, reason="silence 3", next_attempt_at=NOW + MINUTE))

    assert (owed.outbox.waiting(NOW).get("hook"), owed.outbox.waiting(NOW, held=True)) == (None, {"hook": (2, 3600.0)})
    assert lease(owed, NOW) == ()
    assert [(each.status, each.attempts) for each in lease(owed, NOW + MINUTE)] == [(DeliveryStatus.HELD, 0)] * 3


def test_what_was_given_up_is_counted_until_it_is_tried_again_but_not_what_is_owed_to_nobody(owed: SqlStore) -> None:
    for each, minutes in zip(lease(owed, NOW), (0, 1, 1), strict=True):
        owed.outbox.record(note(each, NOW + minutes * MINUTE, DeliveryStatus.DEAD, reason="401"))
    assert [owed.outbox.give_up_unknown(known=["hook"], now=NOW + MINUTE) for _ in range(2)] == [3, 0]
    assert (owed.outbox.waiting(NOW), lease(owed, NOW + HOUR, receiver="pager")) == ({}, ())

    assert owed.outbox.given_up(since=NOW) == {"hook": 3}
    assert owed.outbox.given_up(since=NOW + MINUTE) == {"hook": 2}
    assert owed.outbox.given_up(since=NOW + 2 * MINUTE) == {}
    assert owed.outbox.retry_refused(NOW + 2 * MINUTE, receivers=["hook"]) > 0
    assert sum(owed.outbox.given_up(since=NOW).values()) < 3


def test_an_attempt_is_kept_when_it_ended_otherwise_than_the_one_before(owed: SqlStore) -> None:
    delivery = lease(owed, NOW)[0]
    for minutes, reason in enumerate(["503\x00", "503\x00", "504"]):
        at = NOW + minutes * MINUTE
        owed.outbox.record(note(delivery, at, DeliveryStatus.PENDING, reason=reason, next_attempt_at=at + MINUTE))
    owed.outbox.record(note(delivery, NOW + HOUR))

    with owed.database.read() as connection:
        rows = connection.execute(select(notifications).order_by(notifications.c.id)).all()
    assert [(row.attempted_at, row.status, row.reason, row.next_attempt_at) for row in rows] == [
        (NOW, "pending", "503\x00", NOW + MINUTE),
        (NOW + 2 * MINUTE, "pending", "504", NOW + 3 * MINUTE),
        (NOW + HOUR, "sent", None, None),
    ]


def test_what_is_known_of_a_delivery_says_when_it_is_tried_again_unless_it_was_given_up(owed: SqlStore) -> None:
    refused, failed, _ = lease(owed, NOW)
    owed.outbox.record(
        note(refused, NOW, DeliveryStatus.DEAD, reason="401"),
        note(failed, NOW, DeliveryStatus.PENDING, reason="503", next_attempt_at=NOW + HOUR),
    )

    found = owed.outbox.deliveries(receiver="hook", settled=9, limit=9)
    assert [(each.reason, each.next_attempt_at) for each in found[:2]] == [("401", None), ("503", NOW + HOUR)]


def test_a_start_is_repeated_at_its_time_and_then_at_the_next(owed: SqlStore) -> None:
    lasting = lease(owed, NOW)[1]
    owed.outbox.record(note(lasting, NOW, repeat_at=NOW + HOUR))

    def due(now: datetime, receiver: str = "hook") -> list[int]:
        return [each.id for each in owed.outbox.due_repetitions(receiver, now=now, limit=9)]

    assert (due(NOW + HOUR - MINUTE), due(NOW + HOUR), due(NOW + HOUR, "pager")) == ([], [lasting.id], [])
    owed.outbox.schedule_repetition([lasting], at=NOW + 2 * HOUR, message_key=None)
    assert (due(NOW + HOUR), due(NOW + 2 * HOUR)) == ([], [lasting.id])


def test_a_refused_end_is_tried_again_for_a_day_and_the_start_of_what_lasts_whenever(owed: SqlStore) -> None:
    owed.outbox.record(*(note(each, NOW, DeliveryStatus.DEAD, reason="401") for each in lease(owed, NOW)))

    assert owed.outbox.retry_refused(NOW + timedelta(days=1) + MINUTE, receivers=["hook"]) == 1
    assert owed.outbox.retry_refused(NOW + timedelta(days=1), receivers=["hook"]) == 1


def test_a_late_failure_does_not_bring_back_what_somebody_else_has_sent(owed: SqlStore) -> None:
    delivery = lease(owed, NOW)[0]
    owed.outbox.record(note(lease(owed, NOW + MINUTE, owner="b:2")[0], NOW + MINUTE))

    owed.outbox.record(note(delivery, NOW + 2 * MINUTE, DeliveryStatus.PENDING, next_attempt_at=NOW))

    assert delivery.id not in {other.id for other in lease(owed, NOW + HOUR)}


def test_the_outbox_counts_what_waits_and_the_age_of_the_oldest(owed: SqlStore) -> None:
    assert owed.outbox.waiting(NOW + MINUTE) == {"hook": (3, 3660.0), "pager": (3, 3660.0)}

    owed.outbox.record(*(note(delivery, NOW) for delivery in lease(owed, NOW)[:2]))

    assert owed.outbox.waiting(NOW + MINUTE) == {"hook": (1, 60.0), "pager": (3, 3660.0)}
    assert owed.outbox.waiting(SLOT)["hook"] == (1, 0.0)


def test_whoever_stands_in_is_owed_what_was_refused_once(owed: SqlStore) -> None:
    first, second, _ = lease(owed, NOW)
    owed.outbox.record(
        note(first, NOW, DeliveryStatus.DEAD, reason="401", fallback="mail"),
        note(second, NOW, DeliveryStatus.DEAD, reason="401", fallback="pager"),
    )
    owed.outbox.record(note(first, NOW, DeliveryStatus.DEAD, reason="401", fallback="mail"))

    assert [each.transition.segment for each in lease(owed, NOW, receiver="mail")] == ["all"]
    assert len(lease(owed, NOW, receiver="pager")) == 3


def test_whoever_stands_in_is_owed_what_was_routed_past_him_but_nothing_else_of_it(owed: SqlStore) -> None:
    dropped = [note(each, NOW, DeliveryStatus.DROPPED) for each in lease(owed, NOW, receiver="pager")]
    owed.outbox.record(*dropped)
    owed.outbox.record(note(lease(owed, NOW)[1], NOW, DeliveryStatus.DEAD, reason="401", fallback="pager"))

    assert [each.transition.segment for each in lease(owed, NOW, receiver="pager")] == ["country=UK"]


def test_what_receivers_know_is_what_they_were_sent_or_may_have_been(owed: SqlStore) -> None:
    first, second, _ = lease(owed, NOW)
    owed.outbox.mark_sending([second], message_key="key", owner="a:1", until=NOW + MINUTE)
    changes = [first.transition, second.transition]
    snapshot = owed.outbox.firing_snapshot("home-feed", "hook", changes, now=NOW)
    assert snapshot.delivered == {second.transition.dedup_key}

    owed.outbox.record(note(first, NOW))

    snapshot = owed.outbox.firing_snapshot("home-feed", "hook", changes, now=NOW)
    assert snapshot.delivered == {change.dedup_key for change in changes}
    assert snapshot.firing == (second.transition,)
    assert owed.outbox.firing_snapshot("home-feed", "pager", changes, now=NOW).delivered == set()
    assert owed.outbox.firing_snapshot("search", "hook", changes, now=NOW).delivered == set()


def test_a_notification_of_no_delivery_is_an_error(owed: SqlStore) -> None:
    delivery = lease(owed, NOW)[0]
    missing = note(delivery, NOW, delivery_id=999)

    with pytest.raises(DatabaseError, match="no delivery 999"):
        owed.outbox.record(missing)


def test_storing_telling_recording_and_retiring_take_as_many_statements_for_a_hundred_as_for_one(store: SqlStore) -> None:
    taken = []
    run(store, SLOT)  # makes the day's partition
    for name, count in (("one", 1), ("many", 100)):
        firing = [fired(SLOT, comparison=name, segment=f"shop={n}") for n in range(count)]
        claim = claimed(store, SLOT, comparison=name)
        done = result(claim, states=[each for each, _ in firing], transitions=[cause for _, cause in firing])
        finishing = count_statements(lambda done=done: store.runs.finish(done, receivers=("hook", "pager")))  # type: ignore[misc]
        hook, pager = (lease(store, NOW, receiver=each, limit=count) for each in ("hook", "pager"))
        assert len(hook) == len(pager) == count
        sent = [note(each, NOW) for each in hook]
        refused = [note(each, NOW, DeliveryStatus.DEAD, reason="no", fallback="hook-2") for each in pager]
        ends = [resolved(NOW, state)[1] for state, _ in firing]
        changes = [each.transition for each in hook]
        acts: list[Callable[[], object]] = [
            lambda name=name: lease(store, NOW, receiver=name),  # type: ignore[misc]  # a default binds
            lambda hook=hook: store.outbox.mark_sending(hook, message_key="key", owner="a:1", until=NOW + MINUTE),  # type: ignore[misc]
            lambda name=name, told=changes: store.outbox.firing_snapshot(name, "hook", told, now=NOW),  # type: ignore[misc]
            lambda sent=sent: store.outbox.record(*sent),  # type: ignore[misc]
            lambda refused=refused: store.outbox.record(*refused),  # type: ignore[misc]
            lambda ends=ends: store.alerts.retire(ends, receivers=("hook",)),  # type: ignore[misc]
        ]
        taken.append([finishing, *(count_statements(act) for act in acts)])
        assert len(lease(store, NOW, receiver="hook-2", limit=200)) == 2 * count  # the starts, and their ends by now
    assert taken[0] == taken[1]
    assert store.alerts.states() == ()


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("act", ["ask", "forget", "revive"])
def test_more_keys_than_a_statement_holds_are_no_trouble(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, act: str
) -> None:
    assert rows.IN_LIST < 32_766, "what a statement of SQLite holds"
    monkeypatch.setattr(rows, "IN_LIST", 20)
    moves = [fired(SLOT, segment=f"country={number}") for number in range(70)]
    run(store, SLOT, *moves, receivers=("hook",))
    status = DeliveryStatus.SENT if act == "ask" else DeliveryStatus.DEAD
    for each in lease(store, SLOT, limit=70) if act != "forget" else ():
        store.outbox.record(note(each, SLOT, status))
    with store.database.read() as connection:
        connection.connection.driver_connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 60)  # type: ignore[union-attr]
    request.addfinalizer(store.database.renew)  # nobody else shall meet this limit

    if act == "ask":
        changes = [change for _, change in moves]
        keys = {change.dedup_key for change in changes}
        assert store.outbox.firing_snapshot("home-feed", "hook", changes, now=SLOT).delivered == keys
    elif act == "forget":
        assert store.outbox.give_up_unknown(known=("other",), now=SLOT) == 70
    else:
        assert store.outbox.retry_refused(NOW, receivers=("hook",)) == 70
        assert store.outbox.waiting(NOW)["hook"][0] == 70


SEGMENTS = ("all", "a=1", "a=2")
WATCHED = comparison(rules=(alert_rule(for_runs=1, segments="each"),))
HELD_FOR = ("acknowledged", "waits for the end of its incident")
FAILURES = st.sampled_from(["refused", "killed after", "lost", "taken", "killed before", "down"])
FATES = st.none() | FAILURES


class KilledError(BaseException):
    """Stands for a process that is no more: nothing catches it."""


class Believer:
    """A receiver that keeps what it was told, and fails as planned; ``lost`` and ``taken`` look the same to who sends."""

    name, treatment = "hook", Treatment(updates=Updates.UNPAGED)

    def __init__(self) -> None:
        self.plan: list[str] = []
        self.firing: set[str | None] = set()
        self.ended: set[str | None] = set()
        self.unclear: set[str | None] = set()
        self.open: set[str] = set()

    def send(self, message: Message, *, now: datetime) -> None:
        fate = self.plan.pop(0) if self.plan else "well"
        if fate in ("well", "taken", "killed after"):
            self._take(message)
        if fate in ("lost", "taken", "killed before", "killed after"):
            self.unclear |= {change.dedup_key for change in message.changes}
        if fate.startswith("killed"):
            raise KilledError
        if fate != "well":
            raise DeliveryError(fate, permanent=fate == "refused", may_be_known=fate in ("lost", "taken"))

    def _take(self, message: Message) -> None:
        for change in message.changes:
            key = change.dedup_key
            if change.is_start:
                assert key not in self.firing | self.ended or key in self.unclear, "a start told twice"
                assert key not in self.ended, "a start after its end"
                self.firing.add(key)
            elif change.is_end:
                assert key in self.firing or key in self.unclear, "an end of what is not known"
                assert key not in self.ended or key in self.unclear, "an end told twice"
                self.firing.discard(key)
                self.ended.add(key)
            else:
                assert key in self.firing or key in self.unclear, "an acknowledgement of what is not known"
        (self.open.add if message.firing else self.open.discard)(message.incident)


class Told(OverAFile):
    """One comparison, one receiver, and everybody who meddles."""

    def __init__(self) -> None:
        super().__init__()
        self.at, self.process, self.receiver = SLOT, 0, Believer()

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - SLOT).total_seconds()

    def _deliver(self) -> None:
        parts: dict[str, Any] = {
            "clock": self,
            "publisher": CountingPublisher(),
            "receiver": self.receiver,
            "outbox": self.store.outbox,
        }
        with suppress(KilledError):
            OutboxSender(owner=f"p:{self.process}", draw=lambda: 0.5, **parts).deliver_due()
            return
        self.process += 1

    @rule(means=st.sampled_from([(0.1,) * 3, (0.9,) * 3]) | st.tuples(*[st.sampled_from([0.1, 0.9])] * 3), fate=FATES)
    def run_the_next_slot_and_tell(self, means: tuple[float, ...], fate: str | None) -> None:
        self.run_the_next_slot(means)
        self.deliver([fate] if fate else [])

    @rule(means=st.tuples(*[st.sampled_from([0.1, 0.9])] * 3))
    def run_the_next_slot(self, means: tuple[float, ...]) -> None:
        self.at += 15 * MINUTE
        found = tuple(summary(segment=segment, mean=mean) for segment, mean in zip(SEGMENTS, means, strict=True))
        store_judged(self.store, WATCHED, self.at, found, to=("hook",))

    @rule(failures=st.lists(FAILURES, max_size=3))
    def deliver(self, failures: list[str]) -> None:
        self.receiver.plan = failures
        self.at += MINUTE
        self._deliver()

    @rule(segment=st.sampled_from(SEGMENTS))
    def acknowledge(self, segment: str) -> None:
        self.at += MINUTE
        self.store.alerts.acknowledge(WATCHED.name, [("SimilarityLow", segment)], author="a", reason="a looks", at=self.at)

    @rule(segment=st.sampled_from(SEGMENTS))
    def resolve(self, segment: str) -> None:
        self.at += MINUTE
        self.store.alerts.resolve(WATCHED.name, [("SimilarityLow", segment)], reason="closed", at=self.at)

    @rule(matcher=st.sampled_from(["segment=all", "segment=~a=.*", "segment=~("]), minutes=st.integers(5, 60))
    def silence(self, matcher: str, minutes: int) -> None:
        said: dict[str, Any] = {"id": 0, "author": "a", "comment": "", "created_at": self.at, "starts_at": self.at}
        self.store.alerts.add_silence(Silence(matchers=(matcher,), ends_at=self.at + minutes * MINUTE, **said))

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store, self.process = self._open(), self.process + 1
        self.store.outbox.retry_refused(self.at, receivers=("hook",))

    @rule(minutes=st.integers(-30, 30))
    def set_the_clock(self, minutes: int) -> None:
        """Not so far back that a slot comes again, which the service would say."""
        newest = next((run.slot for run in self.store.history.runs(comparison=WATCHED.name, limit=1)), SLOT)
        self.at = max(newest, self.at + minutes * MINUTE)

    def teardown(self) -> None:
        """Everything is well again: nothing is owed, and what is believed to fire is what fires."""
        try:
            self._heal()
        finally:
            super().teardown()

    def _heal(self) -> None:
        self.receiver.plan = []
        self.restart()
        for _ in range(2):
            self.at += 90 * MINUTE
            self._deliver()
        waiting = self.store.outbox.deliveries(receiver="hook", settled=0, limit=1000)
        assert {each.status for each in waiting} <= {DeliveryStatus.HELD}
        assert all(any(why in (each.reason or "") for why in HELD_FOR) for each in waiting), waiting
        held = {each.transition.dedup_key for each in waiting if each.transition.is_start}
        late = [each.transition for each in waiting if each.transition.is_end]
        lasting = [start for start in self.store.alerts.firing() if start.dedup_key not in held]
        assert _keys(lasting) <= self.receiver.firing <= _keys(lasting) | _keys(late)
        assert _incidents(lasting) <= self.receiver.open <= _incidents(lasting) | _incidents(late)


def _keys(changes: list[Transition]) -> set[str | None]:
    return {change.dedup_key for change in changes}


def _incidents(changes: list[Transition]) -> set[str]:
    return {change.incident or "" for change in changes}


TestTold = Told.TestCase
TestTold.settings = settings(
    max_examples=6, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
