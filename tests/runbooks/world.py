"""A small installation: healthy days, and then a fault of one arm.

The runbooks show the messages and the output of commands in this world.
"""

import json
import random
import re
import shutil
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from commands import rankwatch
from factories import DAY, SECOND
from messages import message
from monitor.model.immutable import immutable
from monitor.pipeline.briefings import brief_message
from monitor.receivers.message.content import content_of
from monitor.receivers.message.plain_text import plain_text
from monitor.service.composition import open_wiring
from monitor.settings.loader import load_settings
from storage.worked import store_over
from unpaired.world import BEGINS, World, write_config, write_log

NAME = "home-feed"
TEST_NAME = "checkout-test"
TEST = World(users=2000)
URL = "https://rankwatch.example.com"
USERS = 200
HEALTHY = 12
BEGIN = datetime(2026, 3, 1, 6, tzinfo=UTC)
_ITEMS = 400
_K = 10
METRICS = ("extended_tau", "rbo(p=0.9)", "overlap")
_LISTS = "/srv/lists"
_LINES = 30  # of the output of a command

Change = Callable[[list[str]], Any]


@immutable
class Fault:
    """What happens to the lists of one arm from the first day after the healthy days on."""

    alert: str
    change: Change = list
    share: float = 1.0  # of the users
    step: float = 0.0  # grows by this share each day
    days: int = 1  # at least until the alert fires
    arm: str = "candidate"
    is_stale: bool = False  # the lists are those of the day before
    is_copied: bool = False  # the lists are the baseline's
    is_mixed: bool = False  # the lists take turns with the baseline's
    rules: str = ""  # further rules
    has_floor: bool = False  # whether the noise floor is measured
    metrics: Any = METRICS
    log: Any = None  # of an A/B test: keys of `write_log`

    def apply(self, today, yesterday, day):
        copied = healthy_lists("baseline", HEALTHY + day)
        for user in list(today)[: round((self.share + self.step * day) * USERS)]:
            if self.is_stale:
                items = yesterday[user]
            elif self.is_copied:
                items = copied[user]
            elif self.is_mixed:
                turns = zip(today[user], copied[user], strict=True)
                items = list(dict.fromkeys(item for turn in turns for item in turn))[:_K]
            else:
                items = self.change(today[user])
            if items is None:
                del today[user]
            else:
                today[user] = items


def healthy_lists(arm, day):
    """The lists of one day. The caller may change them."""
    return {user: [*items] for user, items in _draw_lists(arm, day).items()}


@cache
def _draw_lists(arm, day):
    """Each arm replaces some items and swaps some neighbours."""
    chance = random.Random(f"{arm} {day}")  # noqa: S311 - lists for examples
    lists = {}
    for user in range(USERS):
        favourites = _draw_favourites(user)
        items = favourites[:_K]
        for place in range(3, _K):
            if chance.random() < 0.25:
                items[place] = favourites[_K + place]
            if place > 3 and chance.random() < 0.3:
                items[place - 1], items[place] = items[place], items[place - 1]
        if chance.random() < 0.05:
            items[0], items[1] = items[1], items[0]
        lists[f"user-{user:03}"] = items
    return lists


@cache
def _draw_favourites(user):
    taste = random.Random(f"user {user}")  # noqa: S311 - likewise
    return [f"item-{number}" for number in taste.sample(range(20, _ITEMS), 2 * _K)]


def write_healthy(folder, fault):
    """Write and run the healthy days, with the configuration for this fault."""
    for day in range(HEALTHY):
        for arm in ("baseline", "candidate"):
            _write(folder, arm, day, healthy_lists(arm, day))
    _write_config(folder, replace(fault, rules=""))
    (folder / "users.csv").write_text("user\n" + "\n".join(healthy_lists("baseline", 0)) + "\n")
    with chdir(folder):
        rankwatch("db upgrade")
        _replay(0, HEALTHY - 1)


def write_fault(healthy, folder, fault):
    """Copy the healthy days, and write and run the days with the fault."""
    shutil.copytree(healthy, folder)
    _write_config(folder, fault)
    for arm in ("baseline", "candidate"):
        yesterday = healthy_lists(arm, HEALTHY - 1)
        for day in range(fault.days):
            lists = healthy_lists(arm, HEALTHY + day)
            if fault.arm in (arm, "both"):
                fault.apply(lists, yesterday, day)
                yesterday = lists
            if lists:
                _write(folder, arm, HEALTHY + day, lists)
    with chdir(folder):
        _replay(HEALTHY, HEALTHY + fault.days - 1)


def write_healthy_test(folder):
    """Write and run the healthy days of an A/B test."""
    folder.mkdir()
    write_log(folder / "log.parquet", TEST, HEALTHY)
    _write_test_config(folder)
    _replay_test(folder, 1, HEALTHY)


def write_test(healthy, folder, fault):
    """Write and run an A/B test whose log has the fault. If it has healthy days, they were run before."""
    folder.mkdir()
    log = {"begins": HEALTHY + 1, **fault.log}
    healthy_days = HEALTHY if log["begins"] > HEALTHY and "before" not in log else 0
    days = healthy_days + fault.days
    write_log(folder / "log.parquet", TEST, days, **log)
    _write_test_config(folder)
    if healthy_days:
        shutil.copy(healthy / "rankwatch.db", folder)
    _replay_test(folder, healthy_days + 1, days)


def _write_test_config(folder):
    config = write_config(folder)
    config.write_text(f"external_url: {URL}\n{config.read_text()}")


def _replay_test(folder, first, last):
    since, until = (f"{BEGINS + day * DAY:%Y-%m-%dT%H:%MZ}" for day in (first, last))
    with chdir(folder):
        rankwatch("db upgrade")
        rankwatch(f"replay {TEST_NAME} --since {since} --until {until}")


def message_of(folder, alert):
    """The text of a message about the alert alone."""
    start = next(each for each in _starts(folder) if each.alert == alert)
    start = replace(start, at=start.slot + 7 * SECOND)  # `replay` uses the slot
    about = message_about_start(start)
    with chdir(folder), store_over("rankwatch.db") as store:
        briefed = brief_message(about, store.outbox, open_wiring(_settings()).policy)
        text = plain_text(content_of(briefed, URL)).replace(str(folder), _LISTS)
    return text.strip()


def message_about_start(start):
    return message(
        start, incident=start.incident, comparison=start.comparison, severity=start.severity
    )


def output_of(folder, command):
    """The first lines of what the command prints."""
    with chdir(folder):
        done = rankwatch(command.removeprefix("rankwatch "))
    # The duration of a run differs from machine to machine.
    printed = re.sub(r"\d\.\d{4}(?=  [^ ]+.*$)", "0.4000", done.stdout, flags=re.MULTILINE)
    if " runs " not in command:
        printed = done.stdout
    lines = [line.rstrip() for line in printed.replace(str(folder), _LISTS).strip().splitlines()]
    return "\n".join([*lines[:_LINES], "..."] if len(lines) > _LINES else lines)


def _starts(folder):
    with chdir(folder), store_over("rankwatch.db") as store:
        for change in store.alerts.firing():
            if change.is_start and change.segment == "all":
                yield change


def _settings():
    return load_settings(Path("rankwatch.yaml"))


def _replay(first, last):
    start, end = (f"{BEGIN + day * DAY:%Y-%m-%dT%H:%MZ}" for day in (first, last))
    rankwatch(f"replay {NAME} --since {start} --until {end}")


def _write(folder, arm, day, lists):
    rows = [json.dumps({"user": user, "items": items}) for user, items in lists.items()]
    path = folder / f"{arm}-{BEGIN + day * DAY:%Y-%m-%d}.jsonl"
    path.write_text("\n".join(rows) + "\n")


def _write_config(folder, fault):
    arms = "".join(
        f"""
    {arm}: {{file: {{path: "{arm}-{{slot:%Y-%m-%d}}.jsonl", user: user, items: items, max_unreadable: 0.5}}}}"""
        for arm in ("baseline", "candidate")
    )
    (folder / "rankwatch.yaml").write_text(f"""
database: sqlite:///rankwatch.db
external_url: {URL}
comparisons:
  - name: {NAME}
    cron: 0 6 * * *
    k: {_K}{arms}
    users: {{file: {{path: users.csv, user: user}}}}
    metrics: {json.dumps(fault.metrics)}
    keep_lists: all
    noise_floor: {"{temporal: true}" if fault.has_floor else "null"}
    default_rules: true
    rules: [{fault.rules}]
""")
