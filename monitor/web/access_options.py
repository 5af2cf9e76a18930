"""Options of a web configuration file: the keys of Prometheus' exporter-toolkit, so that its file can be used as it is.

Keys that this server cannot honour to the letter are errors, or stand in `AccessOptions.notes`, which are logged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from monitor.options import ConfigPath, parse_duration, require_header_text

SUITES = {
    f"TLS_ECDHE_{kind}_WITH_{name}": f"ECDHE-{kind}-{openssl}"
    for kind in ("ECDSA", "RSA")
    for name, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}
"""Suites of TLS 1.2."""

TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}


def _require_suite(name: str) -> str:
    if name not in SUITES and name not in TLS13_SUITES:
        msg = f"is not a cipher suite that is offered: {', '.join((*SUITES, *TLS13_SUITES))}"
        raise ValueError(msg)
    return name


ClientAuth = Literal[
    "NoClientCert", "RequestClientCert", "RequireClientCert", "RequireAnyClientCert",
    "VerifyClientCertIfGiven", "RequireAndVerifyClientCert",
]  # fmt: skip
TlsVersion = Literal["TLS10", "TLS11", "TLS12", "TLS13"]

_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}", re.ASCII)
_LEAST_COST, _MOST_COST = 4, 16
_HEADER_VALUES: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
_NOT_ZERO = re.compile(r"[1-9]")


def cost_of(hashed: str) -> int:
    """The cost that a bcrypt hash names: each one more doubles the work."""
    return int(hashed[4:6])


def _require_hash(secret: SecretStr) -> SecretStr:
    found = _HASH.fullmatch(secret.get_secret_value())
    if found is None:
        msg = "must be a bcrypt hash, such as $2y$10$ and 53 characters more: htpasswd -nBC 10 NAME makes one"
        raise ValueError(msg)
    if not _LEAST_COST <= int(found[1]) <= _MOST_COST:
        msg = f"is a hash of cost {int(found[1])}: choose one from 10 to {_MOST_COST}, or requests would wait for it too long"
        raise ValueError(msg)
    return secret


def _require_user(name: str) -> str:
    if not name.isprintable() or not name or ":" in name:
        msg = "is no user's name: it must be printable and not empty, and hold no colon"
        raise ValueError(msg)
    return name


def _require_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if name not in _HEADER_VALUES:
            msg = f"only {', '.join(_HEADER_VALUES)} can be set"
            raise ValueError(msg)
        if (allowed := _HEADER_VALUES[name]) and value not in allowed:
            msg = f"{name} must be {' or '.join(allowed)}"
            raise ValueError(msg)
        try:
            require_header_text(value or "-")  # an empty one is left out
        except ValueError as error:
            msg = f"{name} {error}"
            raise ValueError(msg) from None
    return headers


def _read_interval(value: object) -> object:
    if not isinstance(value, bool) and str(value) == "0":
        return timedelta(0)
    interval = parse_duration(value)
    if not interval and _NOT_ZERO.search(str(value)):
        msg = "is shorter than a microsecond: write 0 for no limit"
        raise ValueError(msg)
    return interval


class _Part(BaseModel):
    """As all options are: unknown keys are errors, values never echo. ``key_file`` is a path here: it is read again later."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class TlsOptions(_Part):
    """How connections are encrypted, and which certificates clients must show."""

    cert: str | None = Field(default=None, description="Certificate and those that signed it, PEM.")
    cert_file: ConfigPath | None = Field(default=None, description="Their file; read again when it changes.")
    key: SecretStr | None = Field(default=None, description="Its key, PEM.")
    key_file: ConfigPath | None = Field(default=None, description="Its file; read again when it changes.")
    client_ca: str | None = Field(default=None, description="Certificates that sign those of clients, PEM.")
    client_ca_file: ConfigPath | None = Field(default=None, description="Their file; read again when it changes.")
    client_auth_type: ClientAuth = Field(default="NoClientCert", description="Which certificates clients must show.")
    client_allowed_sans: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        default=None, description="A client's certificate must hold one of these alternative names."
    )
    min_version: TlsVersion = "TLS12"
    max_version: TlsVersion = "TLS13"
    cipher_suites: tuple[Annotated[str, AfterValidator(_require_suite)], ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[Literal["CurveP256", "CurveP384", "CurveP521", "X25519"], ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether connections are encrypted."""
        return bool(self.model_fields_set & {"cert", "cert_file", "key", "key_file"}) or self._wants_clients

    @property
    def _wants_clients(self) -> bool:
        return self.client_auth_type != "NoClientCert" or self._has_client_ca or self.client_allowed_sans is not None

    @property
    def _has_client_ca(self) -> bool:
        return self.client_ca is not None or self.client_ca_file is not None

    @property
    def must_show_certificate(self) -> bool:
        """Whether each client must show a certificate."""
        return self.client_auth_type in {"RequireAndVerifyClientCert", "RequireAnyClientCert", "RequireClientCert"}

    @property
    def verifies_certificates(self) -> bool:
        """Whether a certificate that a client shows must be good."""
        return self.must_show_certificate or self.client_auth_type == "VerifyClientCertIfGiven"

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.is_on and (problems := list(self._disagreements())):
            raise ValueError("; ".join(problems))
        return self

    def _disagreements(self) -> Iterator[str]:
        for one in ("cert", "key", "client_ca"):
            given = [getattr(self, name) is not None for name in (one, f"{one}_file")]
            if all(given):
                yield f"give either {one} or {one}_file, not both"
            if not any(given) and one != "client_ca":
                yield f"{one} or {one}_file is missing: encryption needs both a certificate and its key"
        if self.verifies_certificates and not self._has_client_ca:
            yield f"client_auth_type: {self.client_auth_type} needs client_ca or client_ca_file, to verify certificates against"
        if self._has_client_ca and not self.verifies_certificates:
            yield "client_ca is set but no client certificate is asked for: set client_auth_type: RequireAndVerifyClientCert"
        if self.client_allowed_sans is not None and not self.must_show_certificate:
            yield "client_allowed_sans needs client_auth_type: RequireAndVerifyClientCert"
        yield from self._wrong_versions()

    def _wrong_versions(self) -> Iterator[str]:
        if self.max_version in {"TLS10", "TLS11"}:
            yield f"max_version: {self.max_version} is broken and not supported: choose TLS12 or TLS13"
        if self.min_version > self.max_version:
            yield "min_version must not be above max_version"
        only_new = self.cipher_suites and not any(map(_is_of_tls12, self.cipher_suites))
        if only_new and self.min_version != "TLS13":
            yield "cipher_suites names none of TLS 1.2: name some, or set min_version: TLS13"

    def notes(self) -> Iterator[tuple[str, str]]:
        """Keys that are not honoured to the letter, and what is done instead."""
        if self.min_version in {"TLS10", "TLS11"}:
            yield "min_version", "TLS 1.2 is the least that is used"
        if self.client_auth_type == "RequestClientCert":
            yield "client_auth_type", "certificates are not asked for: RequestClientCert would not verify them"
        if self.client_auth_type in {"RequireAnyClientCert", "RequireClientCert"}:
            yield "client_auth_type", "certificates are verified too, as by RequireAndVerifyClientCert"
        if any(not _is_of_tls12(name) for name in self.cipher_suites):
            yield "cipher_suites", "those of TLS 1.3 are always the library's"
        if len(self.curve_preferences) > 1:
            yield "curve_preferences", f"only one can be set ({', '.join(CURVES)}); the library's own list is used"


class HttpServerOptions(_Part):
    """What answers look like."""

    http2: bool = False
    headers: Annotated[Mapping[str, str], AfterValidator(_require_headers)] = Field(default_factory=dict)


class RateOptions(_Part):
    """How often pages may be asked for: ``burst`` at once, and one more each ``interval``; an interval of 0 sets no limit."""

    interval: Annotated[timedelta, BeforeValidator(_read_interval)] = timedelta(0)
    burst: int = Field(default=0, ge=0, le=1_000_000)

    @model_validator(mode="after")
    def _require_burst(self) -> Self:
        if self.interval and not self.burst:
            msg = "burst must be at least 1, or nothing would ever be answered"
            raise ValueError(msg)
        return self


class AccessOptions(_Part):
    """The whole file."""

    tls_server_config: TlsOptions = Field(default_factory=TlsOptions)
    http_server_config: HttpServerOptions = Field(default_factory=HttpServerOptions)
    basic_auth_users: Mapping[
        Annotated[str, AfterValidator(_require_user)], Annotated[SecretStr, AfterValidator(_require_hash)]
    ] = Field(default_factory=dict, max_length=1000)
    rate_limit: RateOptions = Field(default_factory=RateOptions)

    @property
    def authenticates(self) -> bool:
        """Whether strangers are kept out: by passwords, or by certificates that are asked for and verified."""
        return bool(self.basic_auth_users) or self.tls_server_config.client_auth_type == "RequireAndVerifyClientCert"

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """Keys that are not honoured to the letter, and what is done instead."""
        own = [(f"tls_server_config.{key}", text) for key, text in self.tls_server_config.notes()]
        if self.http_server_config.http2:
            own.append(("http_server_config.http2", "HTTP/1.1 is used, which every client of HTTP/2 supports too"))
        return tuple(own)


def _is_of_tls12(suite: str) -> bool:
    return "_WITH_" in suite
