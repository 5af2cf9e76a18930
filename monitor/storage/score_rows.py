"""Writes rows of ``scores`` as fast as the database can: COPY, or many rows in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from monitor.model.arrays import Floats
from monitor.model.runs import Scores
from monitor.storage.column_types import keys

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 20_000
"""How many users' rows are in memory at once. They are about 2 MB in PostgreSQL's format."""

MetricsByPart = Sequence[Sequence[str]]
"""The metrics of each part, in the order of their columns in a row."""

_USERS_A_STATEMENT = 50
"""One statement for fifty users takes less than half the time of fifty statements."""
_EPOCH_OF_POSTGRES = date(2000, 1, 1)
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"


def insert_rows(
    driver: Any,  # noqa: ANN401 - sqlite3
    run_id: int,
    first: int,
    parts: MetricsByPart,
    batches: Iterable[Scores],
) -> None:
    """Insert one row for each user and part into SQLite; the first part gets number ``first``."""
    for users, part, values in _chunks(parts, batches):
        columns = [users, *(column.tolist() for column in values)]  # SQLite stores NaN as NULL
        flat = list(chain.from_iterable(zip(*columns, strict=True)))
        size = len(columns) * _USERS_A_STATEMENT
        for start in range(0, len(flat), size):
            numbers = flat[start : start + size]
            users_at_once = len(numbers) // len(columns)
            driver.execute(_statement(run_id, first + part, len(columns), users_at_once), numbers)


def copy_rows(
    driver: Any,  # noqa: ANN401 - psycopg's
    run_id: int,
    day: date,
    first: int,
    parts: MetricsByPart,
    batches: Iterable[Scores],
) -> None:
    """Copy one row for each user and part to PostgreSQL; the first part gets number ``first``."""
    width = max(map(len, parts))
    columns = ", ".join(f"v{place}" for place in range(1, width + 1))
    statement = f"COPY scores (run_id, day, part, {columns}, user_id) FROM STDIN (FORMAT BINARY)"
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(_SIGNATURE)
        for users, part, values in _chunks(parts, batches):
            copy.write(binary_rows(run_id, day, first + part, values, users, width))
        copy.write(_TRAILER)


def binary_rows(
    run_id: int,
    day: date,
    part: int,
    values: Sequence[Floats],
    users: list[str],
    width: int,
) -> memoryview:
    """Return the rows in the binary format of PostgreSQL's COPY.

    A row is the number of its fields, then length and content of each field, big-endian. NULL has
    the length -1 and no content. ``values`` has an array for each metric, with one float64 for each
    user and NaN for NULL. Columns without a metric, up to ``width``, are NULL.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.array(users, pa.string()).cast(pa.binary())
    offsets = np.frombuffer(names.buffers()[1], np.int32)[: len(users) + 1]
    rows = np.zeros(len(users), _layout(width))
    rows["number_of_fields"] = 4 + width
    rows["run_length"] = 8
    rows["run"] = run_id
    rows["day_length"] = 4
    rows["day"] = (day - _EPOCH_OF_POSTGRES).days
    rows["part_length"] = 2
    rows["part"] = part
    rows["user_length"] = np.diff(offsets)
    is_null = np.ones((len(users), width), np.bool_)
    for place, column in enumerate(values):
        is_null[:, place] = np.isnan(column)
        rows[f"value{place}"] = column
    for place in range(width):
        rows[f"length{place}"] = np.where(is_null[:, place], -1, 8)
    joined = pc.binary_join_element_wise(_without_nulls(rows, is_null), names, b"")
    bounds = np.frombuffer(joined.buffers()[1], np.int32)
    return memoryview(joined.buffers()[2])[bounds[0] : bounds[len(users)]]


def _layout(width: int) -> np.dtype[Any]:
    """Return the layout of a row in PostgreSQL's binary COPY format, up to the user's length.

    That is the number of fields, and then the length and value of each. The user's bytes follow.
    """
    fields = [
        ("number_of_fields", ">i2"),
        ("run_length", ">i4"),
        ("run", ">i8"),
        ("day_length", ">i4"),
        ("day", ">i4"),
        ("part_length", ">i4"),
        ("part", ">i2"),
    ]
    for place in range(width):
        fields += [(f"length{place}", ">i4"), (f"value{place}", ">f8")]
    return np.dtype([*fields, ("user_length", ">i4")])


def _without_nulls(rows: np.ndarray[Any, Any], is_null: np.ndarray[Any, Any]) -> pa.Array:
    """Return the bytes of each row; a NULL value keeps its length and loses its content."""
    import pyarrow as pa

    size = rows.dtype.itemsize
    content = rows.view(np.uint8).reshape(len(rows), size)
    sizes = size - 8 * is_null.sum(axis=1)
    if is_null.any():
        is_sent = np.ones((len(rows), size), np.bool_)
        for place in range(is_null.shape[1]):
            begin = rows.dtype.fields[f"value{place}"][1]
            is_sent[:, begin : begin + 8] = ~is_null[:, place, None]
        content = content[is_sent]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def _chunks(
    parts: MetricsByPart, batches: Iterable[Scores]
) -> Iterator[tuple[list[str], int, list[Floats]]]:
    """Yield the stored names, the part and its columns of values, `CHUNK` users at a time."""
    for batch in batches:
        for start in range(0, len(batch.users), CHUNK):
            chunk = slice(start, start + CHUNK)
            users = keys(batch.users[chunk].tolist())
            for part, names in enumerate(parts):
                yield users, part, [batch.by_metric[name][chunk] for name in names]


@lru_cache(maxsize=16)
def _statement(run_id: int, part: int, width: int, users: int) -> str:
    columns = ", ".join(f"v{place}" for place in range(1, width))
    row = f"({run_id:d}, {part:d}{', ?' * width})"
    rows = ", ".join([row] * users)
    return f"INSERT INTO scores (run_id, part, user_id, {columns}) VALUES {rows}"  # noqa: S608
