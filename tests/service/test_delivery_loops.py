"""Delivery loops: turn by turn, and over four hundred alerts of one run for every kind of receiver."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from factories import DAY, SLOT, HeldClock, comparison, rule
from monitor.errors import DeliveryError
from monitor.model.notifications import Treatment
from monitor.pipeline.delivery import OutboxSender
from monitor.receivers import ReceiverOptions, open_receivers
from monitor.service.daemon.delivery_loops import LONGEST_REST_S, POLL_S, DeliveryLoop
from monitor.storage import SqlStore
from pipeline.owed_run import CountingPublisher, store_run
from pipeline.test_delivery import FakeReceiver, outlet
from servers.daemon import wait_for
from servers.pagerduty import KEY, pagerduty
from servers.slack import slack
from servers.webhook import Collector, Reply, Request, answer, hang, serve
from service.stepped_daemon import SteppedClock

__all__ = ["pagerduty", "slack"]

Body = dict[str, Any]


@contextmanager
def delivering(
    store: SqlStore, entries: Sequence[Mapping[str, Any]], publisher: Any, clock: Any
) -> Iterator[list[DeliveryLoop]]:
    """A loop for each receiver of these entries of ``receivers:``.

    None goes on once the block has ended.
    """
    options = [ReceiverOptions.model_validate(entry) for entry in entries]
    parts: Mapping[str, Any] = {
        "outbox": store.outbox,
        "clock": clock,
        "publisher": publisher,
        "draw": lambda: 0.02,
    }
    loops = [
        DeliveryLoop(sender=OutboxSender(receiver=each, owner=each.name, **parts))
        for each in open_receivers(options, external_url="http://rankwatch.test:29108")
    ]
    for loop in loops:
        loop.take_turn()  # the first one sends again what fires: nothing yet
        loop.start()
    yield loops
    for loop in loops:
        loop.thread.ask_to_stop()
    for loop in loops:
        loop.thread.stop(10)
    assert not any(loop.thread.is_alive for loop in loops)


WIDE = comparison(name="wide", rules=(rule(for_runs=1, segments="each"),))
NARROW = comparison(name="narrow", rules=(rule(for_runs=1),))
SEGMENTS = ("all", *(f"shop={n:04d}" for n in range(399)))
HEALTHY = ("alertmanager", "pagerduty", "slack", "email", "webhook")
IN_ALL = len(SEGMENTS) + 1


def refuse_large(request: Request) -> Reply:
    """So nothing larger is sent."""
    return answer(413 if len(request.body) > 16_000 else 200)


@pytest.mark.integration  # TLS of the mail server needs openssl
def test_hundreds_of_alerts_are_one_message_and_starve_nobody_while_one_receiver_hangs_and_one_asks_for_a_pause(
    store, pagerduty, slack, mail_server, certificate
) -> None:
    with ExitStack() as stack:
        alertmanager, webhook, hanging = (
            stack.enter_context(contextmanager(serve)()) for _ in range(3)
        )
        webhook.respond, hanging.default = refuse_large, hang
        slack.collector.replies.append(answer(429, {"Retry-After": "1"}))
        mail = {
            "host": "127.0.0.1",
            "port": mail_server.port,
            "sender": "rankwatch@example.com",
            "to": ["kim@example.com"],
        }
        entries: list[Body] = [
            {"alertmanager": {"urls": [alertmanager.url], "resend_every": "1h"}},
            {"pagerduty": {"url": pagerduty.url, "routing_key": KEY}},
            {"slack": {"url": slack.url}},
            {"email": {**mail, "ca_file": str(certificate)}},
            {"webhook": {"url": webhook.url}},
            {"webhook": {"url": hanging.url, "name": "hanging", "timeout": "2s"}},
        ]
        publisher, clock = CountingPublisher(), SteppedClock()
        loops = stack.enter_context(delivering(store, entries, publisher, clock))
        names = [loop.sender.receiver.name for loop in loops]

        def run(mean: float) -> list[int]:
            """Both comparisons run, the wide one first.

            How many requests each healthy receiver has got by its end.
            """
            told = publisher.counts["webhook", "sent"] + IN_ALL
            store_run(store, mean, slot=clock.now(), to=names, watched=WIDE, segments=SEGMENTS)
            store_run(store, mean, slot=clock.now(), to=names, watched=NARROW)
            for loop in loops:
                loop.thread.wake()
            wait_for(
                lambda: all(publisher.counts[name, "sent"] == told for name in HEALTHY),
                "what each is owed",
            )
            by_http = (alertmanager, pagerduty.collector, slack.collector, webhook)
            return [*(len(each.requests) for each in by_http), len(mail_server.mails)]

        assert run(0.1) == [
            3,
            2,
            3,
            2,
            2,
        ]  # Alertmanager takes four hundred in two requests, Slack refused one
        assert len(alerts_in(alertmanager)) == IN_ALL
        assert max(len(mail.content) for mail in mail_server.mails) < 1_000_000
        told = [json.loads(request.body) for request in webhook.requests]
        assert [len(body["alerts"]) + body["truncatedAlerts"] for body in told] == [400, 1]
        assert sorted(pagerduty.alerts.values()) == ["triggered", "triggered"]
        assert len(hanging.requests) >= 1
        assert publisher.counts["hanging", "sent"] == 0
        assert store.outbox.waiting(clock.now())["hanging"][0] == IN_ALL

        assert run(0.9) == [6, 4, 5, 4, 4]
        assert sorted(pagerduty.alerts.values()) == ["resolved", "resolved"]


def alerts_in(alertmanager: Collector) -> list[Body]:
    return [alert for request in alertmanager.requests for alert in json.loads(request.body)]


BUSY = DeliveryError("fake answered 429", permanent=False, retry_after_s=120)


def test_a_receiver_that_asks_for_a_pause_is_told_nothing_at_all_until_it_is_over(store) -> None:
    clock, receiver = (
        HeldClock(),
        FakeReceiver(errors=[BUSY], treatment=Treatment(resend_every_s=1)),
    )
    loop = DeliveryLoop(sender=outlet(store, receiver, clock))
    store_run(store, 0.1)
    assert loop.take_turn() == LONGEST_REST_S
    store_run(store, 0.1, watched=comparison(name="search", rules=(rule(for_runs=1),)))
    clock.pass_by(119)
    assert loop.take_turn() == 1
    assert receiver.sent == []
    clock.pass_by(DAY.total_seconds())
    assert loop.take_turn() == POLL_S
    assert {change.comparison for change in receiver.told} == {"home-feed", "search"}


def test_what_lasts_is_told_again_in_the_turn_in_which_it_is_due(store) -> None:
    clock, receiver = HeldClock(SLOT), FakeReceiver(treatment=Treatment(resend_every_s=60))
    loop = DeliveryLoop(sender=outlet(store, receiver, clock))
    store_run(store, 0.1)
    for _ in range(3):
        loop.take_turn()
        clock.pass_by(30)
    assert [message.is_repetition for message in receiver.sent] == [False, True, True]
