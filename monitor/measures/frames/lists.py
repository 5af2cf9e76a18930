"""Reads lists, ids, scores and users from Python's sequences and arrays.

Tables with Arrow's PyCapsule protocol are read too, without a Python object for each list. Any
other value raises InputError. `monitor.measures.reading.ids` defines what an id is.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import wraps
from itertools import chain, compress
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar, cast
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api import types as pandas_types
from pandas.api.extensions import ExtensionArray

from monitor.measures.kernels.ragged import offsets_of
from monitor.measures.reading.ids import (
    describe_type,
    describe_value,
    first_null,
    id_array,
    id_column,
    is_list,
    is_list_view,
    is_text,
    list_lengths,
    one_array,
    to_ids,
)
from monitor.measures.reading.numbers import numbers_of
from monitor.model.arrays import Array, Floats, Ids, Integers
from monitor.model.errors import InputError, SourceError
from monitor.model.rankings import RankingTable
from monitor.model.unreadable import ColumnKind

Row = Sequence[Any] | Array
_LISTS = ("list<", "large_list<", "fixed_size_list<")
_TEXTS = {"string", "large_string", "string_view"}


_P = ParamSpec("_P")
_T = TypeVar("_T")


def refuses_broken_text(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a function raise InputError if it reads text that is not valid Unicode.

    Such text has half of a surrogate pair. Tables cannot store it.
    """

    @wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except UnicodeEncodeError as error:
            near = error.object[max(0, error.start - 20) : error.start + 20]
            raise InputError(
                f"found the text {near!r}, which is not valid Unicode: decode the original bytes "
                "again, or leave the text out"
            ) from None

    return checked


class ArrowTable(Protocol):
    """A table with the Arrow PyCapsule protocol, such as one of pyarrow, polars or duckdb."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def is_table(data: object) -> bool:
    """Whether data is an Arrow table or can be converted to one."""
    return _has_protocol(data) and (hasattr(data, "schema") or hasattr(data, "columns"))


def _has_protocol(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def as_list(data: Any) -> Any:  # noqa: ANN401 - any array with the protocol
    """An Arrow array as a list. Other data are returned unchanged."""
    if is_table(data) or not _has_protocol(data):
        return data
    return pa.chunked_array(data).to_pylist()


def as_frame(data: Any, what: str) -> object:  # noqa: ANN401 - any table with the protocol
    """An Arrow table as a pandas frame. Other data are returned unchanged.

    In the frame, columns of lists have an ArrowDtype. Columns of text have the type ``str``.
    Dictionary columns become categories.
    """
    if isinstance(data, pd.DataFrame) or not is_table(data):
        return data
    try:
        return _without_views(pa.table(data)).to_pandas(
            types_mapper=_pandas_type, split_blocks=True
        )
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"{what} is a table of type {type(data).__name__} that cannot be read: reading it "
            f"raised {type(error).__name__}: give a pyarrow.Table or a pandas.DataFrame"
        ) from None


def _without_views(table: pa.Table) -> pa.Table:
    """The table with each list view converted to a list. pandas cannot read list views."""
    for index, column in enumerate(table.columns):
        if is_list_view(column.type):
            chunks = map(_from_view, column.chunks)
            lists = pa.chunked_array(chunks, pa.large_list(column.type.value_type))
            table = table.set_column(index, table.field(index).name, lists)
    return table


def _from_view(views: pa.Array) -> pa.Array:
    # Arrow 26 loses items when it casts list views with null rows. So each list view is rebuilt.
    offsets = offsets_of(list_lengths(views))
    return pa.LargeListArray.from_arrays(offsets, views.flatten(), mask=views.is_null())


def read_column(data: Any) -> pd.Series:  # noqa: ANN401 - any array with the protocol, a Series too
    """The array as a column of a pandas type."""
    # pandas-stubs does not have this method yet.
    return cast("pd.Series", pd.Series.from_arrow(data))  # type: ignore[attr-defined]


def _pandas_type(kind: object) -> Any:  # noqa: ANN401 - a dtype of pandas, or None for the default
    name = str(kind)
    if name.startswith(_LISTS):
        return pd.ArrowDtype(kind)
    if name in _TEXTS:
        return pd.StringDtype(na_value=float("nan"))
    return None


def read_matrix(data: Array, arm: str) -> RankingTable:
    """Lists from a 2-D array with one row for each user."""
    if data.ndim != 2:  # noqa: PLR2004 - users and ranks
        raise InputError(
            f"{arm} is a {data.ndim}-dimensional array: give an array of two dimensions, with one "
            "row for each user and one column for each rank"
        )
    n, k = data.shape
    items = from_array(data.reshape(-1), f"lists of the {arm}")
    return RankingTable(
        users=pd.RangeIndex(n),
        offsets=np.arange(n + 1, dtype=np.int64) * k,
        items=items,
    )


def read_rows(rows: Sequence[Any], what: str, users: pd.Index | None = None) -> RankingTable:
    """Lists from one sequence for each user. If ``users`` is None, users are numbered from 0."""
    if set(map(type, rows)) <= {list, tuple}:
        lists = rows
        items = from_objects(list(chain.from_iterable(rows)), what)
    else:
        lists = [as_row(row, what, "item ids, best first,") for row in rows]
        items = _join_rows(lists, what)
    return RankingTable(
        users=pd.RangeIndex(len(rows)) if users is None else users,
        offsets=offsets_of(map(len, lists)),
        items=items,
    )


def as_row(row: object, what: str, of: str) -> Row:
    """One list as a sequence. Raises InputError for a value that has no items or no order."""
    if isinstance(row, pd.Series | pd.Index | ExtensionArray):
        return list(row)
    row = as_list(row)
    if isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1):
        refuse_odd(row, what)
        return row
    # Strings are refused because their items would be letters. Sets are refused because they have
    # no order.
    kind = f"a value of type {type(row).__name__}"
    if isinstance(row, np.ndarray):
        kind = f"an array of {row.ndim} dimensions"
    if row is None or row is pd.NA:
        kind = "no list"
    raise InputError(
        f"{what}: found {kind} where a list of {of} was expected (list, tuple, or 1-D array)"
    )


def _join_rows(lists: Sequence[Row], what: str) -> Ids:
    arrays = [row for row in lists if isinstance(row, np.ndarray)]
    if len(arrays) == len(lists) and len({row.dtype for row in arrays}) == 1:
        return from_array(np.concatenate(arrays), what)
    items: list[Any] = []
    for row in lists:
        items.extend(row.tolist() if isinstance(row, np.ndarray) else row)
    return from_objects(items, what)


def read_scores(rows: Sequence[Any], lengths: Integers, what: str) -> Floats:
    """Scores from one sequence of numbers for each user.

    ``lengths`` has the number of items of each user, which must be the number of scores too. None
    and NaN mean that an item has no score.
    """
    lists = [as_row(row, what, "numbers, one for each item,") for row in rows]
    counts = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    unequal = np.flatnonzero(counts != lengths)
    if len(unequal):
        row = unequal[0]
        raise InputError(
            f"{what}: row {row} has {counts[row]} scores for {lengths[row]} items: give one score "
            "for each item, and NaN for an item without a score"
        )
    return as_scores(pd.Series(list(chain.from_iterable(lists)), dtype=object), what)


def as_scores(column: pd.Series, what: str) -> Floats:
    """Numbers as float64. None becomes NaN.

    Raises InputError if a value is no number. The error shows the first such value.
    """
    if isinstance(column.dtype, pd.ArrowDtype):
        column = read_column(column)
    dtype = column.dtype
    if pandas_types.is_object_dtype(dtype):
        values = column.where(column.notna(), None).tolist()
        numbers, is_wrong = numbers_of(values)
        wrong = [value for value, is_bad in zip(values, is_wrong, strict=True) if is_bad]
        if not wrong:
            return numbers
    elif pandas_types.is_numeric_dtype(dtype) and not (
        pandas_types.is_bool_dtype(dtype) or pandas_types.is_complex_dtype(dtype)
    ):
        return column.to_numpy(dtype=float, na_value=np.nan)
    else:
        wrong = column.tolist()
    first = f"{wrong[0]!r}" if wrong else f"the type {dtype}"
    raise InputError(
        f"{what}: found {first[:60]} where a number was expected: give numbers, and NaN "
        "where a number is missing"
    )


def from_objects(values: Sequence[Any], what: str) -> Ids:
    """Ids from Python's values. Raises an InputError that shows the first wrong value."""
    return _require_no_null(id_array(values), values, what)


def _require_no_null(ids: pa.Array, values: Sequence[Any] | pa.Array, what: str) -> Ids:
    """The ids, which were read from ``values``. Raises InputError if an id is null."""
    if ids.null_count:
        _refuse_value(first_null(ids, values), what)
    return to_ids(ids)


def from_array(values: Array | pd.Series, what: str) -> Ids:
    """Ids from a one-dimensional array or column.

    Raises InputError for a value that is no id, and for a type whose values cannot be ids.
    """
    refuse_odd(values, what)
    column = pd.Series(values, copy=False)
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype) and not column.hasnans:
        names = pd.Index(from_array(dtype.categories.to_series(), what))
        codes = column.cat.codes.to_numpy()
        if names.is_unique:
            ids: Ids = pd.Categorical.from_codes(codes, categories=names)
        else:
            ids = names.take(codes).array
        return ids
    if isinstance(dtype, np.dtype) and dtype.kind == "i":
        return column.to_numpy(dtype=np.int32 if dtype == np.int32 else np.int64)
    if isinstance(dtype, pd.ArrowDtype):
        array = one_array(column.array.__arrow_array__())
    elif isinstance(dtype, np.dtype) and dtype.kind in "Oc":
        return from_objects(column.tolist(), what)
    else:
        array = one_array(pa.array(column.array))
    try:
        return _require_no_null(id_column(array, what, "the call"), array, what)
    except SourceError:
        kind = "text that is not UTF-8" if is_text(array.type) else describe_type(array.type)
        advice: str = ColumnKind.IDS
        if pa.types.is_struct(array.type):
            advice = "name one field of them, such as items='recs.id'"
        raise InputError(f"{what}: found {kind} where item ids were expected: {advice}") from None


def take_field(lists: Any, name: str) -> pd.arrays.ArrowExtensionArray:  # noqa: ANN401
    """One field of the objects in lists. Raises KeyError if the objects have no such field."""
    parts = [_take_field(chunk, name) for chunk in lists.__arrow_array__().chunks]
    return pd.arrays.ArrowExtensionArray(pa.chunked_array(parts))


def _take_field(lists: pa.Array, name: str) -> pa.Array:
    if not is_list(lists.type):
        raise KeyError(name)
    objects = lists.flatten()
    if not pa.types.is_struct(objects.type) or objects.type.get_field_index(name) < 0:
        raise KeyError(name)
    offsets = offsets_of(list_lengths(lists))
    return pa.LargeListArray.from_arrays(offsets, pc.struct_field(objects, name))


def refuse_odd(values: object, what: str) -> None:
    """Raise InputError if values are a numpy array with masked values, or an array of records."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise InputError(
            f"{what}: found masked values where item ids were expected: give lists without masked "
            "values, such as row.compressed()"
        )
    if isinstance(values, np.ndarray) and values.dtype.kind == "V":
        raise InputError(
            f"{what}: found records ({values.dtype}) where item ids were expected: give the "
            "array of one field"
        )


def _refuse_value(value: object, what: str) -> NoReturn:
    """Raise an InputError that shows a value that is no id. ``what`` says where it is."""
    if _is_missing(value):
        raise InputError(
            f"{what}: found {value!r} where an item id was expected: drop it or replace it by an id"
        )
    advice: str = ColumnKind.IDS
    if isinstance(value, tuple):
        advice = (
            "give the ids alone, such as [item for item, _ in pairs], and the scores with scores="
        )
    elif isinstance(value, dict) and value:
        advice = f"give only the field with the id, such as {next(iter(value))!r}"
    kind = describe_value(value)
    raise InputError(
        f"{what}: found {kind}, {repr(value)[:60]}, where an item id was expected: {advice}"
    )


def _is_missing(value: object) -> bool:
    try:
        return bool(pandas_types.is_scalar(value) and pd.isna(value))  # type: ignore[call-overload]
    except ArithmeticError:  # Decimal's signalling NaN raises on every comparison
        return True


def checked_users(users: pd.Index, arm: str) -> pd.Index:
    """The users as ids.

    Raises InputError for a value that is no id. It also raises InputError if the same user occurs
    as a number and as text.
    """
    if users.hasnans:
        raise InputError(
            f"{arm} has a missing user id (None or NaN): drop the row, or give it a user id"
        )
    if isinstance(users.dtype, pd.CategoricalDtype):
        users = users.astype(users.dtype.categories.dtype)
    if isinstance(users.dtype, pd.StringDtype) or users.dtype in (np.int64, np.int32):
        return users
    values = users.tolist()
    ids = id_array(values)
    if ids.null_count:
        wrong = first_null(ids, values)
        raise InputError(
            f"{arm}: found {describe_value(wrong)}, {repr(wrong)[:60]}, where a user was expected: "
            f"{ColumnKind.IDS}"
        )
    keys = ids.to_pylist()
    is_text_key = [isinstance(value, str | bytes | UUID) for value in values]
    texts = set(compress(keys, is_text_key))
    for index, key in enumerate(keys):
        if is_text_key[index]:
            continue
        if key in texts:
            raise InputError(
                f"{arm} has user {key!r} as a number and as text, but both are the same "
                "user: spell each user in one way"
            )
        keys[index] = int(key)
    checked: pd.Index = pd.Index(keys, name=users.name)
    return checked


def list_first_names(names: Iterable[Hashable]) -> str:
    """The first ten of these names as text, for an error."""
    return ", ".join(map(repr, list(names)[:10])) or "no columns"
