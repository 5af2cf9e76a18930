"""Lists, ids, scores and users from Python's sequences and arrays: what is no list, id, number or user is refused here.

Arrow tables keep list columns, without a Python object a row; others with its PyCapsule protocol are read through pandas.
Nothing here imports Arrow.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from functools import wraps
from itertools import chain
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.errors import InputError
from monitor.kernels.ragged import offsets_of
from monitor.model.arrays import Floats, Ids
from monitor.model.rankings import RankingTable
from monitor.pairing.ids import equality_key

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
    return has_columns and (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"))


def as_frame(data: Any, what: str) -> object:  # noqa: ANN401 - any table with the protocol
    """A table of Arrow's as a frame, list columns as ArrowDtype, text as ``str``, dictionaries as categories; else as it is."""
    if isinstance(data, pd.DataFrame) or not is_table(data):
        return data
    try:
        if type(data).__module__.partition(".")[0] == "pyarrow" and hasattr(data, "to_pandas"):
            return data.to_pandas(types_mapper=_as_pandas, split_blocks=True)
        return pd.DataFrame.from_arrow(data)  # type: ignore[attr-defined] # pandas-stubs lags
    except (TypeError, ValueError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{what} is a table of type {type(data).__name__} that cannot be read: {reason}") from None


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
            msg = f"found the text {near!r}, which is no Unicode: decode the bytes that it was made of anew, or leave it out"
            raise InputError(msg) from None

    return checked


def read_matrix(data: npt.NDArray[Any], arm: str) -> RankingTable:
    """Lists from a 2-D array, a row a user."""
    if data.ndim != 2:  # noqa: PLR2004 - users and ranks
        raise InputError(f"{arm} is a {data.ndim}-dimensional array: expected two dimensions, a row a user and a column a rank")
    n, k = data.shape
    items = from_array(data.reshape(-1), f"lists of the {arm}")
    return RankingTable(users=pd.RangeIndex(n), offsets=np.arange(n + 1, dtype=np.int64) * k, items=items)


def read_rows(rows: Sequence[Any], what: str, users: pd.Index | None = None) -> RankingTable:
    """Lists from one sequence a user, numbered from 0 when no users are given."""
    if set(map(type, rows)) <= {list, tuple}:
        lists, items = rows, from_objects(list(chain.from_iterable(rows)), what)
    else:
        lists = [as_row(row, what, "item ids, best first,") for row in rows]
        items = _join(lists, what)
    return RankingTable(
        users=pd.RangeIndex(len(rows)) if users is None else users, offsets=offsets_of(map(len, lists)), items=items
    )


def as_row(row: object, what: str, of: str) -> Row:
    """One list as it can be walked through; InputError for whatever has no order or no items."""
    if isinstance(row, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return list(row)
    if isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1):
        refuse_odd(row, what)
        return row
    if not is_table(row) and (hasattr(row, "__arrow_c_array__") or hasattr(row, "__arrow_c_stream__")):
        return list(read_column(row))
    # A string would be read as its letters, and a set has no order.
    found = f"an array of {row.ndim} dimensions" if isinstance(row, np.ndarray) else f"a value of type {type(row).__name__}"
    raise InputError(f"{what}: found {found} where a list of {of} was expected (list, tuple, or 1-D array)")


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
        raise InputError(
            f"{what}: row {odd[0]} has {found[odd[0]]} scores for {lengths[odd[0]]} items: give each item its score, "
            "NaN where there is none"
        )
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
    found = repr(odd[0]) if odd else "booleans, or a number beyond what a float can hold,"
    raise InputError(f"{what}: found {found} where a number was expected: give numbers, NaN where there is none")


def from_objects(values: Sequence[Any], what: str) -> Ids:
    """Ids from Python objects; InputError, speaking of ``what``, when one is null or unhashable."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return pd.array(values, dtype="str")
    if kinds == {int}:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    if any(issubclass(kind, np.number | np.bool_) for kind in kinds):
        # A Decimal cannot be compared with numpy's integers, only with Python's.
        values = [value.item() if isinstance(value, np.number | np.bool_) else value for value in values]
    return _checked_objects(np.fromiter(values, dtype=object, count=len(values)), what)


def _checked_objects(ids: npt.NDArray[np.object_], what: str) -> npt.NDArray[np.object_]:
    try:
        nulls = np.flatnonzero(pd.isna(ids))
    except ArithmeticError:  # a signalling NaN of Decimal's refuses even to be looked at
        _refuse_null(next(item for item in ids if isinstance(item, Decimal) and item.is_snan()), what)
    if len(nulls):
        _refuse_null(ids[nulls[0]], what)
    for item in ids:
        try:
            hash(item)
        except TypeError:
            msg = f"{what}: found an item of type {type(item).__name__}: ids must be hashable, such as text, numbers or tuples"
            raise InputError(msg) from None
    return ids


def from_array(values: npt.NDArray[Any] | pd.Series, what: str) -> Ids:
    """Ids from a one-dimensional array or column; InputError when one is null, masked or unhashable, or a record."""
    refuse_odd(values, what)
    column = pd.Series(values, copy=False)
    if isinstance(column.dtype, pd.ArrowDtype):
        column = read_column(column)
    dtype = column.dtype
    if pd.api.types.is_object_dtype(dtype):
        return from_objects(column.tolist(), what)
    if column.hasnans:
        _refuse_null(column[column.isna()].iloc[0], what)
    if isinstance(dtype, pd.CategoricalDtype):
        return pd.Categorical.from_codes(column.cat.codes, categories=pd.Index(from_array(dtype.categories.to_series(), what)))
    if isinstance(dtype, pd.StringDtype):
        return column.astype("str").array
    if pd.api.types.is_bool_dtype(dtype) or (pd.api.types.is_integer_dtype(dtype) and column.max() < 2**63):
        return column.to_numpy(dtype=np.int32 if dtype == np.int32 else np.int64)
    if pd.api.types.is_float_dtype(dtype):
        return column.to_numpy(dtype=np.float64)
    return from_objects(column.tolist(), what)


def refuse_odd(values: object, what: str) -> None:
    """InputError for an array of numpy's that hides values, or whose values are records."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        msg = f"{what}: found masked values where item ids were expected: give lists without them, such as row.compressed()"
        raise InputError(msg)
    if isinstance(values, np.ndarray) and values.dtype.kind == "V":
        raise InputError(f"{what}: found records ({values.dtype}) where item ids were expected: give the array of one field")


def _refuse_null(null: object, what: str) -> NoReturn:
    raise InputError(f"{what}: found {null!r} where an item id was expected: drop the item or name it")


def checked_users(users: pd.Index, arm: str) -> pd.Index:
    """The users, each named once; InputError when one is missing, or stands there both as a number and as text."""
    if users.hasnans:
        msg = f"{arm} holds a missing user id (None or NaN): every list needs its user; drop the row or name the user"
        raise InputError(msg)
    if users.dtype == object:
        numbers = {user for user in users if not isinstance(user, str)}
        if twice := next((user for user in users if isinstance(user, str) and equality_key(user) in numbers), None):
            raise InputError(f"{arm} has user {twice!r} both as a number and as text, which are one user: spell it in one way")
    return users


def shown(names: Iterable[Hashable]) -> str:
    """The first of these names, for a message."""
    return ", ".join(map(repr, list(names)[:10])) or "no columns"
