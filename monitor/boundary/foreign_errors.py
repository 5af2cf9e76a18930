"""Describes errors of other programs in our own words, by class or code, and says what to do.

Texts of other programs can quote ids, and sometimes secrets. So rankwatch never shows, stores or
logs them. `note_error` logs class, code and place of an error at the level debug. This module
imports no driver.
"""

import errno
import logging
import os
import re
import socket
import sqlite3
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb
from typing import TypeVar

from monitor.model.tls_faults import TlsClient, TlsFault
from monitor.texts.tls_faults import write_tls_fault

_T = TypeVar("_T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cause:
    """What happened and what to do. If ``permanent``, calls fail until somebody acts on it."""

    what: str
    advice: str
    permanent: bool = True

    def __str__(self) -> str:
        return f"{self.what}: {self.advice}"


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def describe_error(error: BaseException) -> str:
    """The class, code and place of an error and of its causes. Their texts are left out."""
    return "; from ".join(map(_describe_one, chain_of(error)))


def _describe_one(error: BaseException) -> str:
    parts = [f"{type(error).__module__}.{type(error).__name__}"]
    for name in _CODES:
        code = getattr(error, name, None)
        if code is not None:
            parts.append(str(code))
    frames = extract_tb(error.__traceback__)
    if frames:
        parts.append(f"in {Path(frames[-1].filename).name}, line {frames[-1].lineno}")
    return " ".join(parts)


_CODES = ("errno", "sqlstate", "sqlite_errorname")


def note_error(error: BaseException) -> None:
    """Log the error without its text, so that people can search for its cause."""
    log.debug("error of another program: %s", describe_error(error))


def find_tls_fault(error: BaseException) -> TlsFault | None:
    """Why TLS failed, according to the error or one of its causes. None if TLS did not fail."""
    errors = list[BaseException]()
    for each in chain_of(error):
        # aiohttp stores the error of ssl as an attribute.
        ssl_error = getattr(each, "certificate_error", None) or getattr(each, "os_error", None)
        errors += filter(None, (ssl_error, each))
    for each in errors:
        # aiohttp's error has the class of ssl's error, but no code.
        verify_code = getattr(each, "verify_code", None)
        if verify_code in _BY_VERIFY_CODE:
            return _BY_VERIFY_CODE[verify_code]
    return next(filter(None, map(_read_tls_fault, errors)), None)


def _read_tls_fault(error: BaseException) -> TlsFault | None:
    vendor_words = str(error)[:_LONGEST_TLS_TEXT]
    if not isinstance(error, ssl.SSLError) and not _OF_TLS.search(vendor_words):
        return None
    fault = _by_words(vendor_words.lower().replace("_", " "), _TLS_WORDS)
    if fault is not None:
        return fault
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFault.UNVERIFIED
    return TlsFault.HANDSHAKE


def _by_words(vendor_words: str, values: Mapping[str, _T]) -> _T | None:
    """The value of the first of these words that occur in the text of another program."""
    for words, value in values.items():
        if words in vendor_words:
            return value
    return None


def tls_cause(error: BaseException, client: TlsClient) -> Cause | None:
    """Why TLS with the server failed, and what to do in the client's settings. None without TLS."""
    fault = find_tls_fault(error)
    if fault is None:
        return None
    what, advice = write_tls_fault(fault, client)
    return Cause(f"the server {what}", advice)


def system_cause(error: BaseException, client: TlsClient = TlsClient.OTHER) -> Cause | None:
    """What the operating system, the network or TLS reported, found in the error or its causes."""
    of_tls = tls_cause(error, client)
    if of_tls is not None:
        return of_tls
    for each in chain_of(error):
        for kind in (socket.gaierror, ConnectionRefusedError, TimeoutError):
            if isinstance(each, kind):
                return _CAUSES[kind.__name__]
        name = errno.errorcode.get(getattr(each, "errno", None) or 0)
        if isinstance(each, OSError) and name in _CAUSES:
            return _CAUSES[name]
    return None


_BY_VERIFY_CODE = {
    9: TlsFault.NOT_YET_VALID,
    10: TlsFault.EXPIRED,
    **dict.fromkeys((2, 18, 19, 20, 21), TlsFault.UNKNOWN_ISSUER),
    62: TlsFault.OTHER_NAME,
    64: TlsFault.OTHER_NAME,
}
"""Faults by OpenSSL's codes, such as X509_V_ERR_CERT_NOT_YET_VALID."""
_TLS_WORDS = {
    "does not match host name": TlsFault.OTHER_NAME,
    "certificate required": TlsFault.CLIENT_WANTED,
    "requires a valid client certificate": TlsFault.CLIENT_WANTED,
    **dict.fromkeys(
        (
            "unknown ca",
            "bad certificate",
            "certificate expired",
            "certificate revoked",
            "certificate unknown",
        ),
        TlsFault.CLIENT_REFUSED,
    ),
    "certificate has expired": TlsFault.EXPIRED,
    "certificate is not yet valid": TlsFault.NOT_YET_VALID,
    "certificate is not valid for": TlsFault.OTHER_NAME,
    "self-signed certificate": TlsFault.UNKNOWN_ISSUER,
    "unable to get local issuer": TlsFault.UNKNOWN_ISSUER,
    "certificate verify failed": TlsFault.UNVERIFIED,
    "protocol version": TlsFault.VERSION,
    "unsupported protocol": TlsFault.VERSION,
    "no protocols available": TlsFault.VERSION,
    "wrong version number": TlsFault.NO_TLS,
    "record layer failure": TlsFault.NO_TLS,
    "http request": TlsFault.NO_TLS,
}
"""Faults by OpenSSL's reasons.

Python writes a reason as ALERT_CERTIFICATE_REQUIRED, libpq as "alert certificate required".
"""
_OF_TLS = re.compile(r"\[SSL\b|SSL error:|server certificate for|valid client certificate")
_LONGEST_TLS_TEXT = 400


def by_code(rows: Mapping[str, tuple[str, str]], *, permanent: bool) -> dict[str, Cause]:
    """The cause of each code. A row has its codes, what happened, and the advice."""
    causes = {}
    for codes, (what, advice) in rows.items():
        for code in codes.split(" | "):
            causes[code] = Cause(what, advice, permanent)
    return causes


_CAUSES = by_code(
    {
        "EACCES | EPERM | SQLITE_PERM | PermissionException": (
            "permission denied",
            "give this account access",
        ),
        "EROFS": ("the file system is read-only", "mount it writable, or name another folder"),
        "EISDIR": ("it is a folder", "name a file"),
        "ENOTDIR": ("a part of the path is no folder", "check the path"),
        "ConversionException | OutOfRangeException": (
            "a value does not fit the type of its column",
            "write each column with one type",
        ),
        "TypeMismatchException | InvalidTypeException | BinderException | NotImplementedException": (
            "a column has a type that cannot be used there",
            "write ids as integers or text, and lists as arrays of ids",
        ),
        "ArrowNotImplementedError | ArrowTypeError": (
            "a column has a type that cannot be used there",
            "write ids as integers or text, and lists as arrays of ids",
        ),
        "InvalidInputException": (
            "its content does not have the expected format",
            "write it again in that format",
        ),
        "ArrowInvalid": (
            "its content does not have the expected format or types",
            "write it again with one type in each column",
        ),
        "ArrowCapacityError": (
            "it contains more than 2 GiB of text in one piece",
            "write smaller files or shorter texts",
        ),
        "UnicodeError": ("a text cannot be written or read as UTF-8", "correct the text"),
        "ValueError": ("the path has a character that no path may have", "correct the path"),
        "EOFError": (
            "its compressed data ends too early, so the file is cut off or still being written",
            "write it again",
        ),
        "BadGzipFile": (
            "it contains no gzip data, although its name says so",
            "correct its name, or compress it",
        ),
        "InternalException | FatalException": (
            "DuckDB reported an internal error",
            "report this fault of rankwatch",
        ),
        "ParserException": (
            "DuckDB does not understand the statement",
            "report this fault of rankwatch",
        ),
        "PermanentRedirect | AuthorizationHeaderMalformed": (
            "the bucket is in another region",
            "set its region in the environment",
        ),
        "28 | 1045": ("the server refused the user or the password", "correct them in url"),
        "3D | 1049": ("the server has no such database", "correct its name in url"),
        "42501 | 1044 | 1142 | 1143": (
            "the user may not read it",
            "grant the user the right to select from it",
        ),
        "3F | 42P01 | 1146": (
            "there is no such table",
            "check the tables' names and schemas in the query or table",
        ),
        "42703 | 1054": (
            "there is no such column",
            "check the columns' names in the query and in the options",
        ),
        "42804 | 42883 | 42P18 | 1305": (
            "no function or operator accepts values of these types",
            "cast one of them in the query, such as CAST(user_id AS text)",
        ),
        "42702": (
            "a column of this name is in more than one table of the query",
            "write the table's name before the column's name",
        ),
        "42601 | 1064": (
            "the query is no valid SQL of this database",
            "run the query by hand to see the place of the error",
        ),
        "25 | 1290 | 1792 | SQLITE_AUTH | SQLITE_READONLY": (
            "the query would do more than read from it",
            "write a query with one SELECT",
        ),
        "22 | 1292 | 1366 | SQLITE_MISMATCH": (
            "a value cannot be converted to the type that the query asks for",
            "cast the column to text in the query",
        ),
        "22003 | 1264 | 1690": (
            "a number is out of the range of its type",
            "cast it to a wider type in the query",
        ),
        "22012": ("the query divides by zero", "exclude these rows, or use NULLIF"),
        "22021 | 22P05": (
            "a text is not valid in the database's encoding",
            "correct the text, or the encoding of the connection",
        ),
        "4038": (
            "a text is no JSON, and the query reads it as JSON",
            "exclude these rows with json_valid",
        ),
        "21 | 1242": ("a subquery returned more than one row", "limit the subquery to one row"),
        "0A": (
            "the database does not support a part of the query",
            "run the query by hand to see the database's message",
        ),
        "2026": (
            "no TLS connection was made",
            "check the port, and that the server takes TLS there",
        ),
        "SQLITE_CANTOPEN": (
            "the file cannot be opened",
            "give this account access to the file and its folder",
        ),
        "SQLITE_NOTADB": ("the file is not a database of SQLite", "check the path in url"),
        "SQLITE_CORRUPT": ("the file is damaged", "restore it from a backup"),
        "SQLITE_TOOBIG": ("a value is larger than SQLite's limit", "select shorter values"),
    },
    permanent=True,
) | by_code(
    {
        "ConnectionRefusedError": (
            "the connection was refused",
            "check that the server runs and listens there",
        ),
        "ECONNRESET | EPIPE | ConnectionClosedError | 08 | 2006 | 2013": (
            "the server closed the connection",
            "check the server's log",
        ),
        "gaierror | 2005": ("the host name cannot be resolved", "check the host"),
        "TimeoutError | ConnectTimeoutError | ReadTimeoutError": (
            "no answer within the timeout",
            "check the network and the server",
        ),
        "EHOSTUNREACH | ENETUNREACH | EndpointConnectionError | 2003": (
            "the host cannot be reached",
            "check the network and the host",
        ),
        "ENOSPC | SQLITE_FULL": ("the disk is full", "free some space"),
        "EDQUOT": ("the quota of the disk is used up", "free some space"),
        "ENOENT": ("a file does not exist", "check the path"),
        "EMFILE | ENFILE": ("too many files are open", "raise the limit of open files (ulimit -n)"),
        "ENOMEM | ArrowMemoryError | SQLITE_NOMEM": (
            "there is too little memory",
            "give the process more memory",
        ),
        "EIO | SQLITE_IOERR": (
            "the disk reported an input/output error",
            "look at the system's log",
        ),
        "ESTALE": ("the network drive lost the file", "mount the drive again"),
        "IOException": ("the system could not read it", "look at the system's log"),
        "NoCredentialsError": ("no credentials were found", "give them in the environment"),
        "PartialCredentialsError": (
            "the credentials are incomplete",
            "give all of them in the environment",
        ),
        "ExpiredToken | ExpiredTokenException | TokenRefreshRequired": (
            "the credentials have expired",
            "give new credentials in the environment",
        ),
        "InvalidAccessKeyId | SignatureDoesNotMatch | InvalidToken": (
            "the store refused the credentials",
            "check the credentials in the environment",
        ),
        "RequestTimeTooSkewed": ("this machine's clock differs from the store's", "set the clock"),
        "AccessDenied | 403": ("these credentials may not read it", "grant them the right to read"),
        "NoSuchBucket": ("the bucket does not exist", "check the path"),
        "SlowDown | 503": ("the store accepts no more requests at this moment", "try again later"),
        "53300 | 1040 | 1203 | MaxConnectionsError": (
            "the server accepts no more connections",
            "raise its limit or close other connections",
        ),
        "55P03 | 1205 | SQLITE_BUSY | SQLITE_LOCKED": (
            "it is locked by another process",
            "wait until that process has written, or end it",
        ),
        "40 | 1213": ("another transaction was given priority", "repeat the run of this slot"),
        "57": (
            "the server is starting or stopping, or an administrator ended the connection",
            "repeat the run of this slot",
        ),
        "58": ("the server could not read or write its disk", "look at the server's log"),
        "53": ("the server is out of memory or other resources", "look at the server's log"),
        "53100": ("the server's disk is full", "free some space there"),
        "XX": ("the server reported an internal error or damaged data", "look at the server's log"),
    },
    permanent=False,
)
"""Causes by the system's error name, SQLSTATE or its class, MySQL number, SQLite code, or class."""


def file_cause(error: BaseException) -> Cause:
    """What DuckDB, Arrow or the system reported about a file."""
    note_error(error)
    return (
        system_cause(error)
        or _system_words_cause(error)
        or _by_name(error, _CAUSES)
        or _undecoded(error)
        or _unknown(error)
    )


def _undecoded(error: BaseException) -> Cause | None:
    # If Arrow cannot decode bytes, it raises OSError without errno.
    if isinstance(error, OSError) and error.errno is None:
        return Cause("its bytes cannot be decoded", "write the file again", permanent=False)
    return None


def _system_words_cause(error: BaseException) -> Cause | None:
    # DuckDB and Arrow report the system's errors as texts.
    if type(error).__name__ not in {"IOException", "HTTPException", "ArrowException", "OSError"}:
        return None
    words = {}
    for code, name in errno.errorcode.items():
        if name in _CAUSES:
            words[os.strerror(code)] = _CAUSES[name]
    return _by_words(str(error), words)


def _by_name(error: BaseException, causes: Mapping[str, Cause]) -> Cause | None:
    for kind in type(error).__mro__:
        if kind.__name__ in causes:
            return causes[kind.__name__]
    return None


def _unknown(error: BaseException) -> Cause:
    library = type(error).__module__.partition(".")[0].strip("_").replace("builtins", "Python")
    return Cause(
        f"{library} reported {type(error).__name__}", "log: {level: debug} shows its place"
    )


def store_cause(error: BaseException) -> Cause:
    """What an object store or its library reported."""
    note_error(error)
    of_tls = tls_cause(error, TlsClient.STORE)
    if of_tls is not None:
        return of_tls
    for each in chain_of(error):
        answer = getattr(each, "response", None)
        if not isinstance(answer, dict):
            answer = {}
        code = answer.get("Error", {}).get("Code")
        cause = _CAUSES.get(str(code)) or _by_name(each, _CAUSES)
        if cause:
            return cause
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status:
            return Cause(f"the store answered {status}", "look at the store's log", permanent=False)
    return system_cause(error) or file_cause(error)


def sql_cause(error: BaseException, statement: str) -> Cause:
    """What a database or its driver reported about a statement."""
    note_error(error)
    cause = _sql_cause(error)
    if cause in (_CAUSES["42P01"], _CAUSES["42703"]):
        name = _name_in(str(error.args[-1]), statement)
        if name:
            return replace(cause, what=f"{cause.what} ({name})")
    return cause


def _sql_cause(error: BaseException) -> Cause:
    if isinstance(error, sqlite3.Error):
        return _sqlite_cause(error)
    state = sqlstate_of(error)
    of_state = None
    if state is not None:
        of_state = _CAUSES.get(state) or _CAUSES.get(state[:2])
    number = error.args[0] if error.args else None
    if isinstance(number, int):
        # The error numbers of MySQL and MariaDB are more precise than their SQLSTATEs.
        return (
            system_cause(error, TlsClient.MYSQL)
            or _CAUSES.get(str(number))
            or of_state
            or _refused_with(f"error {number}")
        )
    if state is not None:
        return of_state or _refused_with(f"SQLSTATE {state}")
    return (
        tls_cause(error, TlsClient.POSTGRESQL)
        or _by_words(str(error), _UNCONNECTED)
        or system_cause(error)
        or _unknown(error)
    )


def _refused_with(code: str) -> Cause:
    return Cause(
        f"the database refused the statement ({code})",
        "run the query by hand to see the database's message",
    )


def sqlstate_of(error: BaseException | None) -> str | None:
    """The SQLSTATE of an error. None if it has none.

    If a connection fails, libpq gives only a text, which is searched.
    """
    state: str | None = getattr(error, "sqlstate", None)
    if state is not None:
        return state
    return _by_words(str(error), _CONNECTING)


_CONNECTING = {
    "password authentication failed": "28P01",
    "no password supplied": "28P01",
    "no pg_hba.conf entry": "28",
    "FATAL:  role": "28",
    'FATAL:  database "': "3D000",
    "too many": "53300",
    "remaining connection slots": "53300",
    "starting up": "57P03",
    "shutting down": "57P01",
}
_UNCONNECTED = by_code(
    {
        "SSL was required": (
            "the server does not support TLS, and sslmode requires it",
            "set sslmode=prefer, or enable TLS on the server",
        ),
        "invalid response": (
            "the server that answers is another kind of server",
            "check host and port in url",
        ),
    },
    permanent=True,
) | {
    "Connection refused": _CAUSES["ConnectionRefusedError"],
    "resolve host": _CAUSES["gaierror"],
    "translate host name": _CAUSES["gaierror"],
    "timeout": _CAUSES["TimeoutError"],
    "closed the connection": _CAUSES["EPIPE"],
    "connection is closed": _CAUSES["EPIPE"],
    "connection is lost": _CAUSES["EPIPE"],
    "EOF detected": _CAUSES["EPIPE"],
}


def _sqlite_cause(error: sqlite3.Error) -> Cause:
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    primary_name = "_".join(name.split("_")[:2])  # such as SQLITE_IOERR of SQLITE_IOERR_READ
    cause = _CAUSES.get(primary_name) or _by_words(str(error), _SQLITE_WORDS)
    return cause or _refused_with(name)


# SQLite has only one code for all these errors.
_SQLITE_WORDS = {
    "one statement at a time": _CAUSES["25"],
    "no such table": _CAUSES["42P01"],
    "no such column": _CAUSES["42703"],
    **dict.fromkeys(
        ("no such function", "syntax error", "incomplete input", "unrecognized token"),
        _CAUSES["42601"],
    ),
    "malformed JSON": _CAUSES["4038"],
    "integer overflow": _CAUSES["22003"],
} | by_code(
    {
        "too many SQL variables": (
            "the statement binds more users than SQLite allows",
            "lower batch",
        ),
        "Could not decode to UTF-8": (
            "a text is not UTF-8",
            "cast the column to BLOB, or write it again as UTF-8",
        ),
    },
    permanent=True,
)


def _name_in(vendor_words: str, statement: str) -> str:
    """The table or column that the database rejects. Empty if the statement has no such word."""
    first_line = vendor_words.partition("\n")[0]
    for match in _REJECTED_NAME.finditer(first_line):
        name = (match[1] or match[2]).rpartition(".")[2]
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", statement):
            return name
    return ""


_REJECTED_NAME = re.compile(r"""["'`]([^"'`]+)["'`]|(?::|column|relation|table|schema) ([\w.$]+)""")


def redis_cause(error: BaseException) -> Cause:
    """What Redis or its client reported."""
    note_error(error)
    code = str(error).partition(" ")[0]
    cause = _by_name(error, _OF_REDIS) or _OF_REDIS.get(code)
    if cause is not None:
        return cause
    if isinstance(error, UnicodeError):
        return Cause("a value is not UTF-8", "write keys and members as UTF-8")
    of_system = system_cause(error, TlsClient.REDIS)
    if of_system is not None:
        return of_system
    if re.fullmatch(r"[A-Z]{2,20}", code):
        return Cause(f"the server refused the command ({code})", "look at the server's log")
    return _by_name(error, _OF_REDIS_CONNECTIONS) or _unknown(error)


_OF_REDIS = by_code(
    {
        "AuthenticationError | AuthorizationError | NOAUTH | WRONGPASS": (
            "the server refused the user or the password",
            "correct them in url",
        ),
        "NoPermissionError | NOPERM": (
            "the user may not run this command or read this key",
            "allow it in the server's ACL",
        ),
        "ReadOnlyError | READONLY": ("the server is a read-only replica", "name the master in url"),
        "MasterNotFoundError": (
            "the sentinels have no such master",
            "check the sentinels and the service's name in url",
        ),
        "RedisClusterException": (
            "no node answers as a node of a cluster",
            "check that url names nodes of a cluster",
        ),
        "InvalidResponse": (
            "the server that answers is no Redis server",
            "check host and port in url",
        ),
        "WRONGTYPE": ("the key's type is not the one in the option type", "correct type"),
    },
    permanent=True,
) | by_code(
    {
        "BusyLoadingError | LOADING": (
            "the server is loading its data",
            "wait until the data is loaded",
        ),
        "MaxConnectionsError": (
            "the server accepts no more connections",
            "raise its limit or close other connections",
        ),
        "OutOfMemoryError | OOM": (
            "the server has used its maxmemory",
            "raise maxmemory, or let the server evict keys",
        ),
        "ClusterDownError | CLUSTERDOWN": ("the cluster is down", "look at its nodes"),
        "MASTERDOWN": ("the replica has lost its master", "look at the servers"),
        "BUSY": ("the server is busy with a script", "end the script"),
    },
    permanent=False,
)
_OF_REDIS_CONNECTIONS = {
    "TimeoutError": _CAUSES["TimeoutError"],
    "ConnectionError": _CAUSES["EPIPE"],
} | by_code(
    {
        "ValueError": (
            "an answer does not have the format of the command",
            "check that url names a Redis server",
        ),
        "DataError": ("the client cannot send such a key", "check key and field"),
    },
    permanent=True,
)
