"""What can be set of PagerDuty."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from monitor.options import ConfigPath, Duration, Options
from monitor.receivers.fields import ReceiverName, Timeout, Url

_KEY = re.compile(r"[0-9A-Za-z]{32}")


def _check_key(secret: SecretStr) -> SecretStr:
    if not _KEY.fullmatch(secret.get_secret_value()):
        msg = "must be the integration key of an Events API v2 integration: 32 letters and digits"
        raise ValueError(msg)
    return secret


def _check_place(url: str) -> str:
    if urlsplit(url).query or urlsplit(url).path.rstrip("/").endswith("/v2/enqueue"):
        msg = "must hold no ?query and not end in /v2/enqueue: write https://events.pagerduty.com or https://events.eu.pagerduty.com"
        raise ValueError(msg)
    return url


class PagerDutyOptions(Options):
    """Page through PagerDuty's Events API v2: one alert there for each incident here, acknowledged and resolved with it."""

    routing_key: Annotated[SecretStr, AfterValidator(_check_key)] = Field(
        description="Integration key of the service's Events API v2 integration."
    )
    url: Annotated[Url, AfterValidator(_check_place)] = Field(
        "https://events.pagerduty.com",
        description="Where events go; https://events.eu.pagerduty.com for the EU service region.",
    )
    name: ReceiverName | None = Field(None, description="Name in metrics and in the outbox (default: pagerduty).")
    ca_file: ConfigPath | None = Field(None, description="PEM file of the authorities to trust instead of the usual ones.")
    timeout: Timeout = Field(timedelta(seconds=10), description="How long one request may take from first to last byte.")
    repeat_every: Duration | None = Field(
        None,
        description="How often an incident that lasts and nobody has acknowledged is told again (default: never; PagerDuty "
        "escalates by itself).",
    )

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Its one name."""
        return (self.name or "pagerduty",)
