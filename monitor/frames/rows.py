"""Lists that come one sequence a user: dicts, sequences, 2-D arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.errors import InputError
from monitor.frames.ids import Ids, from_array, from_objects, refuse_odd
from monitor.frames.lists import UserLists, checked_users, offsets_of
from monitor.frames.tables import is_table, read_column
from monitor.model.arrays import Floats

Row = Sequence[Any] | npt.NDArray[Any]


def read_mapping(data: Mapping[Any, Any], arm: str) -> UserLists:
    """Lists from user -> list."""
    users = pd.Index(list(data), tupleize_cols=False)
    return read_rows(list(data.values()), f"lists of the {arm}", checked_users(users, arm))


def read_matrix(data: npt.NDArray[Any], arm: str) -> UserLists:
    """Lists from a 2-D array, a row a user."""
    if data.ndim != 2:  # noqa: PLR2004 - users and ranks
        msg = f"{arm} is a {data.ndim}-dimensional array: expected two dimensions, a row a user and a column a rank"
        raise InputError(msg)
    n, k = data.shape
    items = from_array(data.reshape(-1), f"lists of the {arm}")
    return UserLists(users=pd.RangeIndex(n), offsets=np.arange(n + 1, dtype=np.int64) * k, items=items)


def read_rows(rows: Sequence[Any], what: str, users: pd.Index | None = None) -> UserLists:
    """Lists from one sequence a user, numbered from 0 when no users are given."""
    if set(map(type, rows)) <= {list, tuple}:
        lists, items = rows, from_objects(list(chain.from_iterable(rows)), what)
    else:
        lists = [as_row(row, what, "item ids, best first,") for row in rows]
        items = _join(lists, what)
    return UserLists(
        users=pd.RangeIndex(len(rows)) if users is None else users, offsets=offsets_of(map(len, lists)), items=items
    )


def as_row(row: object, what: str, of: str) -> Row:
    """One list as it can be walked through; InputError for a string, a set, or whatever else has no order or no items."""
    if isinstance(row, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return list(row)
    if isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1):
        refuse_odd(row, what)
        return row
    if not is_table(row) and (hasattr(row, "__arrow_c_array__") or hasattr(row, "__arrow_c_stream__")):
        return list(read_column(row))
    found = f"an array of {row.ndim} dimensions" if isinstance(row, np.ndarray) else f"a value of type {type(row).__name__}"
    msg = f"{what}: found {found} where a list of {of} was expected (list, tuple, or 1-D array)"
    raise InputError(msg)


def _join(lists: Sequence[Row], what: str) -> Ids:
    arrays = [row for row in lists if isinstance(row, np.ndarray)]
    if len(arrays) == len(lists) and len({row.dtype for row in arrays}) == 1:
        return from_array(np.concatenate(arrays), what)
    return from_objects(list(chain.from_iterable(row.tolist() if isinstance(row, np.ndarray) else row for row in lists)), what)


def read_scores(rows: Sequence[Any], lengths: npt.NDArray[np.int64], what: str) -> Floats:
    """Scores from one sequence of numbers a user, as long as the user's list; None and NaN stand for no score."""
    lists = [as_row(row, what, "numbers, one an item,") for row in rows]
    found = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    if len(odd := np.flatnonzero(found != lengths)):
        msg = (
            f"{what}: row {odd[0]} has {found[odd[0]]} scores for {lengths[odd[0]]} items: give each item its score, "
            "NaN where there is none"
        )
        raise InputError(msg)
    return as_scores(pd.Series(list(chain.from_iterable(lists)), dtype=object), what)


def as_scores(column: pd.Series, what: str) -> Floats:
    """Numbers as float64, NaN for None; InputError, with the first culprit, for what is no number."""
    if isinstance(column.dtype, pd.ArrowDtype):
        column = read_column(column)
    if pd.api.types.is_object_dtype(column.dtype):
        odd = [value for value in column.tolist() if isinstance(value, str | bytes | bool | complex)]
    elif pd.api.types.is_complex_dtype(column.dtype):
        odd = column.tolist()[:1]
    else:
        odd = [] if pd.api.types.is_numeric_dtype(column.dtype) else column.tolist()[:1]
    try:
        if not odd and not pd.api.types.is_bool_dtype(column.dtype):
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError, OverflowError):
        odd = [value for value in column.tolist() if not isinstance(value, int | float)]
    found = repr(odd[0]) if odd else "booleans"
    msg = f"{what}: found {found} where a number was expected: give numbers, NaN where there is none"
    raise InputError(msg)
