"""What options of receivers share: the base of every entry, URLs, header values, time-outs.

Messages never echo a secret.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from monitor.errors import ConfigError, DeliveryError
from monitor.model.notifications import Message, Treatment, Updates
from monitor.options import ConfigPath, Duration, OneOf, Options, check_headers, must, web_url_of
from monitor.plugins import OPENING_S, Guard, PluginError
from monitor.ports import Receiver
from monitor.web_proxy import Proxy

# Deliveries are leased for longer than this, so that no other daemon sends them meanwhile.
LONGEST_TIMEOUT = timedelta(seconds=30)
GRACE_S = 1.0
"""How much longer than its time-out a plugin may take."""

_is_url = must(web_url_of, "not a URL: write http://host:port/path or https://host/path")
_is_bare = must(
    lambda url: "@" not in urlsplit(url).netloc and not urlsplit(url).fragment,
    "must not hold a user, a password or a #fragment: credentials have their own keys",
)


def without_path(path: str, advice: str) -> AfterValidator:
    """The check of a URL behind which this path is put."""
    reason = f"must not hold a ?query and must not end in {path}: {advice}"
    return must(
        lambda url: not urlsplit(url).query and not urlsplit(url).path.rstrip("/").endswith(path),
        reason,
    )


def check_further_headers(headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    """Refuse names that are none, and headers that the program itself sets."""
    for name in check_headers(headers):
        if name.lower() in _OURS or name.lower().startswith("x-rankwatch-"):
            raise ValueError(f"{name} is set by rankwatch itself: leave it out")
    return headers


_OURS = frozenset({
    "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host", "idempotency-key", "te",
    "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip

ReceiverName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")]
"""A metric label and a key of the outbox."""
Url = Annotated[str, _is_url, _is_bare]
SecretUrl = Annotated[SecretStr, _is_url, _is_bare]
Timeout = Annotated[
    Duration, must(LONGEST_TIMEOUT.__ge__, f"must be at most {LONGEST_TIMEOUT.total_seconds():g}s")
]
"""How long one request may take from first to last byte."""
CaFile = Annotated[
    ConfigPath | None,
    Field(description="PEM file of the authorities to trust instead of the usual ones."),
]
RepeatEvery = Annotated[
    Duration | None,
    Field(
        description=(
            "How often an incident that lasts and nobody has acknowledged is notified "
            "again; `null` for never."
        )
    ),
]


class ReceiverEntry(Options):
    """What every kind of receiver has in the configuration."""

    name: ReceiverName | None = Field(
        None, description="Name in metrics and in the outbox (default: its kind)."
    )
    timeout: Timeout = Field(
        timedelta(seconds=10), description="How long one request may take from first to last byte."
    )

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of the receivers that this entry opens.

        ``kind`` is its key in the configuration.
        """
        return (self.name or kind,)


class HttpReceiverEntry(ReceiverEntry):
    """What every kind of receiver over HTTP has besides."""

    ca_file: CaFile = None
    proxy: Proxy = None


def repeated(
    every: timedelta | None, updates: Updates = Updates.NONE, *, shows_pictures: bool = False
) -> Treatment:
    """The treatment of a receiver that gets the messages of incidents, and repetitions this often."""
    every_s = None if every is None else every.total_seconds()
    return Treatment(repeat_every_s=every_s, updates=updates, shows_pictures=shows_pictures)


ReceiverKind = tuple[type[ReceiverEntry], Callable[..., Receiver]]
"""The options of a kind, and what opens it: ``opens(options, name, external_url=...)``, without I/O."""


def read_kind(found: Any, name: str, who: str) -> ReceiverKind:  # noqa: ANN401 - whatever an entry point holds
    """The kind of an installed package, kept from doing harm. PluginError for what is none."""
    if (
        not isinstance(found, tuple)
        or not issubclass(found[0], ReceiverEntry)
        or hasattr(OneOf, name)
    ):
        raise PluginError(
            (
                "must be a pair of a ReceiverEntry and what opens its receiver, and its name no "
                "attribute of Options"
            )
        )
    return found[0], partial(_PluginReceiver, who, found[1])


class _PluginReceiver:
    """Hands messages on to a plugin.

    Port: Receiver. What goes wrong may pass, and the message may have arrived.
    """

    def __init__(
        self,
        who: str,
        opens: Callable[..., Any],
        entry: ReceiverEntry,
        name: str,
        *,
        external_url: str,
    ) -> None:
        opening, self._guard = (
            Guard(who, ConfigError),
            Guard(f"{name}: {who}", DeliveryError, permanent=False, may_be_known=True),
        )
        self._opened = opening.call(
            lambda: opens(entry, name, external_url=external_url), OPENING_S
        )
        self.name, self.treatment = name, opening.run(lambda: replace(self._opened.treatment))
        self._timeout_s = entry.timeout.total_seconds() + GRACE_S

    def send(self, message: Message, *, now: datetime) -> None:
        """Deliver this message. DeliveryError when it was not accepted."""
        self._guard.call(lambda: self._opened.send(message, now=now), self._timeout_s)
