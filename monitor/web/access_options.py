"""The options of a web configuration file, some of those of Prometheus' exporter-toolkit."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, SecretStr

from monitor.boundary.options import ConfigPath, Options, must, readable_by

_HASH = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}", re.ASCII)
_LEAST_COST = 4
_MOST_COST = 16


def cost_of(hashed: str) -> int:
    """Return the cost of a bcrypt hash. An increase by one doubles the work."""
    return int(hashed[4:6])


def _require_hash(hashed: str) -> None:
    """Raise ValueError if the text is no bcrypt hash, or if its cost is not allowed."""
    if not _HASH.fullmatch(hashed):
        raise ValueError(
            "must be a bcrypt hash, such as $2y$10$ and 53 more characters: make one with "
            "htpasswd -nBC 10 NAME"
        )
    cost = cost_of(hashed)
    if not _LEAST_COST <= cost <= _MOST_COST:
        raise ValueError(
            f"is a hash of cost {cost}: choose a cost from 10 to {_MOST_COST}. Lower costs "
            "are insecure, and higher costs delay requests"
        )


def _is_user_name(name: str) -> bool:
    return bool(name) and name.isprintable() and ":" not in name


_UserName = Annotated[
    str,
    must(_is_user_name, "is not a user name: it must be printable, not empty and without a colon"),
]


class TlsOptions(Options):
    """How connections are encrypted, and which certificates clients must show.

    The files are read again later, so the options contain their paths.
    """

    reads_secret_files: ClassVar[bool] = False

    cert_file: ConfigPath | None = None
    """PEM file with the certificate and the certificates that signed it."""
    key_file: ConfigPath | None = None
    """PEM file with the key of the certificate."""
    client_ca_file: ConfigPath | None = None
    """PEM file with the certificates that sign clients' certificates."""
    client_auth_type: Literal[
        "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
    ] = "NoClientCert"
    """Says whether clients must show a certificate, and whether it is verified."""
    client_allowed_sans: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """A client's certificate must have one of these alternative names."""
    min_version: Literal["TLS12", "TLS13"] = "TLS12"

    @property
    def is_on(self) -> bool:
        """Whether connections are encrypted: at least one option of encryption is set.

        `_problems` reports other options that are then missing.
        """
        has_client_option = (
            self.verifies_certificates
            or self.client_ca_file is not None
            or self.client_allowed_sans is not None
        )
        has_server_option = bool(self.model_fields_set & {"cert_file", "key_file"})
        return has_client_option or has_server_option

    @property
    def verifies_certificates(self) -> bool:
        """Whether rankwatch verifies the certificates of clients."""
        return self.client_auth_type != "NoClientCert"

    @property
    def must_show_certificate(self) -> bool:
        """Whether each client must show a certificate."""
        return self.client_auth_type == "RequireAndVerifyClientCert"

    def _problems(self) -> Iterator[str]:
        """Yield the problems of options that need each other, if connections are encrypted."""
        if not self.is_on:
            return
        for name in ("cert_file", "key_file"):
            if getattr(self, name) is None:
                yield f"{name} is missing: encryption needs both a certificate and its key"
        if self.verifies_certificates and self.client_ca_file is None:
            yield (
                f"client_auth_type: {self.client_auth_type} needs client_ca_file: set it to the "
                "certificates that sign clients' certificates"
            )
        if self.client_ca_file is not None and not self.verifies_certificates:
            yield (
                "client_ca_file is set, but clients are not asked for certificates: set "
                "client_auth_type: RequireAndVerifyClientCert"
            )
        if self.client_allowed_sans is not None and not self.must_show_certificate:
            yield "client_allowed_sans needs client_auth_type: RequireAndVerifyClientCert"


class AccessOptions(Options):
    """The options of a web configuration file."""

    reads_secret_files: ClassVar[bool] = False

    tls_server_config: TlsOptions = Field(default_factory=TlsOptions)
    basic_auth_users: Mapping[_UserName, Annotated[SecretStr, readable_by(_require_hash)]] = Field(
        default_factory=dict, max_length=1000
    )

    @property
    def authenticates(self) -> bool:
        """Whether each client must give a password or show a verified certificate."""
        return bool(self.basic_auth_users) or self.tls_server_config.must_show_certificate
