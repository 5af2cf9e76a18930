"""Two real Alertmanagers that gossip, told by delivery loops in real time; what they notify is all that anybody hears.

A pair tells of an end at once and twice in all where its peers hear of it further apart than their ``group_interval``, here a
second: the one that does not know yet says that the alert fires still, and then that it ended too. That is Alertmanager's
way with every sender, so it is let pass here, once; anything else that is said twice or out of turn fails the test.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from factories import comparison, rule
from monitor.service.daemon.delivery_loops import DeliveryLoop
from monitor.storage import SqlStore, open_store
from pipeline.outbox_process import CountingPublisher, store_run
from servers.alertmanager import AlertmanagerServer
from servers.proxy import Proxy, proxying
from servers.webhook import Collector, Reply, Request, answer, serve
from service.receiver_loops import delivering

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
        to = [loop.receiver.name for loop in self.loops]
        watched = comparison(name=name, rules=(rule(for_runs=1),))
        store_run(self.store, mean, slot=datetime.now(UTC), to=to, watched=watched)

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
            self.await_over(name, by=server)
        self.await_that(lambda: self.pages.said[name] in (BOTH, 2 * BOTH), f"{name} is said to be over")

    def await_held(self, *names: str, by: AlertmanagerServer) -> None:
        def is_held() -> bool:
            return set(names) <= {alert["labels"]["comparison"] for alert in by.alerts()}

        self.await_that(is_held, f"{by.url} holds {names}")

    def await_over(self, *names: str, by: AlertmanagerServer) -> None:
        def is_over() -> bool:
            return set(names).isdisjoint(alert["labels"]["comparison"] for alert in by.alerts())

        self.await_that(is_over, f"{by.url} holds none of {names}")


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
    pair.await_held("before", "meanwhile", by=pair.first)
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
    pair.await_over("cut-off", by=pair.second)
    pair.await_held("cut-off", by=pair.first)

    pair.proxy.cut()  # what was under way is lost
    pair.proxy.resume()
    pair.await_end("cut-off")


def test_what_fires_goes_on_firing_in_a_pair_that_restarts_and_is_not_said_again(pair: Pair) -> None:
    pair.run("lasting", 0.1)
    pair.await_pages("lasting", "firing")
    for server in (pair.first, pair.second):  # two that leave at once wait ten seconds for each other's farewell
        server.end()
    for server in (pair.first, pair.second):
        server.launch()
    for server in (pair.first, pair.second):
        server.await_ready()
        pair.await_held("lasting", by=server)
    pair.await_that(lambda: pair.first.peers() == pair.second.peers() == 2, "they are one cluster again")

    assert pair.pages.said["lasting"] == ["firing"]

    pair.run("lasting", 0.9)
    pair.await_end("lasting")
