"""An evening on call: one fault after the other, and the messages about each."""

import math
import re
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
from numpy.random import default_rng

from clocks import SHIFT_VARIABLE
from evening.world import EVERY_S, SECRETS, SHOPS, Evening, Question, open_evening
from monitor.model.alerts import State
from monitor.model.rankings import Arm
from monitor.model.runs import RunStatus
from servers.daemon import wait_for
from servers.webhook import Request, answer, hang

pytestmark = [
    pytest.mark.integration,
    pytest.mark.early(500),
    pytest.mark.timeout(1800),  # thirty faults, many of them one after the other
]
RECEIVERS = ("pagerduty", "slack", "mail", "webhook")
POPULAR = [f"SKU-{item}" for item in range(10)]
LOGIN_PAGE = answer(200, {"Content-Type": "text/html"}, b"<!DOCTYPE html><title>Sign in</title>")

Plant = Callable[[Evening, str], AbstractContextManager[None]]


def is_critical(message):
    return "critical:" in message.headline.lower()


def shop_of(message):
    """The comparison of the message. It is empty if the message is about the daemon."""
    return next((name for name in SHOPS if name in message.headline), "")


@dataclass(frozen=True)
class Fault:
    """``cause`` is a pattern of what was planted. Each critical message must contain it."""

    name: str
    cause: str
    plant: Plant
    during: Any = lambda _: None
    is_optional: bool = False


@dataclass
class Row:
    """The outcome of a fault: the messages, and the seconds until the first message, and from the repair until the end."""

    fault: Fault
    heard: Any
    noticed_s: float | None
    ended_s: float | None
    alerts: int

    @property
    def pages(self):
        """How many messages wake people, by receiver. An update of an open alert of PagerDuty wakes nobody."""
        pages = {(each.receiver, each.page or each.text) for each in self.heard if not each.is_end}
        return Counter(receiver for receiver, _ in pages)

    @property
    def ends(self):
        """How many ends each receiver got. For PagerDuty it is the largest number for one key."""
        ends = Counter((each.receiver, each.page) for each in self.heard if each.is_end)
        return {receiver: count for (receiver, _), count in reversed(ends.most_common())}

    @property
    def unnamed(self):
        """Headlines of critical messages without the cause. If no message is critical, all messages count."""
        messages = [message for message in self.heard if not message.is_end]
        critical = [message for message in messages if is_critical(message)]
        return [
            message.headline
            for message in critical or messages
            if not re.search(self.fault.cause, message.text, re.IGNORECASE)
        ]

    def problems(self):
        if not self.heard:
            return [] if self.fault.is_optional else ["not noticed"]
        checks = {
            f"cause not named: {self.unnamed[:1]}": self.unnamed,
            f"pages: {dict(self.pages)}": not all(1 <= self.pages[each] <= 2 for each in RECEIVERS),
            f"ends: {self.ends}": self.ends != dict.fromkeys(RECEIVERS, 1),
        }
        return [problem for problem, is_so in checks.items() if is_so]

    def __str__(self):
        pages = "/".join(str(self.pages[each]) for each in RECEIVERS)
        named = "no" if self.unnamed else "yes"
        times = f"{self.noticed_s or math.nan:5.1f} {self.ended_s or math.nan:5.1f}"
        headlines = [each.headline for each in self.heard if each.receiver == "webhook"]
        return f"{self.fault.name:28} {times} {pages:7} {named:3} {self.alerts:2} {headlines[:1]}"


def broken(change=Question.items, *, reply=None, arm=Arm.CANDIDATE):
    """The arm answers like this."""

    @contextmanager
    def plant(evening, shop):
        evening.broken[shop, arm] = change, reply
        yield
        del evening.broken[shop, arm]

    return plant


def cut_off(evening, gate):
    """The candidate, or the database, refuses connections."""
    evening.gates[gate or "database"].refuse()
    yield
    evening.gates[gate or "database"].resume()


def renamed_host(evening, shop):
    """The configuration names a host that does not exist. It is corrected later."""
    text = evening.path.read_text()
    evening.reload(text.replace(f"127.0.0.1:{evening.gates[shop].port}", "recs-v2.invalid"))
    yield
    evening.reload(text)


def without_slack(evening, shop):
    """Slack is away when random lists begin."""
    slack, refused = evening.hooks[1], list[Request]()
    right = slack.respond

    def refuse(_):
        refused.append(slack.requests.pop())
        return answer(503)

    slack.respond = refuse
    with broken(random_list)(evening, shop):
        wait_for(lambda: refused, "a message that Slack refuses")
        slack.respond = right
        yield


def random_list(question):
    items = default_rng((question.day, question.row)).choice(300, 10, replace=False)
    return [f"SKU-{item}" for item in items]


def of_country(country, change):
    return lambda question: change(question) if question.country == country else question.items()


def of_first(users, change):
    return lambda question: change(question) if question.row < users else question.items()


def of_ids(respell):
    """Each id is written in another way, without its prefix."""
    return lambda question: [respell(item.removeprefix("SKU-")) for item in question.items()]


def slowly(question):
    time.sleep(0.1)
    return question.items()


def restart(evening):
    evening.daemons[-1].kill()
    evening.serve("0.yaml")


def take_over(evening):
    leader, standby = evening.daemons[-1], evening.serve("1.yaml")
    leader.kill()
    wait_for(lambda: "\nrankwatch_leader 1.0" in standby.metrics(), "the standby leading")


def plant_nothing(*_):
    return nullcontext()


RANDOM = broken(random_list)
FAULTS = {
    "home-feed": [
        Fault("lists empty for one country", "country=DE", broken(of_country("DE", lambda _: []))),
        Fault("users missing, one country", "country=FR", broken(of_country("FR", lambda _: None))),
        Fault("all users without lists", "700 of 700", broken(lambda _: None)),
        Fault("popular list for 1 %", "same list", broken(of_first(7, lambda _: POPULAR))),
        Fault("popular list for 20 %", "same list", broken(of_first(140, lambda _: POPULAR))),
        Fault("random lists", "unrelated", RANDOM),
        Fault(
            "top 3 reversed",
            "another order",
            broken(lambda asked: asked.items()[2::-1] + asked.items()[3:]),
        ),
        Fault(
            "candidate = baseline",
            "baseline's list|identical",
            broken(lambda asked: asked.items(arm=Arm.BASELINE)),
        ),
        Fault("stale lists", "as in the last run", broken(lambda asked: asked.items(day=1))),
        Fault("one segment broken", "country=DE", broken(of_country("DE", random_list))),
        Fault("the same again", "country=DE", broken(of_country("DE", random_list))),
        Fault(
            "baseline broken",
            "from the baseline that are unrelated",
            broken(random_list, arm=Arm.BASELINE),
        ),
    ],
    "newsletter": [
        Fault("host gone", r"recs-v2\.invalid", contextmanager(renamed_host)),
        Fault("connection refused", "refused", contextmanager(cut_off)),
        Fault("HTTP 500", "500", broken(reply=answer(500))),
        Fault("HTML login page", "HTML", broken(reply=LOGIN_PAGE)),
        Fault("HTTP 401", "401", broken(reply=answer(401))),
        Fault("slow", "(?s)^(?!.*both arms).*not answered", broken(slowly)),
        Fault("time-out", "no answer|not answered", broken(reply=hang)),
        Fault("baseline answers 503", "baseline.*503", broken(reply=answer(503), arm=Arm.BASELINE)),
        Fault("ids respelled", "sku_", broken(of_ids("sku_{}".format))),
        Fault("ids without their prefix", "SKU-", broken(of_ids(str))),
        Fault("(item, score) pairs", "list in it", broken(of_ids(lambda item: [item, 0.5]))),
        Fault("float ids", "not whole", broken(of_ids(lambda item: int(item) + 0.5))),
        Fault("duplicates", "twice|duplicate", broken(lambda asked: asked.items()[:5] * 2)),
        Fault("lists short", "4 items instead of 10", broken(lambda asked: asked.items()[:4])),
    ],
}
OF_THE_DAEMON = {
    "home-feed": [
        Fault("kill -9 of the daemon", "unrelated", RANDOM, restart),
        Fault("a standby takes over", "unrelated", RANDOM, take_over),
    ]
}
OF_THE_DATABASE = {
    "": [
        Fault(
            "database away", "database", contextmanager(cut_off), lambda _: time.sleep(4 * EVERY_S)
        )
    ],
    "home-feed": [
        Fault("database away: home-feed", "database", plant_nothing, is_optional=True),
        Fault("Slack away and back", "unrelated", contextmanager(without_slack)),
    ],
    "newsletter": [Fault("database away: newsletter", "database", plant_nothing, is_optional=True)],
}
PATIENCE = 6
"""A fault must be noticed within this number of runs."""


def seen(look, runs):
    """Whether ``look`` is true within the time of this many runs."""
    ends_at = time.monotonic() + runs * EVERY_S
    while not (is_seen := bool(look())) and time.monotonic() < ends_at:
        time.sleep(0.2)
    return is_seen


def calm_down(evening, shop):
    """Wait for the end of the next run, so that the next fault does not begin within a run."""
    last = evening.newest(shop)

    def has_ended():
        run = evening.newest(shop)
        return run.slot > last.slot and run.status is not RunStatus.RUNNING

    seen(has_ended, PATIENCE)


def play(evening, faults):
    """One fault after the other in each comparison. All comparisons run at the same time."""

    def play_all(shop):
        calm_down(evening, shop)
        return [play_one(evening, shop, fault) for fault in faults[shop]]

    with ThreadPoolExecutor() as pool:
        return [row for rows in pool.map(play_all, faults) for row in rows]


def play_one(evening, shop, fault):
    """Plant the fault until the messages are complete. Then wait until all of its alerts have ended."""
    before, begun = Counter(evening.heard()), time.monotonic()

    def new():
        heard = (Counter(evening.heard()) - before).elements()
        return [each for each in heard if shop_of(each) == shop]

    def is_known():
        return any(map(is_critical, new()))

    def is_over():
        pages = {each.receiver for each in new() if not each.is_end}
        ends = {each.receiver for each in new() if each.is_end}
        states = evening.store.alerts.states(shop) if shop else ()
        return pages == ends and all(state.state is State.QUIET for state in states)

    with fault.plant(evening, shop):
        is_noticed = seen(new, PATIENCE * (1 + fault.is_optional))
        noticed_s = time.monotonic() - begun
        if not seen(is_known, 2) and evening.newest(shop).status is not RunStatus.OK:
            seen(is_known, 3)
        fault.during(evening)
        seen(lambda: {each.receiver for each in new()} == set(RECEIVERS), 3)
        alerts = evening.count_alerts(shop)
    healed = time.monotonic()
    is_ended = seen(is_over, PATIENCE * 5)
    ended_s = time.monotonic() - healed
    calm_down(evening, shop)
    return Row(
        fault, new(), noticed_s if is_noticed else None, ended_s if is_ended else None, alerts
    )


def test_people_get_one_message_about_each_fault_with_its_cause_and_one_about_its_end(
    tmp_path, postgres_server, postgres_url, monkeypatch
):
    monkeypatch.delenv(SHIFT_VARIABLE, raising=False)  # the other programs have the machine's clock
    with open_evening(tmp_path, postgres_server, postgres_url) as (evening, prometheus):
        calm_down(evening, "")
        rows = play(evening, FAULTS) + play(evening, OF_THE_DAEMON) + play(evening, OF_THE_DATABASE)

        refused = 'ALERTS{alertname="RankwatchConfigReloadFailed", alertstate="firing"}'
        right = evening.path.read_text()
        evening.reload("comparisons: []")
        prometheus.await_query(refused)
        evening.reload(right)
        prometheus.await_query(refused, lambda samples: not samples)
        wait_for(lambda: evening.count_alerts("") == 0, "the end of all alerts at Alertmanager")
        texts = [each.text for each in evening.heard()]
    print(*rows, sep="\n")  # noqa: T201 - the table of the evening
    assert not {row.fault.name: row.problems() for row in rows if row.problems()}
    secret = "|".join([*map(re.escape, SECRETS), r"\bu\d{5}\b"])
    assert not [text for text in texts if re.search(secret, text)]
    assert len(rows) > 25
