"""The files of a SQLite database: which they are, that they stay the same, who may read them, and whether they are sound."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from monitor.storage.database_url import file_of

_MOST_SHOWN = 20
_WAIT_S = 30.0
_OF_AN_INDEX = ("missing from index", "wrong # of entries in index", "non-unique entry in index")


def identity(file: Path | int) -> tuple[int, int] | None:
    """Device and inode, which tell a file, or an open one, from another that replaced it; None when there is no file."""
    try:
        found = os.stat(file)  # noqa: PTH116 - takes open files too
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_private(file: Path) -> None:
    """Make the file where there is none, for its owner alone whatever the umask; SQLite's log takes its mode from it."""
    # Never opened where it is there: closing it would release the locks that SQLite holds on it.
    with suppress(OSError):  # what is in the way is SQLite's to say
        number = os.open(file.resolve(), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.fchmod(number, 0o600)
        os.close(number)


def exposure(url: URL) -> str | None:
    """What to say where every account of this machine may read the file of a SQLite database; None where there is nothing."""
    file = file_of(url)
    try:
        mode = 0 if file is None else stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return None
    if not mode & stat.S_IROTH:
        return None
    return f"{file} has mode {mode:04o}, so every account of this machine may read users and lists in it: chmod o= {file}*"


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """The files of a database in use as they were first seen, the database first. ``anchor``: a connection that stays open.

    While it does, SQLite itself removes none of them.
    """

    anchor: Any
    identities: Mapping[Path, tuple[int, int] | None]

    @classmethod
    def of(cls, file: Path, anchor: Any) -> PinnedFiles:  # noqa: ANN401 - the driver's own
        """As they are now; the connection is read from first, as only that opens the log."""
        anchor.cursor().execute("SELECT count(*) FROM sqlite_master").fetchall()
        real = file.resolve()
        log = (real.with_name(f"{real.name}{end}") for end in ("-wal", "-shm"))
        return cls(anchor, {path: identity(path) for path in (file, *log)})

    def change(self) -> str | None:
        """What became of them and what to do, in words; None while they are the same."""
        changed = [path for path, known in self.identities.items() if known is not None and identity(path) != known]
        if not changed:
            return None
        is_log = changed[0] != next(iter(self.identities))
        whose = f"lost its log: {changed[0]} " if is_log else ""
        if changed[0].exists():
            return f"{whose}was replaced by another file while in use: nothing is written any more: restart rankwatch"
        todo = "restart rankwatch" if is_log else "put it back, or restart rankwatch"
        return f"{whose}was deleted or moved away while in use: nothing is written any more: {todo}"


def find_damage(file: Path) -> list[str]:
    """Read every page of the file and compare indexes with their tables; what is wrong in SQLite's words. sqlite3.Error."""
    found: list[str] = []
    with closing(sqlite3.connect(file, timeout=_WAIT_S)) as connection:
        try:
            for (text,) in connection.execute(f"PRAGMA integrity_check({_MOST_SHOWN})"):
                found += text.removeprefix("*** in database main ***\n").splitlines()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            found.append("pages do not hold what they should")  # SQLite says no more where it cannot go on
    return [] if found == ["ok"] else found[:_MOST_SHOWN]


def advise_on(file: Path, damage: Sequence[str]) -> str:
    """What to do about the damage."""
    if all(any(words in line for words in _OF_AN_INDEX) for line in damage):
        return f"only indexes are wrong: stop rankwatch and make them anew with `sqlite3 {file} REINDEX`"
    return "restore it from a backup"
