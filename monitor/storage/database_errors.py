"""Translates drivers' errors to DatabaseError and SchemaError.

The new errors do not quote the drivers' texts, which may contain secrets.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError, TimeoutError as PoolTimeout

from monitor.boundary.foreign_errors import (
    find_tls_fault,
    find_unreadable_tls_file,
    log_error,
    sqlstate_of,
)
from monitor.model.errors import DatabaseError, DatabaseErrorKind, SchemaError
from monitor.model.tls_faults import TlsClient
from monitor.storage.database_url import describe_url, file_of
from monitor.texts.tls_faults import write_tls_fault, write_unreadable_tls_file

_Kind = DatabaseErrorKind
UPGRADE = "run `rankwatch db upgrade`"


class DatabaseFailure(NamedTuple):
    """What is wrong with a database."""

    text: str  # what is wrong, and what to do, after the database's name
    kind: DatabaseErrorKind
    is_permanent: bool = False  # whether a retry is useless


_READ_ONLY = DatabaseFailure(
    "cannot be written: make the file, its directory and its disk writable for this account",
    _Kind.READ_ONLY,
    is_permanent=True,
)
_NO_ACCESS = DatabaseFailure(
    "cannot be opened because permission was denied: give this account access to it",
    _Kind.DENIED,
    is_permanent=True,
)

# The keys are SQLite's result codes.
_FAILURES_BY_SQLITE_CODE: dict[int, DatabaseFailure] = {
    sqlite3.SQLITE_BUSY: DatabaseFailure(
        "is locked by another process: end it, or wait until it has written",
        _Kind.LOCKED,
    ),
    sqlite3.SQLITE_LOCKED: DatabaseFailure(
        "is locked by another connection: try again", _Kind.LOCKED
    ),
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_FULL: DatabaseFailure(
        "cannot grow because the disk is full: free some space", _Kind.DISK
    ),
    sqlite3.SQLITE_IOERR: DatabaseFailure(
        "cannot be read or written (input/output error): check the disk and its free space",
        _Kind.DISK,
    ),
    sqlite3.SQLITE_NOTADB: DatabaseFailure(
        "is not a SQLite database: name another file, or move this one away",
        _Kind.DAMAGED,
        is_permanent=True,
    ),
    sqlite3.SQLITE_CORRUPT: DatabaseFailure(
        "is damaged: restore it from a backup", _Kind.DAMAGED, is_permanent=True
    ),
    sqlite3.SQLITE_PERM: _NO_ACCESS,
    sqlite3.SQLITE_AUTH: _NO_ACCESS,
}

# The keys are SQLSTATEs, or the first two characters of a class of SQLSTATEs.
_FAILURES_BY_SQLSTATE: dict[str, DatabaseFailure] = {
    "28P01": DatabaseFailure(
        "refused the password: correct the user or password in `database:`",
        _Kind.DENIED,
        is_permanent=True,
    ),
    "28": DatabaseFailure(
        "refused this user: correct the user in `database:` or the server's pg_hba.conf",
        _Kind.DENIED,
        is_permanent=True,
    ),
    "3D000": DatabaseFailure(
        "does not exist: create it with CREATE DATABASE, or correct its name in `database:`",
        _Kind.DENIED,
        is_permanent=True,
    ),
    "42501": DatabaseFailure(
        "denies the user a right: grant the user the right to use and create tables in the schema",
        _Kind.DENIED,
        is_permanent=True,
    ),
    "2BP01": DatabaseFailure(
        "has a view or another object that depends on the table: drop that object first",
        _Kind.OTHER,
        is_permanent=True,
    ),
    "25P03": DatabaseFailure(
        "ended a transaction that was idle for too long: try again", _Kind.CONFLICT
    ),
    "25006": DatabaseFailure(
        "is read-only (a standby?): name the primary server in `database:`",
        _Kind.READ_ONLY,
    ),
    "42P07": DatabaseFailure(
        "has a table of this name, which another process just created: try again",
        _Kind.CONFLICT,
    ),
    "53100": DatabaseFailure("has no disk space left: free some space", _Kind.DISK),
    "53300": DatabaseFailure(
        "accepts no more connections: raise max_connections or close other connections",
        _Kind.OVERLOADED,
    ),
    "53": DatabaseFailure("is out of resources: read the server's log", _Kind.OVERLOADED),
    "55000": DatabaseFailure("is changing this table at this moment: try again", _Kind.LOCKED),
    "55P03": DatabaseFailure("is locked by another transaction: try again", _Kind.LOCKED),
    "57": DatabaseFailure(
        "is starting or stopping, or it cancelled the statement: try again",
        _Kind.UNREACHABLE,
    ),
    "08": DatabaseFailure(
        "closed the connection: check that the server runs and can be reached",
        _Kind.UNREACHABLE,
    ),
    "40": DatabaseFailure(
        "rolled this transaction back because it conflicted with another one: try again",
        _Kind.CONFLICT,
    ),
    "XX": DatabaseFailure("reports an internal error: read the server's log", _Kind.DAMAGED),
}

_NO_TABLE = "42P01"
_NO_COLUMN = "42703"
_NO_SCHEMA = "3F000"
_PARTITION_NAME = re.compile(r"scores_\d{4}_\d\d_\d\d")
_PARTITION_DROPPED = DatabaseFailure(
    "is dropping a partition of scores at this moment: try again",
    _Kind.CONFLICT,
)
_UNREACHABLE = DatabaseFailure(
    "cannot be reached: check that the server runs, and host and port in `database:`",
    _Kind.UNREACHABLE,
)


@contextmanager
def translated(url: URL, driver_error: type[Exception]) -> Iterator[None]:
    """Raise a DatabaseError in place of each error of the database in the ``with`` block.

    ``driver_error`` is the base class of all errors that the database's driver raises.
    """
    try:
        yield
    except DBAPIError as error:
        raise translate(error.orig, url) from None
    except driver_error as error:
        raise translate(error, url) from None
    except PoolTimeout:
        msg = f"{describe_url(url)}: every connection of the pool is in use: try again"
        raise DatabaseError(msg, permanent=False, kind=_Kind.OVERLOADED) from None
    except StatementError as error:
        # The caller passed a value that the column refuses, such as a naive datetime.
        raise (error.orig or error) from None
    except SQLAlchemyError as error:
        raise DatabaseError(
            f"{describe_url(url)}: {type(error).__name__}: this is a fault of rankwatch: please "
            "report it"
        ) from error


def translate(error: BaseException | None, url: URL) -> DatabaseError:
    """Return the error to raise in place of the driver's error.

    This is a SchemaError if tables or columns of this version are missing.
    """
    if isinstance(error, sqlite3.Error):
        failure = _sqlite_failure(error, url)
    else:
        failure = _postgres_failure(error, url)
    if failure is None:
        return SchemaError(
            f"{describe_url(url)} lacks tables or columns of this version: {UPGRADE}"
        )
    return DatabaseError(
        f"{describe_url(url)} {failure.text}",
        permanent=failure.is_permanent,
        kind=failure.kind,
    )


def _sqlite_failure(error: sqlite3.Error, url: URL) -> DatabaseFailure | None:
    """Describe SQLite's error. Return None if it means that tables or columns are missing."""
    # Errors of Python's module sqlite3 have no code. SQLite has no error with the code 0.
    code = getattr(error, "sqlite_errorcode", 0)
    # The lowest byte of the code is the kind of error, and the other bytes are details.
    kind = code & 0xFF
    if kind == sqlite3.SQLITE_CANTOPEN:
        return failure_of_opening(file_of(url) or Path())
    if kind in _FAILURES_BY_SQLITE_CODE:
        return _FAILURES_BY_SQLITE_CODE[kind]
    # SQLite has no code for a missing table or column, so the text is compared. The texts are "no
    # such table: T", "no such column: C" and "table T has no column named C".
    if str(error).startswith(("no such table", "no such column", "table ")):
        return None
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return _log_and_describe(error, name)


def failure_of_opening(file: Path) -> DatabaseFailure:
    """Return why a SQLite file cannot be opened."""
    if not file.parent.is_dir():
        advice = "its directory does not exist: create it"
    elif file.is_dir():
        advice = "it is a directory: name a file"
    else:
        advice = "give this account access to the file and its directory"
    return DatabaseFailure(f"cannot be opened: {advice}", _Kind.DENIED, is_permanent=True)


def _postgres_failure(error: BaseException | None, url: URL) -> DatabaseFailure | None:
    """Describe PostgreSQL's error. Return None if it means that tables or columns are missing."""
    sqlstate = sqlstate_of(error) or ""
    if sqlstate == _NO_TABLE and _PARTITION_NAME.search(str(error)):
        return _PARTITION_DROPPED
    if sqlstate in {_NO_TABLE, _NO_COLUMN, _NO_SCHEMA}:
        return None
    if not sqlstate:
        return _failure_of_connecting(error, url)
    failure = _FAILURES_BY_SQLSTATE.get(sqlstate)
    if failure is None:
        # The first two characters are the class of the SQLSTATE.
        failure = _FAILURES_BY_SQLSTATE.get(sqlstate[:2])
    return failure or _log_and_describe(error, f"SQLSTATE {sqlstate}")


def _failure_of_connecting(error: BaseException | None, url: URL) -> DatabaseFailure:
    """Describe why PostgreSQL's driver made no connection. Such errors have no SQLSTATE."""
    unreadable = find_unreadable_tls_file(url.query)
    if unreadable is not None:
        option, file = unreadable
        problem_and_advice = ": ".join(write_unreadable_tls_file(option, file))
        return DatabaseFailure(f"cannot be reached: {problem_and_advice}", _Kind.UNREACHABLE)
    tls_fault = None if error is None else find_tls_fault(error)
    if tls_fault is not None:
        problem_and_advice = ": ".join(write_tls_fault(tls_fault, TlsClient.POSTGRESQL))
        return DatabaseFailure(problem_and_advice, _Kind.UNREACHABLE)
    if type(error).__name__ in {"OperationalError", "ConnectionTimeout"}:
        return _UNREACHABLE
    return _log_and_describe(error, type(error).__name__)


def _log_and_describe(error: BaseException | None, code: str) -> DatabaseFailure:
    """Log the error, and return a failure that contains only the error's code.

    The error's text may contain secrets.
    """
    if error is not None:
        log_error(error)
    return DatabaseFailure(
        f"refused a statement ({code}): read the database's log", _Kind.OTHER, is_permanent=True
    )
