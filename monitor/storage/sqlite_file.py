"""Checks the files of a SQLite database for changes and damage, and locks them for one daemon."""

import fcntl
import os
import re
import socket
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL

from monitor.boundary.files import describe_readers
from monitor.model.errors import DatabaseError
from monitor.model.instants import format_instant, utc_now
from monitor.storage.database_url import file_of

_MOST_PROBLEMS = 20
_HOLDER_BYTES = 200
_PROCESS = re.compile(r"(\S+):([0-9]{1,9}) since")
"""Matches the host and the process id in the name of a lock's holder."""
_WAIT_S = 30.0
_INDEX_PROBLEMS = (
    "missing from index",
    "wrong # of entries in index",
    "non-unique entry in index",
)


def identity(file: Path | int) -> tuple[int, int] | None:
    """Return device and inode, which differ between a file and its replacement.

    ``file`` may be a descriptor. Returns None if there is no file.
    """
    try:
        status = os.stat(file)  # noqa: PTH116 - takes open files too
    except OSError:
        return None
    return status.st_dev, status.st_ino


def make_private(file: Path) -> None:
    """Create a missing file that only its owner may use, whatever the umask is.

    SQLite gives its log files the same mode.
    """
    # An existing file must not be opened, because closing it would release SQLite's locks.
    with suppress(OSError):  # SQLite reports what prevents the creation
        descriptor = os.open(
            file.resolve(), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        os.fchmod(descriptor, 0o600)
        os.close(descriptor)


def describe_file_readers(url: URL) -> str | None:
    """Return a warning if every account of this machine may read the SQLite file, else None."""
    file = file_of(url)
    if file is None:
        return None
    return describe_readers(file, "may read users and lists in it", f"chmod o= {file}*")


def find_damage(file: Path) -> list[str]:
    """Read every page of the file, and compare indexes with their tables.

    Returns the problems in SQLite's words. Raises sqlite3.Error if the file cannot be read.
    """
    problems: list[str] = []
    with closing(sqlite3.connect(file, timeout=_WAIT_S)) as connection:
        try:
            for (report,) in connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})"):
                problems += report.removeprefix("*** in database main ***\n").splitlines()
        except sqlite3.DatabaseError as error:
            # The lowest byte of the code is the kind of error, and the other bytes are details.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            # SQLite gives no details if it cannot continue.
            problems.append("the content of pages is damaged")
    return [] if problems == ["ok"] else problems[:_MOST_PROBLEMS]


def advise_on(file: Path, damage: Sequence[str]) -> str:
    """Return what to do about the problems that `find_damage` reported."""
    for problem in damage:
        if not any(words in problem for words in _INDEX_PROBLEMS):
            return "restore it from a backup"
    return f"only indexes are wrong: stop rankwatch, then rebuild them: `sqlite3 {file} REINDEX`"


def _lock_path(file: Path) -> Path:
    """Return the file that is locked for the database at ``file``.

    If ``file`` is a link, the locked file is next to the link's target.
    """
    resolved = file.resolve()
    return resolved.with_name(f"{resolved.name}.lock")


@dataclass(slots=True, kw_only=True)
class FileLock:
    """The lock that keeps other daemons away from the database at ``file``.

    The locked file is next to the database, and is never deleted. The operating system releases the
    lock when the process ends.
    """

    file: Path
    holder: str
    _descriptor: int | None = field(default=None, init=False)

    @property
    def path(self) -> Path:
        """The locked file."""
        return _lock_path(self.file)

    def take(self) -> None:
        """Take the lock, or check that this process still has it.

        Raises DatabaseError if the file cannot be locked. If another process has the lock, the
        error names that process.
        """
        if self._descriptor is not None and identity(self._descriptor) == identity(self.path):
            return
        # If somebody deleted or replaced the locked file, the old lock keeps no daemon away.
        self.release()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise self._error_of_locking(error) from None
        try:
            self._lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _lock(self, descriptor: int) -> None:
        """Lock the opened file and write the holder into it. Raises DatabaseError like `take`."""
        since = format_instant(utc_now().replace(microsecond=0))
        try:
            # An account that may read the file could lock it and keep every daemon out.
            os.fchmod(descriptor, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{self.holder} since {since}\n".encode(), 0)
        except BlockingIOError:
            raise DatabaseError(
                f"SQLite database {self.file} is in use by another daemon: {_holder_in(descriptor)} "
                f"has locked {self.path}: stop that daemon, or use PostgreSQL, which allows "
                "several daemons"
            ) from None
        except OSError as error:
            raise self._error_of_locking(error) from None

    def _error_of_locking(self, error: OSError) -> DatabaseError:
        return DatabaseError(
            f"SQLite database {self.file} cannot be locked: {self.path}: {error.strerror}: put the "
            "database in a directory on a local disk where this account may write"
        )

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def holder_of(file: Path) -> str | None:
    """Return the name of the process that has locked the database at ``file``, and the locked file.

    Returns None if no process has locked the database. If the locked file cannot be opened, the
    process is called "somebody".
    """
    lock = _lock_path(file)
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"somebody ({lock}: {error.strerror})"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return f"{_holder_in(descriptor)} (holds {lock})"
    finally:
        os.close(descriptor)
    return None


def _holder_in(descriptor: int) -> str:
    """Return the process that the text in a locked file names.

    The process is "an unknown process" if the text is empty or names a process that has ended.
    """
    content = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace").strip()
    process = _PROCESS.match(content)
    has_ended = False
    if process is not None:
        host, process_id = process.groups()
        has_ended = host == socket.gethostname() and not _is_alive(int(process_id))
    if not content or has_ended:
        return "an unknown process"
    # Any account that may write to the directory may have written this text.
    return "".join(char if char.isprintable() else "?" for char in content)


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)  # signal 0 only checks whether the process exists
    except ProcessLookupError:
        return False
    except PermissionError:  # it is of another account
        pass
    return True
