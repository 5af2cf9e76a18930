"""Rows of ``scores``, written by the fastest path of each database inside the caller's transaction.

PostgreSQL gets a COPY that is put together column by column, SQLite many rows a statement. Users come in chunks: a
million need no more memory than a few ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import chain
from typing import Any

import numpy as np

from monitor.model.arrays import Floats
from monitor.model.runs import Scores
from monitor.storage.column_types import keys

CHUNK = 20_000
"""Users whose rows are in memory at once: about 2 MB as PostgreSQL is sent them."""

MetricsByPart = Sequence[Sequence[str]]
"""The metrics whose values stand in one row, in the order of their places, by part."""

_TOGETHER = 50
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


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
    width = max(map(len, parts))
    columns = ", ".join(f"v{place}" for place in range(1, width + 1))
    with driver.cursor() as cursor, cursor.copy(f"COPY scores (run_id, day, part, {columns}, user_id) FROM STDIN") as copy:
        for users, part, values in _chunks(parts, batches):
            lacking = ["\\N"] * (width - len(values))
            copy.write(_lines(f"{run_id}\t{day}\t{first + part}", values, lacking, users))


def _lines(before: str, values: Sequence[Floats], after: Sequence[str], users: list[str]) -> str:
    """Rows in COPY's text format: what stands before the values, the values, what stands behind them, and the user."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.array(users, pa.string())
    for char, escaped in _ESCAPES.items():
        names = pc.replace_substring(names, char, escaped)
    numbers = [pa.array(column, from_pandas=True).cast(pa.string()) for column in values]  # the shortest that read back equal
    rows = pc.binary_join_element_wise(before, *numbers, *after, names, "\t", null_handling="replace", null_replacement="\\N")
    return "\n".join([*rows.to_pylist(), ""])


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
