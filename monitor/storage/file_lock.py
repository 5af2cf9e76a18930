"""The lock beside the file of a SQLite database, which one daemon holds for its life."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from monitor.errors import DatabaseError
from monitor.model import format_instant
from monitor.storage.sqlite_file import identity

_MOST_SHOWN = 200


@dataclass(slots=True, kw_only=True)
class FileLock:
    """The lock of the database at ``file``, on a file beside it that is never deleted.

    The system releases it when the process ends, however it ends. Held by one open file, so also against this process.
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
        """Take the lock, or see that it is held still; DatabaseError naming the holder when another process has it."""
        if self._held is not None and identity(self._held) == identity(self.path):
            return
        self.release()
        try:
            opened = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._refused(error) from None
        try:
            self._lock(opened)
        except BaseException:
            os.close(opened)
            raise
        self._held = opened

    def _lock(self, opened: int) -> None:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(opened, 0)
            os.pwrite(opened, f"{self.holder} since {format_instant(datetime.now(UTC).replace(microsecond=0))}\n".encode(), 0)
        except BlockingIOError:
            msg = (
                f"SQLite database {self.file} is in use by another daemon: {_text_of(opened)} holds {self.path}: "
                "end it, or use PostgreSQL, where any number may run"
            )
            raise DatabaseError(msg) from None
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> DatabaseError:
        return DatabaseError(
            f"SQLite database {self.file} cannot be locked: {self.path}: {error.strerror}: put the database in a directory on "
            "a local disk where this account may write"
        )

    def release(self) -> None:
        """Let others take it; may be called twice."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def holder_of(file: Path) -> str | None:
    """The holder of the lock of the database at ``file`` and where the lock is, in words; None for nobody. Locks nothing."""
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
        return f"{_text_of(opened)} (holds {lock})"
    finally:
        os.close(opened)
    return None


def _text_of(opened: int) -> str:
    text = os.pread(opened, _MOST_SHOWN, 0).decode(errors="replace").strip()
    # Whoever may write the directory may have written anything.
    return "".join(char if char.isprintable() else "?" for char in text) or "an unknown process"
