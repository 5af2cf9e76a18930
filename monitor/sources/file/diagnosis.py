"""Finds why a file cannot be read: the cause and the line.

The file is read a second time, slowly. No value of the file is shown.
"""

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet

from monitor.boundary.deadline import Deadline, OverdueError
from monitor.boundary.foreign_errors import file_cause
from monitor.boundary.temporary_database import explain_shortage
from monitor.model.errors import SourceError
from monitor.sources.file.file_set import MAX_LINE_BYTES, FileSet

MEMORY_MB = 250
"""The largest memory of one database. For joins of lists with a hundred items, it is doubled.

Data that does not fit into memory goes to a temporary folder, which is deleted at the end.
"""
_MOST_BYTES = 1 << 26  # reading so many bytes takes one or two seconds
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LINE_ENDS = {"\r\n": "CR LF", "\n": "LF", "\r": "CR"}
UNFINISHED = "the file is cut off or still being written"


@contextmanager
def file_errors(files: Sequence[FileSet], deadline: Deadline | None = None) -> Iterator[None]:
    """Turn errors of DuckDB into a SourceError, which names the fault of a file if possible.

    Interrupts become an OverdueError.
    """
    try:
        yield
    except SourceError:
        if deadline is not None and deadline.is_past:
            raise OverdueError from None
        raise
    except RuntimeError as error:
        # DuckDB raises this after a signal. The exception of the signal's handler is lost.
        if "interrupted" in str(error):
            raise KeyboardInterrupt from None
        raise
    # A stream of batches raises errors of Arrow or of the operating system.
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        # Closing a busy database raises an error. The exception before it has the real cause.
        if error.__context__ is not None and not isinstance(error.__context__, Exception):
            raise error.__context__ from None
        # An interrupt at the deadline can appear as any error, even as a SourceError.
        is_late = deadline is not None and deadline.is_past
        if is_late or "INTERRUPT" in str(error).partition("\n")[0]:
            raise OverdueError from None
        raise SourceError(_find_problem(files, error), permanent=False) from None


def _find_problem(files: Sequence[FileSet], error: Exception) -> str:
    where = " and ".join(dict.fromkeys(file_set.where for file_set in files))
    cause = explain_shortage(str(error))
    if cause is not None:
        return f"{where} cannot be read in {MEMORY_MB}MB of memory: {cause}"
    if not isinstance(error, duckdb.OutOfMemoryException):
        for file_set in files:
            for path in file_set.paths:
                cause = _find_cause(file_set, path)
                if cause is not None:
                    return cause
    return f"{where} cannot be read: {file_cause(error)}"


def _find_cause(files: FileSet, path: str) -> str | None:
    try:
        return _CAUSES[files.format](files, path)
    except EOFError:
        return f"{path} ends in the middle of its gzip data: {UNFINISHED}"
    except (zlib.error, gzip.BadGzipFile):
        return f"{path} has no gzip data, or its data are damaged: write the file again"


def utf16_fault(head: bytes, path: str) -> str | None:
    """Return the problem of a file that begins with the mark of UTF-16. None for other files."""
    if head.startswith(_UTF16):
        return f"{path} is written in UTF-16: write the file as UTF-8"
    return None


def _text_fault(head: bytes, path: str, *, is_complete: bool = False) -> str | None:
    fault = utf16_fault(head, path)
    if fault is not None:
        return fault
    lines = head if is_complete else head[: head.rfind(b"\n") + 1]
    try:
        lines.decode()
    except UnicodeDecodeError as error:
        line = head.count(b"\n", 0, error.start) + 1
        return (
            f"line {line} of {path} is not UTF-8 (byte 0x{head[error.start]:02x}), perhaps Latin-1 "
            "or Windows-1252: write the file as UTF-8"
        )
    return None


def _csv_fault(files: FileSet, path: str) -> str | None:
    head = files.read_head(path, _MOST_BYTES)
    is_complete = len(head) < _MOST_BYTES
    fault = _text_fault(head, path, is_complete=is_complete)
    if fault is not None:
        return fault
    content = head.decode("utf-8-sig", errors="replace")
    separator = "\t" if files.format == "tsv" else ","
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=separator, strict=True)
    try:
        header = next(reader)
        for row in reader:
            if row and len(row) != len(header):
                line = reader.line_num
                advice = "write one value for each column"
                is_last = not is_complete or next(reader, None) is None
                if is_last and len(row) == 1:
                    advice = "leave out the footer"
                return (
                    f"line {line} of {path} has {len(row)} value{'s' * (len(row) != 1)}, but the "
                    f"header has {len(header)} columns: {advice}"
                )
    except (csv.Error, StopIteration):
        fault = f"line {reader.line_num} of {path} has a quote that ends too early or never"
        advice = 'write a quote in a value as ""'
        lines = content.splitlines()
        if 0 < reader.line_num <= len(lines) and '\\"' in lines[reader.line_num - 1]:
            advice += ", not with a backslash"
        return f"{fault}: {advice}"
    return _line_end_fault(content.splitlines(keepends=True), path)


def _line_end_fault(lines: Sequence[str], path: str) -> str | None:
    ends = [line[len(line.rstrip("\r\n")) :] for line in lines]
    for number, end in enumerate(ends[:-1], 1):
        if end in _LINE_ENDS and end != ends[0]:
            return (
                f"line {number} of {path} ends with {_LINE_ENDS[end]}, but the header ends with "
                f"{_LINE_ENDS.get(ends[0], 'another')}: write the same line end in all lines"
            )
    return None


def _jsonl_fault(files: FileSet, path: str) -> str | None:
    head = files.read_head(path, _MOST_BYTES)
    fault = _text_fault(head, path)
    if head.startswith(codecs.BOM_UTF8):
        fault = f"{path} begins with a byte order mark (BOM): write the file as UTF-8 without it"
    if fault is not None:
        return fault
    *lines, last = head.split(b"\n")
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                _check_line(line)
            except _LineFaultError as error:
                return f"line {number} of {path} {error}"
    if not last.strip() or len(head) == _MOST_BYTES:  # the end of this line was not read
        return None
    try:
        _check_line(last)
    except _NoJsonError:
        return f"the last line of {path}, {len(lines) + 1}, is incomplete: {UNFINISHED}"
    except _LineFaultError as error:
        return f"line {len(lines) + 1} of {path} {error}"
    return None


_AN_OBJECT = "write one object in each line"


class _LineFaultError(ValueError):
    """A line cannot be read. The text says why."""


class _NoJsonError(_LineFaultError):
    pass


def _check_line(line: bytes) -> None:
    if len(line) > MAX_LINE_BYTES:
        raise _LineFaultError(f"is longer than {MAX_LINE_BYTES >> 20} MiB: {_AN_OBJECT}")
    try:
        value = json.loads(line, object_pairs_hook=_unique_keys)
    except RecursionError:
        raise _LineFaultError(f"is nested too deeply: {_AN_OBJECT}") from None
    except _LineFaultError:
        raise
    except ValueError as error:
        column = getattr(error, "colno", 1)
        raise _NoJsonError(f"is not JSON at character {column}: {_AN_OBJECT}") from None
    if not isinstance(value, dict):
        shape = "an array" if isinstance(value, list) else "a single value"
        raise _LineFaultError(f"has {shape}: {_AN_OBJECT}, for example with jq -c '.[]'")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _LineFaultError("has an object with the same key twice: write each key once")
    return fields


def _parquet_fault(files: FileSet, path: str) -> str | None:
    with files.open(path) as raw, pyarrow.parquet.ParquetFile(raw) as file:
        for name in file.schema_arrow.names:
            try:
                for batch in file.iter_batches(columns=[name]):
                    if not _is_utf8(batch):
                        return (
                            f"column {name!r} of {path} has text that is not UTF-8: write it "
                            "again as UTF-8"
                        )
            except (OSError, pa.ArrowException):
                return (
                    f"column {name!r} of {path} cannot be decoded because its bytes are damaged: "
                    "write the file again"
                )
    return None


def _is_utf8(batch: pa.RecordBatch) -> bool:
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


_CAUSES: dict[str, Callable[[FileSet, str], str | None]] = {
    "parquet": _parquet_fault,
    "csv": _csv_fault,
    "tsv": _csv_fault,
    "jsonl": _jsonl_fault,
}
