"""Scratch databases: a DuckDB in bounded memory that spills to a directory of its own.

Knows no table and no file format.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from monitor.model.instants import utc_now

SPILL = "200GB"
"""Most that a scratch database writes to its directory."""
_NO_ROOM = (
    "Out of Memory",
    "max_temp_directory_size",
    "No space left on device",
    "Failed to create directory",
)
"""Words of DuckDB when memory and temporary files are too small."""
_PREFIX = "rankwatch-spill-"
_YOUNG_S = 60
_folders: set[str] = set()
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Opens a folder and nothing else: every account may put a pipe or a link into the temporary folder."""


@contextmanager
def scratch_database(
    memory: str,
    paths: Sequence[str] = (),
    *,
    threads: int | None = None,
    stores: Collection[Any] = (),
    in_order: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that takes so much memory, reads these files only, and loads nothing.

    Nothing of it is left behind.

    ``threads``: all processors, fewer where memory is small. ``stores``: fsspec file systems that
    paths are read through."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory,
        "arrow_large_buffer_size": True,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "preserve_insertion_order": in_order,
        "python_enable_replacements": False,
    }
    with (
        _own_folder() as folder,
        duckdb.connect(config={**config, "temp_directory": folder}) as database,
    ):
        for store in stores:
            database.register_filesystem(store)
        # Given when connecting it would be shown as set and not be kept to.
        if folder:
            database.execute(f"SET max_temp_directory_size = {sql_text(SPILL)}")
        if threads is not None:
            database.execute(f"SET threads = {threads:d}")
        database.execute(f"SET allowed_paths = [{', '.join(map(sql_text, dict.fromkeys(paths)))}]")
        # It would stand in the midst of what a command prints.
        database.execute("SET enable_progress_bar = false")
        database.execute("SET TimeZone = 'UTC'")
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        yield database


@contextmanager
def _own_folder() -> Iterator[str]:
    """An empty folder, locked as long as this process lives, so that what a killed one left is told from what is in use.

    Empty text if no folder can be written: what fits into memory needs none.
    """
    try:
        _remove_left_over()
        folder = tempfile.mkdtemp(prefix=_PREFIX)
    except OSError:
        yield ""
        return
    _folders.add(folder)
    descriptor = os.open(folder, _OPEN_FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)
        _folders.discard(folder)


@atexit.register
def _remove_own() -> None:
    # Runs are threads that nobody waits for at the end.
    for folder in tuple(_folders):
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _remove_left_over() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # One that was made a moment ago may be locked a moment later; others' folders are theirs.
        with suppress(OSError):
            if utc_now().timestamp() - folder.stat().st_mtime > _YOUNG_S:
                descriptor = os.open(folder, _OPEN_FOLDER)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(descriptor)


def room_trouble(said: str) -> str | None:
    """Why memory and temporary files are too small, if that is what DuckDB said, and what to do."""
    if not any(words in said for words in _NO_ROOM):
        return None
    try:
        folder = tempfile.gettempdir()
    except OSError:
        return f"it needs temporary files, and {no_temporary_folder()}"
    if not os.access(folder, os.W_OK):
        return (
            f"it needs temporary files, and {folder} cannot be written: set TMPDIR to a "
            "folder that can be written"
        )
    if "No space left on device" in said:
        return (
            f"the disk of the temporary folder {folder} is full: free some space, or set "
            "TMPDIR to another folder"
        )
    if "max_temp_directory_size" in said:
        return (
            f"it needs more than {SPILL} of temporary files in {folder}: ask fewer users, or "
            "write shorter lists"
        )
    return (
        f"temporary files in {folder} do not help: ask fewer users, or write shorter lists "
        "and texts"
    )


def no_temporary_folder() -> str:
    """That no temporary folder can be written, with the folders that were tried, and what to do."""
    tried = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    folders = ", ".join(dict.fromkeys([*tried, "/tmp", "/var/tmp", "/usr/tmp", str(Path.cwd())]))  # noqa: S108 - names only
    return f"none of {folders} can be written: set TMPDIR to a folder that can be written"


def sql_text(value: str) -> str:
    """Text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
