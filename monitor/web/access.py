"""Who may read the pages: passwords and certificates of a web configuration file, in force."""

from __future__ import annotations

import hashlib
import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import bcrypt
from pydantic import SecretStr

from monitor.errors import ConfigError
from monitor.web.access_options import AccessOptions, TlsOptions, cost_of
from monitor.web.certificates import CertificateStore, alternative_names, short_address

_LONGEST = 72  # bytes that bcrypt looks at; longer passwords are cut by all who make its hashes
_MOST_REMEMBERED = 1024


class Credentials:
    """Users and the hashes of their passwords.

    Each attempt costs the same, whether or not there is such a user and whatever the cost of their hash: so many rounds
    as the costliest hash asks for. What was right once is remembered as a digest under a key of this process alone.
    """

    def __init__(self, users: Mapping[str, SecretStr], *, compare: Callable[[bytes, bytes], bool] = bcrypt.checkpw) -> None:
        hashes = {name: secret.get_secret_value() for name, secret in users.items()}
        self._hashes = {name.encode(): hashed.encode() for name, hashed in hashes.items()}
        costs = {cost_of(hashed) for hashed in hashes.values()} or {4}
        self._highest = max(costs)
        self._decoys = {cost: bcrypt.gensalt(cost) + b"." * 31 for cost in range(min(costs), self._highest + 1)}
        self._compare = compare
        self._key = secrets.token_bytes(32)
        self._right: set[bytes] = set()

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def remembers(self, user: bytes, password: bytes) -> bool:
        """Whether exactly these were right before. At once."""
        return self._digest(user, password) in self._right

    def verify(self, user: bytes, password: bytes) -> bool:
        """Whether these are right. Takes bcrypt's time."""
        cut = password[:_LONGEST]
        hashed = self._hashes.get(user, self._decoys[self._highest])
        # bcrypt does not hold Python's lock meanwhile.
        is_right = self._compare(cut, hashed)
        for cost in range(cost_of(hashed.decode()), self._highest):  # 2^c, and 2^c ... 2^(h-1) more, make 2^h
            self._compare(cut, self._decoys[cost])
        if not is_right or user not in self._hashes:
            return False
        if len(self._right) >= _MOST_REMEMBERED:
            self._right.clear()
        self._right.add(self._digest(user, password))
        return True

    def _digest(self, user: bytes, password: bytes) -> bytes:
        pair = len(user).to_bytes(8, "big") + user + password
        return hashlib.blake2b(pair, key=self._key, digest_size=32).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access in force. Without arguments: everybody who reaches the port, unencrypted.

    ``options`` are what it was opened from.
    """

    credentials: Credentials = field(default_factory=lambda: Credentials({}))
    certificates: CertificateStore | None = None
    names: frozenset[str] | None = None
    options: AccessOptions = field(default_factory=AccessOptions)

    @property
    def tls(self) -> TlsOptions | None:
        """How connections are encrypted; None when they are not."""
        tls = self.options.tls_server_config
        return tls if tls.is_on else None

    @property
    def scheme(self) -> str:
        """``https`` or ``http``."""
        return "http" if self.certificates is None else "https"

    def context(self) -> ssl.SSLContext | None:
        """What a new connection is encrypted by; None when it is not."""
        return None if self.certificates is None else self.certificates.current()

    def admits(self, certificate: dict[str, object] | None) -> bool:
        """Whether a client may come in that showed this certificate, verified already."""
        return self.names is None or not self.names.isdisjoint(alternative_names(certificate))


def open_access(options: AccessOptions | None, *, name: str | None = None, old: Access | None = None) -> Access:
    """Read the certificates and make ready. ConfigError, which begins with the file's ``name``, when they cannot be used.

    Of the ``old`` one, passwords that were right are kept while the users stay the same.
    """
    options, old = options or AccessOptions(), old or Access()
    tls, users = options.tls_server_config, options.basic_auth_users
    return Access(
        credentials=old.credentials if old.options.basic_auth_users == users else Credentials(users),
        certificates=_open_certificates(tls, name) if tls.is_on else None,
        names=None if tls.client_allowed_sans is None else frozenset(map(short_address, tls.client_allowed_sans)),
        options=options,
    )


def _open_certificates(tls: TlsOptions, name: str | None) -> CertificateStore:
    try:
        return CertificateStore(tls)
    except ConfigError as error:
        msg = f"{name}: {error}" if name else str(error)
        raise ConfigError(msg) from None
