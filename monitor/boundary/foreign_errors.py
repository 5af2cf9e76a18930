"""Describes errors of other programs in our own words, and says what to do.

Texts of other programs can quote ids, and sometimes secrets. So rankwatch never shows, stores or
logs them. `log_error` logs class, code and place of an error at the level debug. This module
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
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import TypeVar

from monitor.boundary.foreign_causes import (
    KNOWN_CAUSES,
    OF_REDIS,
    OF_REDIS_CONNECTIONS,
    SQLITE_WORDS,
    STATES_BY_WORDS,
    UNCONNECTED,
    ForeignCause,
)
from monitor.model.tls_faults import TlsClient, TlsFault
from monitor.texts.tls_faults import write_tls_fault, write_unreadable_tls_file

_T = TypeVar("_T")
log = logging.getLogger(__name__)
NO_OPTIONS: Mapping[str, object] = MappingProxyType({})
"""The options of a URL without options."""


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, then the error that caused it, and so on. Yields nothing for None."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def describe_error(error: BaseException) -> str:
    """Return the class, code and place of an error and of its causes. Their texts are left out."""
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


def log_error(error: BaseException) -> None:
    """Log the error without its text, so that people can search for its cause."""
    log.debug("error of another program: %s", describe_error(error))


def find_tls_fault(error: BaseException) -> TlsFault | None:
    """Why TLS failed, according to the error or one of its causes. None if TLS did not fail."""
    errors = list[BaseException]()
    for raised in chain_of(error):
        # aiohttp stores the error of ssl as an attribute.
        ssl_error = getattr(raised, "certificate_error", None) or getattr(raised, "os_error", None)
        errors += filter(None, (ssl_error, raised))
    for one_error in errors:
        # aiohttp's error has the class of ssl's error, but no code.
        verify_code = getattr(one_error, "verify_code", None)
        if verify_code in _BY_VERIFY_CODE:
            return _BY_VERIFY_CODE[verify_code]
    return next(filter(None, map(_read_tls_fault, errors)), None)


def find_unreadable_tls_file(query: Mapping[str, object]) -> tuple[str, str] | None:
    """The first file that a URL of PostgreSQL names for TLS, and that this account cannot read.

    Return its option and its path, or None without such a file. ``query`` are the URL's options.
    """
    for option in _TLS_FILES:
        file = query.get(option)
        if isinstance(file, str) and file not in _NO_FILES and not os.access(file, os.R_OK):
            return option, file
    return None


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
    """The value of the first words of ``values`` that the text of another program contains.

    None if the text contains none of them.
    """
    for words, value in values.items():
        if words in vendor_words:
            return value
    return None


def tls_cause(error: BaseException, client: TlsClient) -> ForeignCause | None:
    """Return why TLS failed, and what to do in the client's settings. None if TLS did not fail."""
    fault = find_tls_fault(error)
    if fault is None:
        return None
    what, advice = write_tls_fault(fault, client)
    return ForeignCause(f"the server {what}", advice)


def system_cause(error: BaseException, client: TlsClient = TlsClient.OTHER) -> ForeignCause | None:
    """What the system, the network or TLS reported, according to the error or one of its causes.

    None if they reported nothing that is known.
    """
    of_tls = tls_cause(error, client)
    if of_tls is not None:
        return of_tls
    for raised in chain_of(error):
        for kind in (socket.gaierror, ConnectionRefusedError, TimeoutError):
            if isinstance(raised, kind):
                return KNOWN_CAUSES[kind.__name__]
        if isinstance(raised, OSError) and raised.errno is not None:
            name = errno.errorcode.get(raised.errno)
            if name in KNOWN_CAUSES:
                return KNOWN_CAUSES[name]
    return None


_TLS_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
"""The options of libpq that name files."""
_NO_FILES = {"", "system"}
"""Values of these options that name no file."""
_BY_VERIFY_CODE = {
    9: TlsFault.NOT_YET_VALID,
    10: TlsFault.EXPIRED,
    **dict.fromkeys((2, 18, 19, 20, 21), TlsFault.UNKNOWN_ISSUER),
    62: TlsFault.OTHER_NAME,
    64: TlsFault.OTHER_NAME,
    # Python checks these rules from 3.13 on, such as X509_V_ERR_MISSING_AUTHORITY_KEY_IDENTIFIER.
    **dict.fromkeys(range(79, 94), TlsFault.NONSTANDARD),
}
"""The fault for each code of OpenSSL, such as X509_V_ERR_CERT_NOT_YET_VALID."""
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
"""The fault for each reason that OpenSSL reports in words.

Python writes a reason as ALERT_CERTIFICATE_REQUIRED, libpq as "alert certificate required".
"""
_OF_TLS = re.compile(r"\[SSL\b|SSL error:|server certificate for|valid client certificate")
_LONGEST_TLS_TEXT = 400


def file_cause(error: BaseException) -> ForeignCause:
    """What DuckDB, Arrow or the system reported about a file."""
    log_error(error)
    return (
        system_cause(error)
        or _system_words_cause(error)
        or _by_name(error, KNOWN_CAUSES)
        or _undecoded(error)
        or _unknown(error)
    )


def _undecoded(error: BaseException) -> ForeignCause | None:
    # If Arrow cannot decode bytes, it raises OSError without errno.
    if isinstance(error, OSError) and error.errno is None:
        return ForeignCause("its bytes cannot be decoded", "write the file again", permanent=False)
    return None


def _system_words_cause(error: BaseException) -> ForeignCause | None:
    # DuckDB and Arrow report errors of the operating system only as texts.
    if type(error).__name__ not in {"IOException", "HTTPException", "ArrowException", "OSError"}:
        return None
    words = {}
    for code, name in errno.errorcode.items():
        if name in KNOWN_CAUSES:
            words[os.strerror(code)] = KNOWN_CAUSES[name]
    return _by_words(str(error), words)


def _by_name(error: BaseException, causes: Mapping[str, ForeignCause]) -> ForeignCause | None:
    for kind in type(error).__mro__:
        if kind.__name__ in causes:
            return causes[kind.__name__]
    return None


def _unknown(error: BaseException) -> ForeignCause:
    library = type(error).__module__.partition(".")[0].strip("_").replace("builtins", "Python")
    return ForeignCause(
        f"{library} reported {type(error).__name__}", "set log: {level: debug} to see its place"
    )


def store_cause(error: BaseException) -> ForeignCause:
    """What an object store or its library reported."""
    log_error(error)
    of_tls = tls_cause(error, TlsClient.STORE)
    if of_tls is not None:
        return of_tls
    for raised in chain_of(error):
        answer = getattr(raised, "response", None)
        if not isinstance(answer, dict):
            answer = {}
        code = answer.get("Error", {}).get("Code")
        cause = KNOWN_CAUSES.get(str(code)) or _by_name(raised, KNOWN_CAUSES)
        if cause:
            return cause
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status:
            return ForeignCause(
                f"the store answered {status}", "look at the store's log", permanent=False
            )
    return system_cause(error) or file_cause(error)


def sql_cause(
    error: BaseException, statement: str, query: Mapping[str, object] = NO_OPTIONS
) -> ForeignCause:
    """What a database or its driver reported about a statement.

    ``query`` are the options of the database's URL.
    """
    log_error(error)
    cause = _sql_cause(error, query)
    if cause in (KNOWN_CAUSES["42P01"], KNOWN_CAUSES["42703"]):
        name = _name_in(str(error.args[-1]), statement)
        if name:
            return replace(cause, what=f"{cause.what} ({name})")
    return cause


def _sql_cause(error: BaseException, query: Mapping[str, object]) -> ForeignCause:
    if isinstance(error, sqlite3.Error):
        return _sqlite_cause(error)
    state = sqlstate_of(error)
    of_state = None
    if state is not None:
        of_state = KNOWN_CAUSES.get(state) or KNOWN_CAUSES.get(state[:2])
    number = error.args[0] if error.args else None
    if isinstance(number, int):
        # The error numbers of MySQL and MariaDB are more precise than their SQLSTATEs.
        return (
            system_cause(error, TlsClient.MYSQL)
            or KNOWN_CAUSES.get(str(number))
            or of_state
            or _refused_with(f"error {number}")
        )
    if state is not None:
        return of_state or _refused_with(f"SQLSTATE {state}")
    unreadable = find_unreadable_tls_file(query)
    if unreadable is not None:
        return ForeignCause(*write_unreadable_tls_file(*unreadable))
    return (
        tls_cause(error, TlsClient.POSTGRESQL)
        or _by_words(str(error), UNCONNECTED)
        or system_cause(error)
        or _unknown(error)
    )


def _refused_with(code: str) -> ForeignCause:
    return ForeignCause(
        f"the database refused the statement ({code})",
        "run the query by hand to see the database's message",
    )


def sqlstate_of(error: BaseException | None) -> str | None:
    """Return the SQLSTATE of an error. None if the error has no SQLSTATE.

    If a connection fails, libpq reports only a text. The SQLSTATE is found by words in this text.
    """
    state: str | None = getattr(error, "sqlstate", None)
    if state is not None:
        return state
    return _by_words(str(error), STATES_BY_WORDS)


def _sqlite_cause(error: sqlite3.Error) -> ForeignCause:
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    # The name without its last part. SQLITE_IOERR_READ becomes SQLITE_IOERR.
    primary_name = "_".join(name.split("_")[:2])
    cause = KNOWN_CAUSES.get(primary_name) or _by_words(str(error), SQLITE_WORDS)
    return cause or _refused_with(name)


def _name_in(vendor_words: str, statement: str) -> str:
    """The table or column that the database rejects. Empty if the statement does not name it."""
    first_line = vendor_words.partition("\n")[0]
    for match in _REJECTED_NAME.finditer(first_line):
        name = (match[1] or match[2]).rpartition(".")[2]
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", statement):
            return name
    return ""


_REJECTED_NAME = re.compile(r"""["'`]([^"'`]+)["'`]|(?::|column|relation|table|schema) ([\w.$]+)""")


def redis_cause(error: BaseException) -> ForeignCause:
    """What Redis or its client reported."""
    log_error(error)
    code = str(error).partition(" ")[0]
    cause = _by_name(error, OF_REDIS) or OF_REDIS.get(code)
    if cause is not None:
        return cause
    if isinstance(error, UnicodeError):
        return ForeignCause("a value is not UTF-8", "write keys and members as UTF-8")
    of_system = system_cause(error, TlsClient.REDIS)
    if of_system is not None:
        return of_system
    if re.fullmatch(r"[A-Z]{2,20}", code):
        return ForeignCause(f"the server refused the command ({code})", "look at the server's log")
    return _by_name(error, OF_REDIS_CONNECTIONS) or _unknown(error)
