"""Are the messages about generated incidents right? ``make bench ARGS="incidents --count 200 --seed 1"``.

The benchmark plants faults of all kinds of `faults`: `PER_SHOP` faults in each of many shops. The shops differ in users, items,
k and pace. The shares, segments, arms and days of faults are random. Each fault begins after one or two healthy weeks, and
lasts `BAD` days. The code of the daemon runs every day, judges it by the default rules, and delivers from the outbox. Only the
schedule is missing, because the benchmark sets the clock. Four receivers send to fakes on loopback. The fakes accept only what
their services document. Reminders are off.

An incident is right if the first message of every receiver names these facts:

- the kind. For a slow loss this is one list for many users, which is the state on the first day with a message. For a missing
  category it is missing items. For a broken model it is many more new items than usual;
- the segment in which the fault was planted, or no segment if it was planted in all users;
- how many users are affected, with an error of at most `OFF` of all users or `OFF_OF_IT` of the affected users, whichever is
  more. If items are missing, the users who would have had one of the items are affected. If a message counts only users with
  the same first three items, their share is used as the share of all users;
- the arm, or both arms.

In addition, each receiver is paged at most `MOST_PAGES` times before the end, and a message of the webhook has at most
`MOST_BYTES` bytes. An incident without a page or without a cause is wrong. Messages about ends and the sizes of other messages
are shown, but not judged.
"""

import logging
import re
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import structlog
import yaml
from numpy.random import default_rng

from bench import parse_options, show
from factories import DAY
from faults import Fault, Kind, Shop, draw_fault, draw_shop, write_lists
from monitor.model.immutable import immutable
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
from tables import cells

HEALTHY, BAD, HEALED = (8, 15), 8, 3
"""The range of days before a fault, the days that it lasts, and the days after it that are examined."""
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
_WORDS = dict(
    cells("""
no list                     got no list|gave no list for|gave no usable answer for
shared list                 get one and the same list|get one of [0-9]+ lists|gave one and the same list to
other arm's lists           both lists are identical|answers with the baseline's list for
nearly the other arm's      that are nearly the
mixed with the other arm's  that are mixed with the
items risen                 that many more lists have
shifted                     lack their first|new items? in front
shorter                     get shorter lists|gave a list shorter than k for
stale                       as in the last run|returned an unchanged list
items gone                  had items that nobody gets
new items                   that hardly anybody got before
others' lists               that belong to other users
unrelated                   that are unrelated to
other items                 more new items|between the former ones
top reordered               get the same first three items|reversed the first three items
reordered                   get the same items
""")
)
"""The pattern by which a reader recognizes each kind."""
KINDS = {
    Kind(kind): named
    for kind, named in yaml.safe_load("""
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
        random noise: unrelated
        one arm broke: other items
        both broke: other items
        missing users: no list
        other catalogue: new items
    """).items()
}
"""The kind that messages must name for each planted kind."""
_ARMS = "(?P<arms>baseline and candidate|baseline|candidate)"
_SENTENCES = (
    # The cause. Without a cause, the reason of an alert.
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


@immutable
class Read:
    """What a message says about a fault."""

    kind: str
    segment: str
    users: int
    arms: str
    counted: int | None = None  # the number of users that can be counted, if not all users can


@immutable
class Received:
    """What one receiver got about a fault.

    ``message_read`` is what the first message says, and ``wrong`` names what is wrong in it. ``pages`` counts wake-ups.
    """

    message_read: Read | None
    wrong: Any
    pages: int
    is_ended: bool
    most_bytes: int


@immutable
class Incident:
    """A fault, and the messages about it.

    ``day`` is the day of the first message, and ``users`` is the number of affected users on this day.
    """

    fault: Fault
    shop: Shop
    users: int
    day: int
    mail: str
    received: Any

    @property
    def is_right(self):
        return not any(each.wrong for each in self.received.values())

    @property
    def kind(self):
        """The kind that all receivers name."""
        kinds = {
            each.message_read.kind if each.message_read else "no cause"
            for each in self.received.values()
        }
        return kinds.pop() if len(kinds) == 1 else "not the same"


@immutable
class Fakes:
    """Fake services that get the messages."""

    webhook: Collector
    slack: FakeSlack
    pagerduty: FakePagerDuty
    mail: smtp.MailServer

    def entries(self):
        """The key ``receivers`` of the configuration."""
        return RECEIVED.format(fakes=self, key=KEY)

    def take(self):
        """The messages since the last call."""
        hooks = (self.webhook, self.slack.collector, self.pagerduty.collector)
        messages = [read_body(request.body) for hook in hooks for request in hook.requests]
        messages += [read_mail(mail.content) for mail in self.mail.mails]
        for hook in hooks:
            hook.requests.clear()
        self.mail.mails.clear()
        return messages


@contextmanager
def serving(certificate):
    """Fakes that listen until the end of the block."""
    with ExitStack() as stack:
        hook, slack, pager = (stack.enter_context(running_webhook()) for _ in range(3))
        mail = stack.enter_context(smtp.running_mail_server(certificate))
        fakes = Fakes(
            webhook=hook, slack=FakeSlack(slack), pagerduty=FakePagerDuty(pager), mail=mail
        )
        yield fakes
        assert not [*fakes.slack.complaints, *fakes.pagerduty.complaints]


def observe(faults, shop):
    """What receivers get about each of these faults. All faults begin and end on the same days."""
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
    """Run and deliver each day. Yields all messages of each day."""
    sent = []
    clock = SteppedClock(START + days[0] * DAY)
    with open_one_shot(write_world(folder, fault, shop, days, fakes), reconciles=True) as opened:
        service = replace(opened, clock=clock)
        for day in days:
            (result,) = service.run_once(None, None)
            assert isinstance(result, RunResult), result
            service.deliver()
            sent += [(day, each) for each in fakes.take()] if fakes else []
            clock.let_pass(DAY)
    return sent


def write_world(folder, fault, shop, days, fakes):
    """Write the lists of these days, and a configuration that reads them."""
    for arm in Arm:
        (folder / arm).mkdir(parents=True)
        for day in days:
            name = f"{START + day * DAY:%Y-%m-%d}.parquet"
            write_lists(folder / arm / name, fault.lists(shop, arm, day))
    # The baseline's own users would leave out users without a list.
    pq.write_table(pa.table({"user_id": shop.names, **shop.values}), folder / "users.parquet")
    path = folder / "rankwatch.yaml"
    path.write_text(CONFIG.format(folder=folder, k=shop.k) + (fakes.entries() if fakes else ""))
    return path


def judge(fault, shop, sent):
    """Find out what is right and wrong about the messages."""
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
        return Received(
            message_read=None, wrong=[*WHAT, "pages"], pages=0, is_ended=False, most_bytes=0
        )
    day, first = found[0]
    message_read = read(first.text)
    wrong = find_wrong(fault, shop, message_read, day)
    pages = len({each.page or f"{day}{each.text}" for day, each in found if not each.is_end})
    if not 1 <= pages <= MOST_PAGES:
        wrong.append("pages")
    most = max(len(each.text.encode()) for _, each in found)
    if first.receiver == "webhook" and most > MOST_BYTES:
        wrong.append("size")
    ends = sum(each.is_end for _, each in found)
    # PagerDuty must resolve an alert for each page.
    wanted = pages if first.receiver == "pagerduty" else 1
    return Received(
        message_read=message_read,
        wrong=wrong,
        pages=pages,
        is_ended=ends == wanted,
        most_bytes=most,
    )


def read(text):
    """What a person reads in a text. None if the text names no cause."""
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
    """Which facts of the message are wrong for the fault on this day."""
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
    """Yield ``count`` faults in shops. The kinds of faults take turns."""
    kinds = list(Kind)
    for first in range(0, count, PER_SHOP):
        begins = int(default_rng((seed, first)).integers(*HEALTHY))
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
    """Print what is wrong, the kinds that messages name, and what each receiver got.

    The exit code is 1 if the share of right incidents is below `RIGHT`.
    """
    options = parse_options(args, count=200, seed=0)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    found = []
    for shop, faults in generate(options.count, options.seed):
        for each in observe(faults, shop):
            found.append(each)
            if not each.is_right:
                sys.stdout.write(_describe(each))
    confusion = Counter((each.fault.kind, each.kind) for each in found)
    kinds = dict.fromkeys([*KINDS.values(), *(each.kind for each in found)])
    rows = [[kind, *(confusion[kind, named] or "" for named in kinds)] for kind in Kind]
    show("The kind that messages name for each planted kind", ("planted", *kinds), rows)
    columns = ("receiver", "right", *WHAT, "most pages", "ends", "most bytes")
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
