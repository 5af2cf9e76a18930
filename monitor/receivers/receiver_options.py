"""Fields and checks for the options of several receivers: URLs, headers, time-outs.

The texts of errors never contain a secret.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from monitor.boundary.options import (
    ConfigPath,
    Duration,
    Options,
    check_headers,
    must,
    readable_by,
    web_url_of,
)
from monitor.boundary.options.one_of import OneOf
from monitor.boundary.plugins import OPENING_S, Guard, PluginError
from monitor.boundary.redaction import require_encoded_login
from monitor.boundary.web_proxy import Proxy
from monitor.model.errors import ConfigError, DeliveryError
from monitor.model.notifications import Message, Treatment, Updates
from monitor.model.ports import Receiver

# Shorter than the lease of a delivery, so that two daemons never send the same delivery at once.
LONGEST_TIMEOUT = timedelta(seconds=30)
PLUGIN_GRACE_S = 1.0
"""How much longer than a plugin's time-out rankwatch waits, because the plugin should end first."""


def _has_no_credentials(url: str) -> bool:
    parts = urlsplit(url)
    return "@" not in parts.netloc and not parts.fragment


_has_encoded_login = readable_by(require_encoded_login)
_is_url = must(web_url_of, "not a URL: write http://host:port/path or https://host/path")
_is_bare = must(
    _has_no_credentials,
    "must not contain a user, a password or a #fragment: write credentials under their own keys",
)


def without_path(path: str, advice: str) -> AfterValidator:
    """Make a check for URLs. rankwatch later appends ``path`` to such a URL."""

    def has_no_path(url: str) -> bool:
        parts = urlsplit(url)
        return not parts.query and not parts.path.rstrip("/").endswith(path)

    return must(has_no_path, f"must not contain a ?query and must not end in {path}: {advice}")


def check_further_headers(headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    """Raise ValueError for headers with invalid names, and for headers that rankwatch sets."""
    for name in check_headers(headers):
        if name.lower() in _RESERVED or name.lower().startswith("x-rankwatch-"):
            raise ValueError(f"{name} is set by rankwatch: leave it out")
    return headers


_RESERVED = frozenset({
    "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host",
    "idempotency-key", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip

ReceiverName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")]
"""The name of a receiver. Metrics use it as a label, and the outbox uses it as a key."""
Url = Annotated[str, _has_encoded_login, _is_url, _is_bare]
SecretUrl = Annotated[SecretStr, _has_encoded_login, _is_url, _is_bare]
Timeout = Annotated[
    Duration, must(LONGEST_TIMEOUT.__ge__, f"must be at most {LONGEST_TIMEOUT.total_seconds():g}s")
]
"""How long one request may take, from its first byte to the last byte of the answer."""
CaFile = Annotated[
    ConfigPath | None,
    Field(
        description="A PEM file with the certificate authorities to trust, instead of the "
        "system's authorities."
    ),
]
RepeatEvery = Annotated[
    Duration | None,
    Field(
        description=(
            "How often the notification of an incident is repeated while the incident is firing "
            "and nobody has acknowledged it. `null` means never."
        )
    ),
]


class ReceiverEntry(Options):
    """Options that are available for every kind of receiver."""

    name: ReceiverName | None = None
    """The name of the receiver in metrics and in the outbox (default: the kind of the receiver)."""
    timeout: Timeout = timedelta(seconds=10)
    """How long one request may take, from the first byte to the last."""

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the names of the receivers that this entry opens.

        ``kind`` is the key of the entry in the configuration.
        """
        return (self.name or kind,)


class HttpReceiverEntry(ReceiverEntry):
    """Additional options for every kind of receiver that uses HTTP."""

    ca_file: CaFile = None
    proxy: Proxy = None


class BaseReceiver:
    """What the built-in receivers have in common."""

    def __init__(
        self, name: str, options: ReceiverEntry, external_url: str, treatment: Treatment
    ) -> None:
        self.name = name
        self.treatment = treatment
        self.timeout_s = options.timeout.total_seconds()
        self.external_url = external_url


def repeating_treatment(
    every: timedelta | None,
    updates: Updates = Updates.NONE,
    *,
    shows_pictures: bool = False,
) -> Treatment:
    """Return the treatment of a receiver that repeats an incident after the time ``every``."""
    every_s = None if every is None else every.total_seconds()
    return Treatment(repeat_every_s=every_s, updates=updates, shows_pictures=shows_pictures)


ReceiverKind = tuple[type[ReceiverEntry], Callable[..., Receiver]]
"""A kind of receiver: its options, and a function that opens such a receiver.

The function has the arguments ``(options, name, external_url=...)`` and does no I/O.
"""


def read_receiver_kind(kind: Any, name: str, who: str) -> ReceiverKind:  # noqa: ANN401 - of an entry point
    """Return the kind of receiver of an installed package, with a guard around each call.

    A guard limits the time of a call and replaces its errors. ``name`` is the key of the receiver
    in the configuration, and ``who`` is the name of the plugin in errors. Raises PluginError if the
    kind is invalid.
    """
    if (
        not isinstance(kind, tuple)
        or not issubclass(kind[0], ReceiverEntry)
        or hasattr(OneOf, name)
    ):
        raise PluginError(
            "must be a pair of a ReceiverEntry and a function that opens its receiver, and must "
            "not have the name of an attribute of Options"
        )
    return kind[0], partial(_PluginReceiver, who, kind[1])


class _PluginReceiver:
    """A receiver that passes messages to a plugin.

    Each failure is treated as temporary, and the message is treated as if it may have arrived.
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
        opening = Guard(who, ConfigError)
        self._opened = opening.call(
            partial(opens, entry, name, external_url=external_url), OPENING_S
        )
        self.name = name
        self.treatment = opening.run(lambda: replace(self._opened.treatment))
        self._guard = Guard(f"{name}: {who}", DeliveryError, permanent=False, may_be_known=True)
        self._timeout_s = entry.timeout.total_seconds() + PLUGIN_GRACE_S

    def send(self, message: Message, *, now: datetime) -> None:
        """Deliver this message. Raises DeliveryError if the plugin did not accept it."""
        self._guard.call(partial(self._opened.send, message, now=now), self._timeout_s)
