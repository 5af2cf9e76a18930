"""Scratch databases: DuckDB with limited memory and a private folder for temporary files.

This module defines no table and no file format.
"""

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
"""The largest total size of the temporary files of one scratch database."""
_NO_ROOM = (
    "Out of Memory",
    "max_temp_directory_size",
    "No space left on device",
    "Failed to create directory",
)
"""Words in DuckDB's errors when memory or the space for temporary files is too small."""
_FOLDER_PREFIX = "rankwatch-spill-"
_YOUNG_S = 60
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags that open only folders, because any account can put a pipe or link into the temporary
folder."""


@contextmanager
def scratch_database(
    memory: str,
    paths: Sequence[str] = (),
    *,
    threads: int | None = None,
    stores: Collection[Any] = (),
    in_order: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that uses at most ``memory``, reads only ``paths`` and loads no extension.

    Its temporary files are deleted at the end. By default it has one thread for each processor.
    ``stores`` are fsspec file systems for the paths.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory,
        "arrow_large_buffer_size": True,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "preserve_insertion_order": in_order,
        "python_enable_replacements": False,
    }
    if threads is not None:
        config["threads"] = threads
    with (
        _private_folder() as folder,
        duckdb.connect(config={**config, "temp_directory": folder}) as database,
    ):
        for store in stores:
            database.register_filesystem(store)
        # DuckDB ignores this limit in the configuration of a connection, so it is set here.
        if folder:
            database.execute(f"SET max_temp_directory_size = {sql_text(SPILL)}")
        database.execute(f"SET allowed_paths = [{', '.join(map(sql_text, dict.fromkeys(paths)))}]")
        # A progress bar would mix with the output of a command.
        database.execute("SET enable_progress_bar = false")
        database.execute("SET TimeZone = 'UTC'")
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        yield database


@contextmanager
def _private_folder() -> Iterator[str]:
    """A new empty folder. A lock marks the folder as used until this process ends or is killed.

    If no folder can be written, the path is empty. This is not yet an error, because data that fits
    into memory needs no folder.
    """
    try:
        _remove_leftovers()
        # Python removes the folder even if the process ends before this block, as threads may.
        folder = tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX, ignore_cleanup_errors=True)
    except OSError:
        yield ""
        return
    with folder as path:
        descriptor = os.open(path, _OPEN_FOLDER)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield path
        finally:
            os.close(descriptor)


@cache
def _remove_leftovers() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*"):
        # A new folder may not be locked yet. Folders of other accounts raise OSError.
        with suppress(OSError):
            if utc_now().timestamp() - folder.stat().st_mtime > _YOUNG_S:
                descriptor = os.open(folder, _OPEN_FOLDER)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(descriptor)


def explain_shortage(duckdb_error: str) -> str | None:
    """Why memory or temporary files did not suffice, and what to do. None for other errors."""
    if not any(words in duckdb_error for words in _NO_ROOM):
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
    if "No space left on device" in duckdb_error:
        return (
            f"the disk of the temporary folder {folder} is full: free some space, or set "
            "TMPDIR to another folder"
        )
    if "max_temp_directory_size" in duckdb_error:
        return (
            f"it needs more than {SPILL} of temporary files in {folder}: sample fewer users, or "
            "write shorter lists"
        )
    return (
        f"it needs more memory, even with temporary files in {folder}: sample fewer users, or "
        "write shorter lists and texts"
    )


def no_temporary_folder() -> str:
    """Return a text that names the folders that cannot be written, and says what to do."""
    folders = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    folders += ["/tmp", "/var/tmp", "/usr/tmp", str(Path.cwd())]  # noqa: S108 - names only
    names = ", ".join(dict.fromkeys(folders))
    return f"none of {names} can be written: set TMPDIR to a folder that can be written"


def sql_text(value: str) -> str:
    """Return the value as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"
