"""PagerDuty's Events API v2 on loopback: it takes what the documentation allows, and complains of everything else.

https://developer.pagerduty.com/docs/events-api-v2-overview and the OpenAPI description in PagerDuty/api-schema.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from servers.webhook import Collector, Reply, Request, answer, serve

KEY = "e93facc04764012d7bfb002500d5d1a6"
MOST_BYTES = 512 * 1024
_EVENT = {"routing_key", "event_action", "dedup_key", "payload", "client", "client_url", "links", "images"}
_PAYLOAD = {"summary", "source", "severity", "timestamp", "component", "group", "class", "custom_details"}
_ACTIONS = {"trigger": "triggered", "acknowledge": "acknowledged", "resolve": "resolved"}


@dataclass(slots=True)
class FakePagerDuty:
    """``alerts``: where each key stands; ``events``: what was taken, in order; ``complaints``: what should not have come."""

    collector: Collector
    alerts: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.collector.respond = self.respond

    @property
    def url(self) -> str:
        return self.collector.url

    def respond(self, request: Request) -> Reply:
        if len(request.body) > MOST_BYTES:
            self.complaints.append("larger than 512 KB")
            return answer(413)
        errors = list(_errors(request))
        self.complaints += errors
        if errors:
            told = {"status": "invalid event", "message": "Event object is invalid", "errors": errors}
            return answer(400, body=json.dumps(told).encode())
        event = json.loads(request.body)
        self._take(event)
        told = {"status": "success", "message": "Event processed", "dedup_key": event["dedup_key"]}
        return answer(202, body=json.dumps(told).encode())

    def _take(self, event: dict[str, Any]) -> None:
        action, key = event["event_action"], event["dedup_key"]
        if action != "trigger" and key not in self.alerts:
            self.complaints.append(f"{action} of {key}, which was never triggered")
        is_over = self.alerts.get(key) == "resolved"
        if not (is_over and action == "acknowledge"):
            self.alerts[key] = _ACTIONS[action]
        self.events.append(event)


def _errors(request: Request) -> Iterator[str]:
    if (request.method, request.path) != ("POST", "/v2/enqueue"):
        yield f"{request.method} {request.path}"
    if request.headers.get("Content-Type") != "application/json":
        yield "no JSON"
    event = json.loads(request.body)
    yield from (f"unknown key {name}" for name in event.keys() - _EVENT)
    if len(event.get("routing_key", "")) != 32:
        yield "Length of 'routing_key' is incorrect (should be 32 characters)"
    elif event["routing_key"] != KEY:
        yield f"Invalid routing key {event['routing_key']}"
    if event.get("event_action") not in _ACTIONS:
        yield f"event_action {event.get('event_action')}"
    if not 0 < len(event.get("dedup_key", "")) <= 255:
        yield "dedup_key has 1 to 255 characters"
    yield from _payload_errors(event.get("payload", {}))
    for link in event.get("links", []):
        if link.keys() - {"href", "text"} or not link["href"].startswith(("http://", "https://")):
            yield f"link {link}"


def _payload_errors(payload: dict[str, Any]) -> Iterator[str]:
    yield from (f"unknown key payload.{name}" for name in payload.keys() - _PAYLOAD)
    if not 0 < len(payload.get("summary", "")) <= 1024:
        yield "payload.summary has 1 to 1024 characters"
    if payload.get("severity") not in {"critical", "error", "warning", "info"}:
        yield "payload.severity"
    if not payload.get("source"):
        yield "payload.source is missing or blank"
    if "timestamp" in payload and datetime.fromisoformat(payload["timestamp"]).tzinfo is None:
        yield "payload.timestamp"
    yield from (f"payload.{name} is no text" for name in ("component", "group", "class") if not isinstance(payload[name], str))
    if not isinstance(payload.get("custom_details", {}), dict):
        yield "payload.custom_details is no object"


@pytest.fixture
def pagerduty() -> Iterator[FakePagerDuty]:
    """Fails a test in which it had to complain; a test that wants complaints takes them out."""
    for collector in serve():
        fake = FakePagerDuty(collector)
        yield fake
        assert fake.complaints == []
