"""A POST of JSON to any URL, signed.

The body, format version 1, one request for each start and each end of a firing::

    {"version": "1", "status": "firing" | "resolved", "dedup_key": "...", "summary": "...", "description": "...",
     "comparison": "home-feed", "alert": "SimilarityLow", "segment": "all", "severity": "critical",
     "from": "pending", "to": "firing", "reason": "...", "explanation": "..." | null,
     "value": 0.512, "direction": "below", "threshold": 0.6, "users": 1874, "metric": "rbo(p=0.9)",
     "statistic": "mean", "slot": "...", "at": "...", "since": "...",
     "runbook_url": "..." | null, "labels": {...}, "link": "..."}

Instants are RFC 3339 in UTC; ``value`` may be null; ``explanation`` comes with firings on similarity, null where nothing is
known. Keys may be added within a version. ``dedup_key`` is shared by a firing and its end and by nothing else. A message
may come twice, then with the same ``Idempotency-Key: <dedup_key>:<status>``.

With a secret each request is signed. To verify it: take ``X-Rankwatch-Timestamp`` (Unix seconds of the sending), refuse what
is more than five minutes off, compute the HMAC-SHA256, keyed with the secret, of ``timestamp + "." + body``, and compare
``"sha256=" + hex digest`` with ``X-Rankwatch-Signature`` in constant time, on the raw bytes of the body. `verify` does this.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from monitor.model import Message, Transition
from monitor.options import ConfigPath, Options
from monitor.receivers.answers import accept
from monitor.receivers.fields import HeaderSecret, ReceiverName, SecretUrl, Timeout, check_headers
from monitor.receivers.guarded import Guard
from monitor.receivers.wording import clean, description_of, link_to, moment, status_of, summary_of

SIGNATURE, TIMESTAMP = "X-Rankwatch-Signature", "X-Rankwatch-Timestamp"
_TOLERANCE = timedelta(minutes=5)


class WebhookOptions(Options):
    """Post each start and end of a firing as signed JSON."""

    url: SecretUrl = Field(description="Where to post. Treated as a secret: only its scheme and host are ever shown.")
    secret: SecretStr | None = Field(None, min_length=1, description="Key of the HMAC-SHA256 signature; unsigned without it.")
    name: ReceiverName | None = Field(None, description="Name in metrics and in the outbox (default: webhook).")
    headers: Annotated[Mapping[str, HeaderSecret], AfterValidator(check_headers)] = Field(
        default_factory=dict, description="Further headers, such as Authorization."
    )
    ca_file: ConfigPath | None = Field(None, description="PEM file of the authorities to trust instead of the usual ones.")
    timeout: Timeout = Field(timedelta(seconds=10), description="How long one request may take from first to last byte.")

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Its one name."""
        return (self.name or "webhook",)


class Webhook:
    """One URL."""

    def __init__(self, options: WebhookOptions, *, external_url: str) -> None:
        self._options, self._external_url = options, external_url
        (self._name,) = options.receiver_names
        url, timeout_s = options.url.get_secret_value(), options.timeout.total_seconds()
        self._guard = Guard(url, who=self._name, timeout_s=timeout_s, ca_file=options.ca_file)

    @property
    def name(self) -> str:
        """Name from configuration."""
        return self._name

    @property
    def resend_every_s(self) -> float | None:
        """Telling once is enough."""
        return None

    @property
    def repeat_every_s(self) -> float | None:
        """Telling once is enough."""
        return None

    @property
    def is_ungrouped(self) -> bool:
        """It is told of incidents."""
        return False

    def send(self, message: Message, *, now: datetime) -> None:
        """Post changes one by one, in order. DeliveryError at the first that is not taken; those before it were."""
        for transition in message.changes:
            body = json.dumps(message_of(transition, self._external_url), allow_nan=False).encode()
            answer = self._guard.post(body, self._headers(transition, body, now))
            accept(answer, who=self._guard.who, now=now)

    def close(self) -> None:
        """Close the connections."""
        self._guard.close()

    def _headers(self, transition: Transition, body: bytes, now: datetime) -> dict[str, str]:
        headers = {name: secret.get_secret_value() for name, secret in self._options.headers.items()}
        headers["Content-Type"] = "application/json"
        headers["Idempotency-Key"] = f"{transition.dedup_key}:{status_of(transition)}"
        headers[TIMESTAMP] = str(int(now.timestamp()))
        if self._options.secret is not None:
            headers[SIGNATURE] = sign(self._options.secret.get_secret_value(), headers[TIMESTAMP], body)
        return headers


def message_of(transition: Transition, external_url: str) -> dict[str, object]:
    """The body of a request, as this module's docstring describes it."""
    return {
        "version": "1",
        "status": status_of(transition),
        "dedup_key": transition.dedup_key,
        "summary": summary_of(transition),
        "description": description_of(transition),
        "comparison": clean(transition.comparison),
        "alert": clean(transition.alert),
        "segment": clean(transition.segment),
        "severity": transition.severity.value,
        "from": transition.from_state.value,
        "to": transition.to_state.value,
        "reason": clean(transition.reason),
        "explanation": None if transition.explanation is None else clean(transition.explanation),
        "value": transition.value,
        "direction": transition.direction.value,
        "threshold": transition.threshold,
        "users": transition.users,
        "metric": clean(transition.metric),
        "statistic": clean(transition.statistic),
        "slot": moment(transition.slot),
        "at": moment(transition.at),
        "since": moment(transition.since),
        "runbook_url": None if transition.runbook_url is None else clean(transition.runbook_url),
        "labels": {clean(name): clean(value) for name, value in sorted(transition.labels.items())},
        "link": link_to(transition, external_url),
    }


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Value of the signature header."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now: datetime, tolerance: timedelta = _TOLERANCE) -> bool:
    """Whether a request was signed with this secret and sent within ``tolerance`` of ``now``; for the receiving side."""
    given = {name.lower(): value for name, value in headers.items()}
    timestamp = given.get(TIMESTAMP.lower(), "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):  # noqa: PLR2004 - enough until the year 33658
        return False
    is_fresh = abs(now.timestamp() - int(timestamp)) <= tolerance.total_seconds()
    signature = given.get(SIGNATURE.lower(), "").encode("utf-8", "replace")
    return hmac.compare_digest(signature, sign(secret, timestamp, body).encode()) and is_fresh
