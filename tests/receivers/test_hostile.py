"""Names that try to be more than names, walked through what every channel sends."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from factories import SLOT
from messages import HOSTILE, hostile_message, message, start
from monitor.model import Message
from monitor.receivers import ReceiverOptions, open_receivers
from servers.pagerduty import KEY, FakePagerDuty
from servers.slack import PATH, FakeSlack
from servers.webhook import Collector, Request

URL = "http://rankwatch.test:29108"
MOST_BYTES = 400_000
every_name = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())


def send(hostile: Message, **options: Any) -> None:
    """Through a receiver that was opened as the daemon opens it."""
    (receiver,) = open_receivers([ReceiverOptions.model_validate(options)], external_url=URL)
    with closing(receiver):
        receiver.send(hostile, now=SLOT)


def strings(found: object) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for name, value in found.items():
            yield from (name, *strings(value))
    elif isinstance(found, list):
        for value in found:
            yield from strings(value)


def require_harmless(body: bytes) -> Any:
    """What came is JSON of bounded size, and every text in it prints, but for line breaks and the left-to-right mark."""
    assert len(body) < MOST_BYTES
    found = json.loads(body)
    for text in strings(found):
        assert text.replace("\n", "").replace("\u200e", "").isprintable()
    return found


def require_unmoved(request: Request, path: str, host: str, text: str) -> None:
    """It went where the configuration says, and no header speaks of the name."""
    assert (request.path, request.headers["Host"]) == (path, host.removeprefix("http://"))
    assert all(text[:12] not in value for value in request.headers.values())


@every_name
def test_slack_shows_them_as_text(slack: FakeSlack, text: str) -> None:
    send(hostile_message(text), slack={"url": slack.url})
    (request,) = slack.collector.requests
    require_unmoved(request, PATH, slack.collector.url, text)
    require_harmless(request.body)


@every_name
def test_pagerduty_shows_them_as_text(pagerduty: FakePagerDuty, text: str) -> None:
    send(hostile_message(text), pagerduty={"url": pagerduty.url, "routing_key": KEY})
    (request,) = pagerduty.collector.requests
    require_unmoved(request, "/v2/enqueue", pagerduty.url, text)
    event = require_harmless(request.body)
    assert (event["routing_key"], event["dedup_key"]) == (KEY, hostile_message(text).incident)


@every_name
def test_alertmanager_shows_them_as_text(collector: Collector, text: str) -> None:
    send(hostile_message(text), alertmanager={"urls": [collector.url]})
    (request,) = collector.requests
    require_unmoved(request, "/api/v2/alerts", collector.url, text)
    (alert,) = require_harmless(request.body)
    assert alert["labels"]["severity"] == "critical"
    assert alert["generatorURL"].startswith(f"{URL}/comparisons/")


@every_name
def test_webhooks_show_them_as_text(collector: Collector, text: str) -> None:
    send(hostile_message(text), webhook={"url": f"{collector.url}/hook"})
    (request,) = collector.requests
    require_unmoved(request, "/hook", collector.url, text)
    require_harmless(request.body)


def test_a_thousand_changes_of_huge_names_are_sent_within_the_limits(slack: FakeSlack, pagerduty: FakePagerDuty) -> None:
    huge = "\U0001f600" * 1_000_000
    changes = [start(segment=huge, alert=huge, reason=huge, explanation=huge, dedup_key=str(n)) for n in range(1000)]
    hostile = message(*changes, briefing=hostile_message(huge).briefing)
    send(hostile, slack={"url": slack.url})
    send(hostile, pagerduty={"url": pagerduty.url, "routing_key": KEY})
    for request in (*slack.collector.requests, *pagerduty.collector.requests):
        require_harmless(request.body)
