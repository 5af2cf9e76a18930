"""Scratch databases: a DuckDB in bounded memory that spills to a directory of its own. Knows no table and no file format."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb

SPILL = "200GB"
"""Most that a scratch database writes to its directory."""


@contextmanager
def scratch_database(
    memory: str, paths: Sequence[str] = (), *, threads: int | None = None, stores: Collection[Any] = (), in_order: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that takes so much memory, reads these files only, and loads nothing. Nothing of it is left behind.

    ``threads``: as many as there are processors where it is not given; memory that is small is too small for many of them.
    ``stores``: fsspec file systems through which some of the paths are read. ``in_order``: whether rows keep their order.
    """
    folder = tempfile.mkdtemp(prefix="rankwatch-")
    try:
        with duckdb.connect(config={**_limits(folder, memory), "preserve_insertion_order": in_order}) as database:
            for store in stores:
                database.register_filesystem(store)
            # Given when connecting it would be shown as set and not be kept to.
            database.execute(f"SET max_temp_directory_size = {sql_text(SPILL)}")
            if threads is not None:
                database.execute(f"SET threads = {threads:d}")
            database.execute(f"SET allowed_paths = [{', '.join(map(sql_text, dict.fromkeys(paths)))}]")
            # It would stand in the midst of what a command prints.
            database.execute("SET enable_progress_bar = false")
            database.execute("SET enable_external_access = false")
            database.execute("SET lock_configuration = true")
            yield database
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sql_text(value: str) -> str:
    """Text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def _limits(folder: str, memory: str) -> dict[str, str | bool | int | float | list[str]]:
    return {
        "memory_limit": memory,
        "temp_directory": folder,
        "arrow_large_buffer_size": True,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
