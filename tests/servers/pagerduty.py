"""PagerDuty's Events API v2 on loopback: it accepts what the documentation allows, and complains about everything else.

https://developer.pagerduty.com/docs/events-api-v2-overview and the OpenAPI description in PagerDuty/api-schema.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from places import read_yaml
from servers.webhook import Collector, answer, running_webhook

KEY = "e93facc04764012d7bfb002500d5d1a6"
MOST_BYTES = 512 * 1024
_EVENT = Draft202012Validator(read_yaml("tests/servers/pagerduty.yaml"))
_ACTIONS = {"trigger": "triggered", "acknowledge": "acknowledged", "resolve": "resolved"}


@dataclass
class FakePagerDuty:
    """``alerts`` has the state of each key.

    ``events`` are the accepted events in order. ``complaints`` are errors in requests.
    """

    collector: Collector
    alerts: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.collector.respond = self.respond

    @property
    def url(self):
        return self.collector.url

    def respond(self, request):
        if len(request.body) > MOST_BYTES:
            self.complaints.append("larger than 512 KB")
            return answer(413)
        errors = list(_errors(request))
        self.complaints += errors
        if errors:
            told = {
                "status": "invalid event",
                "message": "Event object is invalid",
                "errors": errors,
            }
            return answer(400, body=json.dumps(told).encode())
        event = request.json()
        self._take(event)
        told = {"status": "success", "message": "Event processed", "dedup_key": event["dedup_key"]}
        return answer(202, body=json.dumps(told).encode())

    def _take(self, event):
        action, key = event["event_action"], event["dedup_key"]
        if action != "trigger" and key not in self.alerts:
            self.complaints.append(f"{action} of {key}, which was never triggered")
        is_over = self.alerts.get(key) == "resolved"
        if not (is_over and action == "acknowledge"):
            self.alerts[key] = _ACTIONS[action]
        self.events.append(event)


def _errors(request):
    if (request.method, request.path) != ("POST", "/v2/enqueue"):
        yield f"{request.method} {request.path}"
    if request.headers.get("Content-Type") != "application/json":
        yield "no JSON"
    yield from (error.message for error in _EVENT.iter_errors(request.json()))


@pytest.fixture
def pagerduty():
    """Fails a test in which it had to complain; a test that wants complaints takes them out."""
    with running_webhook() as collector:
        fake = FakePagerDuty(collector)
        yield fake
        assert fake.complaints == []
