"""PagerDuty and Slack are away for an hour of simulated time, through the real outbox."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest

from factories import SLOT, HeldClock, comparison, rule
from monitor.pipeline.delivery import OutboxSender
from monitor.ports import Receiver
from monitor.receivers.pagerduty import PagerDuty, PagerDutyOptions
from monitor.receivers.slack import Pace, Slack, SlackOptions
from monitor.storage import SqlStore
from pipeline.outbox_process import CountingPublisher, store_run
from servers import free_port
from servers.pagerduty import KEY, FakePagerDuty
from servers.slack import PATH, FakeSlack
from servers.webhook import Collector, answer, serve

EACH = comparison(rules=(rule(for_runs=1, segments="each"),))
SEGMENTS = ("all", *(f"shop={n:04d}" for n in range(199)))
HOUR, TICK = timedelta(hours=1), timedelta(minutes=2)
both = pytest.mark.parametrize("kind", ["pagerduty", "slack"])


def open_receiver(kind: str, port: int, clock: HeldClock) -> Receiver:
    place, ours = f"http://127.0.0.1:{port}", "http://rankwatch.test:29108"
    if kind == "pagerduty":
        return PagerDuty(PagerDutyOptions.model_validate({"url": place, "routing_key": KEY}), external_url=ours)
    pace = Pace(monotonic=clock.monotonic, pause=clock.pass_by)
    return Slack(SlackOptions.model_validate({"url": place + PATH}), external_url=ours, pace=pace)


def deliver_for(period: timedelta, store: Any, receiver: Receiver, clock: HeldClock) -> None:
    """Deliver what is due every two minutes of simulated time."""
    publisher: Any = CountingPublisher()
    outlet = OutboxSender(
        outbox=store.outbox, receiver=receiver, clock=clock, publisher=publisher, owner="me", draw=lambda: 0.5
    )
    ends_at = clock.at + period
    while clock.at <= ends_at:
        outlet.deliver_due()
        clock.pass_by(TICK.total_seconds())


@contextmanager
def standing_up(kind: str, port: int) -> Iterator[FakePagerDuty | FakeSlack]:
    with ExitStack() as stack:
        running = serve(port=port)
        collector: Collector = next(running)
        stack.callback(running.close)  # type: ignore[attr-defined]
        fake = FakePagerDuty(collector) if kind == "pagerduty" else FakeSlack(collector)
        yield fake
        assert fake.complaints == []


@both
def test_a_receiver_that_was_away_for_an_hour_is_notified_once_of_what_fires_still(kind: str, store: SqlStore) -> None:
    clock, port = HeldClock(), free_port()
    store_run(store, 0.1, to=(kind,))
    with closing(open_receiver(kind, port, clock)) as receiver:
        deliver_for(HOUR, store, receiver, clock)
        with standing_up(kind, port) as fake:
            deliver_for(HOUR, store, receiver, clock)
            assert len(fake.collector.requests) == 1


@both
def test_a_receiver_that_was_away_for_an_hour_is_not_notified_of_what_ended_meanwhile(kind: str, store: SqlStore) -> None:
    clock, port = HeldClock(), free_port()
    store_run(store, 0.1, to=(kind,))
    with closing(open_receiver(kind, port, clock)) as receiver:
        deliver_for(HOUR / 2, store, receiver, clock)
        store_run(store, 0.9, to=(kind,), slot=SLOT + HOUR / 2)
        deliver_for(HOUR / 2, store, receiver, clock)
        with standing_up(kind, port) as fake:
            deliver_for(HOUR, store, receiver, clock)
            assert fake.collector.requests == []


@both
def test_many_firings_of_one_run_are_one_message_and_their_ends_another(kind: str, store: SqlStore) -> None:
    clock, port = HeldClock(), free_port()
    with standing_up(kind, port) as fake, closing(open_receiver(kind, port, clock)) as receiver:
        for mean, slot in ((0.1, SLOT), (0.9, SLOT + HOUR)):
            clock.at = slot
            store_run(store, mean, to=(kind,), watched=EACH, segments=SEGMENTS, slot=slot)
            deliver_for(TICK, store, receiver, clock)
        assert len(fake.collector.requests) == 2
        assert store.outbox.pending(clock.now()).get(kind, (0, 0.0))[0] == 0
        if isinstance(fake, FakePagerDuty):
            assert list(fake.alerts.values()) == ["resolved"]


@both
def test_who_asks_for_a_pause_gets_it(kind: str, store: SqlStore) -> None:
    clock, port = HeldClock(), free_port()
    store_run(store, 0.1, to=(kind,))
    with standing_up(kind, port) as fake, closing(open_receiver(kind, port, clock)) as receiver:
        fake.collector.replies.append(answer(429, {"Retry-After": "600"}))
        deliver_for(timedelta(minutes=8), store, receiver, clock)
        assert len(fake.collector.requests) == 1
        deliver_for(timedelta(minutes=4), store, receiver, clock)
        assert len(fake.collector.requests) == 2
