"""What can be set of a webhook."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from monitor.options import ConfigPath, Duration, Options
from monitor.receivers.fields import HeaderSecret, ReceiverName, SecretUrl, Timeout, check_headers


class WebhookOptions(Options):
    """Post each message as signed JSON, in the shape of Alertmanager's webhooks."""

    url: SecretUrl = Field(description="Where to post. Treated as a secret: only its scheme and host are ever shown.")
    secret: SecretStr | None = Field(None, min_length=1, description="Key of the HMAC-SHA256 signature; unsigned without it.")
    name: ReceiverName | None = Field(None, description="Name in metrics and in the outbox (default: webhook).")
    headers: Annotated[Mapping[str, HeaderSecret], AfterValidator(check_headers)] = Field(
        default_factory=dict, description="Further headers, such as Authorization."
    )
    max_alerts: int = Field(
        0,
        ge=0,
        le=1000,
        description="Most alerts in one request, those that change first; 0 is all. `truncatedAlerts` counts the rest.",
    )
    ca_file: ConfigPath | None = Field(None, description="PEM file of the authorities to trust instead of the usual ones.")
    timeout: Timeout = Field(timedelta(seconds=10), description="How long one request may take from first to last byte.")
    repeat_every: Duration | None = Field(
        None, description="How often an incident that lasts and nobody has acknowledged is told again (default: never)."
    )

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Its one name."""
        return (self.name or "webhook",)
