"""Who may read the pages: passwords and certificates of a web configuration file, in force, read again where they change."""

import hashlib
import ipaddress
import re
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import bcrypt
import structlog
from pydantic import SecretStr

from monitor.errors import ConfigError, MonitorError
from monitor.files import read_bounded
from monitor.foreign_errors import describe_error
from monitor.web.access_options import AccessOptions, TlsOptions, cost_of

_LARGEST_FILE = 1 << 20
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_LOOK_EVERY_S = 1.0
_CERTIFICATE = re.compile(f"{ssl.PEM_HEADER}.+?{ssl.PEM_FOOTER}", re.DOTALL)
_VALIDITY = re.compile(
    rb"\x30[\x1e\x20\x22](?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d(\d{12})|\x18\x0f(\d{14}))Z"
)
"""Beginning and end in a certificate's DER, with years of two digits or four (RFC 5280, 4.1.2.5)."""
_Stamp = tuple[tuple[int, ...] | None, ...]
log = structlog.get_logger(__name__)
_LONGEST = 72  # bytes that bcrypt looks at; longer passwords are cut by all who make its hashes
_MOST_REMEMBERED = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access in force. Without arguments: everybody who reaches the port, unencrypted."""

    credentials: "Credentials" = field(default_factory=lambda: Credentials({}))
    certificates: "CertificateStore | None" = None
    names: frozenset[str] | None = None
    hosts: frozenset[str] = (
        frozenset()
    )  # names of this server in `Host`, beside loopback names and IP addresses
    options: AccessOptions = field(default_factory=AccessOptions)  # what it was opened from

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

    def answers_to(self, host: str) -> bool:
        """Whether a client may read everything that names the server so in ``Host``.

        Where nobody authenticates, the name must be ours. A web page of another name can lead that
        name to our address (DNS rebinding), and its scripts then read our pages in a browser that
        reaches us. An IP address cannot be led elsewhere."""
        name = host_name(host)
        is_ours = name in self.hosts or name == "localhost" or _is_address(name)
        return self.options.authenticates or is_ours

    def admits(self, certificate: dict[str, object] | None) -> bool:
        """Whether a client may come in that showed this certificate, verified already."""
        return self.names is None or not self.names.isdisjoint(alternative_names(certificate))


def open_access(
    options: AccessOptions | None,
    *,
    name: str | None = None,
    hosts: frozenset[str] = frozenset(),
    old: Access | None = None,
) -> Access:
    """Read the certificates and make ready.

    ConfigError, which begins with the file's ``name``, when they cannot be used.

    ``hosts``: names of this server, in lower case.
    Of the ``old`` one, passwords that were right are kept while the users stay the same.
    """
    options, old = options or AccessOptions(), old or Access()
    tls, users = options.tls_server_config, options.basic_auth_users
    try:
        certificates = CertificateStore(tls) if tls.is_on else None
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}" if name else str(error)) from None
    return Access(
        credentials=old.credentials
        if old.options.basic_auth_users == users
        else Credentials(users),
        certificates=certificates,
        names=None
        if tls.client_allowed_sans is None
        else frozenset(map(short_address, tls.client_allowed_sans)),
        hosts=hosts,
        options=options,
    )


class Credentials:
    """Users and the hashes of their passwords.

    What was right once is remembered under a key of this process alone.

    Each attempt costs as many rounds as the costliest hash, whether or not there is such a user.
    """

    def __init__(
        self,
        users: Mapping[str, SecretStr],
        *,
        compare: Callable[[bytes, bytes], bool] = bcrypt.checkpw,
    ) -> None:
        hashes = {name: secret.get_secret_value() for name, secret in users.items()}
        self._hashes = {name.encode(): hashed.encode() for name, hashed in hashes.items()}
        costs = {cost_of(hashed) for hashed in hashes.values()} or {4}
        self._highest = max(costs)
        self._decoys = {
            cost: bcrypt.gensalt(cost) + b"." * 31 for cost in range(min(costs), self._highest + 1)
        }
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
        for cost in range(
            cost_of(hashed.decode()), self._highest
        ):  # 2^c, and 2^c ... 2^(h-1) more, make 2^h
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


class CertificateStore:
    """The context for new connections, read again once a file has changed.

    ConfigError for unusable files to begin with.

    Later the old ones stay in force and it is tried again, as while one of two is replaced; that is
    logged once a change."""

    def __init__(self, options: TlsOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options, self._clock = options, clock
        self._seen = self._stamp()
        self._failed: _Stamp | None = None
        self._context, self.ends_at = self._load()
        self._looked_at = clock()

    def current(self) -> ssl.SSLContext:
        """The context to be used now."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            self._look()
        return self._context

    def _look(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        try:
            self._context, self.ends_at = self._load()
        except Exception as error:  # noqa: BLE001 - nothing that goes wrong here may end connections that the old one serves
            if stamp == self._failed:
                return
            self._failed = stamp
            reason = str(error) if isinstance(error, MonitorError) else describe_error(error)
            log.error("certificate not read again; the old one stays in force", reason=reason)  # noqa: TRY400 - the reason is all
        else:
            self._seen, self._failed = stamp, None
            log.info("certificate read again")

    def _load(self) -> tuple[ssl.SSLContext, float | None]:
        ends = certificates_end(str(self._options.cert_file))
        return server_tls_context(self._options), None if ends is None else ends.timestamp()

    def _stamp(self) -> _Stamp:
        files = (self._options.cert_file, self._options.key_file, self._options.client_ca_file)
        return tuple(_state_of(path) for path in files if path is not None)


def _state_of(path: str) -> tuple[int, ...] | None:
    """What changes with the file, its owner or its mode."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def server_tls_context(options: TlsOptions) -> ssl.SSLContext:
    """Read certificate, key and the clients' authority.

    ConfigError, which names file and key, when they cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[options.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load_pair(context, options)
    if options.verifies_certificates:
        _load_authority(context, options)
        context.verify_mode = (
            ssl.CERT_REQUIRED if options.must_show_certificate else ssl.CERT_OPTIONAL
        )
    return context


def _load_pair(context: ssl.SSLContext, options: TlsOptions) -> None:
    cert, key = str(options.cert_file), str(options.key_file)
    _read(cert, "cert_file")  # OpenSSL would wait for a pipe, and read a device to its end
    _read(key, "key_file")
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        msg = (
            f"tls_server_config: cert_file {cert} and key_file {key} cannot be used together: "
            f"{_why(error)}"
        )
        raise ConfigError(msg) from None


def _no_password() -> str:
    # Without this OpenSSL would ask for the password on a terminal.
    raise ValueError(
        "the key is encrypted: give it without a password, readable by rankwatch alone"
    )


def _why(error: Exception) -> str:
    if not isinstance(error, ssl.SSLError):
        return getattr(error, "strerror", None) or str(error)
    reason = (error.reason or "").lower().replace("_", " ")
    return {
        "key values mismatch": "the key does not belong to the certificate",
        "": "one of them is no PEM file, or holds no certificate or no key",
        "no start line": "one of them is no PEM file, or holds no certificate or no key",
    }.get(reason, reason)


def _load_authority(context: ssl.SSLContext, options: TlsOptions) -> None:
    text = _read(str(options.client_ca_file), "client_ca_file")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            (
                f"tls_server_config: client_ca_file {options.client_ca_file} holds no certificate "
                "in PEM"
            )
        ) from None


def _read(path: str, key: str) -> str:
    try:
        # PEM is ASCII, and what stands around its blocks is read by people only.
        return read_bounded(path, _LARGEST_FILE).decode("ascii", errors="ignore")
    except OSError as error:
        raise ConfigError(
            f"tls_server_config.{key}: cannot read {path}: {error.strerror}"
        ) from None


def certificates_end(path: str) -> datetime | None:
    """When the first of a PEM file's certificates ends, those that signed it among them.

    None where none can be read.
    """
    ends = list[datetime]()
    with suppress(OSError, ValueError):
        for text in _CERTIFICATE.findall(
            read_bounded(path, _LARGEST_FILE).decode("ascii", errors="ignore")
        ):
            if found := _VALIDITY.search(ssl.PEM_cert_to_DER_cert(text)):
                year, digits = ("%y", found[1]) if found[1] else ("%Y", found[2])
                ends.append(datetime.strptime(f"{digits.decode()}+0000", f"{year}%m%d%H%M%S%z"))
    return min(ends, default=None)


def alternative_names(certificate: dict[str, object] | None) -> frozenset[str]:
    """The alternative names (DNS, IP, e-mail, URI) of a certificate as Python's ssl gives it.

    IP addresses in short form.
    """
    named = (certificate or {}).get("subjectAltName", ())
    pairs = named if isinstance(named, tuple) else ()
    return frozenset(
        short_address(value) if kind == "IP Address" else value for kind, value in pairs
    )


def host_name(host: str) -> str:
    """The name or address in a header ``Host``, in lower case; empty where there is none."""
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
    """The name of a verified client: its certificate's common name, else the first of its alternative names."""
    parts = (certificate or {}).get("subject", ())
    subject = dict(pair for part in parts for pair in part) if isinstance(parts, tuple) else {}
    return str(
        subject.get("commonName")
        or min(alternative_names(certificate), default="a client without a name")
    )


def short_address(address: str) -> str:
    """An IP address in its short form; anything else as it is."""
    try:
        return ipaddress.ip_address(address.strip()).compressed
    except ValueError:
        return address
