"""What can be set of services told through Apprise."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from monitor.errors import ConfigError
from monitor.options import Duration, Options
from monitor.receivers.apprise.services import open_service
from monitor.receivers.fields import ReceiverName, Timeout

_ServiceName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")]


def _check_urls(urls: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    """Let Apprise read each of them, so that what it cannot read is told when the configuration is loaded."""
    for name, url in urls.items():
        try:
            open_service(name, url.get_secret_value())
        except ConfigError as error:
            raise ValueError(str(error)) from None
    return urls


class AppriseOptions(Options):
    """Tell services that have no receiver of their own here through Apprise; needs the extra ``apprise``."""

    urls: Annotated[Mapping[_ServiceName, SecretStr], AfterValidator(_check_urls)] = Field(
        min_length=1,
        max_length=20,
        description="Services: a name for messages, and one of Apprise's URLs, or `NAME_file`. Secrets, never shown.",
        examples=[{"phones": "ntfys://ntfy.example.com/${NTFY_TOPIC}"}],
    )
    name: ReceiverName | None = Field(None, description="Name in metrics and in the outbox (default: apprise).")
    timeout: Timeout = Field(timedelta(seconds=20), description="How long all of them together may take for one message.")
    repeat_every: Duration | None = Field(
        timedelta(hours=24),
        description="How often an incident that lasts and nobody has acknowledged is told again; `null` for never.",
    )

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Its one name."""
        return (self.name or "apprise",)
