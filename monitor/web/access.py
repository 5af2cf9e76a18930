"""Decides who may read the pages, by the passwords and certificates of a web configuration file."""

import hashlib
import ipaddress
import re
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import bcrypt
import structlog
from pydantic import SecretStr

from monitor.boundary.files import read_bounded
from monitor.boundary.foreign_errors import describe_error
from monitor.model.daemon_state import Refused, ReloadRefusal
from monitor.model.errors import ConfigError, MonitorError
from monitor.model.immutable import immutable
from monitor.model.instants import utc_now
from monitor.web.access_options import AccessOptions, TlsOptions, cost_of

_LARGEST_FILE = 1 << 20
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_LOOK_EVERY_S = 1.0
_CERTIFICATE = re.compile(f"{ssl.PEM_HEADER}.+?{ssl.PEM_FOOTER}", re.DOTALL)
_VALIDITY = re.compile(
    rb"\x30[\x1e\x20\x22](?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d(\d{12})|\x18\x0f(\d{14}))Z"
)
"""Finds when a certificate (DER) begins and ends. Years have 2 or 4 digits (RFC 5280, 4.1.2.5)."""
_Stamp = tuple[tuple[int, ...] | None, ...]
"""The state of each file, see `_state_of`. A new stamp means that a file has changed."""
log = structlog.get_logger(__name__)
_MOST_PASSWORD_BYTES = 72  # bcrypt uses only the first 72 bytes of a password
_LEAST_COST = 4  # the lowest cost that bcrypt allows
_NO_DIGEST = b"." * 31  # never matches


@immutable
class Access:
    """Who may connect and read. By default everybody may, and nothing is encrypted."""

    credentials: "Credentials" = field(default_factory=lambda: Credentials({}))
    certificates: "CertificateStore | None" = None
    client_names: frozenset[str] | None = None
    """A client's certificate must have one of these alternative names. None allows any name."""
    hosts: frozenset[str] = frozenset()
    """This server accepts these names in the header `Host`, and also localhost and IP addresses."""
    options: AccessOptions = field(default_factory=AccessOptions)

    @property
    def tls(self) -> TlsOptions | None:
        """The options of encryption. None if connections are not encrypted."""
        tls = self.options.tls_server_config
        return tls if tls.is_on else None

    @property
    def scheme(self) -> str:
        """``https`` or ``http``."""
        return "http" if self.certificates is None else "https"

    def context(self) -> ssl.SSLContext | None:
        """Return the context for a new connection. None if connections are not encrypted."""
        if self.certificates is None:
            return None
        return self.certificates.current()

    def answers_to(self, host: str) -> bool:
        """Return whether a client with this header ``Host`` may read everything.

        If clients need not authenticate, the name must be a name of this server. Otherwise another
        site could point its own name at this server's address (DNS rebinding). Then its scripts
        could read our pages in a user's browser. Nobody can redirect an IP address in this way.
        """
        name = host_name(host)
        is_ours = name in self.hosts or name == "localhost" or _is_address(name)
        return self.options.authenticates or is_ours

    def admits(self, certificate: dict[str, object] | None) -> bool:
        """Return whether a client with this verified certificate may connect."""
        if self.client_names is None:
            return True
        return bool(self.client_names & alternative_names(certificate))


def read_access(
    options: AccessOptions | None,
    *,
    file_name: str | None = None,
    hosts: frozenset[str] = frozenset(),
    old: Access | None = None,
) -> Access:
    """Return who may connect and read, by the options of a web configuration file.

    The certificates that the options name are read. ``hosts`` are names of this server in lower
    case. If ``old`` has the same users, the passwords that it verified are not checked again.

    Raises ConfigError if the certificates cannot be used. The error names the file ``file_name``,
    if it is given.
    """
    options = options or AccessOptions()
    old = old or Access()
    tls = options.tls_server_config
    certificates = None
    client_names = None
    try:
        if tls.is_on:
            certificates = CertificateStore(tls)
    except ConfigError as error:
        if file_name is None:
            raise
        raise ConfigError(f"{file_name}: {error}") from None
    if tls.client_allowed_sans is not None:
        # Alternative names may be IP addresses, which can be written in several ways.
        client_names = frozenset(map(short_address, tls.client_allowed_sans))
    credentials = old.credentials
    if old.options.basic_auth_users != options.basic_auth_users:
        credentials = Credentials(options.basic_auth_users)
    return Access(
        credentials=credentials,
        certificates=certificates,
        client_names=client_names,
        hosts=hosts,
        options=options,
    )


class Credentials:
    """Users and the hashes of their passwords.

    A verified password is remembered as a hash with a key that only this process knows. Each
    attempt takes as many rounds as the costliest hash, so that the time does not reveal whether a
    user exists.
    """

    def __init__(
        self,
        users: Mapping[str, SecretStr],
        *,
        compare: Callable[[bytes, bytes], bool] = bcrypt.checkpw,
    ) -> None:
        """``users`` has the bcrypt hash of each user's password."""
        self._hashes: dict[bytes, bytes] = {}
        # The cost of a hash says how many rounds it takes.
        costs = set()
        for name, secret in users.items():
            hashed = secret.get_secret_value()
            self._hashes[name.encode()] = hashed.encode()
            costs.add(cost_of(hashed))
        lowest_cost = min(costs, default=_LEAST_COST)
        self._highest_cost = max(costs, default=_LEAST_COST)
        # A decoy is a hash that no password has. `verify` compares passwords with decoys only to
        # take time, so that every answer takes as long as a hash of the highest cost. It may need
        # a decoy of each cost.
        self._decoys: dict[int, bytes] = {}
        for cost in range(lowest_cost, self._highest_cost + 1):
            self._decoys[cost] = bcrypt.gensalt(cost) + _NO_DIGEST
        self._compare = compare
        # The verified passwords are stored as digests with this key.
        self._key = secrets.token_bytes(32)
        self._verified: set[bytes] = set()

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def remembers(self, user: bytes, password: bytes) -> bool:
        """Return at once whether this password was verified before."""
        return self._digest(user, password) in self._verified

    def verify(self, user: bytes, password: bytes) -> bool:
        """Return whether the password is right. bcrypt takes long, but releases Python's lock.

        All calls take as long as the costliest hash, so the time does not show which users exist.
        """
        compared = password[:_MOST_PASSWORD_BYTES]
        hashed = self._hashes.get(user)
        if hashed is None:
            self._compare(compared, self._decoys[self._highest_cost])
            return False
        is_right = self._compare(compared, hashed)
        # A hash of cost c took 2^c rounds, and the highest cost h takes 2^h. Decoys of the costs c
        # to h-1 add the missing rounds.
        for cost in range(cost_of(hashed.decode()), self._highest_cost):
            self._compare(compared, self._decoys[cost])
        if is_right:
            self._verified.add(self._digest(user, password))
        return is_right

    def _digest(self, user: bytes, password: bytes) -> bytes:
        # For bcrypt, passwords with the same first 72 bytes are equal. So the digest uses only
        # these bytes, and each user has one digest. The length shows where the user's name ends.
        login = len(user).to_bytes(8, "big") + user + password[:_MOST_PASSWORD_BYTES]
        return hashlib.blake2b(login, key=self._key, digest_size=32).digest()


class CertificateStore:
    """The TLS context for new connections. It is read again if a file has changed.

    Raises ConfigError if the files cannot be used at the start. If changed files cannot be used
    later (because only one of two files was replaced so far), the old context stays in use. Each
    refused change is logged once. A changed certificate is loaded into a new context, because
    OpenSSL drops the old key before it checks the new one.
    """

    def __init__(self, options: TlsOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        # The stamp shows whether the files have changed. It is read before the files. So if a file
        # changes while it is loaded, it is loaded again.
        self._loaded_stamp = self._read_stamp()
        self._failed_stamp: _Stamp | None = None
        self.refusal: ReloadRefusal | None = None
        """Why changed files are not used. None if the newest files are used."""
        self._load()
        self._looked_at = clock()

    def current(self) -> ssl.SSLContext:
        """Return the context. At most once a second, loads the files again if they have changed."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            self._load_if_changed()
        return self._context

    def _load_if_changed(self) -> None:
        """Load the files if they have changed.

        Refused files are loaded again each time, but their refusal is logged once.
        """
        stamp = self._read_stamp()
        if stamp == self._loaded_stamp:
            # If new files were refused, somebody has put the old files back since then.
            self._failed_stamp = self.refusal = None
            return
        try:
            self._load()
        except Exception as error:  # noqa: BLE001 - the old context must stay in use
            if stamp == self._failed_stamp:
                return
            self._failed_stamp = stamp
            reason = str(error) if isinstance(error, MonitorError) else describe_error(error)
            self.refusal = ReloadRefusal(file=Refused.CERTIFICATE, at=utc_now(), reason=reason)
            log.error(  # noqa: TRY400 - the reason is enough
                "new certificate refused; the old one stays in use", reason=reason
            )
        else:
            self._loaded_stamp = stamp
            self._failed_stamp = self.refusal = None
            log.info("certificate read again")

    def _load(self) -> None:
        ends_at = certificates_end(str(self._options.cert_file))
        self._context = server_tls_context(self._options)
        self.ends_at = None if ends_at is None else ends_at.timestamp()

    def _read_stamp(self) -> _Stamp:
        files = (self._options.cert_file, self._options.key_file, self._options.client_ca_file)
        return tuple(_state_of(path) for path in files if path is not None)


def _state_of(path: str) -> tuple[int, ...] | None:
    """Return numbers that change if the file, its owner or its mode changes. None without a file."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):  # a ValueError means that no file can have this name
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def server_tls_context(options: TlsOptions) -> ssl.SSLContext:
    """Return the TLS context of the server, with the certificates in the files of the options.

    Raises ConfigError if a file cannot be used. The error names the file and the setting.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[options.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load_certificate(context, options)
    if options.verifies_certificates:
        _load_authority(context, options)
        context.verify_mode = ssl.CERT_OPTIONAL
        if options.must_show_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load_certificate(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Load the server's certificate and key. Raises ConfigError if they cannot be used."""
    cert = str(options.cert_file)
    key = str(options.key_file)
    # This checks that the files can be read, because OpenSSL would wait for a pipe, and would never
    # stop reading a device.
    _read(cert, "cert_file")
    _read(key, "key_file")
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"tls_server_config: cert_file {cert} and key_file {key} cannot be used together: "
            f"{_describe_tls_error(error)}"
        ) from None


def _no_password() -> str:
    # Without this function OpenSSL would ask for the password on a terminal.
    raise ValueError(
        "the key is encrypted: remove its password, and let only rankwatch read the file"
    )


def _describe_tls_error(error: Exception) -> str:
    """Say why OpenSSL refused the certificate and its key."""
    if not isinstance(error, ssl.SSLError):
        return getattr(error, "strerror", None) or str(error)
    code = error.reason or "NO_START_LINE"
    if code == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    if code == "NO_START_LINE":
        return "one of them is not a PEM file, or contains no certificate or no key"
    return code.lower().replace("_", " ")


def _load_authority(context: ssl.SSLContext, options: TlsOptions) -> None:
    """Load the certificates that sign clients' certificates. Raises ConfigError if it fails."""
    certificates = _read(str(options.client_ca_file), "client_ca_file")
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            f"tls_server_config: client_ca_file {options.client_ca_file} contains no certificate "
            "in PEM"
        ) from None


def _read(path: str, key: str) -> str:
    try:
        return _read_pem(path)
    except OSError as error:
        raise ConfigError(
            f"tls_server_config.{key}: cannot read {path}: {error.strerror}"
        ) from None


def _read_pem(path: str) -> str:
    # PEM is ASCII. Any text around its blocks is a comment.
    return read_bounded(path, _LARGEST_FILE).decode("ascii", errors="ignore")


def certificates_end(path: str) -> datetime | None:
    """Return the earliest time at which a certificate in a PEM file expires.

    Returns None if no certificate can be read.
    """
    ends = []
    with suppress(OSError, ValueError):
        for certificate in _CERTIFICATE.findall(_read_pem(path)):
            validity = _VALIDITY.search(ssl.PEM_cert_to_DER_cert(certificate))
            if validity is None:
                continue
            two_digit_year, four_digit_year = validity.groups()
            year = "%y" if two_digit_year else "%Y"
            digits = (two_digit_year or four_digit_year).decode()
            ends.append(datetime.strptime(f"{digits}+0000", f"{year}%m%d%H%M%S%z"))
    return min(ends, default=None)


def alternative_names(certificate: dict[str, object] | None) -> frozenset[str]:
    """Return the alternative names (DNS, IP, e-mail, URI) of a certificate.

    ``certificate`` is what `ssl.SSLSocket.getpeercert` returns. IP addresses are returned in their
    short form.
    """
    alternatives: Any = (certificate or {}).get("subjectAltName", ())
    names = set()
    for kind, value in alternatives:
        names.add(short_address(value) if kind == "IP Address" else value)
    return frozenset(names)


def host_name(host: str) -> str:
    """Return the name or address in a header ``Host`` in lower case, or "" if it has none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def client_name(certificate: dict[str, object] | None) -> str:
    """Return the common name of a verified client, or its first alternative name if it has none."""
    # The subject is a sequence of groups, and a group is a sequence of names and values.
    groups: Any = (certificate or {}).get("subject", ())
    subject = dict(chain.from_iterable(groups))
    names = alternative_names(certificate)
    return subject.get("commonName") or min(names, default="a client without a name")


def short_address(address: str) -> str:
    """Return an IP address in its short form, and anything else unchanged."""
    try:
        return ipaddress.ip_address(address.strip()).compressed
    except ValueError:
        return address
