"""Reads lists from long and wide frames, from Arrow tables, and from other Python data."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from monitor.measures.frames.lists import (
    ArrowTable,
    as_frame,
    as_scores,
    checked_users,
    from_array,
    list_first_names,
    read_column,
    read_matrix,
    read_rows,
    read_scores,
    take_field,
)
from monitor.measures.kernels.ragged import offsets_of
from monitor.measures.reading.lists import order_rows
from monitor.measures.reading.numbers import numbers_of
from monitor.model.arrays import Array, Floats, Integers, Rows
from monitor.model.column_names import find_column, write_absent
from monitor.model.errors import InputError
from monitor.model.immutable import immutable
from monitor.model.rankings import RankingTable

_RANKED = re.compile(r"(?P<stem>.*\D)(?P<rank>\d{1,4})")
Rankings = Mapping[Any, Any] | pd.Series | pd.DataFrame | ArrowTable | Array | Sequence[Any]
"""A mapping or Series of user -> list, a long or wide frame, a 2-D array, or a list of lists.

A long frame has one item in each row. A wide frame has one list in each row.
"""


@immutable
class FrameColumns:
    """The names of the columns of a frame."""

    user: Hashable
    item: Hashable  # long frames have ``item``, ``rank`` and ``score``
    rank: Hashable | None  # None means that the rows are best first
    items: Hashable  # wide frames have ``items`` and ``scores``
    score: Hashable | None
    scores: Hashable | None


def read_frame(frame: pd.DataFrame, columns: FrameColumns, arm: str) -> RankingTable:
    """Lists from a frame. Its columns decide whether it is long or wide."""
    columns = _match_names(columns, frame)
    items = columns.items
    frame = _with_field(_with_index(frame, columns), items)
    is_long = columns.item in frame.columns
    is_wide = items in frame.columns
    if is_long and is_wide and columns.item != items:
        raise InputError(
            f"{arm} has both a column {columns.item!r} (long form) and {items!r} (wide "
            "form): drop or rename one"
        )
    if is_wide:
        return _read_wide(frame, columns, arm)
    if is_long:
        return read_long(frame, columns, arm)
    ranked = _ranked_columns(frame)
    if not ranked:
        raise InputError(
            f"{arm} has no column {columns.item!r} (one item in each row), no column "
            f"{items!r} (one list in each row), and no columns rec_0, rec_1 ... (one for each "
            f"rank). It has {list_first_names(frame.columns)}: give the names of its columns with "
            "item=, rank= or items="
        )
    return _read_ranked(frame, ranked, columns.user, arm)


def _ranked_columns(frame: pd.DataFrame) -> list[str]:
    """The columns such as rec_0 to rec_9, in which each column has the items of one rank.

    The best rank comes first. The result is empty if there are no such columns, or several groups
    of such columns.
    """
    by_stem: dict[str, dict[int, str]] = {}
    for name in frame.columns:
        match = _RANKED.fullmatch(str(name))
        if match:
            by_stem.setdefault(match["stem"], {})[int(match["rank"])] = name
    if len(by_stem) != 1:
        return []
    (by_rank,) = by_stem.values()
    ranks = sorted(by_rank)
    first = ranks[0]
    if first > 1 or ranks != list(range(first, first + len(ranks))):
        return []
    return [by_rank[rank] for rank in ranks]


def _read_ranked(
    frame: pd.DataFrame,
    names: Sequence[str],
    user: Hashable,
    arm: str,
) -> RankingTable:
    """Lists from a frame with one column for each rank.

    A list ends before the first missing value.
    """
    users = _read_users(frame, user, arm)
    _require_one_list(users, arm)
    is_item = frame[names].notna().to_numpy()
    if (is_item[:, 1:] & ~is_item[:, :-1]).any():
        raise InputError(
            f"{arm} has an empty cell before an item in the columns {names[0]} to {names[-1]}: "
            "fill each list from the left, without a gap"
        )
    # The columns are concatenated. ``cells`` selects their items row by row.
    cells = np.arange(is_item.size).reshape(len(names), len(frame)).T[is_item]
    items = pd.concat([frame[name] for name in names], ignore_index=True).iloc[cells]
    offsets = offsets_of(is_item.sum(axis=1))
    return RankingTable(
        users=users,
        offsets=offsets,
        items=from_array(items, f"lists of the {arm}"),
    )


def _read_wide(frame: pd.DataFrame, columns: FrameColumns, arm: str) -> RankingTable:
    """Lists from a frame with one list in each row. The scores are lists in another column."""
    users = _read_users(frame, columns.user, arm)
    _require_one_list(users, arm)
    column = _take_column(frame, columns.items, "items", arm)
    list_column = _read_list_column(column)
    if list_column is None:
        lists = read_rows(column.tolist(), f"lists of the {arm}", users)
    else:
        lengths, values = list_column
        items = from_array(values, f"lists of the {arm}")
        lists = RankingTable(users=users, offsets=offsets_of(lengths), items=items)
    if not _has_column(frame, columns.scores, "scores", arm):
        return lists
    scores = _read_list_scores(frame[columns.scores], np.diff(lists.offsets), arm)
    return replace(lists, scores=scores)


def _read_list_scores(column: pd.Series, lengths: Integers, arm: str) -> Floats:
    """The scores of all lists. ``lengths`` are the numbers of items in the lists."""
    what = f"scores of the {arm}"
    list_column = _read_list_column(column)
    # If the lengths differ, the lists are read row by row, because then the error names the row.
    if list_column is None or not np.array_equal(list_column[0], lengths):
        return read_scores(column.tolist(), lengths, what)
    return as_scores(list_column[1], what)


def _read_list_column(column: pd.Series) -> tuple[Integers, pd.Series] | None:
    """The lengths of the lists in an Arrow column of lists, and all items in one column.

    The result is None if the column is of another type, or if a list is missing.
    """
    if not hasattr(column, "list") or column.hasnans:
        return None
    # A Python object for each row would take more time than the comparison. ``Series.list.flatten``
    # would repeat the label of each user for each item.
    parts = [
        pd.Series(pd.arrays.ArrowExtensionArray(chunk.flatten()))
        for chunk in column.array.__arrow_array__().chunks
    ]
    if parts:
        items = pd.concat(parts, ignore_index=True)
    else:
        items = column.list.flatten()
    return column.list.len().to_numpy(dtype=np.int64), items


def _with_field(frame: pd.DataFrame, name: Hashable) -> pd.DataFrame:
    """The frame, with an additional column if the name has a dot, such as ``recs.id``.

    The lists in the Arrow column ``recs`` contain objects. The new column has their field ``id``.
    """
    column, _, field = str(name).partition(".")
    if name in frame.columns or column not in frame.columns:
        return frame
    if not isinstance(frame[column].dtype, pd.ArrowDtype):
        return frame
    try:
        values = take_field(frame[column].array, field)
    except KeyError:
        raise InputError(
            f"column {column!r} has no lists of objects with a field {field!r}: name another field"
        ) from None
    return frame.assign(**{str(name): pd.Series(values, index=frame.index)})


def _with_index(frame: pd.DataFrame, columns: FrameColumns) -> pd.DataFrame:
    """The frame with its users and ranks in columns, even if they are levels of the index."""
    levels = [name for name in frame.index.names if name is not None and name not in frame.columns]
    if columns.user in levels or columns.rank in levels:
        return frame.reset_index(level=levels)
    return frame


def _match_names(columns: FrameColumns, frame: pd.DataFrame) -> FrameColumns:
    present = [*frame.columns, *frame.index.names]
    return replace(
        columns,
        user=find_column(columns.user, present),
        item=find_column(columns.item, present),
        rank=find_column(columns.rank, present),
    )


def read_long(frame: pd.DataFrame, columns: FrameColumns, arm: str) -> RankingTable:
    """Lists from a frame with one item in each row."""
    columns = _match_names(columns, frame)
    frame = _with_index(frame, columns)
    codes, users = pd.factorize(_read_users(frame, columns.user, arm))
    items = from_array(_take_column(frame, columns.item, "item", arm), f"lists of the {arm}")
    scores = None
    if _has_column(frame, columns.score, "score", arm):
        scores = as_scores(_take_column(frame, columns.score, "score", arm), f"scores of the {arm}")
    if scores is not None and columns.rank == "rank" and "rank" not in frame.columns:
        _require_scores(codes, scores, users, arm)
        order = order_rows(codes, -scores, items)
    elif columns.rank is None:
        order = order_rows(codes, np.arange(len(codes)))
    else:
        rank = _read_ranks(_take_column(frame, columns.rank, "rank", arm), arm)
        order = order_rows(codes, rank)
        if order is not None:
            _refuse_ties(codes[order], rank[order], users, arm)
    if order is not None:
        items = items.take(order)
        scores = None if scores is None else scores.take(order)
    offsets = offsets_of(np.bincount(codes, minlength=len(users)))
    return RankingTable(users=users, offsets=offsets, items=items, scores=scores)


def _read_users(frame: pd.DataFrame, name: Hashable, arm: str) -> pd.Index:
    """The users in the column ``name``. Raises InputError if a user is missing."""
    column = _take_column(frame, name, "user", arm)
    if isinstance(column.dtype, pd.ArrowDtype):
        column = read_column(column)
    return checked_users(pd.Index(column), arm)


def _require_one_list(users: pd.Index, arm: str) -> None:
    if users.has_duplicates:
        twice = users[users.duplicated()].tolist()[0]
        raise InputError(f"{arm} has user {twice!r} twice: give each user exactly one list")


def _has_column(
    frame: pd.DataFrame,
    name: Hashable | None,
    role: str,
    arm: str,
) -> bool:
    """Whether the frame has the column ``name``."""
    # The column may be missing only if it has its default name.
    if name is None or (name == role and name not in frame.columns):
        return False
    _take_column(frame, name, role, arm)
    return True


def _refuse_ties(codes: Rows, rank: Array, users: pd.Index, arm: str) -> None:
    """Raise InputError if two items of a user have the same rank.

    The rows are ordered by user and rank. ``users[codes]`` are the users of the rows.
    """
    tied = np.flatnonzero((codes[1:] == codes[:-1]) & (rank[1:] == rank[:-1]))
    if len(tied):
        user = users[codes[tied[:1]]].tolist()[0]
        raise InputError(
            f"{arm} has two items at rank {rank[tied[0]]} of user {user!r}: give each item of a "
            "list its own rank"
        )


def _require_scores(codes: Rows, scores: Floats, users: pd.Index, arm: str) -> None:
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        user = users[codes[missing[:1]]].tolist()[0]
        raise InputError(
            f"{arm} has an item without a score for user {user!r}: give each item a score, or name "
            "a rank column with rank="
        )


def _read_ranks(column: pd.Series, arm: str) -> Array:
    if pd.api.types.is_object_dtype(column.dtype):  # Python's numbers, such as Decimals
        column = pd.Series(numbers_of(column.tolist())[0], name=column.name)
    is_number = pd.api.types.is_any_real_numeric_dtype(column.dtype)
    if not is_number or column.isna().any():
        raise InputError(
            f"{arm}: rank column {column.name!r} has a missing value or a value that is no number: "
            "give each item a number, the smallest for the best item"
        )
    return column.to_numpy()


def _take_column(
    frame: pd.DataFrame,
    name: Hashable,
    role: str,
    arm: str,
) -> pd.Series:
    """The column ``name``. Raises InputError if there is no such column, or more than one."""
    if name not in list(frame.columns):  # in a list, because a name may be unhashable
        raise InputError(
            f"{arm} has no column {write_absent(name, frame.columns)}: give the name of the column "
            f"with {role}="
        )
    column: pd.Series | pd.DataFrame = frame[name]
    if isinstance(column, pd.DataFrame):
        raise InputError(f"{arm} has several columns {name!r}: rename all but one of them")
    return column


def read_lists_of_any_shape(data: Rankings, columns: FrameColumns, arm: str) -> RankingTable:
    """Lists from data of any supported shape.

    Raises InputError for any other data. The message of the error names the arm.
    """
    if isinstance(data, pd.Series):
        lists = pd.DataFrame({columns.user: data.index, columns.items: data.array})
        return _read_wide(lists, replace(columns, scores=None), arm)
    frame = as_frame(data, arm)
    if isinstance(frame, pd.DataFrame):
        return read_frame(frame, columns, arm)
    if isinstance(data, Mapping):
        users = pd.Index(list(data), tupleize_cols=False)
        return read_rows(list(data.values()), f"lists of the {arm}", checked_users(users, arm))
    if isinstance(data, np.ndarray):
        return read_matrix(data, arm)
    if isinstance(data, list | tuple):
        return read_rows(data, f"lists of the {arm}")
    raise InputError(
        f"{arm} is of type {type(data).__name__}: give a dict or Series of user -> list, a "
        "DataFrame, an Arrow table, a 2-D array, or a list with one list for each user"
    )
