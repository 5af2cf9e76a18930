"""What can be set of Slack."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from monitor.options import ConfigPath, Duration, Options
from monitor.receivers.fields import ReceiverName, SecretUrl, Timeout


class SlackOptions(Options):
    """Post to a Slack channel by its incoming webhook."""

    url: SecretUrl = Field(
        description="The incoming webhook's URL, https://hooks.slack.com/services/... Treated as a secret: who has it can post."
    )
    name: ReceiverName | None = Field(None, description="Name in metrics and in the outbox (default: slack).")
    ca_file: ConfigPath | None = Field(None, description="PEM file of the authorities to trust instead of the usual ones.")
    timeout: Timeout = Field(timedelta(seconds=10), description="How long one request may take from first to last byte.")
    repeat_every: Duration | None = Field(
        timedelta(days=1),
        description="How often an incident that lasts and nobody has acknowledged is told again; null for never.",
    )

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Its one name."""
        return (self.name or "slack",)
