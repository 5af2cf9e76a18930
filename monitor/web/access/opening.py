"""From options to what the server asks at each connection and request."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from monitor.errors import ConfigError
from monitor.web.access.credentials import Credentials
from monitor.web.access.options import AccessOptions, TlsOptions
from monitor.web.access.pacing import Bucket
from monitor.web.access.rotating import Certificates
from monitor.web.access.tls import names_in, shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may look. Without arguments: everybody who reaches the port, unencrypted.

    ``notes``: keys of the file that are not honoured to the letter, and what is done instead.
    """

    credentials: Credentials = field(default_factory=lambda: Credentials({}))
    headers: Mapping[str, str] = field(default_factory=dict)
    bucket: Bucket | None = None
    certificates: Certificates | None = None
    names: frozenset[str] | None = None
    tls: TlsOptions | None = None
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def scheme(self) -> str:
        """``https`` or ``http``."""
        return "http" if self.certificates is None else "https"

    def context(self) -> ssl.SSLContext | None:
        """What a new connection is encrypted by; None when it is not."""
        return None if self.certificates is None else self.certificates.current()

    def admits(self, certificate: dict[str, object] | None) -> bool:
        """Whether a client may come in that showed this certificate, verified already."""
        return self.names is None or not self.names.isdisjoint(names_in(certificate))


def open_access(options: AccessOptions | None, *, name: str | None = None) -> Access:
    """Read the certificates and make ready. ConfigError, which begins with the file's ``name``, when they cannot be used."""
    if options is None:
        return Access()
    tls, rate = options.tls_server_config, options.rate_limit
    return Access(
        credentials=Credentials(options.basic_auth_users),
        headers={name: value for name, value in options.http_server_config.headers.items() if value},
        bucket=Bucket(rate.interval.total_seconds(), rate.burst) if rate.interval else None,
        certificates=_open_certificates(tls, name) if tls.is_on else None,
        names=None if tls.client_allowed_sans is None else frozenset(map(shorten, tls.client_allowed_sans)),
        tls=tls if tls.is_on else None,
        notes=options.notes,
    )


def _open_certificates(tls: TlsOptions, name: str | None) -> Certificates:
    try:
        return Certificates(tls)
    except ConfigError as error:
        msg = f"{name}: {error}" if name else str(error)
        raise ConfigError(msg) from None
