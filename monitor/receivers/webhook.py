"""A signed POST of JSON to any URL: the body of Alertmanager's webhooks, version 4, which README.md describes."""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, Field, SecretStr

from monitor.alerts.incidents import find_leads
from monitor.model.alerts import Transition
from monitor.model.instants import format_instant
from monitor.model.notifications import Message, MessageStatus, Updates, message_key
from monitor.options import HeaderSecret
from monitor.receivers.fields import (
    HttpReceiverEntry,
    RepeatEvery,
    SecretUrl,
    check_further_headers,
    repeated,
)
from monitor.receivers.http_client import HttpReceiver
from monitor.receivers.message.identity import alert_annotations, alert_labels, label_fingerprint
from monitor.receivers.message.safe_text import clean, page_url

SIGNATURE, TIMESTAMP = "X-Rankwatch-Signature", "X-Rankwatch-Timestamp"
_TOLERANCE = timedelta(minutes=5)
_NO_END = "0001-01-01T00:00:00Z"
MAX_BYTES = 16_000


class WebhookOptions(HttpReceiverEntry):
    """Post each message as signed JSON, in the shape of Alertmanager's webhooks."""

    url: SecretUrl = Field(
        description="Where to post. Treated as a secret: only its scheme and host are ever shown."
    )
    secret: SecretStr | None = Field(
        None, min_length=1, description="Key of the HMAC-SHA256 signature; unsigned without it."
    )
    headers: Annotated[Mapping[str, HeaderSecret], AfterValidator(check_further_headers)] = Field(
        default_factory=dict, description="Further headers, such as Authorization."
    )
    updates: bool = Field(
        default=False,
        description='Whether alerts that join an incident are sent at once, as `"update": true`. '
        "For programs that page nobody "
        "for these; without it the next message of the incident has them.",
    )
    repeat_every: RepeatEvery = None


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Value of the signature header."""
    return (
        "sha256="
        + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    )


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: datetime,
    tolerance: timedelta = _TOLERANCE,
) -> bool:
    """Whether a request was signed with this secret and sent within ``tolerance`` of ``now``.

    For the receiving side.
    """
    given = {name.lower(): value for name, value in headers.items()}
    timestamp = given.get(TIMESTAMP.lower(), "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):  # noqa: PLR2004 - enough until the year 33658
        return False
    is_fresh = abs(now.timestamp() - int(timestamp)) <= tolerance.total_seconds()
    signature = given.get(SIGNATURE.lower(), "").encode("utf-8", "replace")
    return hmac.compare_digest(signature, sign(secret, timestamp, body).encode()) and is_fresh


def webhook_body(message: Message, *, receiver: str, external_url: str) -> dict[str, Any]:
    """The body, as this module's docstring describes it."""
    changes = _alerts_of(message)
    acknowledged = {
        each.dedup_key: clean(each.reason) for each in message.changes if each.is_acknowledgement
    }
    due = [
        _alert(change, external_url, acknowledged.get(change.dedup_key, "")) for change in changes
    ]
    body: dict[str, Any] = {
        "version": "4",
        "groupKey": message.incident,
        "truncatedAlerts": len(due),
        "status": "resolved" if message.status is MessageStatus.RESOLVED else "firing",
        "receiver": receiver,
        "groupLabels": {
            "comparison": clean(message.comparison, 256),
            "severity": message.severity.value,
        },
        "commonLabels": _common([alert["labels"] for alert in due]),
        "commonAnnotations": {},
        "externalURL": external_url,
        **({"worse": message.worse} if message.worse else {}),
        **({"update": True} if message.is_update else {}),
        "alerts": [],
    }
    body["alerts"] = _fit(due, MAX_BYTES - _size(body))
    body["truncatedAlerts"] = len(due) - len(body["alerts"])
    common = _common([alert["annotations"] for alert in body["alerts"]])
    return body | {"commonAnnotations": common if _size(common) + _size(body) <= MAX_BYTES else {}}


def _fit(alerts: Sequence[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """The first alerts, as many as fit.

    Where not all do in full, those that leave three quarters for the names of others.
    """
    shown: list[dict[str, Any]] = []
    names = 0 if sum(map(_size, alerts)) <= room else room * 3 // 4
    for full in alerts:
        bare = {**full, "annotations": {"dedup_key": full["annotations"].get("dedup_key", "")}}
        alert = full if _size(full) <= room - names else bare
        room -= _size(alert)
        # One at least: what it is about.
        if room < 0 and shown:
            break
        shown.append(alert)
    return shown


def _size(part: object) -> int:
    return len(_encode(part)) + len(", ")


def _encode(part: object) -> bytes:
    return json.dumps(part, ensure_ascii=False, allow_nan=False).encode()


def _alerts_of(message: Message) -> list[Transition]:
    """Starts and ends, those that stand for others first, then what fires still, acknowledged first; each firing once."""
    changes = [change for change in message.changes if not change.is_acknowledgement]
    acknowledged = {change.dedup_key for change in message.changes if change.is_acknowledgement}
    still = sorted(message.firing, key=lambda start: start.dedup_key not in acknowledged)
    ordered = (*find_leads(changes), *changes, *find_leads(still), *still)
    known = {change.dedup_key: change for change in changes}
    return list(
        {change.dedup_key: known.get(change.dedup_key, change) for change in ordered}.values()
    )


def _alert(change: Transition, external_url: str, acknowledgement: str) -> dict[str, Any]:
    """One alert. An end does not know when its firing began; it names the slot of it."""
    labels = alert_labels(change)
    annotations = {
        **alert_annotations(change),
        **_figures(change),
        "acknowledgement": acknowledgement,
    }
    return {
        "status": "firing" if change.is_start else "resolved",
        "labels": labels,
        "annotations": {name: text for name, text in sorted(annotations.items()) if text},
        "startsAt": format_instant(change.at if change.is_start else min(change.since, change.at)),
        "endsAt": _NO_END if change.is_start else format_instant(change.at),
        "generatorURL": page_url(change, external_url),
        "fingerprint": label_fingerprint(labels),
    }


def _figures(change: Transition) -> dict[str, str]:
    """What has no place of its own in this shape."""
    return {
        "dedup_key": change.dedup_key or "",
        "reason": clean(change.reason),
        "direction": change.direction.value,
        "from": change.from_state.value,
        "to": change.to_state.value,
        "slot": format_instant(change.slot),
        "at": format_instant(change.at),
        "since": format_instant(change.since),
        "interval": ""
        if change.interval is None
        else " ".join(f"{bound:.6g}" for bound in change.interval),
        "normal": "" if change.normal is None else f"{change.normal:.6g}",
    }


def _common(entries: Sequence[Mapping[str, str]]) -> dict[str, str]:
    if not entries:
        return {}
    return {
        name: text
        for name, text in entries[0].items()
        if all(each.get(name) == text for each in entries)
    }


class Webhook(HttpReceiver):
    """One URL."""

    def __init__(self, options: WebhookOptions, name: str, *, external_url: str) -> None:
        treatment = repeated(
            options.repeat_every, Updates.UNPAGED if options.updates else Updates.NONE
        )
        super().__init__(options.url.get_secret_value(), name, options, treatment=treatment)
        self._options, self._external_url = options, external_url

    def send(self, message: Message, *, now: datetime) -> None:
        """Post a message. DeliveryError when it is not taken."""
        body = _encode(webhook_body(message, receiver=self.name, external_url=self._external_url))
        self._post(body, self._headers(message, body, now), now)

    def _headers(self, message: Message, body: bytes, now: datetime) -> dict[str, str]:
        headers = {
            name: secret.get_secret_value() for name, secret in self._options.headers.items()
        }
        headers["Content-Type"] = "application/json"
        headers["Idempotency-Key"] = message_key(message, now)
        headers[TIMESTAMP] = str(int(now.timestamp()))
        if self._options.secret is not None:
            headers[SIGNATURE] = sign(
                self._options.secret.get_secret_value(), headers[TIMESTAMP], body
            )
        return headers
