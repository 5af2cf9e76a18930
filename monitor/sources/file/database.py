"""A DuckDB in memory that can read the files of one reading and do nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from monitor.deadline import Deadline, OverdueError, interrupt_when_given_up
from monitor.errors import SourceError
from monitor.scratch import SPILL, scratch_database
from monitor.sources.file.file_set import FileSet
from monitor.sources.id_columns import on_one_line

MEMORY = "250MB"
"""Most memory that a reading takes; what does not fit goes to a temporary directory, which is removed in the end."""
_THREADS = 2  # of more of them each would have too little of the memory


@contextmanager
def open_database(
    files: Sequence[FileSet], deadline: Deadline | None = None, *, in_order: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that reads these files only, ``in_order`` where the order of their rows matters.

    It is interrupted at the deadline, and when nobody waits for the reading any more. OverdueError at the deadline, SourceError
    for what else goes wrong in it, in one sentence. Nothing of it is left behind.
    """
    paths = [path for each in files for path in each.paths]
    stores = {id(each.store): each.store for each in files if each.store is not None}.values()
    with scratch_database(MEMORY, paths, threads=_THREADS, stores=stores, in_order=in_order) as database:
        timer = None if deadline is None else threading.Timer(deadline.remaining_s, database.interrupt)
        try:
            if timer is not None:
                timer.daemon = True
                timer.start()
            with interrupt_when_given_up(database.interrupt), _one_sentence(files, deadline):
                yield database
        finally:
            if timer is not None:
                timer.cancel()


@contextmanager
def _one_sentence(files: Sequence[FileSet], deadline: Deadline | None) -> Iterator[None]:
    try:
        with readable(" and ".join(dict.fromkeys(each.where for each in files))):
            yield
    except SourceError:
        # Interrupted at the deadline, which may surface as any error.
        if deadline is not None and deadline.is_past:
            raise OverdueError from None
        raise


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Turn what goes wrong over these files into a SourceError of one sentence, an interrupt into an OverdueError."""
    try:
        yield
    # What a stream of batches runs into comes as an error of Arrow's or the system's.
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        if "INTERRUPT" in said:
            raise OverdueError from None
        # What stood in the file is not repeated.
        reason = on_one_line(said.partition(": Object {")[0], 300)
        msg = f"{where} cannot be read, it may be damaged or still being written: {reason}"
        if "Out of Memory" in said or "max_temp_directory_size" in said or "No space left" in said:
            msg = (
                f"{where} cannot be read in {MEMORY} of memory and {SPILL} of temporary files: free disk, or write shorter rows"
            )
        raise SourceError(msg, permanent=False) from None


def sql_name(name: str) -> str:
    """A column's name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
