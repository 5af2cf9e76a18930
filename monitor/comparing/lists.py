"""Many users' lists, in every shape that `compare_many` takes, as users, offsets and flat ids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.comparing.ids import Ids, from_array, from_objects
from monitor.errors import InputError

Rankings = Mapping[Any, Any] | pd.DataFrame | npt.NDArray[Any] | Sequence[Any]
"""User -> list, a long or wide frame, a 2-D array or a sequence of lists (row number = user)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Column names of frames: ``item`` and ``rank`` of long ones (rank None: rows stand best first), ``items`` of wide ones."""

    user: Hashable
    item: Hashable
    rank: Hashable | None
    items: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """One arm: user ``i``, unique, has ``items[offsets[i]:offsets[i + 1]]``, best first."""

    users: pd.Index
    offsets: npt.NDArray[np.int64]
    items: Ids

    def __len__(self) -> int:
        return len(self.users)


def read(data: Rankings, columns: Columns, arm: str) -> Lists:
    """Lists from any of the shapes; InputError, naming the arm, for anything else."""
    if isinstance(data, pd.DataFrame):
        return _read_frame(data, columns, arm)
    if isinstance(data, Mapping):
        users = pd.Index(list(data), tupleize_cols=False)
        return read_rows(list(data.values()), f"lists of the {arm}", _checked_users(users, arm))
    if isinstance(data, np.ndarray):
        return _read_matrix(data, arm)
    if isinstance(data, list | tuple):
        return read_rows(data, f"lists of the {arm}")
    msg = f"{arm} is of type {type(data).__name__}: expected a dict of user -> list, a DataFrame or a 2-D array (row = user)"
    raise InputError(msg)


def read_rows(rows: Sequence[Any], what: str, users: pd.Index | None = None) -> Lists:
    """Lists from one sequence a user, numbered from 0 when no users are given."""
    if set(map(type, rows)) <= {list, tuple}:
        lists, items = rows, from_objects(list(chain.from_iterable(rows)), what)
    else:
        lists = [_as_list(row, what) for row in rows]
        items = _join(lists, what)
    lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    return Lists(
        users=pd.RangeIndex(len(rows)) if users is None else users,
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        items=items,
    )


def _as_list(row: object, what: str) -> Sequence[Any] | npt.NDArray[Any]:
    if isinstance(row, pd.Series | pd.Index):
        return row.tolist()
    if isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1):
        return row
    shown = f"an array of {row.ndim} dimensions" if isinstance(row, np.ndarray) else f"a value of type {type(row).__name__}"
    msg = f"{what}: found {shown} where a list of item ids, best first, was expected (list, tuple, or 1-D array)"
    raise InputError(msg)


def _join(lists: Sequence[Sequence[Any] | npt.NDArray[Any]], what: str) -> Ids:
    arrays = [row for row in lists if isinstance(row, np.ndarray)]
    if len(arrays) == len(lists) and len({row.dtype for row in arrays}) == 1:
        return from_array(np.concatenate(arrays), what)
    return from_objects(list(chain.from_iterable(row.tolist() if isinstance(row, np.ndarray) else row for row in lists)), what)


def _read_matrix(data: npt.NDArray[Any], arm: str) -> Lists:
    if data.ndim != 2:  # noqa: PLR2004 - users and ranks
        msg = f"{arm} is a {data.ndim}-dimensional array: expected two dimensions, a row a user and a column a rank"
        raise InputError(msg)
    n, k = data.shape
    items = from_array(data.reshape(-1), f"lists of the {arm}")
    return Lists(users=pd.RangeIndex(n), offsets=np.arange(n + 1, dtype=np.int64) * k, items=items)


def _read_frame(frame: pd.DataFrame, columns: Columns, arm: str) -> Lists:
    if columns.user not in frame.columns and columns.user in frame.index.names:
        frame = frame.reset_index()
    is_long, is_wide = columns.item in frame.columns, columns.items in frame.columns
    if is_long and is_wide and columns.item != columns.items:
        msg = f"{arm} has both a column {columns.item!r} (long form) and {columns.items!r} (wide form): drop or rename one"
        raise InputError(msg)
    if not is_long and not is_wide:
        msg = (
            f"{arm} has neither a column {columns.item!r} (long form, an item a row) nor {columns.items!r} (wide form, a list "
            f"a row); found {_shown(frame.columns)}: name them with item=, rank=, items="
        )
        raise InputError(msg)
    return _read_wide(frame, columns, arm) if is_wide else _read_long(frame, columns, arm)


def _read_wide(frame: pd.DataFrame, columns: Columns, arm: str) -> Lists:
    users = _checked_users(pd.Index(_column(frame, columns.user, "user", arm)), arm)
    if users.has_duplicates:
        msg = f"{arm} lists user {users[users.duplicated()].tolist()[0]!r} twice: a user needs exactly one list"
        raise InputError(msg)
    return read_rows(_column(frame, columns.items, "items", arm).tolist(), f"lists of the {arm}", users)


def _read_long(frame: pd.DataFrame, columns: Columns, arm: str) -> Lists:
    codes, users = pd.factorize(_checked_users(pd.Index(_column(frame, columns.user, "user", arm)), arm))
    items = from_array(_column(frame, columns.item, "item", arm), f"lists of the {arm}")
    rank = None if columns.rank is None else _ranks(_column(frame, columns.rank, "rank", arm), arm)
    order = _order(codes, rank, users, arm)
    return Lists(
        users=users,
        offsets=np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=len(users))))),
        items=items if order is None else items.take(order),
    )


def _order(
    codes: npt.NDArray[np.intp], rank: npt.NDArray[Any] | None, users: pd.Index, arm: str
) -> npt.NDArray[np.intp] | None:
    """Order of the rows by user and rank; None when they stand so already. InputError for two items at one rank."""
    if rank is None:
        return None if (codes[1:] >= codes[:-1]).all() else np.argsort(codes, kind="stable")
    if ((codes[1:] > codes[:-1]) | ((codes[1:] == codes[:-1]) & (rank[1:] > rank[:-1]))).all():
        return None
    order = np.lexsort((rank, codes))
    codes, rank = codes[order], rank[order]
    if len(tied := np.flatnonzero((codes[1:] == codes[:-1]) & (rank[1:] == rank[:-1]))):
        user = users[codes[tied[:1]]].tolist()[0]
        msg = f"{arm} has two items at rank {rank[tied[0]]} of user {user!r}: ranks must differ within a list"
        raise InputError(msg)
    return order


def _ranks(column: pd.Series, arm: str) -> npt.NDArray[Any]:
    if not pd.api.types.is_numeric_dtype(column.dtype) or column.isna().any():
        msg = f"{arm}: rank column {column.name!r} must hold numbers, none missing; the smallest is the best"
        raise InputError(msg)
    return column.to_numpy()


def _column(frame: pd.DataFrame, name: Hashable, role: str, arm: str) -> pd.Series:
    if name not in frame.columns:
        msg = f"{arm} has no column {name!r}; found {_shown(frame.columns)}: name the right one with {role}="
        raise InputError(msg)
    column: pd.Series | pd.DataFrame = frame[name]
    if isinstance(column, pd.DataFrame):
        msg = f"{arm} has several columns {name!r}: rename all but one"
        raise InputError(msg)
    return column


def _checked_users(users: pd.Index, arm: str) -> pd.Index:
    if users.hasnans:
        msg = f"{arm} holds a missing user id (None or NaN): every list needs its user; drop the row or name the user"
        raise InputError(msg)
    return users


def _shown(names: Iterable[Hashable]) -> str:
    shown = ", ".join(map(repr, list(names)[:10]))
    return shown or "no columns"
