"""Lists, ids, scores and users from Python's sequences and arrays: what is no list, id, number or user is refused here.

Tables with Arrow's PyCapsule protocol keep list columns, without a Python object a row.
What an id is, `monitor.reading.ids` says.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import wraps
from itertools import chain
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.extensions import ExtensionArray

from monitor.errors import InputError, SourceError
from monitor.kernels.ragged import offsets_of
from monitor.model.arrays import Floats, Ids
from monitor.model.rankings import RankingTable
from monitor.model.unreadable import Need
from monitor.reading.ids import (
    canonical_id,
    describe_type,
    describe_value,
    id_array,
    id_column,
    is_list,
    is_text,
)

Row = Sequence[Any] | npt.NDArray[Any]
_LISTS = ("list<", "large_list<", "fixed_size_list<")
_TEXTS = {"string", "large_string", "string_view"}
_P = ParamSpec("_P")
_T = TypeVar("_T")


class ArrowTable(Protocol):
    """A table with the Arrow PyCapsule protocol: pyarrow, polars, duckdb and others."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def is_table(data: object) -> bool:
    """Whether data is a table of Arrow's, or can be had as one; a pandas frame is none."""
    has_columns = hasattr(data, "schema") or hasattr(data, "columns")
    return has_columns and (
        hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    )


def as_frame(data: Any, what: str) -> object:  # noqa: ANN401 - any table with the protocol
    """A table of Arrow's as a frame, list columns as ArrowDtype, text as ``str``, dictionaries as categories; else as it is."""
    if isinstance(data, pd.DataFrame) or not is_table(data):
        return data
    try:
        return pa.table(data).to_pandas(types_mapper=_as_pandas, split_blocks=True)
    except (TypeError, ValueError, NotImplementedError) as error:
        failure = (
            f"reading it raised {type(error).__name__}: hand over a pyarrow.Table or a "
            "pandas.DataFrame"
        )
        raise InputError(
            f"{what} is a table of type {type(data).__name__} that cannot be read: {failure}"
        ) from None


def read_column(data: Any) -> pd.Series:  # noqa: ANN401 - any array with the protocol, a Series too
    """The array as a column of pandas' own types."""
    return cast("pd.Series", pd.Series.from_arrow(data))  # type: ignore[attr-defined] # pandas-stubs lags


def _as_pandas(kind: object) -> Any:  # noqa: ANN401 - a dtype of pandas, or None for the usual one
    name = str(kind)
    if name.startswith(_LISTS):
        return pd.ArrowDtype(kind)
    return pd.StringDtype(na_value=float("nan")) if name in _TEXTS else None


def refuses_broken_text(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same function, raising InputError for text that holds half a character, which no table of text can hold."""

    @wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except UnicodeEncodeError as error:
            near = error.object[max(0, error.start - 20) : error.start + 20]
            msg = (
                f"found the text {near!r}, which is no Unicode: decode the bytes that it was "
                "made of anew, or leave it out"
            )
            raise InputError(msg) from None

    return checked


def read_matrix(data: npt.NDArray[Any], arm: str) -> RankingTable:
    """Lists from a 2-D array, a row a user."""
    if data.ndim != 2:  # noqa: PLR2004 - users and ranks
        raise InputError(
            (
                f"{arm} is a {data.ndim}-dimensional array: expected two dimensions, a row a user "
                "and a column a rank"
            )
        )
    n, k = data.shape
    items = from_array(data.reshape(-1), f"lists of the {arm}")
    return RankingTable(
        users=pd.RangeIndex(n), offsets=np.arange(n + 1, dtype=np.int64) * k, items=items
    )


def read_rows(rows: Sequence[Any], what: str, users: pd.Index | None = None) -> RankingTable:
    """Lists from one sequence a user, numbered from 0 when no users are given."""
    if set(map(type, rows)) <= {list, tuple}:
        lists, items = rows, from_objects(list(chain.from_iterable(rows)), what)
    else:
        lists = [as_row(row, what, "item ids, best first,") for row in rows]
        items = _join(lists, what)
    return RankingTable(
        users=pd.RangeIndex(len(rows)) if users is None else users,
        offsets=offsets_of(map(len, lists)),
        items=items,
    )


def as_row(row: object, what: str, of: str) -> Row:
    """One list as it can be walked through; InputError for whatever has no order or no items."""
    if isinstance(row, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return list(row)
    if isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1):
        refuse_odd(row, what)
        return row
    if not is_table(row) and (
        hasattr(row, "__arrow_c_array__") or hasattr(row, "__arrow_c_stream__")
    ):
        return list(read_column(row))
    # A string would be read as its letters, and a set has no order.
    found = (
        f"an array of {row.ndim} dimensions"
        if isinstance(row, np.ndarray)
        else f"a value of type {type(row).__name__}"
    )
    raise InputError(
        f"{what}: found {found} where a list of {of} was expected (list, tuple, or 1-D array)"
    )


def _join(lists: Sequence[Row], what: str) -> Ids:
    arrays = [row for row in lists if isinstance(row, np.ndarray)]
    if len(arrays) == len(lists) and len({row.dtype for row in arrays}) == 1:
        return from_array(np.concatenate(arrays), what)
    return from_objects(
        list(
            chain.from_iterable(
                row.tolist() if isinstance(row, np.ndarray) else row for row in lists
            )
        ),
        what,
    )


def read_scores(rows: Sequence[Any], lengths: npt.NDArray[np.int64], what: str) -> Floats:
    """Scores from one sequence of numbers a user, as long as the user's list.

    None and NaN stand for no score.
    """
    lists = [as_row(row, what, "numbers, one an item,") for row in rows]
    found = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    if len(odd := np.flatnonzero(found != lengths)):
        raise InputError(
            f"{what}: row {odd[0]} has {found[odd[0]]} scores for {lengths[odd[0]]} items: give "
            "each item its score, NaN where there is none"
        )
    return as_scores(pd.Series(list(chain.from_iterable(lists)), dtype=object), what)


def as_scores(column: pd.Series, what: str) -> Floats:
    """Numbers as float64, NaN for None.

    InputError, with the first culprit, for what is no number.
    """
    if isinstance(column.dtype, pd.ArrowDtype):
        column = read_column(column)
    if pd.api.types.is_object_dtype(column.dtype):
        odd = [
            value for value in column.tolist() if isinstance(value, str | bytes | bool | complex)
        ]
    elif pd.api.types.is_complex_dtype(column.dtype):
        odd = column.tolist()[:1]
    else:
        odd = [] if pd.api.types.is_numeric_dtype(column.dtype) else column.tolist()[:1]
    try:
        if not odd and not pd.api.types.is_bool_dtype(column.dtype):
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError, OverflowError):
        odd = [value for value in column.tolist() if not isinstance(value, int | float)]
    found = repr(odd[0]) if odd else "booleans, or a number beyond what a float can hold,"
    raise InputError(
        f"{what}: found {found} where a number was expected: give numbers, NaN where there is none"
    )


def from_objects(values: Sequence[Any], what: str) -> Ids:
    """Ids from Python's values; InputError, speaking of ``what``, for the first that is no id."""
    return _from_arrow(id_array(values), what, values)


def _from_arrow(values: pa.Array, what: str, given: Sequence[Any] | None = None) -> Ids:
    """Ids from an array of Arrow's; ``given`` has the values that it was made of."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    try:
        ids = id_column(values, what, "the call")
    except SourceError:
        held = "text that is not UTF-8" if is_text(values.type) else describe_type(values.type)
        advice = (
            "name a field, such as items='recs.id'" if pa.types.is_struct(values.type) else Need.IDS
        )
        raise InputError(f"{what}: found {held} where item ids were expected: {advice}") from None
    if ids.null_count:
        place = pc.index(ids.is_null(), True).as_py()
        _refuse(values[place].as_py() if given is None else given[place], what)
    if pa.types.is_integer(ids.type):
        numbers: npt.NDArray[np.int64] = ids.to_numpy(zero_copy_only=False)
        return numbers
    texts: ExtensionArray = pd.array(ids, dtype="str")
    return texts


def from_array(values: npt.NDArray[Any] | pd.Series, what: str) -> Ids:
    """Ids from a one-dimensional array or column.

    InputError for a value that is no id, and for a type that holds none.
    """
    refuse_odd(values, what)
    column = pd.Series(values, copy=False)
    dtype = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return _from_arrow(column.array.__arrow_array__(), what)
    if column.hasnans:
        _refuse(column[column.isna()].iloc[0], what)
    if isinstance(dtype, pd.CategoricalDtype):
        names = pd.Index(from_array(dtype.categories.to_series(), what))
        codes = column.cat.codes.to_numpy()
        return (
            pd.Categorical.from_codes(codes, categories=names)
            if names.is_unique
            else names.take(codes).array
        )
    if isinstance(dtype, pd.StringDtype):
        return _from_arrow(pa.array(column.astype("str").array, pa.large_string()), what)
    if dtype == np.int32 or (
        pd.api.types.is_signed_integer_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    ):
        return column.to_numpy(dtype=np.int32 if dtype == np.int32 else np.int64)
    if isinstance(dtype, np.dtype) and dtype.kind in "uf":
        return _from_arrow(pa.array(column.to_numpy()), what)
    return from_objects(column.tolist(), what)


def take_field(lists: Any, name: str) -> pd.arrays.ArrowExtensionArray:  # noqa: ANN401 - pandas' array of Arrow lists
    """One field of the objects in lists; KeyError where they have none of this name."""
    parts = [_of_each(chunk, name) for chunk in lists.__arrow_array__().chunks]
    return pd.arrays.ArrowExtensionArray(pa.chunked_array(parts))


def _of_each(lists: pa.Array, name: str) -> pa.Array:
    objects = lists.flatten() if is_list(lists.type) else lists
    if (
        not is_list(lists.type)
        or not pa.types.is_struct(objects.type)
        or objects.type.get_field_index(name) < 0
    ):
        raise KeyError(name)
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.LargeListArray.from_arrays(offsets_of(lengths), pc.struct_field(objects, name))


def refuse_odd(values: object, what: str) -> None:
    """InputError for an array of numpy's that hides values, or whose values are records."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        msg = (
            f"{what}: found masked values where item ids were expected: give lists without "
            "them, such as row.compressed()"
        )
        raise InputError(msg)
    if isinstance(values, np.ndarray) and values.dtype.kind == "V":
        raise InputError(
            (
                f"{what}: found records ({values.dtype}) where item ids were expected: give the "
                "array of one field"
            )
        )


def _refuse(value: object, what: str) -> NoReturn:
    if isinstance(value, str):
        value.encode()  # half a character has an error of its own
    found = describe_value(value)
    if _is_missing(value):
        raise InputError(
            f"{what}: found {value!r} where an item id was expected: drop the item or name it"
        )
    advice: str = Need.IDS
    if isinstance(value, tuple):
        advice = (
            "give the ids alone, such as [item for item, _ in pairs], and the scores with scores="
        )
    elif isinstance(value, dict) and value:
        advice = f"give the field that holds the id, such as {next(iter(value))!r}"
    raise InputError(
        f"{what}: found {found}, {repr(value)[:60]}, where an item id was expected: {advice}"
    )


def _is_missing(value: object) -> bool:
    try:
        return bool(pd.api.types.is_scalar(value) and pd.isna(value))  # type: ignore[call-overload] # any scalar
    except ArithmeticError:  # a signalling NaN of Decimal's refuses even to be looked at
        return True


def checked_users(users: pd.Index, arm: str) -> pd.Index:
    """The users as ids, each named once.

    InputError for what is no id, and for one both as a number and as text.
    """
    if users.hasnans:
        msg = (
            f"{arm} holds a missing user id (None or NaN): every list needs its user; drop the "
            "row or name the user"
        )
        raise InputError(msg)
    if isinstance(users.dtype, pd.StringDtype) or users.dtype in (np.int64, np.int32):
        return users
    keys = list(map(canonical_id, users))
    if None in keys:
        odd = users[keys.index(None)]
        raise InputError(
            (
                f"{arm}: found {describe_value(odd)}, {repr(odd)[:60]}, where a user was expected: "
                f"{Need.IDS}"
            )
        )
    numbers = {str(key) for key in keys if isinstance(key, int)}
    if twice := next((key for key in keys if isinstance(key, str) and key in numbers), None):
        raise InputError(
            (
                f"{arm} has user {twice!r} both as a number and as text, which are one user: spell "
                "it in one way"
            )
        )
    return pd.Index(keys, name=users.name)


def shown(names: Iterable[Hashable]) -> str:
    """The first of these names, for a message."""
    return ", ".join(map(repr, list(names)[:10])) or "no columns"
