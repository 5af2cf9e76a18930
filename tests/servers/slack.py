"""A Slack incoming webhook on loopback: it accepts what the documentation allows, and complains about everything else.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks, .../reference/block-kit/blocks
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from places import read_yaml
from servers.webhook import Collector, answer, running_webhook

PATH = "/services/T000/B000/canarycanarycanary"
_MESSAGE = Draft202012Validator(read_yaml("tests/servers/slack.yaml"))


@dataclass
class FakeSlack:
    """``posts`` are the accepted messages. ``complaints`` are errors in requests."""

    collector: Collector
    posts: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.collector.respond = self.respond

    @property
    def url(self):
        return self.collector.url + PATH

    def respond(self, request):
        errors = list(_errors(request))
        self.complaints += errors
        if errors:
            return answer(400, body=b"invalid_blocks")
        self.posts.append(request.json())
        return answer(200, body=b"ok")


def _errors(request):
    if (request.method, request.path) != ("POST", PATH):
        yield f"{request.method} {request.path}"
    if not request.headers.get("Content-Type", "").startswith("application/json"):
        yield "no JSON"
    yield from find_errors(request.json())


def find_errors(body):
    """What Slack would refuse in a message, or take for more than text."""
    yield from (error.message for error in _MESSAGE.iter_errors(body))


@pytest.fixture
def slack():
    """Fails a test in which it had to complain; a test that wants complaints takes them out."""
    with running_webhook() as collector:
        fake = FakeSlack(collector)
        yield fake
        assert fake.complaints == []
