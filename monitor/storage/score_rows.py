"""Writes rows of ``scores`` fast: with COPY, or with many rows in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from monitor.model.arrays import Floats
from monitor.model.runs import Scores
from monitor.storage.column_types import keys

CHUNK = 20_000
"""How many users' rows are in memory at once. They are about 2 MB in PostgreSQL's format."""

MetricsByPart = Sequence[Sequence[str]]
"""The metrics of each part, in the order of their columns."""

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
    """Insert one row for each user and part into SQLite.

    The first part gets the number ``first``.
    """
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
    """Copy one row for each user and part to PostgreSQL.

    The first part gets the number ``first``.
    """
    with driver.cursor() as cursor:
        for users, part, values in _chunks(parts, batches):
            columns = ", ".join(f"v{place}" for place in range(1, len(values) + 1))
            fields = f"run_id, day, part, {columns}, user_id"
            with cursor.copy(f"COPY scores ({fields}) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(_SIGNATURE)
                copy.write(_binary_rows(run_id, day, first + part, values, users))
                copy.write(_TRAILER)


def _binary_rows(
    run_id: int,
    day: date,
    part: int,
    values: Sequence[Floats],
    users: list[str],
) -> memoryview:
    """Return the rows in the binary format of PostgreSQL's COPY.

    A row begins with the number of its fields. The length and the content of each field follow. All
    numbers are big-endian. ``values`` contains one array of float64 for each metric, with one value
    for each user.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.array(users, pa.string()).cast(pa.binary())
    offsets = np.frombuffer(names.buffers()[1], np.int32)[: len(users) + 1]
    contents = [
        ("run", ">i8", run_id),
        ("day", ">i4", (day - _EPOCH_OF_POSTGRES).days),
        ("part", ">i2", part),
        *((f"v{place}", ">f8", column) for place, column in enumerate(values)),
    ]
    layout = [("fields", ">i2")]
    for name, kind, _ in contents:
        layout += [(f"{name}_length", ">i4"), (name, kind)]
    rows = np.zeros(len(users), [*layout, ("user_length", ">i4")])
    rows["fields"] = len(contents) + 1
    rows["user_length"] = np.diff(offsets)
    for name, _, content in contents:
        rows[f"{name}_length"] = rows.dtype[name].itemsize
        rows[name] = content
    # The user comes last, because its length differs from row to row.
    buffers = [None, pa.py_buffer(rows)]
    starts = pa.Array.from_buffers(pa.binary(rows.dtype.itemsize), len(rows), buffers)
    joined = pc.binary_join_element_wise(starts.cast(pa.binary()), names, b"")
    bounds = np.frombuffer(joined.buffers()[1], np.int32)
    return memoryview(joined.buffers()[2])[bounds[0] : bounds[len(users)]]


def _chunks(
    parts: MetricsByPart, batches: Iterable[Scores]
) -> Iterator[tuple[list[str], int, list[Floats]]]:
    """Yield the users' stored names, a part and its columns of values, `CHUNK` users at a time."""
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
