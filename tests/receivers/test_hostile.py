"""Names that try to be more than names, walked through what every channel sends."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from factories import SLOT
from messages import HOSTILE, hostile_message
from monitor.receivers.alertmanager import alert_of
from monitor.receivers.pagerduty import PagerDuty, PagerDutyOptions
from monitor.receivers.slack import Slack, SlackOptions
from servers.pagerduty import KEY, FakePagerDuty
from servers.slack import PATH, FakeSlack
from servers.webhook import Request

URL = "http://rankwatch.test:9108"
MOST_BYTES = 200_000
every_name = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())


def strings(found: object) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for name, value in found.items():
            yield from (name, *strings(value))
    elif isinstance(found, list):
        for value in found:
            yield from strings(value)


def require_harmless(body: bytes) -> dict[str, Any]:
    """What came is JSON of bounded size, and every text in it prints, but for line breaks and the left-to-right mark."""
    assert len(body) < MOST_BYTES
    found: dict[str, Any] = json.loads(body)
    for text in strings(found):
        assert text.replace("\n", "").replace("\u200e", "").isprintable()
    return found


def require_unmoved(request: Request, path: str, host: str, text: str) -> None:
    """It went where the configuration says, and no header speaks of the name."""
    assert (request.path, request.headers["Host"]) == (path, host.removeprefix("http://"))
    assert all(text[:12] not in value for value in request.headers.values())


@every_name
def test_slack_shows_them_as_text(slack: FakeSlack, text: str) -> None:
    with closing(Slack(SlackOptions.model_validate({"url": slack.url}), external_url=URL)) as receiver:
        receiver.send(hostile_message(text), now=SLOT)
    (request,) = slack.collector.requests
    require_unmoved(request, PATH, slack.collector.url, text)
    require_harmless(request.body)


@every_name
def test_pagerduty_shows_them_as_text(pagerduty: FakePagerDuty, text: str) -> None:
    options = PagerDutyOptions.model_validate({"url": pagerduty.url, "routing_key": KEY})
    with closing(PagerDuty(options, external_url=URL)) as receiver:
        receiver.send(hostile_message(text), now=SLOT)
    (request,) = pagerduty.collector.requests
    require_unmoved(request, "/v2/enqueue", pagerduty.url, text)
    event = require_harmless(request.body)
    assert (event["routing_key"], event["dedup_key"]) == (KEY, hostile_message(text).incident)


@every_name
def test_alertmanager_shows_them_as_text(text: str) -> None:
    (change,) = hostile_message(text).changes
    alert = alert_of(change, SLOT + timedelta(hours=1), URL)
    found = require_harmless(json.dumps(alert).encode())
    assert found["labels"]["severity"] == "critical"
    assert found["generatorURL"].startswith(f"{URL}/comparisons/")
