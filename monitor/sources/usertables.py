"""Who may be asked, out of arrow columns: each user once, and one categorical a segment dimension."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.errors import SourceError
from monitor.model import UserTable
from monitor.sources.columns import combined, id_column, is_list, user_column
from monitor.sources.ids import canonical_id


def user_table(batches: Sequence[tuple[pa.Array, Mapping[str, pa.Array]]], where: str) -> UserTable:
    """Build the table from batches of a user column and segment columns.

    Rows without a user are left out; of a user listed twice the first row counts. SourceError when nobody is left.
    """
    users = pa.chunked_array([user_column(column, f"the user column of {where}") for column, _ in batches], pa.large_string())
    first = _first_rows(users)
    if not len(first):
        msg = f"{where} holds no user: check the path or table and the name of the user column"
        raise SourceError(msg)
    everyone = len(first) == len(users)
    chosen = users if everyone else users.take(pa.array(first))
    segments = {}
    for name in batches[0][1]:
        column = pa.chunked_array([_labels(columns[name], name, where) for _, columns in batches], pa.large_string())
        segments[name] = _categorical(column if everyone else column.take(pa.array(first)))
    return UserTable(users=pd.Index(pd.array(combined(chosen), dtype="str")), segments=segments)


def label_array(values: Iterable[object], name: str, where: str) -> pa.Array:
    """Segment values from Python values."""
    return pa.array([_label(value, name, where) for value in values], type=pa.large_string())


def _label(value: object, name: str, where: str) -> str | None:
    if isinstance(value, list | dict | tuple | bytes):
        msg = f"segment column {name!r} of {where} holds {type(value).__name__}: it must hold text, numbers or booleans"
        raise SourceError(msg)
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    known = canonical_id(value) if isinstance(value, float | str) else None
    if isinstance(value, str):
        return None if known is None else value
    return str(value if known is None else known)


def _first_rows(users: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Rows, ascending, where a user stands for the first time."""
    encoded = combined(combined(users).dictionary_encode())
    if len(encoded.dictionary) == len(users):  # nobody twice, nobody null
        return np.arange(len(users))
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    found, first = np.unique(codes, return_index=True)
    return np.sort(first[found >= 0]).astype(np.int64)


def _labels(values: pa.Array, name: str, where: str) -> pa.Array:
    """Segment values as text; null and empty text are no value."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _labels(values.dictionary_decode(), name, where)
    if is_list(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        msg = f"segment column {name!r} of {where} holds {kind}: it must hold text, numbers or booleans"
        raise SourceError(msg)
    if pa.types.is_floating(kind) and pc.all(pc.equal(values, pc.floor(values))).as_py():
        return id_column(values, name).cast(pa.large_string())
    return id_column(values.cast(pa.large_string()), name)


def _categorical(values: pa.ChunkedArray) -> pd.Categorical:
    encoded = combined(combined(values).dictionary_encode())
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    names = pd.Index(pd.array(encoded.dictionary, dtype="str"))
    order = names.argsort()
    place = np.empty(len(order) + 1, dtype=np.int64)
    place[order] = np.arange(len(order))
    place[-1] = -1
    return pd.Categorical.from_codes(place[codes], categories=names[order])
