"""Parquet files as views of a DuckDB that can read these files and do nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from monitor.deadline import Deadline, OverdueError
from monitor.errors import SourceError
from monitor.scratch import SPILL, scratch_database, sql_text
from monitor.slot_templates import fill_slot
from monitor.sources.file.formats import require_regular_file, source_errors
from monitor.sources.id_columns import MAX_ID_LENGTH, on_one_line, require_columns, user_column

MEMORY = "400MB"
"""Most memory that a join takes; what does not fit goes to a temporary directory, which is removed in the end."""

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"})
_GLOB = frozenset("*?[]{}")


def can_join(path: str, kind: str | None) -> bool:
    """Whether a file of this path and format can be a view."""
    is_parquet = kind == "parquet" or (kind is None and path.lower().endswith((".parquet", ".pq")))
    # What DuckDB would take for a pattern names one file here.
    return is_parquet and not _GLOB & set(fill_slot(path, datetime(2000, 1, 1, tzinfo=UTC)))


@contextmanager
def open_database(paths: Sequence[str], deadline: Deadline) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that reads these files only, and is interrupted at the deadline.

    SourceError for what goes wrong in it, in one sentence. Nothing of it is left behind.
    """
    with scratch_database(MEMORY, paths) as database, _one_sentence(deadline):
        timer = threading.Timer(deadline.remaining_s, database.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield database
        finally:
            timer.cancel()


@contextmanager
def _one_sentence(deadline: Deadline) -> Iterator[None]:
    try:
        yield
    except OverdueError:
        raise SourceError(_LATE, permanent=False) from None
    except duckdb.OutOfMemoryException:
        msg = f"the files do not fit into {MEMORY} of memory and {SPILL} of temporary files: free disk, or sample fewer users"
        raise SourceError(msg, permanent=False) from None
    except duckdb.Error as error:
        # Interrupted at the deadline, which may surface as any error.
        reason = _LATE if deadline.is_past else f"the files cannot be joined: {on_one_line(str(error).splitlines()[0], 300)}"
        raise SourceError(reason, permanent=False) from None


_LATE = "the files were not read in time: raise deadline, or sample fewer users"


class ParquetFile:
    """One slot's file, whose columns become a view once it is opened."""

    def __init__(self, path: str, slot: datetime) -> None:
        self.where = fill_slot(path, slot)
        self.path = str(Path(self.where).absolute())
        self.view = ""
        self._kinds: dict[str, str] = {}
        self._empty = pa.table({})
        self._seen: tuple[int, int, int] | None = None

    def open(self, database: duckdb.DuckDBPyConnection, columns: Sequence[str], view: str) -> None:
        """Make the view of all rows. SourceError when the file is no Parquet file, or has not these columns."""
        with source_errors(Path(self.where)):
            require_regular_file(Path(self.where))
            self._seen = self._signature()
        try:
            rows = f"SELECT * FROM read_parquet({sql_text(self.path)}, file_row_number = true)"  # noqa: S608 - quoted
            database.execute(f"CREATE TEMP VIEW {view} AS {rows}")
            found = database.execute(f"DESCRIBE {view}").fetchall()
        except duckdb.Error as error:
            reason = on_one_line(str(error).splitlines()[0], 200)
            msg = f"{self.where} cannot be read, it may be damaged or still being written: {reason}"
            raise SourceError(msg, permanent=False) from None
        self.view, self._kinds = view, {name: kind for name, kind, *_ in found if name != "file_row_number"}
        require_columns(columns, list(self._kinds), self.where)
        self._empty = database.sql(f"SELECT * FROM {view} LIMIT 0").to_arrow_table()  # noqa: S608 - a name of ours

    def require_unchanged(self) -> None:
        """SourceError where the file is another one by now than when it was opened."""
        if self._seen is not None and self._seen != self._signature():
            msg = f"{self.where} was written anew while it was read: run the slot again, and replace files by renaming"
            raise SourceError(msg, permanent=False)

    def empty(self, columns: Sequence[str]) -> dict[str, pa.Array]:
        """These columns without a row."""
        return {name: self._empty[name].combine_chunks() for name in columns}

    def key(self, column: str) -> str:
        """The expression for a column of users as text, null where there is none. SourceError when it cannot hold users."""
        user_column(self.empty([column])[column], f"the user column of {self.where}")
        return self._text_of(column)

    def label(self, column: str) -> str:
        """The expression for a column of segment values: text that may be a value, and other values as they are."""
        return self._text_of(column) if self._kinds[column] == "VARCHAR" else sql_name(column)

    def _text_of(self, column: str) -> str:
        kind, name = self._kinds[column], sql_name(column)
        if kind in _WHOLE:
            return f"CAST({name} AS VARCHAR)"
        if kind in {"FLOAT", "DOUBLE"}:
            return f"CASE WHEN {name} = floor({name}) AND abs({name}) < 2**53 THEN CAST(CAST({name} AS BIGINT) AS VARCHAR) END"
        is_id = f"length({name}) BETWEEN 1 AND {MAX_ID_LENGTH} AND NOT contains({name}, chr(0))"
        return f"CASE WHEN {is_id} THEN CAST({name} AS VARCHAR) END"

    def _signature(self) -> tuple[int, int, int]:
        try:
            found = Path(self.path).stat()
        except OSError:
            return (0, 0, 0)
        return found.st_ino, found.st_size, found.st_mtime_ns


def sql_name(name: str) -> str:
    """A column's name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
