"""The webhook as a receiver: one message, one request."""

from __future__ import annotations

import json
from datetime import datetime

from monitor.model import Message
from monitor.receivers.answers import accept
from monitor.receivers.guarded import Guard
from monitor.receivers.keying import key_of
from monitor.receivers.webhook.body import body_of
from monitor.receivers.webhook.options import WebhookOptions
from monitor.receivers.webhook.signing import SIGNATURE, TIMESTAMP, sign


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
        """As configured."""
        return None if self._options.repeat_every is None else self._options.repeat_every.total_seconds()

    @property
    def is_ungrouped(self) -> bool:
        """It is told of incidents."""
        return False

    def send(self, message: Message, *, now: datetime) -> None:
        """Post a message. DeliveryError when it is not taken."""
        told = body_of(message, receiver=self._name, external_url=self._external_url, max_alerts=self._options.max_alerts)
        body = json.dumps(told, allow_nan=False).encode()
        answer = self._guard.post(body, self._headers(message, body, now))
        accept(answer, who=self._guard.who, now=now)

    def close(self) -> None:
        """Close the connections."""
        self._guard.close()

    def _headers(self, message: Message, body: bytes, now: datetime) -> dict[str, str]:
        headers = {name: secret.get_secret_value() for name, secret in self._options.headers.items()}
        headers["Content-Type"] = "application/json"
        headers["Idempotency-Key"] = key_of(message, now)
        headers[TIMESTAMP] = str(int(now.timestamp()))
        if self._options.secret is not None:
            headers[SIGNATURE] = sign(self._options.secret.get_secret_value(), headers[TIMESTAMP], body)
        return headers
