"""What on-call gets for each of fourteen kinds of fault: messages, their size, and what the first one says.

`make bench ARGS=incidents`, or `ARGS="incidents stale missing"` for some kinds; ``--faults 3`` for three of each. A daemon with
the default rules, stepped from day to day: ten healthy days, ten bad ones, and eight after it was healed. The receivers are
fakes that take what their services document and nothing else; reminders (`repeat_every`) are turned off.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from email import message_from_bytes, policy
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from faults import Fault, Kind, Shop, draw_fault, write_lists
from monitor.model import Arm
from monitor.storage import SqlStore
from servers import smtp
from servers.certificates import self_signed
from servers.daemon import wait_for
from servers.pagerduty import KEY, FakePagerDuty
from servers.slack import FakeSlack
from servers.webhook import Collector, serve
from service.stepped_daemon import START, Watched, watching

HEALTHY, BAD, HEALED = 10, 10, 8
MOST_PAGES, MOST_BYTES = 2, 16_000
SHOP = Shop(users=600)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One message about one fault, as a receiver got it; ``page``: under which key it pages there."""

    receiver: str
    fault: str
    page: str
    is_end: bool
    text: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fakes:
    """Services that messages are sent to."""

    webhook: Collector
    slack: FakeSlack
    pagerduty: FakePagerDuty
    mail: smtp.MailServer

    def entries(self) -> list[Mapping[str, Any]]:
        """The configuration's ``receivers``."""
        mail = {"host": "127.0.0.1", "port": self.mail.port, "tls": "none", "sender": "rankwatch@example.com"}
        return [
            {"webhook": {"url": self.webhook.url}},
            {"slack": {"url": self.slack.url, "repeat_every": None}},
            {"pagerduty": {"url": self.pagerduty.url, "routing_key": KEY}},
            {"email": {**mail, "to": ["kim@example.com"], "repeat_every": None}},
        ]

    def sent(self) -> Iterator[Sent]:
        """All messages so far, in their order at each receiver."""
        for number, request in enumerate(self.webhook.requests):
            body = json.loads(request.body)
            yield _sent("webhook", body["groupLabels"]["comparison"], number, body["status"] == "resolved", request.body)
        for number, post in enumerate(self.slack.posts):
            size = json.dumps(post, ensure_ascii=False).encode()
            yield _sent("slack", _named_in(post["text"]), number, post["text"].startswith("✅"), size)
        for event, request in zip(self.pagerduty.events, self.pagerduty.collector.requests, strict=True):
            is_end = event["event_action"] == "resolve"
            yield _sent("pagerduty", event["payload"]["source"], event["dedup_key"], is_end, request.body)
        for number, mail in enumerate(self.mail.mails):
            found = message_from_bytes(mail.content, policy=policy.default)
            text = str(found.get_body(("plain",)).get_content()).replace("\r\n", "\n")  # type: ignore[union-attr]  # each has one
            subject = found["Subject"]
            sent = _sent("email", _named_in(subject), number, subject.startswith("[RESOLVED]"), mail.content)
            yield Sent(**{**{name: getattr(sent, name) for name in Sent.__slots__}, "text": text})


def _sent(receiver: str, fault: str, page: object, is_end: bool, body: bytes) -> Sent:
    return Sent(receiver=receiver, fault=fault, page=str(page), is_end=is_end, text="", size=len(body))


def _named_in(text: str) -> str:
    return next(word for word in text.replace(";", " ").split() if word.startswith("fault-"))


@contextmanager
def serving(folder: Path) -> Iterator[Fakes]:
    """Fakes that listen until the block ends."""
    with ExitStack() as stack:
        hook, slack, pager = (stack.enter_context(contextmanager(serve)()) for _ in range(3))
        mail = stack.enter_context(contextmanager(smtp.serve)(self_signed(folder)))
        yield Fakes(webhook=hook, slack=FakeSlack(slack), pagerduty=FakePagerDuty(pager), mail=mail)


def write_world(folder: Path, faults: Mapping[str, Fault], fakes: Fakes) -> Path:
    """Each fault's lists by day, and the configuration over them."""
    for name, fault in faults.items():
        for arm in Arm:
            (folder / name / arm).mkdir(parents=True)
            for day in range(HEALTHY + BAD + HEALED):
                slot = f"{START + day * _DAY:%Y-%m-%d}"
                write_lists(folder / name / arm / f"{slot}.parquet", SHOP, fault.lists(SHOP, arm, day))
    comparisons = [
        {
            "name": name,
            "every": "1d",
            "k": SHOP.k,
            **{
                arm: {"file": {"path": f"{name}/{arm}/{{slot:%Y-%m-%d}}.parquet", "user": "user_id", "items": "items"}}
                for arm in Arm
            },
            "users": {"all": True, "segments": ["country", "activity"]},
            "metrics": ["extended_tau", "rbo(p=0.9)", "overlap"],
            "rules": "default",
        }
        for name in faults
    ]
    config = {"database": f"sqlite:///{folder}/rankwatch.db", "listen": "127.0.0.1:0", "comparisons": comparisons}
    path = folder / "rankwatch.yaml"
    path.write_text(json.dumps({**config, "receivers": fakes.entries()}))
    return path


def step(watched: Watched, faults: Sequence[str], days: int) -> None:
    """Let the days pass, each once all comparisons have run and what they found is sent."""
    store = watched.daemon.store
    for day in range(days):
        if day:
            watched.clock.let_pass(_DAY)
        wait_for(partial(_has_run, store, (day + 1) * len(faults)), "runs")
        wait_for(lambda: not watched.daemon._scheduler.at_work, "the end of the runs")
        wait_for(lambda: not store.outbox.pending(watched.clock.now()), "deliveries")


def _has_run(store: SqlStore, runs: int) -> bool:
    return len(store.history.runs(comparison=None, limit=runs)) == runs


def observe(faults: Mapping[str, Fault]) -> list[Sent]:
    """What receivers were sent about these faults, whose names begin with ``fault-``."""
    with tempfile.TemporaryDirectory() as place, serving(Path(place)) as fakes:
        with watching(write_world(Path(place), faults, fakes)) as watched:
            step(watched, list(faults), HEALTHY + BAD + HEALED)
        if complaints := [*fakes.slack.complaints, *fakes.pagerduty.complaints]:
            sys.exit(f"refused by a fake: {complaints}")
        return list(fakes.sent())


def main(args: list[str]) -> None:
    """Print one row a fault; exit code 1 when one pages too often or a message is too large."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=incidents", description=__doc__)
    parser.add_argument("kinds", nargs="*", help="words of the kinds to plant, all of them without")
    parser.add_argument("--faults", type=int, default=1, help="faults of each kind")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(args)
    logging.disable(logging.CRITICAL)
    kinds = [kind for kind in Kind if not asked.kinds or any(word in kind for word in asked.kinds)]
    faults = {
        f"fault-{kind.name.lower()}-{number}": draw_fault(kind, asked.seed + number, begins=HEALTHY, ends=HEALTHY + BAD)
        for kind in kinds
        for number in range(asked.faults)
    }
    found = observe(faults)
    Console(width=200).print(table_of(faults, found))
    sys.exit(int(any(not is_right(name, found) for name in faults)))


def is_right(fault: str, found: Sequence[Sent]) -> bool:
    """Whether each receiver was paged once or twice before one end, with messages that are not too large."""
    of_it = [each for each in found if each.fault == fault]
    pages = {receiver: count_pages(of_it, receiver) for receiver in {each.receiver for each in of_it}}
    return bool(pages) and max(pages.values()) <= MOST_PAGES and all(each.size <= MOST_BYTES for each in of_it)


def count_pages(found: Sequence[Sent], receiver: str) -> int:
    """Messages before the end, as many as page anybody."""
    return len({each.page for each in found if each.receiver == receiver and not each.is_end})


def table_of(faults: Mapping[str, Fault], found: Sequence[Sent]) -> Table:
    """One row a fault: pages before its end, ends, the largest message of each receiver, and how the first mail begins."""
    receivers = ("webhook", "slack", "pagerduty", "email")
    table = Table("fault", "arm", "segment", "share", *receivers, "ends", "bytes", "first mail")
    for name, fault in faults.items():
        of_it = [each for each in found if each.fault == name]
        first = next((each.text for each in of_it if each.receiver == "email"), "none")
        sizes = [max((each.size for each in of_it if each.receiver == receiver), default=0) for receiver in receivers]
        table.add_row(
            name.removeprefix("fault-"),
            fault.arm,
            fault.segment,
            f"{fault.share:.0%}",
            *(str(count_pages(of_it, receiver)) for receiver in receivers),
            str(sum(each.is_end for each in of_it if each.receiver == "webhook")),
            " ".join(f"{size:,}" for size in sizes),
            "\n".join(first.split("\n\n")[0:2]),
        )
    return table
