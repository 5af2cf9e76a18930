"""From options to what the server asks at each connection and request."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from monitor.errors import ConfigError
from monitor.web.access.credentials import Credentials
from monitor.web.access.options import AccessOptions, RateOptions, TlsOptions
from monitor.web.access.pacing import Bucket
from monitor.web.access.rotating import Certificates
from monitor.web.access.tls import names_in, shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may look. Without arguments: everybody who reaches the port, unencrypted.

    ``options`` are what it was opened from. ``notes``: keys of the file that are not honoured to the letter, and what is done
    instead.
    """

    credentials: Credentials = field(default_factory=lambda: Credentials({}))
    headers: Mapping[str, str] = field(default_factory=dict)
    bucket: Bucket | None = None
    certificates: Certificates | None = None
    names: frozenset[str] | None = None
    options: AccessOptions | None = None
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def tls(self) -> TlsOptions | None:
        """How connections are encrypted; None when they are not."""
        tls = None if self.options is None else self.options.tls_server_config
        return tls if tls is not None and tls.is_on else None

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


def open_access(options: AccessOptions | None, *, name: str | None = None, old: Access | None = None) -> Access:
    """Read the certificates and make ready. ConfigError, which begins with the file's ``name``, when they cannot be used.

    Of the ``old`` one, passwords that were right and what is left of the rate are kept while their options stay the same.
    """
    if options is None:
        return Access()
    tls = options.tls_server_config
    return Access(
        credentials=_credentials(options, old),
        headers={name: value for name, value in options.http_server_config.headers.items() if value},
        bucket=_bucket(options.rate_limit, old),
        certificates=_open_certificates(tls, name) if tls.is_on else None,
        names=None if tls.client_allowed_sans is None else frozenset(map(shorten, tls.client_allowed_sans)),
        options=options,
        notes=options.notes,
    )


def _credentials(options: AccessOptions, old: Access | None) -> Credentials:
    if old is not None and old.options is not None and old.options.basic_auth_users == options.basic_auth_users:
        return old.credentials
    return Credentials(options.basic_auth_users)


def _bucket(rate: RateOptions, old: Access | None) -> Bucket | None:
    if old is not None and old.options is not None and old.options.rate_limit == rate:
        return old.bucket
    return Bucket(rate.interval.total_seconds(), rate.burst) if rate.interval else None


def _open_certificates(tls: TlsOptions, name: str | None) -> Certificates:
    try:
        return Certificates(tls)
    except ConfigError as error:
        msg = f"{name}: {error}" if name else str(error)
        raise ConfigError(msg) from None
