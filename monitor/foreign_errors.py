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
        for kind, cause in _BY_CLASS.items():
            if isinstance(each, kind):
                return cause
        if isinstance(each, OSError) and each.errno in _BY_ERRNO:
            return _BY_ERRNO[each.errno]
    return None


_REFUSED = Cause(
    "the connection was refused", "check that the server runs and listens there", permanent=False
)
_CLOSED = Cause("the server closed the connection", "check the server's log", permanent=False)
_NO_NAME = Cause("the host name cannot be resolved", "check the host", permanent=False)
_NO_ANSWER = Cause(
    "no answer within the timeout", "check the network and the server", permanent=False
)
_NO_ROUTE = Cause("the host cannot be reached", "check the network and the host", permanent=False)
_FULL = Cause("the disk is full", "free some space", permanent=False)
_DENIED = Cause("permission denied", "give this account access")
_NO_TLS = Cause("no TLS connection was made", "check the port, and that the server takes TLS there")

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
_BY_CLASS: Mapping[type[BaseException], Cause] = {
    socket.gaierror: _NO_NAME,
    ConnectionRefusedError: _REFUSED,
    TimeoutError: _NO_ANSWER,
}
_BY_ERRNO = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: Cause("the quota of the disk is used up", "free some space", permanent=False),
    errno.EROFS: Cause("the file system is read-only", "mount it writable, or name another folder"),
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.ENOENT: Cause("a file does not exist", "check the path", permanent=False),
    errno.EISDIR: Cause("it is a folder", "name a file"),
    errno.ENOTDIR: Cause("a part of the path is no folder", "check the path"),
    errno.EMFILE: Cause(
        "too many files are open", "raise the limit of open files (ulimit -n)", permanent=False
    ),
    errno.ENFILE: Cause(
        "too many files are open", "raise the system's limit of open files", permanent=False
    ),
    errno.ENOMEM: Cause(
        "there is too little memory", "give the process more memory", permanent=False
    ),
    errno.EIO: Cause(
        "the disk reported an input/output error", "look at the system's log", permanent=False
    ),
    errno.ESTALE: Cause(
        "the network drive lost the file", "mount the drive again", permanent=False
    ),
    errno.ECONNRESET: _CLOSED,
    errno.EPIPE: _CLOSED,
    errno.EHOSTUNREACH: _NO_ROUTE,
    errno.ENETUNREACH: _NO_ROUTE,
}


def file_cause(error: BaseException) -> Cause:
    """What DuckDB, Arrow or the system reported about a file."""
    note_error(error)
    return (
        system_cause(error)
        or _system_words_cause(error)
        or _by_name(error, _OF_FILES)
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
    return _by_words(str(error), {os.strerror(code): cause for code, cause in _BY_ERRNO.items()})


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


_TYPE = Cause(
    "a column has a type that cannot be used there",
    "write ids as integers or text, and lists as arrays of ids",
)
_VALUE = Cause("a value does not fit the type of its column", "write each column with one type")
_DEFECT = "report this fault of rankwatch"
_OF_FILES = {
    "ConversionException": _VALUE,
    "OutOfRangeException": _VALUE,
    "TypeMismatchException": _TYPE,
    "InvalidTypeException": _TYPE,
    "BinderException": _TYPE,
    "NotImplementedException": _TYPE,
    "InvalidInputException": Cause(
        "its content does not have the expected format", "write it again in that format"
    ),
    "UnicodeError": Cause("a text cannot be written or read as UTF-8", "correct the text"),
    "ValueError": Cause("the path has a character that no path may have", "correct the path"),
    "EOFError": Cause(
        "its compressed data ends too early, so the file is cut off or still being written",
        "write it again",
    ),
    "BadGzipFile": Cause(
        "it contains no gzip data, although its name says so", "correct its name, or compress it"
    ),
    "PermissionException": _DENIED,
    "IOException": Cause(
        "the system could not read it", "look at the system's log", permanent=False
    ),
    "InternalException": Cause("DuckDB reported an internal error", _DEFECT),
    "FatalException": Cause("DuckDB reported an internal error", _DEFECT),
    "ArrowNotImplementedError": _TYPE,
    "ArrowTypeError": _TYPE,
    "ArrowMemoryError": _BY_ERRNO[errno.ENOMEM],
    "ArrowCapacityError": Cause(
        "it contains more than 2 GiB of text in one piece", "write smaller files or shorter texts"
    ),
    "ArrowInvalid": Cause(
        "its content does not have the expected format or types",
        "write it again with one type in each column",
    ),
    "ParserException": Cause("DuckDB does not understand the statement", _DEFECT),
}


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
        cause = _OF_STORES.get(str(code)) or _by_name(each, _OF_STORES)
        if cause:
            return cause
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status:
            return Cause(f"the store answered {status}", "look at the store's log", permanent=False)
    return system_cause(error) or file_cause(error)


_EXPIRED = Cause(
    "the credentials have expired", "give new credentials in the environment", permanent=False
)
_UNSIGNED = Cause(
    "the store refused the credentials", "check the credentials in the environment", permanent=False
)
_OF_STORES = {
    "NoCredentialsError": Cause(
        "no credentials were found", "give them in the environment", permanent=False
    ),
    "PartialCredentialsError": Cause(
        "the credentials are incomplete", "give all of them in the environment", permanent=False
    ),
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "InvalidAccessKeyId": _UNSIGNED,
    "SignatureDoesNotMatch": _UNSIGNED,
    "InvalidToken": _UNSIGNED,
    "RequestTimeTooSkewed": Cause(
        "this machine's clock differs from the store's", "set the clock", permanent=False
    ),
    "AccessDenied": Cause(
        "these credentials may not read it",
        "grant them the right to read",
        permanent=False,
    ),
    "403": Cause(
        "these credentials may not read it",
        "grant them the right to read",
        permanent=False,
    ),
    "NoSuchBucket": Cause("the bucket does not exist", "check the path", permanent=False),
    "PermanentRedirect": Cause(
        "the bucket is in another region", "set its region in the environment"
    ),
    "AuthorizationHeaderMalformed": Cause(
        "the bucket is in another region", "set its region in the environment"
    ),
    "SlowDown": Cause(
        "the store accepts no more requests at this moment", "try again later", permanent=False
    ),
    "503": Cause(
        "the store accepts no more requests at this moment", "try again later", permanent=False
    ),
    "EndpointConnectionError": _NO_ROUTE,
    "ConnectTimeoutError": _NO_ANSWER,
    "ReadTimeoutError": _NO_ANSWER,
    "ConnectionClosedError": _CLOSED,
}


def sql_cause(error: BaseException, statement: str) -> Cause:
    """What a database or its driver reported about a statement."""
    note_error(error)
    cause = _sql_cause(error)
    if cause in (_NO_TABLE, _NO_COLUMN):
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
        of_state = _OF_SQLSTATES.get(state) or _OF_SQLSTATES.get(state[:2])
    number = error.args[0] if error.args else None
    if isinstance(number, int):
        # The error numbers of MySQL and MariaDB are more precise than their SQLSTATEs.
        return (
            system_cause(error, TlsClient.MYSQL)
            or _OF_MYSQL.get(number)
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
_NO_SERVER = Cause(
    "the server that answers is another kind of server", "check host and port in url"
)
_UNCONNECTED = {
    "SSL was required": Cause(
        "the server does not support TLS, and sslmode requires it",
        "set sslmode=prefer, or enable TLS on the server",
    ),
    "Connection refused": _REFUSED,
    "resolve host": _NO_NAME,
    "translate host name": _NO_NAME,
    "timeout": _NO_ANSWER,
    "invalid response": _NO_SERVER,
    "closed the connection": _CLOSED,
    "connection is closed": _CLOSED,
    "connection is lost": _CLOSED,
    "EOF detected": _CLOSED,
}

_LOGIN = Cause("the server refused the user or the password", "correct them in url")
_NO_DATABASE = Cause("the server has no such database", "correct its name in url")
_NO_GRANT = Cause("the user may not read it", "grant the user the right to select from it")
_NO_TABLE = Cause(
    "there is no such table", "check the tables' names and schemas in the query or table"
)
_NO_COLUMN = Cause(
    "there is no such column", "check the columns' names in the query and in the options"
)
_NO_FUNCTION = Cause(
    "no function or operator accepts values of these types",
    "cast one of them in the query, such as CAST(user_id AS text)",
)
_SYNTAX = Cause(
    "the query is no valid SQL of this database",
    "run the query by hand to see the place of the error",
)
_WRITES = Cause("the query would do more than read from it", "write a query with one SELECT")
_BAD_VALUE = Cause(
    "a value cannot be converted to the type that the query asks for",
    "cast the column to text in the query",
)
_RANGE = Cause("a number is out of the range of its type", "cast it to a wider type in the query")
_TOO_MANY = Cause(
    "the server accepts no more connections",
    "raise its limit or close other connections",
    permanent=False,
)
_LOCKED = Cause(
    "it is locked by another process",
    "wait until that process has written, or end it",
    permanent=False,
)
_CONFLICT = Cause(
    "another transaction was given priority", "repeat the run of this slot", permanent=False
)
_STOPPING = Cause(
    "the server is starting or stopping, or an administrator ended the connection",
    "repeat the run of this slot",
    permanent=False,
)
_SERVER_DISK = Cause(
    "the server could not read or write its disk", "look at the server's log", permanent=False
)
_NO_JSON = Cause(
    "a text is no JSON, and the query reads it as JSON", "exclude these rows with json_valid"
)
_MANY_ROWS = Cause("a subquery returned more than one row", "limit the subquery to one row")

_OF_SQLSTATES = {
    "08": _CLOSED,
    "0A": Cause(
        "the database does not support a part of the query",
        "run the query by hand to see the database's message",
    ),
    "21": _MANY_ROWS,
    "22": _BAD_VALUE,
    "22003": _RANGE,
    "22012": Cause("the query divides by zero", "exclude these rows, or use NULLIF"),
    "22021": Cause(
        "a text is not valid in the database's encoding",
        "correct the text, or the encoding of the connection",
    ),
    "22P05": Cause(
        "a text is not valid in the database's encoding",
        "correct the text, or the encoding of the connection",
    ),
    "25": _WRITES,
    "28": _LOGIN,
    "3D": _NO_DATABASE,
    "3F": _NO_TABLE,
    "40": _CONFLICT,
    "42601": _SYNTAX,
    "42501": _NO_GRANT,
    "42703": _NO_COLUMN,
    "42P01": _NO_TABLE,
    "42804": _NO_FUNCTION,
    "42702": Cause(
        "a column of this name is in more than one table of the query",
        "write the table's name before the column's name",
    ),
    "42883": _NO_FUNCTION,
    "42P18": _NO_FUNCTION,
    "53": Cause(
        "the server is out of memory or other resources",
        "look at the server's log",
        permanent=False,
    ),
    "53100": Cause("the server's disk is full", "free some space there", permanent=False),
    "53300": _TOO_MANY,
    "55P03": _LOCKED,
    "57": _STOPPING,
    "58": _SERVER_DISK,
    "XX": Cause(
        "the server reported an internal error or damaged data",
        "look at the server's log",
        permanent=False,
    ),
}

_OF_MYSQL = {
    1040: _TOO_MANY,
    1044: _NO_GRANT,
    1045: _LOGIN,
    1049: _NO_DATABASE,
    1054: _NO_COLUMN,
    1064: _SYNTAX,
    1142: _NO_GRANT,
    1143: _NO_GRANT,
    1146: _NO_TABLE,
    1203: _TOO_MANY,
    1205: _LOCKED,
    1213: _CONFLICT,
    1242: _MANY_ROWS,
    1264: _RANGE,
    1290: _WRITES,
    1292: _BAD_VALUE,
    1305: _NO_FUNCTION,
    1366: _BAD_VALUE,
    1690: _RANGE,
    1792: _WRITES,
    2003: _NO_ROUTE,
    2005: _NO_NAME,
    2006: _CLOSED,
    2013: _CLOSED,
    2026: _NO_TLS,
    4038: _NO_JSON,
}


def _sqlite_cause(error: sqlite3.Error) -> Cause:
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    return _OF_SQLITE.get(code) or _by_words(str(error), _SQLITE_WORDS) or _refused_with(name)


_OF_SQLITE = {
    sqlite3.SQLITE_AUTH: _WRITES,
    sqlite3.SQLITE_READONLY: _WRITES,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_CANTOPEN: Cause(
        "the file cannot be opened", "give this account access to the file and its folder"
    ),
    sqlite3.SQLITE_PERM: _DENIED,
    sqlite3.SQLITE_NOTADB: Cause("the file is not a database of SQLite", "check the path in url"),
    sqlite3.SQLITE_CORRUPT: Cause("the file is damaged", "restore it from a backup"),
    sqlite3.SQLITE_IOERR: _BY_ERRNO[errno.EIO],
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_NOMEM: _BY_ERRNO[errno.ENOMEM],
    sqlite3.SQLITE_TOOBIG: Cause("a value is larger than SQLite's limit", "select shorter values"),
    sqlite3.SQLITE_MISMATCH: _BAD_VALUE,
}
# SQLite has only one code for all these errors.
_SQLITE_WORDS = {
    "one statement at a time": _WRITES,
    "no such table": _NO_TABLE,
    "no such column": _NO_COLUMN,
    "no such function": _SYNTAX,
    "syntax error": _SYNTAX,
    "incomplete input": _SYNTAX,
    "unrecognized token": _SYNTAX,
    "too many SQL variables": Cause(
        "the statement binds more users than SQLite allows", "lower batch"
    ),
    "malformed JSON": _NO_JSON,
    "integer overflow": _RANGE,
    "Could not decode to UTF-8": Cause(
        "a text is not UTF-8", "cast the column to BLOB, or write it again as UTF-8"
    ),
}


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
    cause = _by_name(error, _OF_REDIS_CLASSES) or _OF_REDIS.get(code)
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


_REDIS_LOGIN = Cause("the server refused the user or the password", "correct them in url")
_REDIS_GRANT = Cause(
    "the user may not run this command or read this key", "allow it in the server's ACL"
)
_LOADING = Cause(
    "the server is loading its data",
    "wait until the data is loaded",
    permanent=False,
)
_READ_ONLY = Cause("the server is a read-only replica", "name the master in url")
_MEMORY = Cause(
    "the server has used its maxmemory",
    "raise maxmemory, or let the server evict keys",
    permanent=False,
)
_WRONG_TYPE = Cause("the key's type is not the one in the option type", "correct type")
_OF_REDIS_CLASSES = {
    "BusyLoadingError": _LOADING,
    "ReadOnlyError": _READ_ONLY,
    "NoPermissionError": _REDIS_GRANT,
    "AuthenticationError": _REDIS_LOGIN,
    "AuthorizationError": _REDIS_LOGIN,
    "MaxConnectionsError": _TOO_MANY,
    "MasterNotFoundError": Cause(
        "the sentinels have no such master", "check the sentinels and the service's name in url"
    ),
    "OutOfMemoryError": _MEMORY,
    "ClusterDownError": Cause("the cluster is down", "look at its nodes", permanent=False),
    "RedisClusterException": Cause(
        "no node answers as a node of a cluster", "check that url names nodes of a cluster"
    ),
    "InvalidResponse": Cause(
        "the server that answers is no Redis server", "check host and port in url"
    ),
}
_OF_REDIS_CONNECTIONS = {
    "TimeoutError": _NO_ANSWER,
    "ConnectionError": _CLOSED,
    "ValueError": Cause(
        "an answer does not have the format of the command", "check that url names a Redis server"
    ),
    "DataError": Cause("the client cannot send such a key", "check key and field"),
}
_OF_REDIS = {
    "WRONGTYPE": _WRONG_TYPE,
    "NOAUTH": _REDIS_LOGIN,
    "WRONGPASS": _REDIS_LOGIN,
    "NOPERM": _REDIS_GRANT,
    "LOADING": _LOADING,
    "READONLY": _READ_ONLY,
    "MASTERDOWN": Cause("the replica has lost its master", "look at the servers", permanent=False),
    "CLUSTERDOWN": Cause("the cluster is down", "look at its nodes", permanent=False),
    "OOM": _MEMORY,
    "BUSY": Cause("the server is busy with a script", "end the script", permanent=False),
}
