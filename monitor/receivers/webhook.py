"""Posts signed JSON to a URL, in the format of Alertmanager's webhooks, version 4."""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, Field, SecretStr

from monitor.alerts.incidents import find_leads
from monitor.alerts.leading_changes import sort_leads
from monitor.boundary.options import HeaderSecret
from monitor.model.alerts import Transition
from monitor.model.instants import format_instant
from monitor.model.notifications import Briefing, Message, MessageStatus, Updates, message_key
from monitor.receivers.http_client import HttpReceiver, encode_json
from monitor.receivers.message.identity import (
    alert_annotations,
    alert_labels,
    label_fingerprint,
    started_at,
)
from monitor.receivers.message.safe_text import clean, page_url
from monitor.receivers.receiver_options import (
    HttpReceiverEntry,
    RepeatEvery,
    SecretUrl,
    check_further_headers,
    repeating_treatment,
)

SIGNATURE_HEADER = "X-Rankwatch-Signature"
TIMESTAMP = "X-Rankwatch-Timestamp"
_CLOCK_TOLERANCE = timedelta(minutes=5)
_NO_END = "0001-01-01T00:00:00Z"
MAX_WEBHOOK_BYTES = 16_000


class WebhookOptions(HttpReceiverEntry):
    """Post each message as signed JSON, in the format of Alertmanager's webhooks."""

    url: SecretUrl
    """The URL to post to. The URL is a secret: rankwatch shows only its scheme and host."""
    secret: SecretStr | None = Field(None, min_length=1)
    """The key for the HMAC-SHA256 signature. If you do not set this key, messages are not
    signed."""
    headers: Annotated[Mapping[str, HeaderSecret], AfterValidator(check_further_headers)] = Field(
        default_factory=dict
    )
    """Additional headers to send, such as Authorization."""
    updates: bool = False
    """With `true`, an alert that joins an incident is sent at once, in a message with `"is_update":
    true`. Your program must not wake anyone up for such messages. By default, the alert is included in
    the incident's next message."""
    repeat_every: RepeatEvery = None


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Return the value of the signature header."""
    signed = timestamp.encode() + b"." + body
    return f"sha256={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def verify_signature(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: datetime,
    tolerance: timedelta = _CLOCK_TOLERANCE,
) -> bool:
    """Whether a request was signed with this secret, and at most ``tolerance`` before or after now.

    Programs that receive webhooks can call this function.
    """
    headers = {name.lower(): value for name, value in headers.items()}
    timestamp = headers.get(TIMESTAMP.lower(), "")
    # Twelve digits are enough until the year 33658.
    if re.fullmatch("[0-9]{1,12}", timestamp) is None:
        return False
    signature = headers.get(SIGNATURE_HEADER.lower(), "").encode("utf-8", "replace")
    is_signed = hmac.compare_digest(signature, sign(secret, timestamp, body).encode())
    is_fresh = abs(now.timestamp() - int(timestamp)) <= tolerance.total_seconds()
    return is_signed and is_fresh


def webhook_body(message: Message, *, receiver: str, external_url: str) -> dict[str, Any]:
    """Return the body of the request, with at most `MAX_WEBHOOK_BYTES` bytes."""
    acknowledgements = {}
    for change in message.changes:
        if change.is_acknowledgement:
            acknowledgements[change.dedup_key] = clean(change.reason)
    alerts = []
    for change in _alerts_of(message):
        acknowledgement = acknowledgements.get(change.dedup_key, "")
        alerts.append(_alert(change, message, external_url, acknowledgement))
    body: dict[str, Any] = {
        "version": "4",
        "groupKey": message.incident,
        "truncatedAlerts": len(alerts),
        "status": "resolved" if message.status is MessageStatus.RESOLVED else "firing",
        "receiver": receiver,
        "groupLabels": {
            "comparison": clean(message.comparison, 256),
            "severity": message.severity.value,
        },
        "commonLabels": _common([alert["labels"] for alert in alerts]),
        "commonAnnotations": {},
        "externalURL": external_url,
    }
    if message.worse:
        body["worse"] = message.worse
    if message.is_update:
        body["is_update"] = True
    body["alerts"] = []
    body["alerts"] = _fit_alerts(alerts, MAX_WEBHOOK_BYTES - _size(body))
    body["truncatedAlerts"] = len(alerts) - len(body["alerts"])
    common = _common([alert["annotations"] for alert in body["alerts"]])
    if _size(common) + _size(body) <= MAX_WEBHOOK_BYTES:
        body["commonAnnotations"] = common
    return body


def _fit_alerts(alerts: Sequence[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Return the first alerts, as many as fit into ``room`` bytes.

    If not all alerts fit, the last ones are shown without annotations. At most three quarters of
    the room are reserved for them.
    """
    shown: list[dict[str, Any]] = []
    bare = [
        {**alert, "annotations": {"dedup_key": alert["annotations"].get("dedup_key", "")}}
        for alert in alerts
    ]
    reserved = 0
    if sum(map(_size, alerts)) > room:
        reserved = min(sum(map(_size, bare)), room * 3 // 4)
    for alert, short in zip(alerts, bare, strict=True):
        if _size(alert) > room - reserved:
            alert = short  # noqa: PLW2901
        room -= _size(alert)
        # Always include the first alert, because a body without alerts would say nothing.
        if room < 0 and shown:
            break
        shown.append(alert)
    return shown


def _size(part: object) -> int:
    return len(encode_json(part)) + len(", ")


def _alerts_of(message: Message) -> list[Transition]:
    """Return the alerts of the body, each only once, in this order.

    Starts and ends come first, beginning with the most important. Alerts that are still firing
    follow, beginning with the acknowledged ones.
    """
    changes = [change for change in message.changes if not change.is_acknowledgement]
    acknowledged = {change.dedup_key for change in message.changes if change.is_acknowledgement}
    firing = sorted(message.firing, key=lambda start: start.dedup_key not in acknowledged)
    leads = sort_leads(changes, (message.briefing or Briefing()).finding)
    ordered = (*leads, *changes, *find_leads(firing), *firing)
    latest = {change.dedup_key: change for change in changes}
    # A key stays at the place where it first occurs in ``ordered``.
    by_key = {change.dedup_key: latest.get(change.dedup_key, change) for change in ordered}
    return list(by_key.values())


def _alert(
    change: Transition, message: Message, external_url: str, acknowledgement: str
) -> dict[str, Any]:
    """One alert of the body."""
    labels = alert_labels(change)
    annotations = {
        **alert_annotations(change, message.briefing, message.interval),
        **_figures(change),
        "acknowledgement": acknowledgement,
    }
    status = "resolved"
    ends_at = format_instant(change.at)
    if change.is_start:
        status = "firing"
        ends_at = _NO_END
    return {
        "status": status,
        "labels": labels,
        "annotations": {name: value for name, value in sorted(annotations.items()) if value},
        "startsAt": format_instant(started_at(change)),
        "endsAt": ends_at,
        "generatorURL": page_url(change, external_url),
        "fingerprint": label_fingerprint(labels),
    }


def _figures(change: Transition) -> dict[str, str]:
    """Figures of the alert that Alertmanager's format has no field for."""
    figures = {
        "dedup_key": change.dedup_key or "",
        "reason": clean(change.reason),
        "direction": change.direction.value,
        "from_state": change.from_state.value,
        "to_state": change.to_state.value,
        "slot": format_instant(change.slot),
        "at": format_instant(change.at),
        "since": format_instant(change.since),
    }
    if change.interval is not None:
        figures["interval"] = "{:.6g} {:.6g}".format(*change.interval)
    if change.normal is not None:
        figures["normal"] = f"{change.normal:.6g}"
    return figures


def _common(entries: Sequence[Mapping[str, str]]) -> dict[str, str]:
    if not entries:
        return {}
    common = set(entries[0].items()).intersection(*(entry.items() for entry in entries[1:]))
    return {name: value for name, value in entries[0].items() if (name, value) in common}


class Webhook(HttpReceiver):
    """One URL that receives webhooks."""

    def __init__(self, options: WebhookOptions, name: str, *, external_url: str) -> None:
        updates = Updates.QUIET if options.updates else Updates.NONE
        treatment = repeating_treatment(options.repeat_every, updates)
        super().__init__(options.url.get_secret_value(), name, options, external_url, treatment)
        self._options = options

    def send(self, message: Message, *, now: datetime) -> None:
        """Post a message. Raises DeliveryError if it is not accepted."""
        options = self._options
        body = encode_json(
            webhook_body(message, receiver=self.name, external_url=self.external_url)
        )
        timestamp = str(int(now.timestamp()))
        headers = {"Idempotency-Key": message_key(message, now), TIMESTAMP: timestamp}
        for header, secret in options.headers.items():
            headers[header] = secret.get_secret_value()
        if options.secret is not None:
            headers[SIGNATURE_HEADER] = sign(options.secret.get_secret_value(), timestamp, body)
        self._post_bytes(body, headers, now)
