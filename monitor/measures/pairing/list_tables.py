"""Converts users' lists to Arrow tables, and Arrow tables to users' lists.

A column of lists has one list for each user. A column of segments has a list of numbers for each
user. A number is the position of one of the user's segments in a sequence of names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.measures.kernels.ragged import offsets_of, take_lists
from monitor.measures.reading.ids import are_ascending, list_lengths, one_array, to_ids, user_index
from monitor.model.arrays import Floats, Ids, Integers, Offsets, Rows
from monitor.model.rankings import RankingTable


def user_column(users: pd.Index[str]) -> pa.Array:
    """Users as a column of text."""
    return pa.array(users.array, pa.large_string())


def list_column(offsets: Offsets, values: Ids | Floats) -> pa.Array:
    """A column with one list for each user: ``values[offsets[i]:offsets[i + 1]]`` for user i."""
    kind = None
    if not isinstance(values, np.ndarray):
        kind = pa.large_string()
    first = offsets[0]
    flat = pa.array(values[first : offsets[-1]], type=kind)
    if isinstance(flat, pa.ChunkedArray):  # texts of no list, or of several tables
        flat = flat.combine_chunks()
    return pa.LargeListArray.from_arrays(pa.array(offsets - first), flat)


def rankings(table: pa.Table, items: str = "items", scores: str = "scores") -> RankingTable:
    """The lists of a table with these columns. If a list has no scores, all its scores are NaN.

    The scores are None if the table has no such column.
    """
    lengths, flat = flatten_lists(table[items])
    numbers = None
    if scores in table.column_names:
        counts, stored_scores = flatten_lists(table[scores])
        numbers = np.full(len(flat), np.nan)
        numbers[np.repeat(counts == lengths, lengths)] = stored_scores
    return RankingTable(
        users=user_index(table["user"]),
        offsets=offsets_of(lengths),
        items=to_ids(flat),
        scores=numbers,
    )


def flatten_lists(column: pa.Array | pa.ChunkedArray) -> tuple[Integers, pa.Array]:
    """The lengths of all lists, and their values. A null has the length 0."""
    lists = one_array(column)
    return list_lengths(lists), lists.flatten()


def sort_users(users: pa.Table, is_selected: pa.ChunkedArray) -> pa.Table:
    """The selected users of a table with the column ``user``, sorted by user."""
    rows = np.flatnonzero(is_selected.to_numpy())
    names = one_array(users["user"]).take(pa.array(rows))
    if not are_ascending(names):
        rows = rows[pc.sort_indices(names).to_numpy()]
    columns = {name: _take(users[name], rows) for name in users.column_names}
    return pa.table(columns)


def _take(column: pa.ChunkedArray, rows: Rows) -> pa.Array:
    """These rows of a column. Lists of numbers are taken by numpy, which is faster than Arrow."""
    kind = column.type
    has_numbers = pa.types.is_large_list(kind) and not pa.types.is_large_string(kind.value_type)
    if not has_numbers or column.null_count:
        return one_array(column).take(pa.array(rows))
    lengths, flat = flatten_lists(column)
    items, offsets = take_lists(flat.to_numpy(), offsets_of(lengths), rows)
    return list_column(offsets, items)


def segment_column(segments: Mapping[str, Rows], names: Sequence[str], users: int) -> pa.Array:
    """A column of segments. ``segments`` has the rows of the users in each segment."""
    numbers = np.array([names.index(name) for name in segments], dtype=np.int32)
    sizes = [len(rows) for rows in segments.values()]
    rows = np.concatenate([np.empty(0, dtype=np.intp), *segments.values()])
    order = np.argsort(rows, kind="stable")
    offsets = offsets_of(np.bincount(rows, minlength=users))
    return list_column(offsets, np.repeat(numbers, sizes)[order])


def rows_by_segment(column: pa.Array | pa.ChunkedArray, names: Sequence[str]) -> dict[str, Rows]:
    """The rows of the users in each segment of a column of segments, ascending."""
    lengths, flat = flatten_lists(column)
    numbers = flat.to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(lengths), dtype=np.intp), lengths)
    return {name: rows[numbers == number] for number, name in enumerate(names)}
