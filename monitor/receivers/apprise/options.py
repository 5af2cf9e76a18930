"""What can be set of services told through Apprise."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from monitor.errors import ConfigError
from monitor.options import Duration, Options
from monitor.receivers.apprise.services import open_service
from monitor.receivers.fields import ReceiverName, Timeout


def _check_urls(urls: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    """Let Apprise read each of them, so that what it cannot read is told when the configuration is loaded."""
    texts = [url.get_secret_value() for url in urls]
    if len(set(texts)) < len(texts):
        msg = "list no URL twice"
        raise ValueError(msg)
    for position, text in enumerate(texts, start=1):
        try:
            open_service(text, position)
        except ConfigError as error:
            raise ValueError(str(error).removeprefix("urls: ")) from None
    return urls


class AppriseOptions(Options):
    """Tell services that have no receiver of their own here through Apprise; needs the extra ``apprise``."""

    urls: Annotated[tuple[SecretStr, ...], AfterValidator(_check_urls)] = Field(
        min_length=1, max_length=20, description="One of Apprise's URLs for each service. Secrets, never shown."
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
