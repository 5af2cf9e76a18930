"""Arrow batches joined into larger ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

_MERGED_BYTES = 1 << 29  # far from 2 GiB, where offsets of arrow's plain text end

Batch = Mapping[str, pa.Array]


def merged(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """Join batches until they hold at least so many rows: each join against the panel costs as much as the panel is long."""
    waiting: list[Batch] = []
    is_first = True
    for batch in batches:
        waiting.append(batch)
        if _rows(waiting) >= rows or _nbytes(waiting) > _MERGED_BYTES:
            yield _concatenated(waiting)
            waiting, is_first = [], False
    if waiting and (is_first or _rows(waiting)):
        yield _concatenated(waiting)


def _rows(parts: Sequence[Batch]) -> int:
    return sum(len(next(iter(part.values()))) for part in parts)


def _nbytes(parts: Sequence[Batch]) -> int:
    return sum(column.nbytes for part in parts for column in part.values())


def _concatenated(parts: list[Batch]) -> Batch:
    parts = [part for part in parts if _rows([part])] or parts[:1]
    return {name: _joined([part[name] for part in parts]) for name in parts[0]}


def _joined(columns: list[pa.Array]) -> pa.Array:
    if len({column.type for column in columns}) > 1:
        columns = [column.cast(pa.large_string()) for column in columns]
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
