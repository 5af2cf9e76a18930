"""Notifies PagerDuty by its Events API v2. An incident has one open alert in PagerDuty.

If the incident becomes worse, a new alert replaces the open one.
"""

import json
import re
from datetime import datetime
from typing import Annotated

from pydantic import SecretStr

from monitor.boundary.options import must
from monitor.model.errors import DeliveryError
from monitor.model.instants import format_instant
from monitor.model.notifications import Message, MessageStatus, Updates
from monitor.receivers.http_client import HttpAnswer, HttpReceiver
from monitor.receivers.message.content import MessageContent, content_of
from monitor.receivers.message.safe_text import bounded_line, clean
from monitor.receivers.receiver_options import (
    HttpReceiverEntry,
    RepeatEvery,
    Url,
    repeating_treatment,
    without_path,
)

_is_key = must(
    re.compile(r"[0-9A-Za-z]{32}").fullmatch,
    "must be the integration key of an Events API v2 integration, with 32 letters and digits",
)
_PATH = "/v2/enqueue"

MAX_KEY = 255
MAX_SUMMARY = 1024
_MAX_NAME = 200
_ACTIONS = {
    MessageStatus.FIRING: "trigger",
    MessageStatus.ACKNOWLEDGED: "acknowledge",
    MessageStatus.RESOLVED: "resolve",
}
_LONGEST_REASON = 200
_LONGEST_WORD = 24


class PagerDutyOptions(HttpReceiverEntry):
    """Send notifications through PagerDuty's Events API v2.

    Each incident of rankwatch has one open alert in PagerDuty. If the incident is acknowledged or
    resolved, rankwatch acknowledges or resolves this alert.
    """

    routing_key: Annotated[SecretStr, _is_key]
    """The integration key of the Events API v2 integration in your PagerDuty service."""
    url: Annotated[
        Url,
        without_path(
            _PATH, "write https://events.pagerduty.com or https://events.eu.pagerduty.com"
        ),
    ] = "https://events.pagerduty.com"
    """The URL to which events are sent. For the EU region, use https://events.eu.pagerduty.com."""
    repeat_every: RepeatEvery = None  # PagerDuty itself repeats and escalates


def pagerduty_events(
    message: Message,
    routing_key: str,
    external_url: str,
) -> list[dict[str, object]]:
    """Return the bodies of the requests. The first request is about the incident's newest alert.

    If the newest alert replaces an older alert, a second request resolves the older alert.
    """
    # PagerDuty accepts 512 KB. The content is always much smaller.
    content = content_of(message, external_url)
    event: dict[str, object] = {
        "routing_key": routing_key,
        "event_action": _ACTIONS[message.status],
        "payload": _payload(message, content),
        "client": "rankwatch",
        "client_url": content.links[0][1],
        "links": [{"href": url, "text": name} for name, url in content.links],
    }
    events = [{**event, "dedup_key": _dedup_key(message, message.wake_ups)}]
    if (
        message.worse
        and 0 < message.wake_ups_before < message.wake_ups
        and not message.is_repetition
    ):
        older = _dedup_key(message, message.wake_ups_before)
        events.append({**event, "event_action": "resolve", "dedup_key": older})
    return events


def _dedup_key(message: Message, wake_up: int) -> str:
    """The key of an alert in PagerDuty: the incident's key, plus the number of a later wake-up."""
    key = message.incident
    if wake_up > 1:
        key = f"{key}:{wake_up}"
    return clean(key, MAX_KEY)


def _payload(message: Message, content: MessageContent) -> dict[str, object]:
    lead = (message.changes or message.firing)[0]
    comparison = clean(message.comparison, _MAX_NAME)
    return {
        "summary": bounded_line(content.title, MAX_SUMMARY),
        "source": comparison.strip() or "rankwatch",
        "severity": message.severity.value,
        "timestamp": format_instant(lead.at),
        "component": clean(lead.segment, _MAX_NAME),
        "group": comparison,
        "class": clean(lead.alert, _MAX_NAME),
        "custom_details": _details(content),
    }


def _details(content: MessageContent) -> dict[str, object]:
    examples = []
    heads = ("baseline", "candidate")
    for example in content.examples:
        heads = example.heads
        lists = [f"{rank} {baseline} | {candidate}" for rank, baseline, candidate in example.rows]
        examples.append({"user": example.user, "lists": lists})
    details: dict[str, object] = {
        "State": content.situation,
        "Changes": [
            {"change": change.heading, "reason": change.reason, "figures": dict(change.facts)}
            for change in content.changes
        ],
        "More": content.more,
        "Why": content.why,
        **content.details,
        f"Lists, {' | '.join(heads)}": examples,
        "Commands": content.commands,
    }
    return {name: detail for name, detail in details.items() if detail}


class PagerDuty(HttpReceiver):
    """One service of PagerDuty."""

    has_small_messages = True

    def __init__(self, options: PagerDutyOptions, name: str, *, external_url: str) -> None:
        url = options.url.rstrip("/") + _PATH
        treatment = repeating_treatment(options.repeat_every, Updates.QUIET)
        super().__init__(url, name, options, external_url, treatment)
        self._key = options.routing_key.get_secret_value()

    def send(self, message: Message, *, now: datetime) -> None:
        """Trigger, acknowledge or resolve the alert of the incident.

        Raises DeliveryError if PagerDuty did not confirm this.
        """
        for event in pagerduty_events(message, self._key, self.external_url):
            answer = self._post(event, now)
            # Even with HTTP status 202, PagerDuty can report a failure in the field ``status``.
            if answer.body is None or _read(answer.body).get("status") == "success":
                continue
            reason = self._reason(answer)
            success = f"success ({reason})" if reason else "success"
            raise DeliveryError(
                f"{self._client.who} answered {answer.status_name} but not {success}: "
                "check its URL; a later attempt may succeed",
                permanent=False,
                may_be_known=True,
            )

    def _reason(self, answer: HttpAnswer) -> str | None:
        """The error in the answer as one line, or None if it could contain a part of the key."""
        fields = _read(answer.body or b"")
        errors = fields.get("errors")
        parts = [fields.get("message"), *(errors if isinstance(errors, list) else [])]
        joined = "; ".join(part for part in parts if isinstance(part, str))
        # Show no reason with a part of the key, or with a long word that may be an encoded key.
        for word in re.findall("[0-9A-Za-z]{6,}", joined):
            if len(word) > _LONGEST_WORD or word.lower() in self._key.lower():
                return None
        return clean(joined, _LONGEST_REASON) or None


def _read(body: bytes) -> dict[str, object]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
