"""What can be set of a mail server and who is written to."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from monitor.options import ConfigPath, Duration, Options
from monitor.receivers.fields import ReceiverName, Timeout

PORTS = {"starttls": 587, "implicit": 465, "none": 25}
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ADDRESS = rf"^[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL})*$"
_HOST = r"^[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$"

MailAddress = Annotated[str, Field(pattern=_ADDRESS, max_length=254)]


def _check_differ(addresses: tuple[str, ...]) -> tuple[str, ...]:
    if len({address.lower() for address in addresses}) < len(addresses):
        msg = "list no address twice"
        raise ValueError(msg)
    return addresses


def _check_password(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if not text or not (text.isascii() and text.isprintable()):
        msg = "must be printable ASCII text on one line"
        raise ValueError(msg)
    return secret


class EmailOptions(Options):
    """Write a mail over SMTP."""

    host: str = Field(pattern=_HOST, description="Host of the mail server, without a port.", examples=["smtp.example.com"])
    port: int | None = Field(None, ge=1, le=65535, description="Its port (default: 587; with `tls: implicit` 465, `none` 25).")
    tls: Literal["starttls", "implicit", "none"] = Field(
        "starttls",
        description="`starttls`: never without it; `implicit`: TLS from the first byte; `none`: readable on the way.",
    )
    username: str | None = Field(None, pattern=r"^[ -~]+$", description="Name to log in with; needs `password` and TLS.")
    password: Annotated[SecretStr, AfterValidator(_check_password)] | None = Field(None, description="Password to log in with.")
    sender: MailAddress = Field(description="Address that the mail comes from.", examples=["rankwatch@example.com"])
    to: Annotated[tuple[MailAddress, ...], AfterValidator(_check_differ)] = Field(
        min_length=1, max_length=50, description="Addresses that it goes to.", json_schema_extra={"uniqueItems": True}
    )
    name: ReceiverName | None = Field(None, description="Name in metrics and in the outbox (default: email).")
    ca_file: ConfigPath | None = Field(None, description="PEM file of the authorities to trust instead of the usual ones.")
    timeout: Timeout = Field(timedelta(seconds=20), description="How long one mail may take from connecting to its acceptance.")
    repeat_every: Duration | None = Field(
        timedelta(hours=24),
        description="How often an incident that lasts and nobody has acknowledged is told again; `null` for never.",
    )

    @model_validator(mode="after")
    def _whole_credential(self) -> Self:
        if (self.username is None) != (self.password is None):
            msg = "give both username and password, or neither"
            raise ValueError(msg)
        if self.password is not None and self.tls == "none":
            msg = "a password is not sent without TLS: leave out username and password, or tls: none"
            raise ValueError(msg)
        return self

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Its one name."""
        return (self.name or "email",)

    @property
    def port_in_use(self) -> int:
        """The port, given or usual."""
        return self.port or PORTS[self.tls]
