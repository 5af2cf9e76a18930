"""Formats of files, read batch by batch and only the columns asked for: Parquet, CSV, JSON lines. Knows nothing of lists."""

from __future__ import annotations

import gzip
import json
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from monitor.errors import SourceError
from monitor.sources.id_columns import require_columns
from monitor.sources.table_readers import MissingTableError, TableBatch

_BATCH_VALUES = 1 << 20
_CSV_BLOCK = 4 << 20
_JSON_ROWS = 10_000
_MAX_LINE = 16 << 20


def read_batches(path: Path, kind: str | None, columns: Sequence[str], max_bytes: int) -> Iterator[TableBatch]:
    """Yield the file's rows in batches of bounded size, at least one batch even when there is no row.

    SourceError when it is no readable file of that format, or a column is not there.
    """
    read = _READERS[kind or _format_of(path)]
    with source_errors(path):
        require_regular_file(path)
        yield from read(path, columns, max_bytes)


def _format_of(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    known = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
    if suffixes and suffixes[-1] in known:
        return known[suffixes[-1]]
    msg = f"the format of {path} is unknown: use a suffix .parquet, .csv or .jsonl, or set format"
    raise SourceError(msg)


def require_regular_file(path: Path) -> None:
    """Refuse what would block or never end: directories, pipes, devices."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        msg = f"{path} is a directory: name one file"
        raise SourceError(msg)
    if not stat.S_ISREG(mode):
        msg = f"{path} is no regular file: name one file"
        raise SourceError(msg)


@contextmanager
def source_errors(path: Path) -> Iterator[None]:
    """Turn what the system and pyarrow raise into a SourceError of one line."""
    try:
        yield
    except FileNotFoundError:
        msg = f"{path} does not exist: check the path, and that the job which writes it has run"
        raise MissingTableError(msg, permanent=False) from None
    except PermissionError:
        msg = f"{path} may not be read by this user: change its permissions"
        raise SourceError(msg) from None
    except (EOFError, OSError, pa.ArrowException, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        msg = f"{path} cannot be read, it may be damaged or still being written: {reason[:200]}"
        raise SourceError(msg, permanent=False) from None


def _read_parquet(path: Path, columns: Sequence[str], max_bytes: int) -> Iterator[TableBatch]:
    with pyarrow.parquet.ParquetFile(path) as file:
        require_columns(columns, file.schema_arrow.names, str(path))
        rows = _batch_rows(file.metadata, columns, path, max_bytes)
        batches = file.iter_batches(batch_size=rows, columns=list(columns))
        empty = pa.RecordBatch.from_pylist([], schema=pa.schema([file.schema_arrow.field(name) for name in columns]))
        for batch in chain(batches, [empty]):
            yield {name: batch.column(name) for name in columns}


def _batch_rows(metadata: Any, columns: Sequence[str], path: Path, max_bytes: int) -> int:  # noqa: ANN401 - pyarrow has no stubs
    """Rows of a batch, so that one holds about a million values; refuses a file with a chunk that is too large to decode."""
    most = 1.0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema.partition(".")[0] not in columns:
                continue
            if chunk.total_uncompressed_size > max_bytes:
                msg = f"{path} holds {chunk.total_uncompressed_size} bytes in one column chunk: max_bytes is {max_bytes}"
                raise SourceError(msg)
            most = max(most, chunk.num_values / max(1, group.num_rows))
    return max(1, int(_BATCH_VALUES / most))


def _read_csv(path: Path, columns: Sequence[str], max_bytes: int) -> Iterator[TableBatch]:
    """Every column as text: ``007`` is no 7, and Namibia is no null."""
    del max_bytes  # blocks are bounded, and what is kept of them is counted by the caller
    read = pyarrow.csv.ReadOptions(block_size=_CSV_BLOCK)
    with pyarrow.csv.open_csv(path, read_options=read) as probe:
        require_columns(columns, probe.schema.names, str(path))
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), include_columns=list(columns))
    with pyarrow.csv.open_csv(path, read_options=read, convert_options=convert) as file:
        empty = pa.RecordBatch.from_pylist([], schema=file.schema)
        for batch in chain(file, [empty]):
            yield {name: batch.column(name) for name in columns}


def _read_jsonl(path: Path, columns: Sequence[str], max_bytes: int) -> Iterator[TableBatch]:
    """Line by line, so that one odd value concerns one user only."""
    missing = set(columns)
    keys: list[str] = []
    batch: dict[str, list[object]] = {name: [] for name in columns}
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        for number, line in _lines(file, path, min(_MAX_LINE, max_bytes)):
            row = _json_row(line, path, number)
            if missing:
                keys = keys or list(row)
                missing -= row.keys()
            for name, values in batch.items():
                values.append(row.get(name))
            if number % _JSON_ROWS == 0:
                yield batch
                batch = {name: [] for name in columns}
    if keys:
        require_columns([name for name in columns if name in missing], keys, str(path))
    yield batch


def _lines(file: IO[bytes] | gzip.GzipFile, path: Path, longest: int) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            msg = f"line {number} of {path} is longer than {longest} bytes: write one user a line"
            raise SourceError(msg)
        if not line.isspace():
            yield number, line


def _json_row(line: bytes, path: Path, number: int) -> dict[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        msg = f"line {number} of {path} is no JSON object: the file may be damaged or still being written"
        raise SourceError(msg, permanent=False)
    return row


_READERS: dict[str, Callable[[Path, Sequence[str], int], Iterator[TableBatch]]] = {
    "parquet": _read_parquet,
    "csv": _read_csv,
    "jsonl": _read_jsonl,
}
