"""What on-call gets for each of fourteen kinds of fault: messages, their size, and what the first one says.

`make bench ARGS=incidents`, or `ARGS="incidents stale missing"` for some kinds; ``--faults 3`` for three of each. A daemon with
the default rules, stepped from day to day: ten healthy days, ten bad ones, and eight after it was healed. The receivers are
fakes that take what their services document and nothing else; reminders (`repeat_every`) are turned off.
"""

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

from rich.console import Console
from rich.table import Table

from faults import Fault, Kind, Shop, draw_fault, write_lists
from monitor.model.rankings import Arm
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
RECEIVERS = ("webhook", "slack", "pagerduty", "email")
SHOP = Shop(users=600)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Sent:
    """One message about one fault, as a receiver got it; ``page``: under which key it pages there."""

    receiver: str
    fault: str
    page: str
    is_end: bool
    size: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fakes:
    """Services that messages are sent to."""

    webhook: Collector
    slack: FakeSlack
    pagerduty: FakePagerDuty
    mail: smtp.MailServer

    def entries(self) -> list[dict[str, object]]:
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
            fault, is_end = body["groupLabels"]["comparison"], body["status"] == "resolved"
            yield Sent("webhook", fault, str(number), is_end, len(request.body))
        for number, request in enumerate(self.slack.collector.requests):
            text = json.loads(request.body)["text"]
            yield Sent("slack", _fault_in(text), str(number), text.startswith("✅"), len(request.body))
        for request in self.pagerduty.collector.requests:
            event = json.loads(request.body)
            is_end = event["event_action"] == "resolve"
            yield Sent("pagerduty", event["payload"]["source"], event["dedup_key"], is_end, len(request.body))
        for number, mail in enumerate(self.mail.mails):
            found = message_from_bytes(mail.content.replace(b"\r\n", b"\n"), policy=policy.default)
            subject, text = found["Subject"].strip(), str(found.get_body(("plain",)).get_content())  # type: ignore[union-attr]
            pictures = [each for each in found.walk() if each.get_content_maintype() == "image"]
            # The chart beside a mail's text has a limit of its own.
            size = len(mail.content) - sum(len(each.as_bytes()) for each in pictures)
            yield Sent("email", _fault_in(subject), str(number), subject.startswith("[RESOLVED]"), size, text)


def _fault_in(text: str) -> str:
    return next(word for word in text.replace(";", " ").split() if word.startswith("fault-"))


@contextmanager
def serving(folder: Path) -> Iterator[Fakes]:
    """Fakes that listen until the block ends."""
    with ExitStack() as stack:
        hook, slack, pager = (stack.enter_context(contextmanager(serve)()) for _ in range(3))
        mail = stack.enter_context(contextmanager(smtp.serve)(self_signed(folder)))
        yield Fakes(webhook=hook, slack=FakeSlack(slack), pagerduty=FakePagerDuty(pager), mail=mail)


def write_world(folder: Path, faults: Mapping[str, Fault], fakes: Fakes, days: int) -> Path:
    """Each fault's lists by day, and the configuration over them."""
    comparisons = []
    for name, fault in faults.items():
        arms: dict[str, object] = {}
        for arm in Arm:
            (folder / name / arm).mkdir(parents=True)
            for day in range(days):
                path = folder / name / arm / f"{START + day * _DAY:%Y-%m-%d}.parquet"
                write_lists(path, SHOP, fault.lists(SHOP, arm, day))
            arms[arm] = {"file": {"path": f"{name}/{arm}/{{slot:%Y-%m-%d}}.parquet", "user": "user_id", "items": "items"}}
        users = {"all": True, "segments": ["country", "activity"]}
        judged = {"metrics": ["extended_tau", "rbo", "overlap"], "rules": "default"}
        comparisons.append({"name": name, "every": "1d", "k": SHOP.k, **arms, "users": users, **judged})
    config = {"database": f"sqlite:///{folder}/rankwatch.db", "listen": "127.0.0.1:0", "comparisons": comparisons}
    path = folder / "rankwatch.yaml"
    path.write_text(json.dumps({**config, "receivers": fakes.entries()}))
    return path


def observe(faults: Mapping[str, Fault], days: int = HEALTHY + BAD + HEALED) -> list[Sent]:
    """What receivers were sent about these faults, whose names begin with ``fault-``."""
    with tempfile.TemporaryDirectory() as place, serving(Path(place)) as fakes:
        with watching(write_world(Path(place), faults, fakes, days)) as watched:
            for day in range(days):
                _pass_day(watched, (day + 1) * len(faults))
        assert [*fakes.slack.complaints, *fakes.pagerduty.complaints] == []
        return list(fakes.sent())


def _pass_day(watched: Watched, runs: int) -> None:
    """Let a day pass once so many runs have ended and what they found is sent."""
    store = watched.daemon.store
    wait_for(partial(_has_run, store, runs), "runs")
    wait_for(lambda: not watched.daemon._scheduler._at_work, "the end of the runs")
    wait_for(lambda: not store.outbox.pending(watched.clock.now()), "deliveries")
    watched.let_pass(_DAY)


def _has_run(store: SqlStore, runs: int) -> bool:
    return len(store.history.runs(comparison=None, limit=runs)) == runs


def main(args: list[str]) -> None:
    """Print one row a fault; exit code 1 when one is not paged, pages too often, or a message is too large."""
    parser = argparse.ArgumentParser(prog="make bench ARGS=incidents", description=__doc__)
    parser.add_argument("kinds", nargs="*", help="words of the kinds to plant, all of them without")
    parser.add_argument("--faults", type=int, default=1, help="faults of each kind")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(args)
    logging.disable(logging.CRITICAL)
    kinds = [kind for kind in Kind if not asked.kinds or any(word in kind for word in asked.kinds)]
    drawn = ((kind, number) for number in range(asked.seed, asked.seed + asked.faults) for kind in kinds)
    faults = {f"fault-{kind.name}-{seed}": draw_fault(kind, seed, begins=HEALTHY, ends=HEALTHY + BAD) for kind, seed in drawn}
    found = observe(faults)
    table = Table(
        "fault", "arm", "segment", "share", "pages: webhook, Slack, PagerDuty, mail", "ends", "most bytes", "first mail"
    )
    for name, fault in faults.items():
        table.add_row(name.removeprefix("fault-"), fault.arm, fault.segment, f"{fault.share:.0%}", *_row(name, found))
    Console(width=200).print(table)
    sys.exit(int(not all(is_right(name, found) for name in faults)))


def is_right(fault: str, found: Sequence[Sent]) -> bool:
    """Whether each receiver was paged once or twice and then sent one end, in messages that are not too large."""
    of_it = [each for each in found if each.fault == fault]
    pages, ends = _counts(of_it)
    # PagerDuty has one alert to resolve for each page.
    is_over = all(count == (pages[place] if name == "pagerduty" else 1) for place, (name, count) in enumerate(ends.items()))
    return is_over and 1 <= min(pages) <= max(pages) <= MOST_PAGES and max(each.size for each in of_it) <= MOST_BYTES


def _counts(of_it: Sequence[Sent]) -> tuple[list[int], dict[str, int]]:
    """Messages that page, and those that end, by receiver."""
    pages = [len({each.page for each in of_it if each.receiver == name and not each.is_end}) for name in RECEIVERS]
    return pages, {name: sum(each.is_end for each in of_it if each.receiver == name) for name in RECEIVERS}


def _row(fault: str, found: Sequence[Sent]) -> tuple[str, ...]:
    of_it = [each for each in found if each.fault == fault]
    pages, ends = _counts(of_it)
    sizes = [max((each.size for each in of_it if each.receiver == name), default=0) for name in RECEIVERS]
    first = next((each.text for each in of_it if each.text), "none")
    figures = (" ".join(f"{count:,}" for count in counts) for counts in (pages, ends.values(), sizes))
    return *figures, "\n".join(first.split("\n\n")[:2])
