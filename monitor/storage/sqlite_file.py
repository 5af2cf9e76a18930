"""The files of a SQLite database, that they stay the same and are sound, and the lock beside them that a daemon holds."""

import fcntl
import os
import re
import socket
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sqlalchemy import URL

from monitor.errors import DatabaseError
from monitor.files import describe_exposure
from monitor.model.instants import format_instant, utc_now
from monitor.storage.database_url import file_of

_MOST_SHOWN = 20
_LONGEST_HOLDER = 200
_OF_PROCESS = re.compile(r"(\S+):([0-9]{1,9}) since")
"""A holder that is a process: its host and its number."""
_WAIT_S = 30.0
_OF_AN_INDEX = ("missing from index", "wrong # of entries in index", "non-unique entry in index")


def identity(file: Path | int) -> tuple[int, int] | None:
    """Device and inode, which tell a file, or an open one, from another that replaced it.

    None when there is no file.
    """
    try:
        found = os.stat(file)  # noqa: PTH116 - takes open files too
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_private(file: Path) -> None:
    """Make the file where there is none, for its owner alone whatever the umask.

    SQLite's log takes its mode from it.
    """
    # Never opened where it is there: closing it would release the locks that SQLite holds on it.
    with suppress(OSError):  # what is in the way is SQLite's to say
        number = os.open(file.resolve(), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.fchmod(number, 0o600)
        os.close(number)


def exposure(url: URL) -> str | None:
    """What to say where every account of this machine may read the file of a SQLite database.

    None where there is nothing.
    """
    file = file_of(url)
    return (
        None
        if file is None
        else describe_exposure(file, "may read users and lists in it", f"chmod o= {file}*")
    )


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """The files of a database in use as they were first seen, the database first."""

    anchor: Any  # a connection: while it is open, SQLite itself removes none of them
    identities: Mapping[Path, tuple[int, int] | None]

    @classmethod
    def of(cls, file: Path, anchor: Any) -> Self:  # noqa: ANN401 - the driver's own
        """As they are now; the connection is read from first, as only that opens the log."""
        anchor.cursor().execute("SELECT count(*) FROM sqlite_master").fetchall()
        real = file.resolve()
        log = (real.with_name(f"{real.name}{end}") for end in ("-wal", "-shm"))
        return cls(anchor, {path: identity(path) for path in (file, *log)})

    def change(self) -> str | None:
        """What became of them and what to do, in words; None while they are the same."""
        for path, known in self.identities.items():
            if known is not None and identity(path) != known:
                became = "replaced by another file" if path.exists() else "deleted or moved away"
                todo = "nothing is written any more: put it back, or restart rankwatch"
                return f"cannot be used: {path} was {became} while in use: {todo}"
        return None


def find_damage(file: Path) -> list[str]:
    """Read every page of the file and compare indexes with their tables.

    What is wrong in SQLite's words. sqlite3.Error.
    """
    found: list[str] = []
    with closing(sqlite3.connect(file, timeout=_WAIT_S)) as connection:
        try:
            for (text,) in connection.execute(f"PRAGMA integrity_check({_MOST_SHOWN})"):
                found += text.removeprefix("*** in database main ***\n").splitlines()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            found.append(
                "pages do not hold what they should"
            )  # SQLite says no more where it cannot go on
    return [] if found == ["ok"] else found[:_MOST_SHOWN]


def advise_on(file: Path, damage: Sequence[str]) -> str:
    """What to do about the damage."""
    if all(any(words in line for words in _OF_AN_INDEX) for line in damage):
        return (
            f"only indexes are wrong: stop rankwatch and make them anew with `sqlite3 {file} "
            "REINDEX`"
        )
    return "restore it from a backup"


@dataclass(slots=True, kw_only=True)
class FileLock:
    """The lock of the database at ``file``, on a file beside it that stays.

    The system releases it when the process ends.
    """

    file: Path
    holder: str
    _held: int | None = field(default=None, init=False)

    @property
    def path(self) -> Path:
        """The file that is locked: beside the database itself, also where a link to the database was named."""
        resolved = self.file.resolve()
        return resolved.with_name(f"{resolved.name}.lock")

    def take(self) -> None:
        """Take the lock, or see that it is held still.

        DatabaseError naming the holder when another process has it.
        """
        if self._held is not None and identity(self._held) == identity(self.path):
            return
        self.release()
        try:
            opened = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise self._refused(error) from None
        try:
            self._make_private(opened)
            self._lock(opened)
        except BaseException:
            os.close(opened)
            raise
        self._held = opened

    def _make_private(self, opened: int) -> None:
        # Whoever may read the file could lock it and keep every daemon out.
        try:
            os.fchmod(opened, 0o600)
        except OSError as error:
            raise self._refused(error) from None

    def _lock(self, opened: int) -> None:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(opened, 0)
            os.pwrite(
                opened,
                f"{self.holder} since {format_instant(utc_now().replace(microsecond=0))}\n".encode(),
                0,
            )
        except BlockingIOError:
            msg = (
                f"SQLite database {self.file} is in use by another daemon: {_holder_in(opened)} "
                f"holds {self.path}: end it, or use PostgreSQL, where any number may run"
            )
            raise DatabaseError(msg) from None
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> DatabaseError:
        return DatabaseError(
            f"SQLite database {self.file} cannot be locked: {self.path}: {error.strerror}: put the "
            "database in a directory on a local disk where this account may write"
        )

    def release(self) -> None:
        """Let others take it; may be called twice."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def holder_of(file: Path) -> str | None:
    """The holder of the lock of the database at ``file`` and where the lock is, in words.

    None for nobody. Locks nothing.
    """
    lock = FileLock(file=file, holder="").path
    try:
        opened = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"somebody ({lock}: {error.strerror})"
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return f"{_holder_in(opened)} (holds {lock})"
    finally:
        os.close(opened)
    return None


def _holder_in(opened: int) -> str:
    """The holder that a locked file names, unless that process of this machine has ended: then another one holds it."""
    text = os.pread(opened, _LONGEST_HOLDER, 0).decode(errors="replace").strip()
    found = _OF_PROCESS.match(text)
    if not text or (found and found[1] == socket.gethostname() and not _is_alive(int(found[2]))):
        return "an unknown process"
    # Whoever may write the directory may have written anything.
    return "".join(char if char.isprintable() else "?" for char in text)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
