"""Translates drivers' errors to DatabaseError and SchemaError.

The new errors do not quote the drivers' texts, which may contain secrets.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from monitor.boundary.foreign_errors import (
    find_tls_fault,
    find_unreadable_tls_file,
    note_error,
    sqlstate_of,
)
from monitor.model.errors import DatabaseError, DatabaseTrouble, SchemaError
from monitor.model.tls_faults import TlsClient
from monitor.storage.database_url import describe, file_of
from monitor.texts.tls_faults import write_tls_fault, write_unreadable_tls_file

_T = DatabaseTrouble
UPGRADE = "run `rankwatch db upgrade`"

_Problem = tuple[str, bool, DatabaseTrouble]
"""A text (what is wrong, what to do), whether retrying is useless, and the kind of trouble."""

_READ_ONLY = (
    "cannot be written: make the file, its directory and its disk writable for this account",
    True,
    _T.READ_ONLY,
)
_NO_ACCESS = (
    "cannot be opened because permission was denied: give this account access to it",
    True,
    _T.DENIED,
)

# The problem for each of SQLite's result codes.
_SQLITE: dict[int, _Problem] = {
    sqlite3.SQLITE_BUSY: (
        "is locked by another process: end it, or wait until it has written",
        False,
        _T.LOCKED,
    ),
    sqlite3.SQLITE_LOCKED: ("is locked by another connection: try again", False, _T.LOCKED),
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_FULL: ("cannot grow because the disk is full: free some space", False, _T.DISK),
    sqlite3.SQLITE_IOERR: (
        "cannot be read or written (input/output error): check the disk and its free space",
        False,
        _T.DISK,
    ),
    sqlite3.SQLITE_NOTADB: (
        "is not a SQLite database: name another file, or move this one away",
        True,
        _T.DAMAGED,
    ),
    sqlite3.SQLITE_CORRUPT: ("is damaged: restore it from a backup", True, _T.DAMAGED),
    sqlite3.SQLITE_PERM: _NO_ACCESS,
    sqlite3.SQLITE_AUTH: _NO_ACCESS,
}

# The problem for each SQLSTATE, or for a class of SQLSTATEs with the same first two characters.
_POSTGRES: dict[str, _Problem] = {
    "28P01": ("refused the password: correct the user or password in `database:`", True, _T.DENIED),
    "28": (
        "refused this user: correct the user in `database:` or the server's pg_hba.conf",
        True,
        _T.DENIED,
    ),
    "3D000": (
        "does not exist: create it with CREATE DATABASE, or correct its name in `database:`",
        True,
        _T.DENIED,
    ),
    "42501": (
        "denies the user a right: grant the user the right to use and create tables in the schema",
        True,
        _T.DENIED,
    ),
    "2BP01": (
        "has a view or another object that depends on the table: drop that object first",
        True,
        _T.OTHER,
    ),
    "25P03": ("ended a transaction that was idle for too long: try again", False, _T.CONFLICT),
    "25006": (
        "is read-only (a standby?): name the primary server in `database:`",
        False,
        _T.READ_ONLY,
    ),
    "42P07": (
        "has a table of this name, which another process just created: try again",
        False,
        _T.CONFLICT,
    ),
    "53100": ("has no disk space left: free some space", False, _T.DISK),
    "53300": (
        "accepts no more connections: raise max_connections or close other connections",
        False,
        _T.OVERLOADED,
    ),
    "53": ("is out of resources: read the server's log", False, _T.OVERLOADED),
    "55000": ("is changing this table at this moment: try again", False, _T.LOCKED),
    "55P03": ("is locked by another transaction: try again", False, _T.LOCKED),
    "57": (
        "is starting or stopping, or it cancelled the statement: try again",
        False,
        _T.UNREACHABLE,
    ),
    "08": (
        "closed the connection: check that the server runs and can be reached",
        False,
        _T.UNREACHABLE,
    ),
    "40": (
        "rolled this transaction back because it conflicted with another one: try again",
        False,
        _T.CONFLICT,
    ),
    "XX": ("reports an internal error: read the server's log", False, _T.DAMAGED),
}

_PARTITION = re.compile(r"scores_\d{4}_\d\d_\d\d")
_PARTITION_DROPPED = (
    "is dropping a partition of scores at this moment: try again",
    False,
    _T.CONFLICT,
)
_AWAY = (
    "cannot be reached: check that the server runs, and host and port in `database:`",
    False,
    _T.UNREACHABLE,
)


@contextmanager
def translated(url: URL, driver: type[Exception]) -> Iterator[None]:
    """Raise a DatabaseError in place of a database's error.

    ``driver`` is the base class of all errors that the database's driver raises.
    """
    try:
        yield
    except DBAPIError as error:
        raise translate(error.orig, url) from None
    except driver as error:
        raise translate(error, url) from None
    except PoolTimeout:
        msg = f"{describe(url)}: every connection of the pool is in use: try again"
        raise DatabaseError(msg, permanent=False, trouble=_T.OVERLOADED) from None
    except StatementError as error:
        # The caller passed a value that the column refuses, such as a naive datetime.
        raise (error.orig or error) from None
    except SQLAlchemyError as error:
        msg = (
            f"{describe(url)}: {type(error).__name__}: this is a fault of rankwatch: please "
            "report it"
        )
        raise DatabaseError(msg) from error


def translate(error: BaseException | None, url: URL) -> DatabaseError:
    """Return the error to raise in place of the driver's error."""
    if isinstance(error, sqlite3.Error):
        problem = _sqlite_problem(error, url)
    else:
        problem = _postgres_problem(error, url)
    if problem is None:
        return SchemaError(f"{describe(url)} lacks tables or columns of this version: {UPGRADE}")
    what, permanent, trouble = problem
    return DatabaseError(f"{describe(url)} {what}", permanent=permanent, trouble=trouble)


def _sqlite_problem(error: sqlite3.Error, url: URL) -> _Problem | None:
    """Describe SQLite's error.

    Return None if the error means that tables or columns are missing.
    """
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code == sqlite3.SQLITE_CANTOPEN:
        return problem_of_opening(file_of(url) or Path())
    if code in _SQLITE:
        return _SQLITE[code]
    # SQLite has no result code for a missing table or column.
    if str(error).startswith(("no such table", "no such column", "table ")):
        return None
    return _unforeseen(error, getattr(error, "sqlite_errorname", type(error).__name__))


def problem_of_opening(file: Path) -> _Problem:
    """Why a SQLite file cannot be opened, and what to do."""
    if not file.parent.is_dir():
        advice = "its directory does not exist: create it"
    elif file.is_dir():
        advice = "it is a directory: name a file"
    else:
        advice = "give this account access to the file and its directory"
    return f"cannot be opened: {advice}", True, _T.DENIED


def _postgres_problem(error: BaseException | None, url: URL) -> _Problem | None:
    """Describe PostgreSQL's error. Return None if it means that tables or columns are missing."""
    state = sqlstate_of(error) or ""
    if state == "42P01" and _PARTITION.search(str(error)):
        return _PARTITION_DROPPED
    if state in {"42P01", "42703", "3F000"}:
        return None
    if not state:
        return _problem_of_connecting(error, url)
    problem = _POSTGRES.get(state) or _POSTGRES.get(state[:2])
    return problem or _unforeseen(error, f"SQLSTATE {state}")


def _problem_of_connecting(error: BaseException | None, url: URL) -> _Problem:
    unreadable = find_unreadable_tls_file(url.query)
    if unreadable is not None:
        what = ": ".join(write_unreadable_tls_file(*unreadable))
        return f"cannot be reached: {what}", False, _T.UNREACHABLE
    fault = None if error is None else find_tls_fault(error)
    if fault is not None:
        what = ": ".join(write_tls_fault(fault, TlsClient.POSTGRESQL))
        return what, False, _T.UNREACHABLE
    if type(error).__name__ in {"OperationalError", "ConnectionTimeout"}:
        return _AWAY
    return _unforeseen(error, type(error).__name__)


def _unforeseen(error: BaseException | None, code: str) -> _Problem:
    if error is not None:
        note_error(error)
    return f"refused a statement ({code}): read the database's log", True, _T.OTHER
