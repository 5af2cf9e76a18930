"""Delivery loops: turn by turn, over four hundred alerts of one run for every receiver, and before a pair of Alertmanagers.

A pair tells of an end at once and twice in all where its peers hear of it further apart than their ``group_interval``, here a
second: the one that does not know yet says that the alert fires still, and then that it ended too. That is Alertmanager's
way with every sender, so it is let pass here, once; anything else that is said twice or out of turn fails the test.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
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
from servers.alertmanager import AlertmanagerServer, MachineClock
from servers.daemon import wait_for
from servers.pagerduty import KEY, FakePagerDuty, pagerduty
from servers.proxy import Proxy, proxying
from servers.slack import FakeSlack, slack
from servers.smtp import MailServer
from servers.webhook import Collector, Reply, Request, answer, hang, serve
from service.stepped_daemon import SteppedClock

__all__ = ["pagerduty", "slack"]

Body = dict[str, Any]


@contextmanager
def delivering(
    store: SqlStore, entries: Sequence[Mapping[str, Any]], publisher: Any, clock: Any
) -> Iterator[list[DeliveryLoop]]:
    """A loop for each receiver of these entries of ``receivers:``; none goes on once the block has ended."""
    options = [ReceiverOptions.model_validate(entry) for entry in entries]
    parts: Mapping[str, Any] = {"outbox": store.outbox, "clock": clock, "publisher": publisher, "draw": lambda: 0.02}
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
    store: SqlStore, pagerduty: FakePagerDuty, slack: FakeSlack, mail_server: MailServer, certificate: Path
) -> None:
    with ExitStack() as stack:
        alertmanager, webhook, hanging = (stack.enter_context(contextmanager(serve)()) for _ in range(3))
        webhook.respond, hanging.default = refuse_large, hang
        slack.collector.replies.append(answer(429, {"Retry-After": "1"}))
        mail = {"host": "127.0.0.1", "port": mail_server.port, "sender": "rankwatch@example.com", "to": ["kim@example.com"]}
        entries = [
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
            """Both comparisons run, the wide one first; how many requests each healthy receiver has got by its end."""
            told = publisher.counts["webhook", "sent"] + IN_ALL
            store_run(store, mean, slot=clock.now(), to=names, watched=WIDE, segments=SEGMENTS)
            store_run(store, mean, slot=clock.now(), to=names, watched=NARROW)
            for loop in loops:
                loop.thread.wake()
            wait_for(lambda: all(publisher.counts[name, "sent"] == told for name in HEALTHY), "what each is owed")
            by_http = (alertmanager, pagerduty.collector, slack.collector, webhook)
            return [*(len(each.requests) for each in by_http), len(mail_server.mails)]

        assert run(0.1) == [3, 2, 3, 2, 2]  # Alertmanager takes four hundred in two requests, Slack refused one
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


CLOCK = MachineClock()
BOTH = ["firing", "resolved"]


@dataclass(slots=True, kw_only=True)
class Pair:
    """``proxy`` stands between us and the first peer; ``collector`` is told by both.

    ``said``: what was said of the only alert of a comparison; ``complaints``: what should not have come.
    """

    store: SqlStore
    first: AlertmanagerServer
    second: AlertmanagerServer
    proxy: Proxy
    collector: Collector
    loops: list[DeliveryLoop] = field(default_factory=list)
    said: dict[str, list[str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def respond(self, request: Request) -> Reply:
        for alert in json.loads(request.body)["alerts"]:
            labels, status = alert["labels"], alert["status"]
            assert (labels["alertname"], labels["segment"]) == ("SimilarityLow", "all")
            said = self.said[labels["comparison"]]
            if status != BOTH[len(said) % 2]:
                self.complaints.append(f"{labels} is {status} after {said}")
            said.append(status)
        return answer(200)

    def run(self, name: str, mean: float) -> None:
        """One run of the comparison ends now, with one alert if it is low."""
        self.said.setdefault(name, [])
        to = [loop.sender.receiver.name for loop in self.loops]
        watched = comparison(name=name, rules=(rule(for_runs=1),))
        store_run(self.store, mean, slot=CLOCK.now(), to=to, watched=watched)

    def await_that(self, claim: Callable[[], bool], what: str) -> None:
        """Wake the loops over and over, as runs do, until it holds."""

        def look() -> bool:
            for loop in self.loops:
                loop.thread.wake()
            return claim()

        wait_for(look, what)

    def await_pages(self, name: str, *said: str) -> None:
        self.await_that(lambda: self.said[name][: len(said)] == list(said), f"{name} is said to be {said}")

    def await_shared(self) -> None:
        """Until the second knows what the first has notified, which that notes only after it is answered."""
        known = self.second.exchanges()
        self.await_that(lambda: self.second.exchanges() >= known + 2, "the second has heard all of the first")

    def await_end(self, name: str) -> None:
        """Until both know, and what is said last is that it ended."""
        for server in (self.first, self.second):
            self.await_held(name, by=server, held=False)
        self.await_that(lambda: self.said[name] in (BOTH, 2 * BOTH), f"{name} is said to be over")

    def await_held(self, name: str, *, by: AlertmanagerServer, held: bool = True) -> None:
        def is_so() -> bool:
            return (name in {alert["labels"]["comparison"] for alert in by.alerts()}) is held

        self.await_that(is_so, f"{by.url} {'holds' if held else 'holds no more'} {name}")


@pytest.fixture
def pair(tmp_path: Path, store: SqlStore, collector: Collector) -> Iterator[Pair]:
    """Both up and one cluster. In the end nothing may have come but what was expected."""
    first, second = (AlertmanagerServer(tmp_path / name, f"{collector.url}/hook") for name in ("first", "second"))
    first.join(second)
    second.join(first)
    with ExitStack() as stack:
        for server in (first, second):
            stack.callback(server.stop)
            server.launch()
        first.await_ready()
        second.await_ready()
        proxy = stack.enter_context(proxying(first.port))
        made = Pair(store=store, first=first, second=second, proxy=proxy, collector=collector)
        collector.respond = made.respond
        urls = [f"http://127.0.0.1:{proxy.port}", second.url]
        entry = {"alertmanager": {"urls": urls, "resend_every": "1s", "timeout": "1s"}}
        made.loops = stack.enter_context(delivering(store, [entry], CountingPublisher(), CLOCK))
        made.await_that(lambda: first.peers() == second.peers() == 2, "they are one cluster")
        yield made
        assert made.complaints == []
        for server in (first, second):
            assert server.received()["v2"] > 0
            assert server.received().get("v1", 0) == 0


@pytest.mark.integration
def test_of_two_alertmanagers_one_may_be_killed_or_cut_off_and_learns_what_began_and_ended_meanwhile(pair: Pair) -> None:
    pair.run("before", 0.1)
    pair.await_pages("before", "firing")
    pair.await_shared()
    pair.first.stop()
    pair.run("meanwhile", 0.1)
    pair.await_pages("meanwhile", "firing")
    assert pair.second.alerts() != []

    pair.first.start()
    for name in ("before", "meanwhile"):
        pair.await_held(name, by=pair.first)
    pair.await_that(lambda: pair.first.peers() == pair.second.peers() == 2, "they are one cluster again")

    pair.proxy.hang()
    pair.run("before", 0.9)
    pair.await_pages("before", *BOTH)
    pair.await_held("before", by=pair.second, held=False)
    pair.await_held("before", by=pair.first)

    pair.proxy.cut()  # what was under way is lost
    pair.proxy.resume()
    pair.await_end("before")
    pair.run("meanwhile", 0.9)
    pair.await_end("meanwhile")


BUSY = DeliveryError("fake answered 429", permanent=False, retry_after_s=120)


def test_a_receiver_that_asks_for_a_pause_is_told_nothing_at_all_until_it_is_over(store: SqlStore) -> None:
    clock, receiver = HeldClock(), FakeReceiver(errors=[BUSY], treatment=Treatment(resend_every_s=1))
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


def test_what_lasts_is_told_again_in_the_turn_in_which_it_is_due(store: SqlStore) -> None:
    clock, receiver = HeldClock(SLOT), FakeReceiver(treatment=Treatment(resend_every_s=60))
    loop = DeliveryLoop(sender=outlet(store, receiver, clock))
    store_run(store, 0.1)
    for _ in range(3):
        loop.take_turn()
        clock.pass_by(30)
    assert [message.is_repetition for message in receiver.sent] == [False, True, True]
