"""Delivery loops: turn by turn, over four hundred alerts of one run for every receiver, and before a pair of Alertmanagers.

A pair tells of an end at once and twice in all where its peers hear of it further apart than their ``group_interval``, here a
second: the one that does not know yet says that the alert fires still, and then that it ended too. That is Alertmanager's
way with every sender, so it is let pass here, once; anything else that is said twice or out of turn fails the test.
"""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
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
from monitor.storage import SqlStore, open_store
from pipeline.owed_run import CountingPublisher, store_run
from pipeline.test_delivery import FakeReceiver, outlet
from servers.alertmanager import AlertmanagerServer, MachineClock, make_alertmanager
from servers.pagerduty import KEY, FakePagerDuty, pagerduty
from servers.proxy import Proxy, proxying
from servers.slack import FakeSlack, slack
from servers.smtp import MailServer, certificate, mail_server
from servers.webhook import Collector, Reply, Request, answer, hang, serve


@contextmanager
def delivering(store: SqlStore, entries: Sequence[Mapping[str, Any]], publisher: Any) -> Iterator[list[DeliveryLoop]]:
    """A loop for each receiver of these entries of ``receivers:``; none goes on once the block has ended."""
    options = [ReceiverOptions.model_validate(entry) for entry in entries]
    told: Mapping[str, Any] = {"outbox": store.outbox, "clock": CLOCK, "publisher": publisher, "draw": lambda: 0.02}
    loops = [
        DeliveryLoop(sender=OutboxSender(receiver=each, owner=each.name, **told))
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


__all__ = ["certificate", "mail_server", "make_alertmanager", "pagerduty", "slack"]

CLOCK = MachineClock()
WIDE = comparison(name="wide", rules=(rule(for_runs=1, segments="each"),))
NARROW = comparison(name="narrow", rules=(rule(for_runs=1),))
SEGMENTS = ("all", *(f"shop={n:04d}" for n in range(399)))
HEALTHY = ("alertmanager", "pagerduty", "slack", "email", "webhook")
IN_ALL = len(SEGMENTS) + 1
MOST_BYTES = 16_000


@dataclass(slots=True, kw_only=True)
class World:
    """Every receiver, and where it can be seen how each was told."""

    store: SqlStore
    loops: list[DeliveryLoop]
    publisher: CountingPublisher
    alertmanager: AlertmanagerServer
    before_alertmanager: Collector
    pagerduty: FakePagerDuty
    slack: FakeSlack
    mails: MailServer
    webhook: Collector
    hanging: Collector

    @property
    def names(self) -> list[str]:
        return [loop.sender.receiver.name for loop in self.loops]

    def run(self, mean: float) -> dict[str, float]:
        """Both comparisons run, the wide one first; seconds until each healthy receiver has taken both."""
        already = self.publisher.counts["alertmanager", "sent"]
        began = time.monotonic()
        store_run(self.store, mean, slot=CLOCK.now(), to=self.names, watched=WIDE, segments=SEGMENTS)
        store_run(self.store, mean, slot=CLOCK.now(), to=self.names, watched=NARROW)
        for loop in self.loops:
            loop.thread.wake()
        took: dict[str, float] = {}
        while len(took) < len(HEALTHY):
            assert time.monotonic() < began + 120, (took, self.publisher.counts)
            time.sleep(0.05)
            told = [name for name in HEALTHY if self.publisher.counts[name, "sent"] - already == IN_ALL]
            took |= {name: time.monotonic() - began for name in told if name not in took}
        return took

    def bodies(self) -> dict[str, list[bytes]]:
        """What each healthy receiver was sent, refused requests included."""
        by_http = (self.before_alertmanager, self.pagerduty.collector, self.slack.collector)
        found = {name: [each.body for each in at.requests] for name, at in zip(HEALTHY, by_http, strict=False)}
        return {
            **found,
            "email": [mail.content for mail in self.mails.mails],
            "webhook": [each.body for each in self.webhook.requests],
        }


def pass_on_to(url: str) -> Callable[[Request], Reply]:
    """Answers as the server behind does."""

    def respond(request: Request) -> Reply:
        asked = urllib.request.Request(url + request.path, request.body, {"Content-Type": "application/json"})  # noqa: S310 - ours
        with urllib.request.urlopen(asked, timeout=10) as answered:  # noqa: S310 - our own server
            return answer(answered.status)

    return respond


def refuse_large(request: Request) -> Reply:
    """So nothing larger is sent."""
    return answer(413 if len(request.body) > MOST_BYTES else 200)


def entries(world_urls: dict[str, str], mails: MailServer, certificate: Path) -> list[dict[str, Any]]:
    mail = {"host": "127.0.0.1", "port": mails.port, "sender": "rankwatch@example.com", "to": ["kim@example.com"]}
    return [
        {"alertmanager": {"urls": [world_urls["alertmanager"]], "resend_every": "1h"}},
        {"pagerduty": {"url": world_urls["pagerduty"], "routing_key": KEY}},
        {"slack": {"url": world_urls["slack"]}},
        {"email": {**mail, "ca_file": str(certificate)}},
        {"webhook": {"url": world_urls["webhook"]}},
        {"webhook": {"url": world_urls["hanging"], "name": "hanging", "timeout": "2s"}},
    ]


@pytest.fixture
def world(
    tmp_path: Path,
    make_alertmanager: Callable[..., AlertmanagerServer],
    pagerduty: FakePagerDuty,
    slack: FakeSlack,
    mail_server: MailServer,
    certificate: Path,
) -> Iterator[World]:
    behind = make_alertmanager()
    behind.start()
    with ExitStack() as stack:
        before, webhook, hanging = (stack.enter_context(contextmanager(serve)()) for _ in range(3))
        before.respond, webhook.respond, hanging.default = pass_on_to(behind.url), refuse_large, hang
        store = stack.enter_context(closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True)))
        urls = {"alertmanager": before.url, "pagerduty": pagerduty.url, "slack": slack.url}
        urls |= {"webhook": webhook.url, "hanging": hanging.url}
        publisher = CountingPublisher()
        loops = stack.enter_context(delivering(store, entries(urls, mail_server, certificate), publisher))
        yield World(
            store=store,
            loops=loops,
            publisher=publisher,
            alertmanager=behind,
            before_alertmanager=before,
            pagerduty=pagerduty,
            slack=slack,
            mails=mail_server,
            webhook=webhook,
            hanging=hanging,
        )


def test_hundreds_of_alerts_are_one_message_and_starve_nobody_while_one_receiver_hangs_and_one_asks_for_a_pause(
    world: World,
) -> None:
    world.slack.collector.replies.append(answer(429, {"Retry-After": "1"}))
    took = world.run(0.1)
    bodies = world.bodies()

    assert {name: len(sent) for name, sent in bodies.items()} == {
        "alertmanager": 3,  # four hundred in two requests
        "pagerduty": 2,
        "slack": 3,  # with the one that was refused
        "email": 2,
        "webhook": 2,
    }
    assert len(world.alertmanager.alerts()) == IN_ALL
    assert took["slack"] >= 1.0
    assert max(map(len, bodies["email"])) < 1_000_000
    told = [json.loads(body) for body in bodies["webhook"]]
    assert [len(body["alerts"]) + body["truncatedAlerts"] for body in told] == [400, 1]
    assert sorted(world.pagerduty.alerts.values()) == ["triggered", "triggered"]
    assert len(world.hanging.requests) >= 1
    assert world.publisher.counts["hanging", "sent"] == 0
    assert world.store.outbox.waiting(CLOCK.now())["hanging"][0] == IN_ALL

    world.run(0.9)
    bodies = {name: sent[len(bodies[name]) :] for name, sent in world.bodies().items()}

    assert {name: len(sent) for name, sent in bodies.items()} == {
        "alertmanager": 3,
        "pagerduty": 2,
        "slack": 2,
        "email": 2,
        "webhook": 2,
    }
    assert world.alertmanager.alerts() == []
    assert sorted(world.pagerduty.alerts.values()) == ["resolved", "resolved"]


PATH = "/hook"
BOTH = ["firing", "resolved"]


@dataclass(slots=True)
class Pages:
    """What the pair notified: by comparison what was said of its only alert, and what should not have come."""

    collector: Collector
    expected: set[str] = field(default_factory=set)
    said: dict[str, list[str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.collector.respond = self.respond

    def respond(self, request: Request) -> Reply:
        body = json.loads(request.body)
        if (request.method, request.path, body["receiver"]) != ("POST", PATH, "out"):
            self.complaints.append(f"{request.method} {request.path} for {body['receiver']}")
        for alert in body["alerts"]:
            self._take(alert["labels"], alert["status"])
        return answer(200)

    def _take(self, labels: dict[str, str], status: str) -> None:
        name = labels["comparison"]
        if name not in self.expected or (labels["alertname"], labels["segment"]) != ("SimilarityLow", "all"):
            self.complaints.append(f"{status} of {labels}, which nobody stored")
        said = self.said.setdefault(name, [])
        if status != BOTH[len(said) % 2]:
            self.complaints.append(f"{name} is {status} after {said}")
        said.append(status)


@dataclass(slots=True, kw_only=True)
class Pair:
    """``proxy`` stands between us and the first peer."""

    store: SqlStore
    first: AlertmanagerServer
    second: AlertmanagerServer
    proxy: Proxy
    loops: list[DeliveryLoop]
    pages: Pages

    def run(self, name: str, mean: float) -> None:
        """One run of the comparison ends now, with one alert if it is low."""
        self.pages.expected.add(name)
        to = [loop.sender.receiver.name for loop in self.loops]
        watched = comparison(name=name, rules=(rule(for_runs=1),))
        store_run(self.store, mean, slot=CLOCK.now(), to=to, watched=watched)

    def await_that(self, claim: Callable[[], bool], what: str) -> None:
        """Wake the loops over and over, as runs do, until it holds."""
        ends_at = time.monotonic() + 120
        while not claim():
            assert time.monotonic() < ends_at, f"not in time: {what}; said: {self.pages.said}"
            for loop in self.loops:
                loop.thread.wake()
            time.sleep(0.1)

    def await_pages(self, name: str, *said: str) -> None:
        self.await_that(lambda: self.pages.said.get(name, [])[: len(said)] == list(said), f"{name} is said to be {said}")

    def await_shared(self) -> None:
        """Until the second knows what the first has notified, which that notes only after it is answered."""
        known = self.second.exchanges()
        self.await_that(lambda: self.second.exchanges() >= known + 2, "the second has heard all of the first")

    def await_end(self, name: str) -> None:
        """Until both know, and what is said last is that it ended."""
        for server in (self.first, self.second):
            self.await_held(name, by=server, held=False)
        self.await_that(lambda: self.pages.said[name] in (BOTH, 2 * BOTH), f"{name} is said to be over")

    def await_held(self, name: str, *, by: AlertmanagerServer, held: bool = True) -> None:
        def is_so() -> bool:
            return (name in {alert["labels"]["comparison"] for alert in by.alerts()}) is held

        self.await_that(is_so, f"{by.url} {'holds' if held else 'holds no more'} {name}")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both up and one cluster, before each test and after it. In the end nothing may have come but what was expected."""
    place = tmp_path_factory.mktemp("pair")
    with ExitStack() as stack:
        pages = Pages(stack.enter_context(contextmanager(serve)()))
        first, second = (AlertmanagerServer(place / name, pages.collector.url + PATH) for name in ("first", "second"))
        first.join(second)
        second.join(first)
        for server in (first, second):
            stack.callback(server.stop)
            server.launch()
        first.await_ready()
        second.await_ready()
        proxy = stack.enter_context(proxying(first.port))
        store = stack.enter_context(closing(open_store(f"sqlite:///{place / 'rankwatch.db'}", create=True)))
        told = {"urls": [f"http://127.0.0.1:{proxy.port}", second.url], "resend_every": "1s", "timeout": "1s"}
        loops = stack.enter_context(delivering(store, [{"alertmanager": told}], CountingPublisher()))
        made = Pair(store=store, first=first, second=second, proxy=proxy, loops=loops, pages=pages)
        made.await_that(lambda: first.peers() == second.peers() == 2, "they are one cluster")
        yield made
        assert pages.complaints == []
        assert pages.said.keys() == pages.expected
        for server in (first, second):
            assert server.received()["v2"] > 0
            assert server.received().get("v1", 0) == 0


def test_one_that_was_killed_learns_what_began_before_and_meanwhile(pair: Pair) -> None:
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

    for name in ("before", "meanwhile"):
        pair.run(name, 0.9)
    for name in ("before", "meanwhile"):
        pair.await_end(name)


def test_an_end_arrives_through_the_other_while_one_is_cut_off_and_reaches_that_one_later(pair: Pair) -> None:
    pair.run("cut-off", 0.1)
    pair.await_held("cut-off", by=pair.first)
    pair.await_pages("cut-off", "firing")

    pair.proxy.hang()
    pair.run("cut-off", 0.9)
    pair.await_pages("cut-off", *BOTH)
    pair.await_held("cut-off", by=pair.second, held=False)
    pair.await_held("cut-off", by=pair.first)

    pair.proxy.cut()  # what was under way is lost
    pair.proxy.resume()
    pair.await_end("cut-off")


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
