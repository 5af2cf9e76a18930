"""A DuckDB in memory that can read the files of one reading and do nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from monitor.deadline import Deadline, OverdueError, interrupt_when_given_up, interrupted_at, interrupted_by_signals
from monitor.errors import SourceError
from monitor.scratch import SPILL, scratch_database
from monitor.sources.columns import on_one_line
from monitor.sources.file.file_set import FileSet

MEMORY_MB = 250
"""Most memory that a reading takes, twice as much where lists are joined that hold a hundred items; what does not fit goes to a
temporary directory, which is removed in the end."""
KEY = "rankwatch_key"
"""The column of users' keys that views add to those of files, which have none of this name."""
_NO_ROOM = ("Out of Memory", "max_temp_directory_size", "No space left", "temporary directory")
_THREADS = 2  # of more of them each would have too little of the memory


@contextmanager
def open_database(
    files: Sequence[FileSet], deadline: Deadline | None = None, *, k: int = 1, in_order: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that reads these files only, ``in_order`` where the order of their rows matters, ``k`` items a list.

    It is interrupted at the deadline, by a signal, and when nobody waits for it any more. OverdueError at the deadline,
    SourceError for what else goes wrong in it, in one sentence. Nothing of it is left behind.
    """
    memory_mb = MEMORY_MB * max(50, min(k, 100)) // 50
    paths = [path for each in files for path in each.paths]
    stores = {id(each.store): each.store for each in files if each.store is not None}.values()
    with (
        _one_sentence(files, deadline),
        scratch_database(f"{memory_mb}MB", paths, threads=_THREADS, stores=stores, in_order=in_order) as database,
        interrupted_at(deadline, database.interrupt),
        interrupt_when_given_up(database.interrupt),
        interrupted_by_signals(database.interrupt),
    ):
        yield database


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
    except RuntimeError as error:
        # So DuckDB says that a signal came, whose handler's exception it drops.
        if "interrupted" in str(error):
            raise KeyboardInterrupt from None
        raise
    # What a stream of batches runs into comes as an error of Arrow's or the system's.
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        # A database that is busy refuses to be closed; what ended its use before that counts.
        if error.__context__ is not None and not isinstance(error.__context__, Exception):
            raise error.__context__ from None
        said = (str(error).splitlines() or [type(error).__name__])[0]
        if "INTERRUPT" in said:
            raise OverdueError from None
        # What stood in the file is not repeated.
        reason = on_one_line(said.partition(": Object {")[0] + (", a key stands twice" if "duplicate key" in said else ""), 300)
        msg = f"{where} cannot be read, it may be damaged or still being written: {reason}"
        if any(reason in said for reason in _NO_ROOM):
            room = f"{MEMORY_MB}MB of memory and {SPILL} of temporary files"
            msg = f"{where} cannot be read in {room}: free disk where TMPDIR says"
        raise SourceError(msg, permanent=False) from None


def sql_name(name: str) -> str:
    """A column's name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
