"""What can be set of a dead-man ping."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from monitor.options import ConfigPath, Options
from monitor.receivers.fields import ReceiverName, SecretUrl, Timeout

_Name = Annotated[str, Field(min_length=1)]


class PingOptions(Options):
    """Ping a URL when a run starts, ends well or fails; whoever is behind it notices when the pings stay away."""

    url: SecretUrl = Field(
        description="Where to ping, as with Healthchecks: `/start` and `/fail` go behind its path. A secret, never shown."
    )
    comparisons: tuple[_Name, ...] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="Only runs of these (default: of all).",
    )
    name: ReceiverName = Field("ping", description="Name in the log.")
    ca_file: ConfigPath | None = Field(None, description="PEM file of the authorities to trust instead of the usual ones.")
    timeout: Timeout = Field(timedelta(seconds=10), description="How long one ping may take from first to last byte.")
