"""A Slack incoming webhook on loopback: it takes what the documentation allows, and complains of everything else.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks, .../reference/block-kit/blocks
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from servers.webhook import Collector, Reply, Request, answer, serve

PATH = "/services/T000/B000/canarycanarycanary"
_BODY = {"text", "blocks", "unfurl_links", "unfurl_media"}
_SECTION = {"type", "text", "fields"}
_TEXT = {"type", "text", "verbatim"}
_ANGLES = re.compile(r"<([^>]*)>")


@dataclass(slots=True)
class FakeSlack:
    """``posts``: what was taken; ``complaints``: what should not have come."""

    collector: Collector
    posts: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.collector.respond = self.respond

    @property
    def url(self) -> str:
        return self.collector.url + PATH

    def respond(self, request: Request) -> Reply:
        errors = list(_errors(request))
        self.complaints += errors
        if errors:
            return answer(400, body=b"invalid_blocks")
        self.posts.append(json.loads(request.body))
        return answer(200, body=b"ok")


def _errors(request: Request) -> Iterator[str]:
    if (request.method, request.path) != ("POST", PATH):
        yield f"{request.method} {request.path}"
    if not request.headers.get("Content-Type", "").startswith("application/json"):
        yield "no JSON"
    yield from find_errors(json.loads(request.body))


def find_errors(body: dict[str, Any]) -> Iterator[str]:
    """What Slack would refuse in a message, or take for more than text."""
    yield from (f"unknown key {name}" for name in body.keys() - _BODY)
    if not 0 < len(body.get("text", "")) <= 4000:
        yield "no text"
    yield from _mentions(body.get("text", ""))
    if len(body.get("blocks", [])) > 50:
        yield "more than 50 blocks"
    for place, block in enumerate(body.get("blocks", [])):
        yield from (f"blocks/{place}: {error}" for error in _block_errors(block))


def _block_errors(block: dict[str, Any]) -> Iterator[str]:
    if block.get("type") != "section":
        yield f"type {block.get('type')} is not one that is known here"
    yield from (f"unknown key {name}" for name in block.keys() - _SECTION)
    if "text" not in block and not block.get("fields"):
        yield "neither text nor fields"
    if "text" in block:
        yield from _text_errors(block["text"], 3000)
    if "fields" in block and not 0 < len(block["fields"]) <= 10:
        yield "1 to 10 fields"
    for text in block.get("fields", []):
        yield from _text_errors(text, 2000)


def _text_errors(text: dict[str, Any], limit: int) -> Iterator[str]:
    yield from (f"unknown key {name}" for name in text.keys() - _TEXT)
    if text.get("type") != "mrkdwn":
        yield f"text of type {text.get('type')}"
    if not 0 < len(text.get("text", "")) <= limit:
        yield f"must have 1 to {limit} characters"
    yield from _mentions(text.get("text", ""))


def _mentions(mrkdwn: str) -> Iterator[str]:
    """Whatever Slack would take for more than text: only links to web pages may stand in angle brackets."""
    for inner in _ANGLES.findall(mrkdwn):
        if not re.fullmatch(r"https?://[^\s|<>]+\|[^|<>]+", inner):
            yield f"markup <{inner}>"
    if "<" in _ANGLES.sub("", mrkdwn) or ">" in _ANGLES.sub("", mrkdwn):
        yield "a bracket that is not escaped"


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    """Fails a test in which it had to complain; a test that wants complaints takes them out."""
    for collector in serve():
        fake = FakeSlack(collector)
        yield fake
        assert fake.complaints == []
