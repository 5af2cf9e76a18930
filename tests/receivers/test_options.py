import importlib
import pkgutil
import tomllib
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from monitor import receivers
from monitor.boundary.options import Options
from monitor.receivers import RECEIVERS, ReceiverOptions, open_receivers
from monitor.receivers.pings import PingOptions
from monitor.receivers.receiver_options import HttpReceiverEntry, ReceiverEntry
from places import ROOT


class Entries(Options):
    receivers: tuple[ReceiverOptions, ...]


def test_every_kind_of_receiver_is_in_the_registry_and_may_not_import_another():
    """Also one that only a module of the package defines."""
    for found in pkgutil.iter_modules(receivers.__path__, f"{receivers.__name__}."):
        importlib.import_module(found.name)
    subclasses = {*ReceiverEntry.__subclasses__(), *HttpReceiverEntry.__subclasses__()}
    kinds = subclasses - {HttpReceiverEntry, PingOptions}
    assert {options for options, _ in RECEIVERS.values()} == kinds
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    (modules,) = (
        each["modules"]
        for each in contracts
        if each["name"] == "one receiver never imports another"
    )
    assert set(modules) == {entry.__module__ for entry in kinds} | {"monitor.receivers.pings"}


AM = {"urls": ["http://127.0.0.1:9093"]}
MAIL = {"host": "smtp.example.com", "sender": "rankwatch@example.com", "to": ["kim@example.com"]}
PAGER = {"routing_key": "0" * 32}
SLACK = {"url": "https://hooks.slack.com/services/x"}
HOOK = {"url": "https://hooks.test/canary-path?canary=1", "secret": "canary-secret"}


def parsed(*entries):
    return Entries.model_validate({"receivers": entries}).receivers


def test_one_receiver_is_opened_for_each_peer_and_each_hook_in_order_and_no_repr_shows_a_path():
    options = parsed(
        {"webhook": {**HOOK, "name": "pager"}},
        {"alertmanager": {"name": "eu", "urls": ["http://a:9093", "http://b:9093/canary"]}},
        {"alertmanager": AM},
    )
    found = open_receivers(options, external_url="http://rankwatch.test")
    names = ["pager", "eu-0", "eu-1", "alertmanager"]
    assert [receiver.name for receiver in found] == names
    assert [name for entry in options for name in entry.receiver_names] == names
    assert [each.treatment.resend_every_s for each in found] == [None, 60.0, 60.0, 60.0]
    assert ("canary" in repr(options), "http://b:9093" in repr(options)) == (False, True)


BAD = r"""
alertmanager: {urls: []} # at least one peer
alertmanager: {urls: [canary:9093]} # not a URL
alertmanager: {urls: ["http://host:canary"]} # not a URL
alertmanager: {urls: ["http://user:canary@host"]} # write credentials under their own keys
alertmanager: {urls: ["http://host?canary"]} # must not contain a ?query
alertmanager: {urls: [http://host/api/v2/alerts]} # must not end in /api/v2/alerts
alertmanager: {urls: [http://host, http://host]} # no peer twice
alertmanager: {bearer_token: canary, basic_auth: {username: u, password: canary}} # either basic_auth or bearer_token
alertmanager: {bearer_token: "canary\nX: y"} # printable ASCII
webhook: {name: a b} # should match pattern
webhook: {url: https:///canary} # not a URL
webhook: {url: https://host/canary canary} # not a URL
webhook: {secret: ""} # at least 1
webhook: {headers: {X-One: "canary\r\nX-Two: 2"}} # printable ASCII
webhook: {headers: {x-rankwatch-signature: canary}} # set by rankwatch
webhook: {timeout: 31s} # at most 30s
email: {to: ["a@example.com\r\nBcc: canary@example.com"]} # should match pattern
email: {to: [Kim <canary@example.com>]} # should match pattern
email: {to: [a@example.com, A@example.com]} # list no address twice
email: {to: []} # at least 1
email: {host: smtp.example.com/canary} # should match pattern
email: {password: canary} # give both username and password
email: {username: u, password: "canary\nx"} # printable ASCII
email: {username: u, password: canary, tls: none} # no password without TLS
pagerduty: {routing_key: canaryeeeeeeeeeeeeeeeeeeeeeeeee} # 32 letters and digits
pagerduty: {routing_key: canaryeeeeeeeeeeeeeeeeeeeeeeeeeee} # 32 letters and digits
pagerduty: {routing_key: canaryeeeeeeeeeeeeeeeeeeeeeeeeeé} # 32 letters and digits
pagerduty: {routing_key: "canaryeeeeeeeeeeeeeeeeeeeeeeeee\n"} # 32 letters and digits
pagerduty: {url: https://pager.test/v2/enqueue} # must not end in /v2/enqueue
pagerduty: {url: "https://pager.test/?canary"} # must not contain a ?query
"""
"""What makes a good entry wrong, and the error."""
GOOD: Any = {"alertmanager": AM, "webhook": HOOK, "email": MAIL, "pagerduty": PAGER}


def test_a_bad_entry_is_refused_in_words_that_hold_no_secret():
    for line in BAD.strip().splitlines():
        entry, _, said = line.partition(" # ")
        ((kind, changes),) = yaml.safe_load(entry).items()
        with pytest.raises(ValidationError) as caught:
            parsed({kind: {**GOOD[kind], **changes}})
        assert said in str(caught.value)
        assert "canary" not in str(caught.value)
