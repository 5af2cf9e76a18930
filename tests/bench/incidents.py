"""What on-call gets of generated incidents, and whether it is right: ``make bench ARGS="incidents --count 200 --seed 1"``.

Incidents of the kinds of `faults`, `PER_SHOP` in each of many shops that differ in users, items, k and pace, of random
shares, segments, arms and days. Each lasts `BAD` days after a healthy week or two, and ends. Every day is run and judged by the
default rules and delivered from the outbox by the code that the daemon runs; only its schedule is left out, since the clock is
set. Four receivers send to fakes on loopback that take what their services document and nothing else; reminders are off.

An incident is told rightly when the first message of every receiver, read by itself as a person would read it, names

- the kind: of a slow loss one list for many users, which it is on the day on which it is first seen; of a category that is gone
  items that are; of a broken model, in one segment or everywhere, other items, many more than usual;
- the segment in which it was planted, or no segment where it was planted in none;
- how many users have it: off by at most `OFF` of all users or `OFF_OF_IT` of those who have it, whichever is more. Who would
  have had one of the items has it where items are gone. A share of the users with the same first three items, who alone can
  be counted, is taken for the share of all users;
- the arm, or both,

and when each receiver is paged at most `MOST_PAGES` times before the end, the webhook by messages of at most `MOST_BYTES`. What
is never paged, or names no cause, is wrong. Ends and the sizes of other messages are shown, and not judged.
"""

import logging
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import structlog
import yaml

from bench import parse_options, show
from faults import Fault, Kind, Shop, draw_fault, draw_shop, write_lists
from monitor.model.rankings import ALL, Arm
from monitor.model.runs import RunResult
from monitor.service.commands.one_shot import open_one_shot
from servers import smtp
from servers.certificates import self_signed
from servers.heard import read_body, read_mail
from servers.pagerduty import KEY, FakePagerDuty
from servers.slack import FakeSlack
from servers.webhook import Collector, running_webhook
from service.stepped_daemon import START, SteppedClock

HEALTHY, BAD, HEALED = (8, 15), 8, 3
"""Days before a fault, from and to; days that it lasts, and days that are looked at after it."""
PER_SHOP = 8
MOST_PAGES, MOST_BYTES = 2, 16_000
OFF, OFF_OF_IT = 0.1, 0.2
RIGHT = 0.97
RECEIVERS = ("webhook", "slack", "pagerduty", "mail")
WHAT = ("kind", "segment", "share", "arm")
CONFIG = """
database: sqlite:///{folder}/rankwatch.db
listen: 127.0.0.1:0
comparisons:
- name: home-feed
  every: 1d
  k: {k}
  baseline: {{file: &lists {{path: "baseline/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}
  candidate: {{file: {{<<: *lists, path: "candidate/{{slot:%Y-%m-%d}}.parquet"}}}}
  users: {{file: {{path: users.parquet, user: user_id}}, segments: [country, activity]}}
  metrics: [extended_tau, rbo, overlap]
  rules: default
"""
RECEIVED = """
receivers:
- webhook: {{url: {fakes.webhook.url}}}
- slack: {{url: {fakes.slack.url}, repeat_every: null}}
- pagerduty: {{url: {fakes.pagerduty.url}, routing_key: {key}}}
- email:
    {{host: 127.0.0.1, port: {fakes.mail.port}, tls: none, sender: rankwatch@example.com,
    to: [kim@example.com], repeat_every: null}}
"""
_DAY = timedelta(days=1)
_WORDS = {
    "no list": "got no list|gave no list for|gave no usable answer for",
    "shared list": "get one and the same list|get one of [0-9]+ lists|gave one and the same list to",
    "other arm's lists": "both lists are identical|answers with the baseline's list for",
    "nearly the other arm's": "that are nearly the",
    "mixed with the other arm's": "that are mixed with the",
    "items risen": "that many more lists have",
    "shifted": "lack their first|new items? in front",
    "shorter": "get shorter lists|gave a list shorter than k for",
    "stale": "as in the last run|returned an unchanged list",
    "items gone": "had items that nobody gets",
    "others' lists": "that belong to other users",
    "random": "that look random",
    "other items": "many more new items",
    "top reordered": "get the same first three items|reversed the first three items",
    "reordered": "get the same items",
}
"""By what a reader knows what is told."""
KINDS = {
    Kind(kind): told
    for kind, told in yaml.safe_load("""
        one shared list: shared list
        slow loss: shared list
        lists of the other arm: other arm's lists
        boosted item: items risen
        lost filter: items risen
        one item gone: items gone
        best item dropped: shifted
        nearly the other arm's lists: nearly the other arm's
        interleaved lists: mixed with the other arm's
        reordering only: reordered
        top 3 shuffled: top reordered
        truncation: shorter
        stale: stale
        mixed-up users: others' lists
        items gone: items gone
        category gone: items gone
        one segment: other items
        random noise: random
        one arm broke: other items
        both broke: other items
        missing users: no list
    """).items()
}
"""What is to be told of each kind."""
_ARMS = "(?P<arms>baseline and candidate|baseline|candidate)"
_SENTENCES = (
    # The cause, and where none is given the reason of an alert.
    re.compile(
        r"(?P<users>[0-9,]+) of [0-9,]+ users \([0-9.]+ %\)"
        r"(?:, (?:most of them|exactly the users) in (?P<segment>.+?),)? "
        rf"(?P<what>[^.]*?(?:from|by) the {_ARMS}[^.]*)"
    ),
    re.compile(
        rf"the {_ARMS} (?P<what>[a-z ]+) (?P<users>[0-9,]+) of (?:the )?(?P<counted>[0-9,]+) users"
        r"(?: of (?P<segment>\S+?))?(?P<is_share> with the same first three items)?(?: \(|[,:])"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a message tells its reader of a fault."""

    kind: str
    segment: str
    users: int
    arms: str
    counted: int | None = None  # of how many users these are a share, if only they can be counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What one receiver got of a fault: what the first message tells, what is wrong, pages, whether they ended, and bytes."""

    told: Read | None
    wrong: Sequence[str]
    pages: int
    is_ended: bool
    most_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A fault, of how many ``users`` on the ``day`` of it on which it was first told, the first mail, and all by receiver."""

    fault: Fault
    shop: Shop
    users: int
    day: int
    mail: str
    received: Mapping[str, Received]

    @property
    def is_right(self):
        return not any(each.wrong for each in self.received.values())

    @property
    def kind(self):
        """What is told by all receivers."""
        kinds = {each.told.kind if each.told else "no cause" for each in self.received.values()}
        return kinds.pop() if len(kinds) == 1 else "not the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fakes:
    """Services that messages are sent to."""

    webhook: Collector
    slack: FakeSlack
    pagerduty: FakePagerDuty
    mail: smtp.MailServer

    def entries(self):
        """The configuration's ``receivers``."""
        return RECEIVED.format(fakes=self, key=KEY)

    def take(self):
        """What was sent since they were last asked."""
        hooks = (self.webhook, self.slack.collector, self.pagerduty.collector)
        heard = [read_body(request.body) for hook in hooks for request in hook.requests]
        heard += [read_mail(mail.content) for mail in self.mail.mails]
        for hook in hooks:
            hook.requests.clear()
        self.mail.mails.clear()
        return heard


@contextmanager
def serving(certificate):
    """Fakes that listen until the block ends."""
    with ExitStack() as stack:
        hook, slack, pager = (stack.enter_context(running_webhook()) for _ in range(3))
        mail = stack.enter_context(smtp.running_mail_server(certificate))
        fakes = Fakes(
            webhook=hook, slack=FakeSlack(slack), pagerduty=FakePagerDuty(pager), mail=mail
        )
        yield fakes
        assert [*fakes.slack.complaints, *fakes.pagerduty.complaints] == []


def observe(faults, shop):
    """What receivers are sent about each of these faults, which all begin on one day, and end."""
    with tempfile.TemporaryDirectory() as place:
        certificate, past, begins = self_signed(Path(place)), Path(place) / "past", faults[0].begins
        _pass_days(past, faults[0], shop, range(begins), None)
        for number, fault in enumerate(faults):
            folder = Path(place) / str(number)
            folder.mkdir()
            shutil.copy(past / "rankwatch.db", folder)
            with serving(certificate) as fakes:
                yield judge(
                    fault,
                    shop,
                    _pass_days(
                        folder, fault, shop, range(begins, (fault.ends or begins) + HEALED), fakes
                    ),
                )


def _pass_days(folder, fault, shop, days, fakes):
    """Run each day, and deliver what it found; all messages that came of it."""
    sent = []
    clock = SteppedClock(START + days[0] * _DAY)
    with open_one_shot(write_world(folder, fault, shop, days, fakes), reconciles=True) as opened:
        service = replace(opened, clock=clock)
        for day in days:
            (result,) = service.run_once(None, None)
            assert isinstance(result, RunResult), result
            service.deliver()
            sent += [(day, each) for each in fakes.take()] if fakes else []
            clock.let_pass(_DAY)
    return sent


def write_world(folder, fault, shop, days, fakes):
    """The lists of these days, and the configuration over them."""
    for arm in Arm:
        (folder / arm).mkdir(parents=True)
        for day in days:
            name = f"{START + day * _DAY:%Y-%m-%d}.parquet"
            write_lists(folder / arm / name, fault.lists(shop, arm, day))
    # Those of the baseline would leave out whom it gives no list.
    pq.write_table(pa.table({"user_id": shop.names, **shop.values}), folder / "users.parquet")
    path = folder / "rankwatch.yaml"
    path.write_text(CONFIG.format(folder=folder, k=shop.k) + (fakes.entries() if fakes else ""))
    return path


def judge(fault, shop, sent):
    """What is right and wrong about its messages."""
    found = {name: [each for each in sent if each[1].receiver == name] for name in RECEIVERS}
    day = min((day for day, _ in sent), default=fault.begins)
    return Incident(
        fault=fault,
        shop=shop,
        users=fault.count_harmed(shop, day),
        day=day - fault.begins,
        mail=next((each.text for _, each in found["mail"]), ""),
        received={name: _judge_receiver(fault, shop, found[name]) for name in RECEIVERS},
    )


def _judge_receiver(fault, shop, found):
    if not found:
        return Received(told=None, wrong=[*WHAT, "pages"], pages=0, is_ended=False, most_bytes=0)
    day, first = found[0]
    told = read(first.text)
    wrong = find_wrong(fault, shop, told, day)
    pages = len({each.page or f"{day}{each.text}" for day, each in found if not each.is_end})
    if not 1 <= pages <= MOST_PAGES:
        wrong.append("pages")
    most = max(len(each.text.encode()) for _, each in found)
    if first.receiver == "webhook" and most > MOST_BYTES:
        wrong.append("size")
    ends = sum(each.is_end for _, each in found)
    # PagerDuty has an alert to resolve for each page.
    wanted = pages if first.receiver == "pagerduty" else 1
    return Received(told=told, wrong=wrong, pages=pages, is_ended=ends == wanted, most_bytes=most)


def read(text):
    """What a person takes from a text; None where no cause is named."""
    for sentence in _SENTENCES:
        for found in sentence.finditer(text):
            kind = next(
                (kind for kind, words in _WORDS.items() if re.search(words, found["what"])), None
            )
            if kind is not None:
                groups = found.groupdict()
                is_share = groups.get("is_share") is not None
                return Read(
                    kind=kind,
                    segment=found["segment"] or ALL,
                    users=_parse_count(found["users"]),
                    arms=found["arms"],
                    counted=_parse_count(found["counted"]) if is_share else None,
                )
    return None


def _parse_count(text):
    return int(text.replace(",", ""))


def find_wrong(fault, shop, found, day):
    """What is told wrongly of the fault as it is on that day."""
    if found is None:
        return [*WHAT]
    truth = fault.count_harmed(shop, day)
    users = float(found.users)
    if found.counted is not None:
        users *= len(shop.members(found.segment)) / found.counted
    checks = (
        found.kind == KINDS[fault.kind],
        found.segment == fault.segment,
        abs(users - truth) <= max(OFF * shop.users, OFF_OF_IT * truth),
        found.arms == " and ".join(fault.arms),
    )
    return [name for name, is_right in zip(WHAT, checks, strict=True) if not is_right]


def generate(count, seed):
    """So many faults, the kinds in turn, and the shops that they are planted in."""
    kinds = list(Kind)
    for first in range(0, count, PER_SHOP):
        begins = int(np.random.default_rng((seed, first)).integers(*HEALTHY))
        numbers = range(first, min(count, first + PER_SHOP))
        yield (
            draw_shop(seed + first),
            [
                draw_fault(
                    kinds[number % len(kinds)], seed + number, begins=begins, ends=begins + BAD
                )
                for number in numbers
            ],
        )


def main(args):
    """Print what is wrong, what was told of each kind, and what each receiver got.

    Exit code 1 below `RIGHT`.
    """
    asked = parse_options(args, count=200, seed=0)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    found = []
    for shop, faults in generate(asked.count, asked.seed):
        for each in observe(faults, shop):
            found.append(each)
            if not each.is_right:
                sys.stdout.write(_describe(each))
    confusion = Counter((each.fault.kind, each.kind) for each in found)
    kinds = dict.fromkeys([*KINDS.values(), *(each.kind for each in found)])
    rows = [[kind, *(confusion[kind, told] or "" for told in kinds)] for kind in Kind]
    show("What was told of each kind", ("planted", *kinds), rows)
    columns = ("receiver", "right", *WHAT, "most pages", "ends told", "most bytes")
    by_receiver = {name: [each.received[name] for each in found] for name in RECEIVERS}
    show("What each receiver got", columns, map(_row, by_receiver, by_receiver.values()))
    right = sum(each.is_right for each in found)
    sys.stdout.write(f"{right} of {len(found)} right ({right / len(found):.1%})\n")
    sys.exit(int(right < RIGHT * len(found)))


def _row(name, received):
    right = [sum(what not in each.wrong for each in received) for what in WHAT]
    whole, ended = sum(not each.wrong for each in received), sum(each.is_ended for each in received)
    pages, most = max(each.pages for each in received), max(each.most_bytes for each in received)
    return [name, whole, *right, pages, ended, f"{most:,}"]


def _describe(each):
    fault, wrong = (
        each.fault,
        {name: " ".join(of_it.wrong) for name, of_it in each.received.items()},
    )
    whose = f"{' and '.join(fault.arms)}, {fault.segment}, {each.users} of {each.shop.users} users"
    return (
        f"{fault.kind}: {whose}; seed {fault.seed}, day {each.day}, wrong: {wrong}\n  "
        f"{' '.join(each.mail.split())[:500]}\n"
    )
