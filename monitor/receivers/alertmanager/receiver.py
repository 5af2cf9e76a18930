"""The peers of an Alertmanager, each a receiver."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from monitor.model import Message, Transition
from monitor.receivers.alertmanager.alert import alert_of
from monitor.receivers.alertmanager.options import PATH, AlertmanagerOptions
from monitor.receivers.answers import accept
from monitor.receivers.guarded import Guard

_SHORTEST_END = timedelta(minutes=5)
_RESENDS_AHEAD = 4
_BATCH = 250
"""So that a thousand alerts are told well within a lease."""


def open_alertmanager(options: AlertmanagerOptions, *, external_url: str) -> tuple[Alertmanager, ...]:
    """One receiver a peer."""
    return tuple(
        Alertmanager(url, name, options, external_url=external_url)
        for url, name in zip(options.urls, options.receiver_names, strict=True)
    )


class Alertmanager:
    """One peer."""

    def __init__(self, url: str, name: str, options: AlertmanagerOptions, *, external_url: str) -> None:
        self._name, self._options, self._external_url = name, options, external_url
        timeout_s = options.timeout.total_seconds()
        self._guard = Guard(url.rstrip("/") + PATH, who=name, timeout_s=timeout_s, ca_file=options.ca_file)
        self._headers = {"Content-Type": "application/json", **_credentials(options)}

    @property
    def name(self) -> str:
        """Name of the peer."""
        return self._name

    @property
    def resend_every_s(self) -> float | None:
        """Alertmanager forgets an alert that is not told again."""
        return self._options.resend_every.total_seconds()

    @property
    def repeat_every_s(self) -> float | None:
        """Alertmanager repeats by itself."""
        return None

    @property
    def is_ungrouped(self) -> bool:
        """Alertmanager groups and inhibits by itself."""
        return True

    def send(self, message: Message, *, now: datetime) -> None:
        """Post starts and ends, so many a request. DeliveryError when the peer did not take one.

        Alertmanager knows no acknowledgement, so nothing is said of any.
        """
        ends_at = now + max(_RESENDS_AHEAD * self._options.resend_every, _SHORTEST_END)
        told = [change for change in (*message.changes, *_repeated(message)) if not change.is_acknowledgement]
        alerts = [alert_of(transition, ends_at, self._external_url, self._options.labels) for transition in told]
        for start in range(0, len(alerts), _BATCH):
            answer = self._guard.post(json.dumps(alerts[start : start + _BATCH]).encode(), self._headers)
            accept(answer, who=self._guard.who, now=now)

    def close(self) -> None:
        """Close the connections."""
        self._guard.close()


def _repeated(message: Message) -> tuple[Transition, ...]:
    """What fires still, where a message has nothing else to say."""
    return () if message.changes else message.firing


def _credentials(options: AlertmanagerOptions) -> Mapping[str, str]:
    if options.basic_auth is not None:
        pair = f"{options.basic_auth.username}:{options.basic_auth.password.get_secret_value()}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    if options.bearer_token is not None:
        return {"Authorization": f"Bearer {options.bearer_token.get_secret_value()}"}
    return {}
