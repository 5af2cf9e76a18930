"""Writes rows of ``scores`` fast: with COPY, or with many rows in one statement.

A row has the scores of one user for one part of the run's metrics, see
`monitor.storage.user_scores`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from monitor.model.arrays import Floats
from monitor.model.runs import Scores
from monitor.storage.column_types import stored_names

CHUNK_USERS = 20_000
"""How many users' rows are in memory at once. They are about 2 MB in PostgreSQL's format."""

MetricsByPart = Sequence[Sequence[str]]
"""The metrics of each part, in the order of their columns."""

_USERS_A_STATEMENT = 100
"""One statement for a hundred users takes less than half the time of a hundred statements."""
_EPOCH_OF_POSTGRES = date(2000, 1, 1)
# Binary rows for COPY begin with the signature, and end with the trailer.
_COPY_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TRAILER = b"\xff\xff"


def insert_rows(
    driver: Any,  # noqa: ANN401 - sqlite3
    run_id: int,
    first_part: int,
    parts: MetricsByPart,
    blocks: Iterable[Scores],
) -> None:
    """Insert one row for each user and each part of the metrics into SQLite.

    ``parts`` are the metrics of each part. Parts are numbered from ``first_part``.
    """
    for chunk in _chunks(parts, blocks):
        # SQLite stores NaN as NULL.
        columns = [chunk.users, *(scores.tolist() for scores in chunk.scores)]
        # The values of the first row come first, then the values of the second row, and so on.
        row_size = len(columns)
        all_values: list[object] = [None] * (row_size * len(chunk.users))
        for position, column in enumerate(columns):
            all_values[position::row_size] = column
        max_parameters = row_size * _USERS_A_STATEMENT
        for start in range(0, len(all_values), max_parameters):
            parameters = all_values[start : start + max_parameters]
            row_count = len(parameters) // row_size
            statement = _insert_statement(run_id, first_part + chunk.part, row_size, row_count)
            driver.execute(statement, parameters)


def copy_rows(
    driver: Any,  # noqa: ANN401 - psycopg's
    run_id: int,
    day: date,
    first_part: int,
    parts: MetricsByPart,
    blocks: Iterable[Scores],
) -> None:
    """Copy one row for each user and each part of the metrics to PostgreSQL.

    ``parts`` are the metrics of each part. Parts are numbered from ``first_part``.
    """
    with driver.cursor() as cursor:
        for chunk in _chunks(parts, blocks):
            columns = ", ".join(f"v{number}" for number in range(1, len(chunk.scores) + 1))
            fields = f"run_id, day, part, {columns}, user_id"
            part = first_part + chunk.part
            rows = _binary_rows(run_id, day, part, chunk.scores, chunk.users)
            with cursor.copy(f"COPY scores ({fields}) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(_COPY_SIGNATURE)
                copy.write(rows)
                copy.write(_COPY_TRAILER)


def _binary_rows(
    run_id: int,
    day: date,
    part: int,
    values: Sequence[Floats],
    users: list[str],
) -> memoryview:
    """Return the rows in the binary format of PostgreSQL's COPY.

    A row begins with the number of fields. The length and the content of each field follow. All
    numbers are big-endian. ``values`` contains one array of float64 for each metric, with one value
    for each user.

    Only the user has a varying length, and is the last field. All bytes of a row before the user
    are called its head. numpy makes the heads of all rows, and Arrow appends the users.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    user_bytes = pa.array(users, pa.string()).cast(pa.binary())
    # The name, the type and the content of each field.
    fields = [
        ("run", ">i8", run_id),
        ("day", ">i4", (day - _EPOCH_OF_POSTGRES).days),
        ("part", ">i2", part),
        *((f"v{number}", ">f8", column) for number, column in enumerate(values)),
    ]
    layout = [("field_count", ">i2")]
    for name, kind, _ in fields:
        layout += [(f"{name}_length", ">i4"), (name, kind)]
    layout.append(("user_length", ">i4"))
    heads = np.zeros(len(users), layout)
    heads["field_count"] = len(fields) + 1
    # The last two buffers of an Arrow array are the offsets at which values begin, and their bytes.
    _, user_offsets, _ = user_bytes.buffers()
    heads["user_length"] = np.diff(np.frombuffer(user_offsets, np.int32)[: len(users) + 1])
    for name, _, content in fields:
        heads[f"{name}_length"] = heads.dtype[name].itemsize
        heads[name] = content
    # Arrow uses the memory of ``heads``. A head becomes a value of fixed length.
    head_buffers = [None, pa.py_buffer(heads)]
    arrow_heads = pa.Array.from_buffers(pa.binary(heads.dtype.itemsize), len(heads), head_buffers)
    rows = pc.binary_join_element_wise(arrow_heads.cast(pa.binary()), user_bytes, b"")
    _, row_offsets, row_bytes = rows.buffers()
    offsets = np.frombuffer(row_offsets, np.int32)
    return memoryview(row_bytes)[offsets[0] : offsets[len(users)]]


class _Chunk(NamedTuple):
    """The rows of some users in one part."""

    users: list[str]  # as stored
    part: int  # from 0
    scores: list[Floats]  # of each metric of the part


def _chunks(parts: MetricsByPart, blocks: Iterable[Scores]) -> Iterator[_Chunk]:
    """Yield the rows of at most `CHUNK_USERS` users at a time, with a chunk for each part."""
    for block in blocks:
        for start in range(0, len(block.users), CHUNK_USERS):
            rows = slice(start, start + CHUNK_USERS)
            users = stored_names(block.users[rows].tolist())
            for part, metrics in enumerate(parts):
                scores = [block.by_metric[metric][rows] for metric in metrics]
                yield _Chunk(users, part, scores)


@lru_cache(maxsize=16)
def _insert_statement(run_id: int, part: int, row_size: int, row_count: int) -> str:
    """Return an INSERT of ``row_count`` rows with ``row_size`` parameters, the user and scores."""
    columns = ", ".join(f"v{number}" for number in range(1, row_size))
    row = f"({run_id:d}, {part:d}{', ?' * row_size})"
    rows = ", ".join([row] * row_count)
    return f"INSERT INTO scores (run_id, part, user_id, {columns}) VALUES {rows}"  # noqa: S608
