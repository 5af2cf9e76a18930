"""The webhook as a receiver: one message, one request, or a second where the first was too large."""

from __future__ import annotations

import json
from datetime import datetime

from monitor.model import Message
from monitor.receivers.answers import accept
from monitor.receivers.guarded import Answer, Guard
from monitor.receivers.keying import key_of
from monitor.receivers.webhook.body import body_of, count_fewest
from monitor.receivers.webhook.options import WebhookOptions
from monitor.receivers.webhook.signing import SIGNATURE, TIMESTAMP, sign

_TOO_LARGE = 413


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
        """Post a message. DeliveryError when it is not taken.

        Where it is too large, what fires still besides the changes is counted only, so that they get through alone.
        """
        answer, shown = self._post(message, self._options.max_alerts, now)
        fewest = count_fewest(message)
        if answer.status == _TOO_LARGE and fewest < shown:
            answer, _ = self._post(message, fewest, now)
        accept(answer, who=self._guard.who, now=now)

    def close(self) -> None:
        """Close the connections."""
        self._guard.close()

    def _post(self, message: Message, most: int, now: datetime) -> tuple[Answer, int]:
        """The answer to at most so many alerts, and how many they were."""
        told = body_of(message, receiver=self._name, external_url=self._external_url, max_alerts=most)
        body = json.dumps(told, allow_nan=False).encode()
        return self._guard.post(body, self._headers(message, body, now)), len(told["alerts"])

    def _headers(self, message: Message, body: bytes, now: datetime) -> dict[str, str]:
        headers = {name: secret.get_secret_value() for name, secret in self._options.headers.items()}
        headers["Content-Type"] = "application/json"
        headers["Idempotency-Key"] = key_of(message, now)
        headers[TIMESTAMP] = str(int(now.timestamp()))
        if self._options.secret is not None:
            headers[SIGNATURE] = sign(self._options.secret.get_secret_value(), headers[TIMESTAMP], body)
        return headers
