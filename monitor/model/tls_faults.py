"""Why TLS with a server failed, and what kind of client met it."""

from enum import StrEnum


class TlsFault(StrEnum):
    """Why a connection with TLS was not made."""

    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    OTHER_NAME = "other_name"
    UNKNOWN_ISSUER = "unknown_issuer"
    UNVERIFIED = "unverified"  # the client did not say why
    CLIENT_WANTED = "client_wanted"
    CLIENT_REFUSED = "client_refused"
    VERSION = "version"
    HANDSHAKE = "handshake"
    NO_TLS = "no_tls"


class TlsClient(StrEnum):
    """What speaks to the server: each has its own settings of certificates."""

    HTTP_SOURCE = "http_source"
    RECEIVER = "receiver"
    REDIS = "redis"
    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    STORE = "store"
    OTHER = "other"
