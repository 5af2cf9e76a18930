"""Kinds of TLS faults, and kinds of clients."""

from enum import StrEnum


class TlsFault(StrEnum):
    """Why a TLS connection failed."""

    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    OTHER_NAME = "other_name"
    UNKNOWN_ISSUER = "unknown_issuer"
    NONSTANDARD = "nonstandard"  # the certificate does not follow RFC 5280
    UNVERIFIED = "unverified"  # the client did not say why
    CLIENT_WANTED = "client_wanted"
    CLIENT_REFUSED = "client_refused"
    VERSION = "version"
    HANDSHAKE = "handshake"
    NO_TLS = "no_tls"


class TlsClient(StrEnum):
    """The kind of client. Each kind has its own settings for certificates."""

    HTTP_SOURCE = "http_source"
    RECEIVER = "receiver"
    REDIS = "redis"
    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    STORE = "store"
    OTHER = "other"
