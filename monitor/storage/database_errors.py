"""Translation of drivers' errors into DatabaseError and SchemaError, without their texts, which may hold secrets."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from monitor.errors import DatabaseError, DatabaseTrouble, SchemaError
from monitor.foreign_errors import note_error, sqlstate_of
from monitor.storage.database_url import describe, file_of

_T = DatabaseTrouble
UPGRADE = "run `rankwatch db upgrade`"

# By SQLite's result code: what is wrong and what to do, whether it stays so by itself, and what
# kind of trouble it is.
_SQLITE = {
    sqlite3.SQLITE_BUSY: (
        "is locked by another process: end it, or wait until it has written",
        False,
        _T.LOCKED,
    ),
    sqlite3.SQLITE_LOCKED: ("is locked by another connection: try again", False, _T.LOCKED),
    sqlite3.SQLITE_READONLY: (
        "cannot be written: give this account write permission on the file and its directory",
        True,
        _T.READ_ONLY,
    ),
    sqlite3.SQLITE_FULL: ("cannot grow, the disk is full: free some space", False, _T.DISK),
    sqlite3.SQLITE_IOERR: (
        "cannot be read or written (input/output error): look at the disk and at its free space",
        False,
        _T.DISK,
    ),
    sqlite3.SQLITE_NOTADB: (
        "is not a SQLite database: name another file, or move this one away",
        True,
        _T.DAMAGED,
    ),
    sqlite3.SQLITE_CORRUPT: ("is damaged: restore it from a backup", True, _T.DAMAGED),
    sqlite3.SQLITE_PERM: (
        "cannot be opened, permission denied: give this account access to it",
        True,
        _T.DENIED,
    ),
    sqlite3.SQLITE_AUTH: (
        "cannot be opened, permission denied: give this account access to it",
        True,
        _T.DENIED,
    ),
}

# By SQLSTATE or its class (first two characters).
_POSTGRES = {
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
        "does not permit this: grant the user the right to use and create tables in the schema",
        True,
        _T.DENIED,
    ),
    "2BP01": ("holds what a view or another object is made of: drop that first", True, _T.OTHER),
    "25P03": ("ended a transaction that stood still: try again", False, _T.CONFLICT),
    "25006": (
        "is read-only (a standby?): name the primary server in `database:`",
        False,
        _T.READ_ONLY,
    ),
    "42P07": (
        "has a table of this name already, made elsewhere at this moment: try again",
        False,
        _T.CONFLICT,
    ),
    "53100": ("has no disk space left: free some", False, _T.DISK),
    "53300": (
        "takes no more connections: raise max_connections or close others",
        False,
        _T.OVERLOADED,
    ),
    "53": ("is out of resources: look at the server's log", False, _T.OVERLOADED),
    "55000": ("changes this table elsewhere at this moment: try again", False, _T.LOCKED),
    "55P03": ("is locked by another transaction: try again", False, _T.LOCKED),
    "57": ("is starting, stopping or ended the statement: try again", False, _T.UNREACHABLE),
    "08": (
        "broke the connection: see that the server runs and can be reached",
        False,
        _T.UNREACHABLE,
    ),
    "40": ("gave way to another transaction: try again", False, _T.CONFLICT),
    "XX": ("reports an internal error: look at the server's log", False, _T.DAMAGED),
}

_READ_ONLY_DISK = (
    "lies on a file system that is read-only, where not even reading works: mount "
    "it writable, or copy the file"
)
_PARTITION = re.compile(r"scores_\d{4}_\d\d_\d\d")
_DROPPED = "drops a partition of scores at this moment: try again"
_AWAY = (
    "cannot be reached: see that the server runs and that host and port in `database:` are right"
)


@contextmanager
def translated(url: URL, driver: type[Exception]) -> Iterator[None]:
    """Turn errors of the database below this point into DatabaseError.

    ``driver`` is the base of what its driver raises.
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
        raise (
            error.orig or error
        ) from None  # a value that its column refuses, a naive datetime say, is our caller's fault
    except SQLAlchemyError as error:
        msg = (
            f"{describe(url)}: {type(error).__name__}: this is a fault of the program, please "
            "report it"
        )
        raise DatabaseError(msg) from error


def translate(error: BaseException | None, url: URL) -> DatabaseError:
    """The error to raise in place of what the driver raised."""
    return _of_sqlite(error, url) if isinstance(error, sqlite3.Error) else _of_postgres(error, url)


def _of_sqlite(error: sqlite3.Error, url: URL) -> DatabaseError:
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code == sqlite3.SQLITE_CANTOPEN:
        return _cannot_open(url)
    if code == sqlite3.SQLITE_READONLY and _is_read_only(file_of(url)):
        return DatabaseError(f"{describe(url)} {_READ_ONLY_DISK}", trouble=_T.READ_ONLY)
    if code in _SQLITE:
        what, permanent, trouble = _SQLITE[code]
        return DatabaseError(f"{describe(url)} {what}", permanent=permanent, trouble=trouble)
    if str(error).startswith(("no such table", "no such column", "table ")):
        return SchemaError(f"{describe(url)} lacks tables or columns of this version: {UPGRADE}")
    return _unforeseen(error, url)


def _cannot_open(url: URL) -> DatabaseError:
    file = file_of(url) or Path()
    if not file.parent.is_dir():
        return DatabaseError(
            f"{describe(url)} cannot be opened: its directory does not exist: create it",
            trouble=_T.DENIED,
        )
    if file.is_dir():
        return DatabaseError(
            f"{describe(url)} cannot be opened: it is a directory: name a file", trouble=_T.DENIED
        )
    if _is_read_only(file):
        return DatabaseError(f"{describe(url)} {_READ_ONLY_DISK}", trouble=_T.READ_ONLY)
    return DatabaseError(
        f"{describe(url)} cannot be opened: give this account access to the file and its directory",
        trouble=_T.DENIED,
    )


def _is_read_only(file: Path | None) -> bool:
    try:
        return file is not None and bool(os.statvfs(file.absolute().parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _of_postgres(error: BaseException | None, url: URL) -> DatabaseError:
    words = str(error)
    state = sqlstate_of(error) or ""
    if state == "42P01" and _PARTITION.search(words):
        return DatabaseError(f"{describe(url)} {_DROPPED}", permanent=False, trouble=_T.CONFLICT)
    if state in {"42P01", "42703", "3F000"}:
        return SchemaError(f"{describe(url)} lacks tables or columns of this version: {UPGRADE}")
    found = _POSTGRES.get(state) or _POSTGRES.get(state[:2])
    if found is not None:
        return DatabaseError(f"{describe(url)} {found[0]}", permanent=found[1], trouble=found[2])
    if not state and type(error).__name__ in {"OperationalError", "ConnectionTimeout"}:
        return DatabaseError(f"{describe(url)} {_AWAY}", permanent=False, trouble=_T.UNREACHABLE)
    return _unforeseen(error, url, state)


def _unforeseen(error: BaseException | None, url: URL, state: str = "") -> DatabaseError:
    if error is not None:
        note_error(error)
    code = (
        f"SQLSTATE {state}" if state else getattr(error, "sqlite_errorname", type(error).__name__)
    )
    return DatabaseError(
        f"{describe(url)} refused a statement ({code}): the database's log says more"
    )
