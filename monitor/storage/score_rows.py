"""Rows of ``scores`` in chunks of users, by each database's fastest path: a binary COPY to PostgreSQL, or many a statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from monitor.model.arrays import Floats
from monitor.model.runs import Scores
from monitor.storage.column_types import keys

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 20_000
"""Users whose rows are in memory at once: about 2 MB as PostgreSQL is sent them."""

MetricsByPart = Sequence[Sequence[str]]
"""The metrics whose values stand in one row, in the order of their places, by part."""

_TOGETHER = 50
_EPOCH_OF_POSTGRES = date(2000, 1, 1)
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"


def insert_rows(
    driver: Any, run_id: int, first: int, parts: MetricsByPart, batches: Iterable[Scores]
) -> None:  # noqa: ANN401 - sqlite3
    """Add one row a user and part to SQLite; the first part has the number ``first``."""
    cursor = driver.cursor()
    for users, part, values in _chunks(parts, batches):
        columns = [users, *(_nullable(column) for column in values)]
        width = len(columns)
        flat = list(chain.from_iterable(zip(*columns, strict=True)))
        whole = len(flat) - len(flat) % (width * _TOGETHER)
        # Fifty users a statement take less than half the time that one takes.
        cursor.executemany(
            _statement(run_id, first + part, width, _TOGETHER),
            _grouped(flat[:whole], width * _TOGETHER),
        )
        cursor.executemany(
            _statement(run_id, first + part, width, 1), _grouped(flat[whole:], width)
        )
    cursor.close()


def copy_rows(
    driver: Any,  # noqa: ANN401 - psycopg's
    run_id: int,
    day: date,
    first: int,
    parts: MetricsByPart,
    batches: Iterable[Scores],
) -> None:
    """Add one row a user and part to PostgreSQL; the first part has the number ``first``."""
    width = max(map(len, parts))
    columns = ", ".join(f"v{place}" for place in range(1, width + 1))
    with (
        driver.cursor() as cursor,
        cursor.copy(
            f"COPY scores (run_id, day, part, {columns}, user_id) FROM STDIN (FORMAT BINARY)"
        ) as copy,
    ):
        copy.write(_SIGNATURE)
        for users, part, values in _chunks(parts, batches):
            copy.write(binary_rows(run_id, day, first + part, values, users, width))
        copy.write(_TRAILER)


def binary_rows(
    run_id: int, day: date, part: int, values: Sequence[Floats], users: list[str], width: int
) -> memoryview:
    """Tuples in the format of COPY: number of fields, then each field's length and content, big-endian; NULL is length -1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.array(users, pa.string()).cast(pa.binary())
    lengths = np.diff(np.frombuffer(names.buffers()[1], np.int32)[: len(users) + 1])
    rows = np.zeros(len(users), _layout(width))
    rows["fields"] = 4 + width
    rows["run_length"], rows["run"] = 8, run_id
    rows["day_length"], rows["day"] = 4, (day - _EPOCH_OF_POSTGRES).days
    rows["part_length"], rows["part"] = 2, part
    rows["user_length"] = lengths
    is_null = np.ones((len(users), width), np.bool_)
    for place, column in enumerate(values):
        is_null[:, place] = np.isnan(column)
        rows[f"value{place}"] = column
    for place in range(width):
        rows[f"length{place}"] = np.where(is_null[:, place], -1, 8)
    joined = pc.binary_join_element_wise(_without_nulls(rows, is_null), names, b"")
    start, *_, end = np.frombuffer(joined.buffers()[1], np.int32)[: len(users) + 1]
    return memoryview(joined.buffers()[2])[start:end]


def _layout(width: int) -> np.dtype[Any]:
    """One row but for the user's name, which stands last."""
    values = (
        (f"{kind}{place}", code)
        for place in range(width)
        for kind, code in (("length", ">i4"), ("value", ">f8"))
    )
    return np.dtype([
        ("fields", ">i2"),
        *(("run_length", ">i4"), ("run", ">i8"), ("day_length", ">i4"), ("day", ">i4")),
        *(("part_length", ">i4"), ("part", ">i2"), *values, ("user_length", ">i4")),
    ])  # fmt: skip


def _without_nulls(rows: np.ndarray[Any, Any], is_null: np.ndarray[Any, Any]) -> pa.Array:
    """The bytes of each row, but for values that are NULL, of which only the length stands there."""
    import pyarrow as pa

    size = rows.dtype.itemsize
    content = rows.view(np.uint8).reshape(len(rows), size)
    sizes = size - 8 * is_null.sum(axis=1)
    if is_null.any():
        is_kept = np.ones((len(rows), size), np.bool_)
        for place in range(is_null.shape[1]):
            begin = rows.dtype.fields[f"value{place}"][1]
            is_kept[:, begin : begin + 8] = ~is_null[:, place, None]
        content = content[is_kept]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(),
        len(rows),
        [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))],
    )


def _chunks(
    parts: MetricsByPart, batches: Iterable[Scores]
) -> Iterator[tuple[list[str], int, list[Floats]]]:
    """Names as they are stored, part, and the part's columns of values, for so many users at once."""
    for batch in batches:
        for start in range(0, len(batch.users), CHUNK):
            chunk = slice(start, start + CHUNK)
            users = keys(batch.users[chunk].tolist())
            for part, names in enumerate(parts):
                yield users, part, [batch.by_metric[name][chunk] for name in names]


def _nullable(column: Floats) -> list[float | None]:
    undefined = np.isnan(column)
    if not undefined.any():
        return list(column.tolist())
    return [
        None if missing else value
        for value, missing in zip(column.tolist(), undefined.tolist(), strict=True)
    ]


def _statement(run_id: int, part: int, width: int, users: int) -> str:
    columns = ", ".join(f"v{place}" for place in range(1, width))
    row = f"({run_id:d}, {part:d}{', ?' * width})"
    return (
        f"INSERT INTO scores (run_id, part, user_id, {columns}) VALUES {', '.join([row] * users)}"  # noqa: S608 - numbers only
    )


def _grouped(values: list[Any], size: int) -> Iterator[tuple[Any, ...]]:
    return zip(*[iter(values)] * size, strict=True)
