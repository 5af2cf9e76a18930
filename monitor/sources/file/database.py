"""A DuckDB in memory that can read the files of one reading and do nothing else."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from monitor.deadline import Deadline, OverdueError, interrupt_when_given_up
from monitor.errors import SourceError
from monitor.sources.file.parts import Parts
from monitor.sources.id_columns import on_one_line

MEMORY = "400MB"
"""Most memory that a reading takes; what does not fit goes to a temporary directory, which is removed in the end."""
SPILL = "200GB"
_THREADS = 2  # of more of them each would have too little of the memory


@contextmanager
def open_database(
    files: Sequence[Parts], deadline: Deadline | None = None, *, in_order: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that reads these files only, ``in_order`` where the order of their rows matters.

    It is interrupted at the deadline, and when nobody waits for the reading any more. OverdueError at the deadline, SourceError
    for what else goes wrong in it, in one sentence. Nothing of it is left behind.
    """
    folder = tempfile.mkdtemp(prefix="rankwatch-")
    timer = None
    try:
        database = duckdb.connect(config=_limits(folder, in_order=in_order))
        if deadline is not None:
            timer = threading.Timer(deadline.remaining_s, database.interrupt)
            timer.daemon = True
            timer.start()
        with database, interrupt_when_given_up(database.interrupt), _one_sentence(files, deadline):
            for store in {id(each.store): each.store for each in files if each.store is not None}.values():
                database.register_filesystem(store)
            allowed = ", ".join(sql_text(path) for path in dict.fromkeys(path for each in files for path in each.paths))
            database.execute(f"SET allowed_paths = [{allowed}]")
            database.execute("SET enable_external_access = false")
            database.execute("SET lock_configuration = true")
            yield database
    finally:
        if timer is not None:
            timer.cancel()
        shutil.rmtree(folder, ignore_errors=True)


def _limits(folder: str, *, in_order: bool) -> dict[str, str | bool | int | float | list[str]]:
    return {
        "memory_limit": MEMORY,
        "threads": _THREADS,
        "temp_directory": folder,
        "max_temp_directory_size": SPILL,
        "preserve_insertion_order": in_order,
        "arrow_large_buffer_size": True,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }


@contextmanager
def _one_sentence(files: Sequence[Parts], deadline: Deadline | None) -> Iterator[None]:
    where = " and ".join(dict.fromkeys(each.where for each in files))
    try:
        yield
    # What a stream of batches runs into comes as an error of Arrow's or the system's.
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if deadline is not None and deadline.is_past:
            raise OverdueError from None
        raise SourceError(database_reason(error, where), permanent=False) from None


def database_reason(error: Exception, where: str) -> str:
    """A sentence about what went wrong in the database over these files."""
    said = (str(error).splitlines() or [type(error).__name__])[0]
    if "Out of Memory" in said:
        return f"{where} cannot be read in {MEMORY} of memory and {SPILL} of temporary files: free disk, or write shorter rows"
    # What stood in the file is not repeated.
    said = said.partition(": Object {")[0]
    return f"{where} cannot be read, it may be damaged or still being written: {on_one_line(said, 300)}"


def sql_name(name: str) -> str:
    """A column's name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def sql_text(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
