"""Four hundred alerts in one run, and one of another comparison behind them, through a real loop for every kind of receiver."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from factories import comparison, rule
from monitor.pipeline.delivery import OutboxSender
from monitor.receivers import ReceiverOptions, open_receivers
from monitor.service.clock import SystemClock
from monitor.service.daemon.delivery_loops import DeliveryLoop
from monitor.storage import SqlStore, open_store
from pipeline.outbox_process import CountingPublisher, store_run
from servers.alertmanager import AlertmanagerServer, make_alertmanager
from servers.pagerduty import KEY, FakePagerDuty, pagerduty
from servers.slack import FakeSlack, slack
from servers.smtp import MailServer, certificate, mail_server
from servers.webhook import Collector, Reply, Request, answer, hang, serve
from service.receiver_loops import delivering
from statements import count_statements

__all__ = ["certificate", "mail_server", "make_alertmanager", "pagerduty", "slack"]

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
        return [loop.receiver.name for loop in self.loops]

    def run(self, mean: float) -> dict[str, float]:
        """Both comparisons run, the wide one first; seconds until each healthy receiver has taken both."""
        already = self.publisher.counts["alertmanager", "sent"]
        began = time.monotonic()
        store_run(self.store, mean, slot=datetime.now(UTC), to=self.names, watched=WIDE, segments=SEGMENTS)
        store_run(self.store, mean, slot=datetime.now(UTC), to=self.names, watched=NARROW)
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
    assert world.store.outbox.pending(datetime.now(UTC))["hanging"][0] == IN_ALL

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


def test_storing_and_telling_hundreds_of_alerts_takes_few_statements(tmp_path: Path) -> None:
    publisher: Any = CountingPublisher()
    with ExitStack() as stack:
        collector = stack.enter_context(contextmanager(serve)())
        store = stack.enter_context(closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True)))
        entry = ReceiverOptions.model_validate({"webhook": {"url": collector.url}})
        (receiver,) = open_receivers([entry], external_url="http://rankwatch.test:29108")
        outlet = OutboxSender(outbox=store.outbox, receiver=receiver, clock=SystemClock(), publisher=publisher, owner="me")
        for mean in (0.1, 0.9):
            slot = datetime.now(UTC)

            def store_it(mean: float = mean, slot: datetime = slot) -> None:
                store_run(store, mean, slot=slot, to=["webhook"], watched=WIDE, segments=SEGMENTS)

            assert [count_statements(act) < 60 for act in (store_it, outlet.deliver_due)] == [True, True]
        told = [json.loads(each.body) for each in collector.requests]
        assert [len(body["alerts"]) + body["truncatedAlerts"] for body in told] == [400, 400]
