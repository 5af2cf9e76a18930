import importlib
import pkgutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from messages import opened
from monitor import receivers
from monitor.model.notifications import Treatment, Updates
from monitor.options import Options
from monitor.receivers import RECEIVERS, ReceiverOptions, open_receivers
from monitor.receivers.fields import HttpReceiverEntry, ReceiverEntry

ROOT = Path(__file__).parents[2]


class Entries(Options):
    receivers: tuple[ReceiverOptions, ...]


@pytest.fixture(scope="module")
def kinds() -> list[type[ReceiverEntry]]:
    """Options of every kind of receiver that a module of the package defines."""
    for module in pkgutil.iter_modules(receivers.__path__, f"{receivers.__name__}."):
        importlib.import_module(module.name)
    found = {*ReceiverEntry.__subclasses__(), *HttpReceiverEntry.__subclasses__()} - {HttpReceiverEntry}
    return sorted(found, key=lambda kind: kind.__name__)


def test_every_kind_of_receiver_stands_in_the_registry(kinds: list[type[ReceiverEntry]]) -> None:
    assert {options for options, _ in RECEIVERS.values()} == {*kinds}


def test_every_kind_of_receiver_is_kept_from_importing_another(kinds: list[type[ReceiverEntry]]) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (modules,) = (each["modules"] for each in contracts if each["name"] == "one receiver never imports another")
    assert set(modules) == {entry.__module__ for entry in kinds} | {"monitor.receivers.pings"}


AM = {"urls": ["http://127.0.0.1:9093"]}
MAIL = {"host": "smtp.example.com", "sender": "rankwatch@example.com", "to": ["kim@example.com"]}
PAGER = {"routing_key": "0" * 32}
SLACK = {"url": "https://hooks.slack.com/services/x"}
HOOK = {"url": "https://hooks.test/canary-path?canary=1", "secret": "canary-secret"}


def parsed(*entries: dict[str, Any]) -> tuple[ReceiverOptions, ...]:
    return Entries.model_validate({"receivers": entries}).receivers


def test_one_receiver_is_opened_for_each_peer_and_each_hook_in_order() -> None:
    options = parsed({"webhook": HOOK}, {"alertmanager": {"urls": ["http://a:9093", "http://b:9093/am"]}})
    found = open_receivers(options, external_url="http://rankwatch.test")
    assert [receiver.name for receiver in found] == ["webhook", "alertmanager-0", "alertmanager-1"]
    assert [receiver.treatment.resend_every_s for receiver in found] == [None, 60.0, 60.0]


def test_a_single_peer_and_a_named_entry_go_by_their_plain_names() -> None:
    entries = parsed({"alertmanager": AM}, {"webhook": {**HOOK, "name": "pager"}})
    assert [entry.receiver_names for entry in entries] == [("alertmanager",), ("pager",)]
    (entry,) = parsed({"alertmanager": {"name": "eu", "urls": ["http://a", "http://b"]}})
    assert entry.receiver_names == ("eu-0", "eu-1")


@pytest.mark.parametrize(
    ("entry", "treatment"),
    [
        ({"slack": SLACK}, Treatment(repeat_every_s=86_400)),
        ({"slack": SLACK | {"repeat_every": None}}, Treatment()),
        ({"pagerduty": PAGER}, Treatment(updates=Updates.UNPAGED)),
        ({"pagerduty": PAGER | {"repeat_every": "4h"}}, Treatment(repeat_every_s=14_400, updates=Updates.UNPAGED)),
        ({"webhook": HOOK}, Treatment(updates=Updates.NONE)),
        ({"webhook": HOOK | {"updates": True}}, Treatment(updates=Updates.UNPAGED)),
    ],
)
def test_what_lasts_or_joins_is_sent_as_the_kind_needs_it_or_as_told(entry: dict[str, Any], treatment: Treatment) -> None:
    receiver = opened(**entry)
    assert (receiver.name, receiver.treatment) == (*entry, treatment)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no peer": ({"alertmanager": {"urls": []}}, "at least one peer"),
    "peer without a scheme": ({"alertmanager": {"urls": ["canary:9093"]}}, "not a URL"),
    "peer with a broken port": ({"alertmanager": {"urls": ["http://host:canary"]}}, "not a URL"),
    "peer with credentials": ({"alertmanager": {"urls": ["http://user:canary@host"]}}, "credentials have their own keys"),
    "peer with a query": ({"alertmanager": {"urls": ["http://host?canary"]}}, "must not hold a ?query"),
    "peer with the API's path": ({"alertmanager": {"urls": ["http://host/api/v2/alerts"]}}, "must not end in /api/v2/alerts"),
    "peer twice": ({"alertmanager": {"urls": ["http://host", "http://host"]}}, "none twice"),
    "two credentials": (
        {"alertmanager": {**AM, "bearer_token": "canary", "basic_auth": {"username": "u", "password": "canary"}}},
        "either basic_auth or bearer_token",
    ),
    "token of two lines": ({"alertmanager": {**AM, "bearer_token": "canary\nX: y"}}, "printable ASCII"),
    "name with blanks": ({"webhook": {**HOOK, "name": "a b"}}, "should match pattern"),
    "hook without a host": ({"webhook": {"url": "https:///canary"}}, "not a URL"),
    "hook with a blank": ({"webhook": {"url": "https://host/canary canary"}}, "not a URL"),
    "empty secret": ({"webhook": {**HOOK, "secret": ""}}, "at least 1"),
    "header of two lines": ({"webhook": {**HOOK, "headers": {"X-One": "canary\r\nX-Two: 2"}}}, "printable ASCII"),
    "header of ours": ({"webhook": {**HOOK, "headers": {"x-rankwatch-signature": "canary"}}}, "set by rankwatch itself"),
    "timeout beyond the lease": ({"webhook": {**HOOK, "timeout": "31s"}}, "at most 30s"),
    "recipient with a line break": (
        {"email": {**MAIL, "to": ["a@example.com\r\nBcc: canary@example.com"]}},
        "should match pattern",
    ),
    "recipient with a name": ({"email": {**MAIL, "to": ["Kim <canary@example.com>"]}}, "should match pattern"),
    "recipient twice": ({"email": {**MAIL, "to": ["a@example.com", "A@example.com"]}}, "list no address twice"),
    "no recipient": ({"email": {**MAIL, "to": []}}, "at least 1"),
    "host with a path": ({"email": {**MAIL, "host": "smtp.example.com/canary"}}, "should match pattern"),
    "password without a name": ({"email": {**MAIL, "password": "canary"}}, "give both username and password"),
    "password in the clear": (
        {"email": {**MAIL, "username": "u", "password": "canary", "tls": "none"}},
        "not sent without TLS",
    ),
    "key that is too short": ({"pagerduty": {"routing_key": "canary".ljust(31, "e")}}, "32 letters and digits"),
    "key that is too long": ({"pagerduty": {"routing_key": "canary".ljust(33, "e")}}, "32 letters and digits"),
    "key with an accent": ({"pagerduty": {"routing_key": "canary".ljust(32, "é")}}, "32 letters and digits"),
    "key with a line break": ({"pagerduty": {"routing_key": "canary".ljust(31, "e") + "\n"}}, "32 letters and digits"),
    "place with its path": ({"pagerduty": {**PAGER, "url": "https://pager.test/v2/enqueue"}}, "must not end in /v2/enqueue"),
    "place with a query": ({"pagerduty": {**PAGER, "url": "https://pager.test/?canary"}}, "must not hold a ?query"),
    "password of two lines": ({"email": {**MAIL, "username": "u", "password": "canary\nx"}}, "printable ASCII"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_entry_is_refused_in_words_that_hold_no_secret(name: str) -> None:
    entry, said = BAD[name]
    with pytest.raises(ValidationError) as caught:
        parsed(entry)
    assert said in str(caught.value)
    assert "canary" not in str(caught.value)


def test_the_path_of_a_peer_is_shown_by_no_repr() -> None:
    (entry,) = parsed({"alertmanager": {"urls": ["http://host:9093/canary"]}})
    assert "canary" not in repr(entry)
    assert "http://host:9093" in repr(entry)
