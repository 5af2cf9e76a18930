"""Rows of ``scores``, written by the fastest path of each database inside the caller's transaction.

PostgreSQL gets a COPY of CSV that Arrow writes, SQLite many rows a statement. Users come in chunks: a million need no more
memory than a few ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from monitor.model import Scores
from monitor.model.arrays import Floats
from monitor.storage.column_types import keys

CHUNK = 20_000
"""Users whose rows are in memory at once: about 2 MB as PostgreSQL is sent them."""

MetricsByPart = Sequence[Sequence[str]]
"""The metrics whose values stand in one row, in the order of their places, by part."""

_TOGETHER = 50


def insert_rows(driver: Any, run_id: int, first: int, parts: MetricsByPart, batches: Iterable[Scores]) -> None:  # noqa: ANN401 - sqlite3
    """Add one row a user and part to SQLite; the first part has the number ``first``."""
    cursor = driver.cursor()
    for users, part, values in _chunks(parts, batches):
        columns = [users, *(_nullable(column) for column in values)]
        width = len(columns)
        flat = list(chain.from_iterable(zip(*columns, strict=True)))
        whole = len(flat) - len(flat) % (width * _TOGETHER)
        # Fifty users a statement take less than half the time that one takes.
        cursor.executemany(_statement(run_id, first + part, width, _TOGETHER), _grouped(flat[:whole], width * _TOGETHER))
        cursor.executemany(_statement(run_id, first + part, width, 1), _grouped(flat[whole:], width))
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
    places = [f"v{place}" for place in range(1, max(map(len, parts)) + 1)]
    columns = ("run_id", "day", "part", "user_id", *places)
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY scores ({', '.join(columns)}) FROM STDIN (FORMAT CSV)") as copy,
    ):
        for users, part, values in _chunks(parts, batches):
            n = len(users)
            absent = [pa.nulls(n)] * (len(places) - len(values))
            scored = [pa.array(column, from_pandas=True) for column in values]  # NaN is NULL, which CSV leaves empty
            same = [pa.repeat(value, n) for value in (run_id, day.isoformat(), first + part)]
            rows = pa.table([*same, pa.array(users, pa.string()), *scored, *absent], names=columns)
            written = pa.BufferOutputStream()
            csv.write_csv(rows, written, csv.WriteOptions(include_header=False))
            copy.write(memoryview(written.getvalue()))


def _chunks(parts: MetricsByPart, batches: Iterable[Scores]) -> Iterator[tuple[list[str], int, list[Floats]]]:
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
    return [None if missing else value for value, missing in zip(column.tolist(), undefined.tolist(), strict=True)]


def _statement(run_id: int, part: int, width: int, users: int) -> str:
    columns = ", ".join(f"v{place}" for place in range(1, width))
    row = f"({run_id:d}, {part:d}{', ?' * width})"
    return f"INSERT INTO scores (run_id, part, user_id, {columns}) VALUES {', '.join([row] * users)}"  # noqa: S608 - numbers only


def _grouped(values: list[Any], size: int) -> Iterator[tuple[Any, ...]]:
    return zip(*[iter(values)] * size, strict=True)
