"""Why a file cannot be read: the cause and the line, found by reading it again slowly.

No value of the file is shown.
"""

from __future__ import annotations

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

from monitor.errors import SourceError
from monitor.sources.file.file_set import LONGEST_LINE, FileSet

_MOST_BYTES = 1 << 26  # a second or two
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LINE_ENDS = {"\r\n": "CR LF", "\n": "LF", "\r": "CR"}
UNFINISHED = "the file is cut off or still being written"


@contextmanager
def diagnosed(files: Sequence[FileSet]) -> Iterator[None]:
    """SourceError with the cause in place of an error of DuckDB's, where one of these files has a known fault."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        if isinstance(
            error, duckdb.InterruptException | duckdb.OutOfMemoryException
        ) or "INTERRUPT" in str(error):
            raise
        for each in files:
            for path in each.paths:
                if cause := _cause(each, path):
                    raise SourceError(cause, permanent=False) from None
        raise


def _cause(files: FileSet, path: str) -> str | None:
    try:
        return _CAUSES[files.format](files, path)
    except EOFError:
        return f"{path} ends in the middle of its gzip data: {UNFINISHED}"
    except (zlib.error, gzip.BadGzipFile):
        return f"{path} holds no gzip data, or damaged data: write it again"


def _head(files: FileSet, path: str) -> bytes:
    with files.open(path) as raw, gzip.open(raw) if path.lower().endswith(".gz") else raw as file:
        return bytes(file.read(_MOST_BYTES))


def utf16_fault(head: bytes, path: str) -> str | None:
    """The sentence about a file that begins as UTF-16 does."""
    return f"{path} is written in UTF-16: write it as UTF-8" if head.startswith(_UTF16) else None


def _text_fault(head: bytes, path: str, *, is_whole: bool = False) -> str | None:
    if fault := utf16_fault(head, path):
        return fault
    try:
        (head if is_whole else head[: head.rfind(b"\n") + 1]).decode()
    except UnicodeDecodeError as error:
        line = head.count(b"\n", 0, error.start) + 1
        odd = f"byte 0x{head[error.start]:02x}"
        return (
            f"line {line} of {path} is not UTF-8 ({odd}), perhaps Latin-1 or Windows-1252: "
            "write the file as UTF-8"
        )
    return None


def _csv_fault(files: FileSet, path: str) -> str | None:
    head = _head(files, path)
    if fault := _text_fault(head, path, is_whole=len(head) < _MOST_BYTES):
        return fault
    text = head.decode("utf-8-sig", errors="replace")
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter="\t" if files.format == "tsv" else ",", strict=True
    )
    is_whole = len(head) < _MOST_BYTES
    try:
        header = next(reader)
        for row in reader:
            if row and len(row) != len(header):
                values, line = f"{len(row)} value{'s' * (len(row) != 1)}", reader.line_num
                has_more = is_whole and next(reader, None) is not None
                advice = (
                    "write as many values in each line"
                    if has_more or len(row) > 1
                    else "leave out the footer"
                )
                return (
                    f"line {line} of {path} has {values}, the header {len(header)} columns: "
                    f"{advice}"
                )
    except (csv.Error, StopIteration):
        lines = text.splitlines()
        odd = lines[reader.line_num - 1] if 0 < reader.line_num <= len(lines) else ""
        escaped = ", not with a backslash" if '\\"' in odd else ""
        fault = f"line {reader.line_num} of {path} has a quote that ends too early or never"
        return f'{fault}: write a quote in a value as ""{escaped}'
    ends = [line[len(line.rstrip("\r\n")) :] for line in text.splitlines(keepends=True)]
    for number, end in enumerate(ends[:-1], 1):
        if end in _LINE_ENDS and end != ends[0]:
            return (
                f"line {number} of {path} ends with {_LINE_ENDS[end]}, the header with "
                f"{_LINE_ENDS.get(ends[0], 'another')}: write one kind of line end"
            )
    return None


def _jsonl_fault(files: FileSet, path: str) -> str | None:
    head = _head(files, path)
    if fault := _text_fault(head, path):
        return fault
    lines = head.split(b"\n")
    for number, line in enumerate(lines, 1):
        is_last = number == len(lines)
        if is_last and len(head) == _MOST_BYTES:  # cut off here
            return None
        if line.strip() and (fault := _line_fault(line)):
            if is_last and fault.startswith(_NO_JSON):
                return f"the last line of {path}, {number}, is incomplete: {UNFINISHED}"
            return f"line {number} of {path} {fault}"
    return None


_NO_JSON = "is no JSON"
_AN_OBJECT = "write an object a line"


def _line_fault(line: bytes) -> str | None:
    if len(line) > LONGEST_LINE:
        return f"is longer than {LONGEST_LINE >> 20} MiB: {_AN_OBJECT}"
    try:
        found = json.loads(line, object_pairs_hook=_once)
    except RecursionError:
        return f"is nested too deeply: {_AN_OBJECT}"
    except _TwiceError:
        return "has an object with one key twice: write each key once"
    except ValueError as error:
        return f"{_NO_JSON} from character {getattr(error, 'colno', 1)} on: {_AN_OBJECT}"
    if isinstance(found, dict):
        return None
    return (
        f"holds {'an array' if isinstance(found, list) else 'a single value'}: {_AN_OBJECT}, "
        "as with jq -c '.[]'"
    )


class _TwiceError(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError
    return found


def _parquet_fault(files: FileSet, path: str) -> str | None:
    with files.open(path) as raw, pyarrow.parquet.ParquetFile(raw) as file:
        for name in file.schema_arrow.names:
            try:
                for batch in file.iter_batches(columns=[name]):
                    if not _is_utf8(batch):
                        return (
                            f"column {name!r} of {path} holds text that is not UTF-8: write it again "
                            "as UTF-8"
                        )
            except (OSError, pa.ArrowException):
                return (
                    f"column {name!r} of {path} cannot be decoded, its bytes are damaged: "
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
