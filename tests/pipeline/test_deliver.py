import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from factories import SLOT, comparison, rule
from monitor.alerts import retire
from monitor.errors import DatabaseError, DeliveryError
from monitor.model import State, Transition
from monitor.pipeline.deliver import LEASE, deliver_due, drain, resend_firing
from monitor.ports import Receiver
from monitor.receivers import ReceiverOptions, open_receivers
from monitor.storage import SqlStore, open_store
from pipeline.outbox_process import store_run
from servers import free_port
from servers.alertmanager import AlertmanagerServer, make_alertmanager
from servers.webhook import Collector, answer, collector, eventually, hang, serve

__all__ = ["collector", "make_alertmanager"]

DAY = timedelta(days=1)
PROCESS = Path(__file__).with_name("outbox_process.py")


@dataclass
class FakeClock:
    at: datetime = SLOT
    seconds: float = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.seconds

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.seconds += seconds


@dataclass
class FakeReceiver:
    """Takes what it is sent, after raising what it was told to raise."""

    name: str = "fake"
    resend_every_s: float | None = None
    errors: list[Exception] = field(default_factory=list)
    sent: list[Transition] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def send(self, transitions: Sequence[Transition], *, now: datetime) -> None:
        assert now.tzinfo is UTC
        self.batches.append(len(transitions))
        if self.errors:
            raise self.errors.pop(0)
        self.sent.extend(transitions)

    def close(self) -> None:
        pass


@dataclass
class FakePublisher:
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def notified(self, receiver: str, outcome: str) -> None:
        self.counts[receiver, outcome] += 1


DOWN = DeliveryError("fake is down", permanent=False)
REFUSED = DeliveryError("fake answered 400", permanent=True)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rankwatch.db'}"


@pytest.fixture
def store(database: str) -> Iterator[SqlStore]:
    with closing(open_store(database, create=True)) as opened:
        yield opened


def deliver(store: Any, receiver: Any, clock: FakeClock, publisher: Any = None, **options: Any) -> Any:
    counted: Any = publisher or FakePublisher()
    return deliver_due(store, receiver, clock, owner="me", publisher=counted, draw=lambda: 0.5, **options)


def owed(store: SqlStore, clock: FakeClock, name: str = "fake") -> int:
    return store.outbox(clock.now()).get(name, (0, 0.0))[0]


def test_what_is_due_is_sent_once_in_order_and_recorded(store: SqlStore) -> None:
    clock, receiver, publisher = FakeClock(SLOT + 2 * DAY), FakeReceiver(), FakePublisher()
    (firing,) = store_run(store, 0.1)
    (end,) = store_run(store, 0.9, slot=SLOT + DAY)

    counts = deliver(store, receiver, clock, publisher)

    assert receiver.sent == [firing, end]
    assert (counts.sent, counts.retry, counts.dead, counts.retry_at) == (2, 0, 0, None)
    assert publisher.counts == {("fake", "sent"): 2}
    assert owed(store, clock) == 0
    assert deliver(store, receiver, clock).sent == 0
    assert len(receiver.sent) == 2


def test_pending_is_not_announced(store: SqlStore) -> None:
    receiver = FakeReceiver()
    (pending,) = store_run(store, 0.1, watched=comparison(rules=(rule(for_runs=2),)))
    assert pending.to_state is State.PENDING
    deliver(store, receiver, FakeClock())
    assert receiver.sent == []


def test_a_failure_that_may_pass_is_tried_again_later_and_later(store: SqlStore) -> None:
    clock, publisher = FakeClock(), FakePublisher()
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


def test_retry_after_is_honoured(store: SqlStore) -> None:
    clock = FakeClock()
    store_run(store, 0.1)
    receiver = FakeReceiver(errors=[DeliveryError("slow down", permanent=False, retry_after_s=120)])
    assert deliver(store, receiver, clock).retry_at == SLOT + timedelta(seconds=121)


def test_a_permanent_failure_is_given_up_and_the_next_goes_on(store: SqlStore) -> None:
    clock, receiver, publisher = FakeClock(SLOT + DAY), FakeReceiver(errors=[REFUSED]), FakePublisher()
    store_run(store, 0.1)
    (end,) = store_run(store, 0.9, slot=SLOT + DAY)
    counts = deliver(store, receiver, clock, publisher)
    assert (counts.sent, counts.dead, owed(store, clock)) == (1, 1, 0)
    assert receiver.sent == [end]
    assert publisher.counts == {("fake", "dead"): 1, ("fake", "sent"): 1}


def test_an_end_never_overtakes_its_start(store: SqlStore) -> None:
    clock, receiver = FakeClock(SLOT + DAY), FakeReceiver(errors=[DOWN])
    (firing,) = store_run(store, 0.1)
    (end,) = store_run(store, 0.9, slot=SLOT + DAY)
    deliver(store, receiver, clock)
    assert deliver(store, receiver, clock).sent == 0
    clock.pass_by(60)
    deliver(store, receiver, clock)
    assert receiver.sent == [firing, end]


def test_a_receiver_that_is_down_is_tried_once_a_round_and_others_are_not_held_up(store: SqlStore) -> None:
    each = comparison(rules=(rule(for_runs=1, segments="each"),))
    names = ("fake", "other")
    store_run(store, 0.1, watched=each, segments=("all", "a=1", "a=2", "a=3"), to=names)
    down, other = FakeReceiver(errors=[DOWN] * 9), FakeReceiver("other")
    assert deliver(store, down, FakeClock()).retry == 1
    assert down.batches == [1]
    assert deliver(store, other, FakeClock()).sent == 4


def test_one_that_is_refused_over_and_over_does_not_starve_the_rest(store: SqlStore) -> None:
    each = comparison(rules=(rule(for_runs=1, segments="each"),))
    store_run(store, 0.1, watched=each, segments=("all", "a=1", "a=2"))

    class Choosy(FakeReceiver):
        def send(self, transitions: Sequence[Transition], *, now: datetime) -> None:
            if transitions[0].segment == "all":
                raise DOWN
            super().send(transitions, now=now)

    receiver = Choosy()
    deliver(store, receiver, FakeClock())
    deliver(store, receiver, FakeClock())
    assert [sent.segment for sent in receiver.sent] == ["a=1", "a=2"]


def test_a_defect_is_raised_and_the_delivery_is_put_off_not_lost(store: SqlStore) -> None:
    clock, publisher = FakeClock(), FakePublisher()
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
            return getattr(store, name)

        def record(self, _notification: object) -> None:
            msg = "the disk is full"
            raise DatabaseError(msg)

    clock, receiver = FakeClock(), FakeReceiver()
    store_run(store, 0.1)
    with pytest.raises(DatabaseError):
        deliver(Forgetful(), receiver, clock)
    assert deliver(store, receiver, clock).sent == 0
    clock.at += LEASE
    assert deliver(store, receiver, clock).sent == 1
    first, second = receiver.sent
    assert first.dedup_key == second.dedup_key


def test_it_stops_when_told_and_at_its_limit(store: SqlStore) -> None:
    each = comparison(rules=(rule(for_runs=1, segments="each"),))
    store_run(store, 0.1, watched=each, segments=("all", "a=1", "a=2"))
    receiver = FakeReceiver()
    assert deliver(store, receiver, FakeClock(), should_stop=lambda: True).sent == 0
    assert deliver(store, receiver, FakeClock(), limit=2).sent == 2
    assert deliver(store, receiver, FakeClock(), should_stop=lambda: len(receiver.sent) == 3).sent == 1


def test_two_senders_at_once_send_each_once(store: SqlStore) -> None:
    each = comparison(rules=(rule(for_runs=1, segments="each"),))
    store_run(store, 0.1, watched=each, segments=("all", *(f"a={number}" for number in range(20))))
    receiver, clock = FakeReceiver(), FakeClock()
    threads = [
        threading.Thread(
            target=deliver_due, args=(store, receiver, clock), kwargs={"owner": owner, "publisher": FakePublisher()}
        )
        for owner in ("one", "two")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(sent.segment for sent in receiver.sent) == Counter(["all", *(f"a={number}" for number in range(20))])


def test_what_fires_is_told_again_in_batches_until_it_ends(store: SqlStore) -> None:
    each = comparison(rules=(rule(for_runs=1, segments="each"),))
    segments = ("all", *(f"a={number}" for number in range(69)))
    started = store_run(store, 0.1, watched=each, segments=segments)
    receiver = FakeReceiver(resend_every_s=60)

    assert resend_firing(store, receiver, FakeClock()) == 70
    assert receiver.batches == [64, 6]
    assert receiver.sent == list(started)

    store_run(store, 0.9, slot=SLOT + DAY, watched=each, segments=segments)
    assert resend_firing(store, receiver, FakeClock()) == 0
    assert receiver.batches == [64, 6]


def test_a_receiver_that_wants_no_resends_gets_none_and_a_failed_resend_is_raised(store: SqlStore) -> None:
    store_run(store, 0.1)
    once = FakeReceiver()
    assert resend_firing(store, once, FakeClock()) == 0
    assert once.batches == []
    with pytest.raises(DeliveryError):
        resend_firing(store, FakeReceiver(resend_every_s=60, errors=[DOWN]), FakeClock())


def drained(store: SqlStore, receivers: Sequence[Any], clock: FakeClock, budget_s: float = 30) -> Any:
    publisher: Any = FakePublisher()
    return drain(store, receivers, clock, owner="me", publisher=publisher, budget_s=budget_s, pause=clock.pass_by)


def test_draining_ends_when_nobody_is_owed_anything(store: SqlStore) -> None:
    store_run(store, 0.1, to=("fake", "other", "gone"))
    clock, receivers = FakeClock(), [FakeReceiver(), FakeReceiver("other")]
    assert drained(store, receivers, clock).sent == 2
    assert clock.seconds == 0


def test_draining_waits_for_retries_that_come_due(store: SqlStore) -> None:
    store_run(store, 0.1, to=("fake", "other"))
    clock, failing, other = FakeClock(), FakeReceiver(errors=[DOWN, DOWN]), FakeReceiver("other")
    counts = drained(store, [failing, other], clock)
    assert (counts.sent, counts.retry) == (2, 2)
    assert clock.seconds < 30


def test_draining_ends_with_its_time_and_leaves_the_rest_in_the_outbox(store: SqlStore) -> None:
    store_run(store, 0.1)
    clock = FakeClock()
    counts = drained(store, [FakeReceiver(errors=[DOWN] * 1000)], clock, budget_s=10)
    assert counts.sent == 0
    assert clock.seconds == pytest.approx(10)
    assert owed(store, clock) == 1


def test_a_rule_that_was_removed_ends_its_firing_under_the_same_key(store: SqlStore) -> None:
    (firing,) = store_run(store, 0.1)
    gone = retire(store.all_alert_states(), store.firing(), [comparison(rules=())], at=SLOT + DAY)
    store.retire(gone, receivers=["fake"])
    receiver = FakeReceiver()
    deliver(store, receiver, FakeClock(SLOT + DAY))
    assert [sent.dedup_key for sent in receiver.sent] == [firing.dedup_key] * 2
    assert (receiver.sent[1].is_start, receiver.sent[1].labels, store.firing()) == (False, firing.labels, ())


# Real receivers and real processes from here on.


def opened(*entries: dict[str, Any]) -> tuple[Receiver, ...]:
    return open_receivers([ReceiverOptions.model_validate(entry) for entry in entries], external_url="http://rankwatch.test")


def test_a_webhook_that_was_down_for_a_while_gets_its_message_once(store: SqlStore) -> None:
    port = free_port()
    (firing,) = store_run(store, 0.1, to=["webhook"])
    clock = FakeClock()
    (receiver,) = opened({"webhook": {"url": f"http://127.0.0.1:{port}/hook"}})
    with closing(receiver):
        assert deliver(store, receiver, clock).retry == 1
        clock.pass_by(60)
        with contextmanager(serve)(port=port) as hook:
            assert deliver(store, receiver, clock).sent == 1
            assert deliver(store, receiver, clock).sent == 0
        (request,) = hook.requests
    assert json.loads(request.body)["dedup_key"] == firing.dedup_key


def test_a_webhook_that_hangs_is_cut_off_and_one_that_says_429_is_left_alone(store: SqlStore, collector: Collector) -> None:
    store_run(store, 0.1, to=["webhook"])
    clock = FakeClock()
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
    clock = FakeClock(datetime.now(UTC))
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
        assert resend_firing(store, peer, clock) == 1
    assert [len(server.alerts()) for server in (up, down)] == [1, 1]

    store_run(store, 0.9, slot=datetime.now(UTC), to=names)
    clock.at = datetime.now(UTC) + timedelta(seconds=10)
    assert [deliver(store, peer, clock).sent for peer in peers] == [1, 1]
    for server in (up, down):
        eventually(lambda server=server: server.alerts() == [], "the alert is gone")  # type: ignore[misc]  # a default binds
    for peer in peers:
        peer.close()


def killed(database: str, url: str, step: str) -> None:
    """A process that stores a firing and is killed at that step."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (PROCESS.parents[1], PROCESS.parents[2])))}
    command = [sys.executable, str(PROCESS), database, url, step]
    assert subprocess.run(command, env=environment, timeout=100, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("step", "at_once", "in_all"), [("after storing", 1, 1), ("before send", 0, 1), ("before record", 1, 2)], ids=str
)
def test_a_process_killed_on_the_way_loses_nothing_and_repeats_only_what_was_not_recorded(
    database: str, collector: Collector, step: str, at_once: int, in_all: int
) -> None:
    killed(database, collector.url, step)

    clock = FakeClock()
    (receiver,) = opened({"webhook": {"url": collector.url}})
    with closing(open_store(database, create=False)) as store, closing(receiver):
        deliver(store, receiver, clock)
        assert len(collector.requests) == at_once
        for _ in range(3):
            clock.at += LEASE
            deliver(store, receiver, clock)
        (firing,) = store.firing()
        assert store.outbox(clock.now()) == {}

    keys = [request.headers["Idempotency-Key"] for request in collector.requests]
    assert keys == [f"{firing.dedup_key}:firing"] * in_all
