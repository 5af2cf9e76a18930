"""Defines which values are ids.

`id_column` applies the definition to Arrow arrays. `id_array` first converts Python's values to
Arrow arrays. DuckDB calls `id_column` from its queries.

| type | id |
|---|---|
| integer | the number. If it needs more than 64 signed bits, its digits as text |
| float | the number if it is whole and below the limit in `EXACT_BELOW` |
| decimal | the number if it is whole |
| text, UTF-8 binary, UUID, categories | the text: 1 to `MAX_ID_LENGTH` characters, without NUL |
| null, NaN, boolean, date, time, interval, object, list | none |

These functions raise SourceError if no value of the column's type can be an id. For other types, a
value that is no id becomes null.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.extensions import ExtensionArray
from pyarrow import types as arrow_types

from monitor.model.arrays import Integers
from monitor.model.errors import SourceError
from monitor.model.unreadable import ColumnKind, name_a_field

MAX_ID_LENGTH = 1000
"""The largest number of characters in an id. A longer text is no id but probably a mistake."""
EXACT_BELOW = {16: 2.0**11, 32: 2.0**24, 64: 2.0**53}
"""For the number of bits of a float, the limit below which all whole numbers are exact.

From the limit on, different whole numbers can be the same float. For example, the limit and the
next whole number are the same float.
"""

_SURROGATE = re.compile("[\ud800-\udfff]")
_TYPE_WORDS = (
    (arrow_types.is_boolean, "booleans"),
    (arrow_types.is_date, "dates"),
    (arrow_types.is_timestamp, "times"),
    (arrow_types.is_time, "times of day"),
    (arrow_types.is_duration, "INTERVAL"),
    (arrow_types.is_interval, "INTERVAL"),
    (arrow_types.is_map, "maps"),
)


def user_key(value: object) -> str | None:
    """The user's key as text. None if the value is no id."""
    key: str | None = id_array([value]).cast(pa.large_string())[0].as_py()
    return key


def id_array(values: Iterable[object]) -> pa.Array:
    """Ids from Python's values. A value that is no id becomes null."""
    values = list(values)
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1:
        return _ids_of(kinds.pop(), values)
    rows_by_kind: dict[type, list[int]] = {}
    for row, value in enumerate(values):
        rows_by_kind.setdefault(type(value), []).append(row)
    parts = []
    for kind, rows in rows_by_kind.items():
        parts.append(_ids_of(kind, [values[row] for row in rows]))
    order = np.argsort(list(chain.from_iterable(rows_by_kind.values())))
    return join_columns(parts).take(pa.array(order, pa.int64()))


def _ids_of(kind: type, values: Sequence[Any]) -> pa.Array:
    """The ids of values of this type. Any value may be None."""
    try:
        return id_column(_arrow_of(kind, values), "", "")
    except (pa.ArrowException, ArithmeticError, ValueError, TypeError):
        if len(values) == 1:
            return pa.nulls(1, pa.int64())
        return join_columns([_ids_of(kind, [value]) for value in values])


def join_columns(parts: Sequence[pa.Array]) -> pa.Array:
    """Join the parts of a column. If they have several types, integers stay integers.

    Other values become text.
    """
    if len(parts) == 1:
        return parts[0]
    kinds = {part.type for part in parts}
    kind = pa.int64() if all(map(arrow_types.is_integer, kinds)) else pa.large_string()
    if len(kinds) == 1:
        kind = kinds.pop()
    return pa.concat_arrays([part.cast(kind) for part in parts]) if parts else pa.nulls(0, kind)


def user_index(keys: pa.Array | pa.ChunkedArray) -> "pd.Index[str]":
    """Convert a column of users' keys to an index of pandas."""
    users: pd.Index[str] = pd.Index(pd.array(keys.cast(pa.large_string()), dtype="str"))
    return users


def first_null(ids: pa.Array, values: pa.Array | Sequence[object]) -> object:
    """The first of the values that is no id. ``ids`` were read from the values."""
    value = values[pc.index(ids.is_null(), True).as_py()]
    return value.as_py() if isinstance(value, pa.Scalar) else value


def are_ascending(ids: pa.Array) -> bool:
    """Whether the ids are sorted, distinct texts. To search for equal ids takes more time."""
    return not ids.null_count and pc.all(pc.less(ids[:-1], ids[1:]), min_count=0).as_py()


def to_ids(ids: pa.Array) -> Integers | ExtensionArray:
    """An id column as an array of numpy or pandas. The column must have no nulls."""
    if arrow_types.is_integer(ids.type):
        numbers: Integers = ids.to_numpy(zero_copy_only=False)
        return numbers
    texts: ExtensionArray = pd.array(ids, dtype="str")
    return texts


def _arrow_of(kind: type, values: Sequence[Any]) -> pa.Array:  # noqa: PLR0911 - one for each type
    """An Arrow array of values of one type. May raise an error if a value is no id."""
    if issubclass(kind, bool | np.bool_ | type(None)):
        return pa.nulls(len(values), pa.int64())
    if issubclass(kind, str):
        return pa.array(values, pa.large_string())
    if issubclass(kind, bytes):
        return pa.array([value and value.decode() for value in values], pa.large_string())
    if issubclass(kind, UUID):
        return pa.array([value and str(value) for value in values], pa.large_string())
    if issubclass(kind, float | np.floating):
        dtype = np.dtype(kind)
        return pa.array(np.array(values, dtype if dtype.itemsize <= 8 else np.float64))  # noqa: PLR2004
    if issubclass(kind, Decimal):
        values = [value if value is None else _whole(value) for value in values]
    elif not issubclass(kind, int | np.integer):
        return pa.nulls(len(values), pa.int64())
    with suppress(pa.ArrowInvalid, OverflowError):
        return pa.array(values, pa.int64())
    return pa.array([value if value is None else _digits(value) for value in values])


def _whole(value: Decimal) -> int | None:
    is_whole = value.adjusted() < MAX_ID_LENGTH and value == value.to_integral_value()
    return int(value) if is_whole else None


def _digits(value: int) -> str | None:
    return str(int(value)) if int(value).bit_length() < MAX_ID_LENGTH else None


def describe_value(value: object) -> str:  # noqa: C901, PLR0911 - one kind for each type
    """Words for the kind of a value that is no id. The words do not contain the value itself."""
    if value is None:
        return "null"
    if isinstance(value, float | np.floating) and np.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, str):
        if _SURROGATE.search(value):
            return "text that is not UTF-8"
        return "text that is too long or contains NUL" if value else "empty text"
    if isinstance(value, bytes):
        return "bytes that are not UTF-8"
    if isinstance(value, bool | np.bool_):
        return "a boolean"
    if isinstance(value, float | np.floating | Decimal):
        is_finite = not isinstance(value, Decimal) or value.is_finite()
        if is_finite and value == value // 1:
            return "a number too large to be exact in its type"
        return "a number that is not whole"
    if isinstance(value, tuple) and len(value) == 2:  # noqa: PLR2004 - a pair
        return "a pair"
    if isinstance(value, list | tuple):
        return "a list"
    return f"a value of type {type(value).__name__}"


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array. A column with a single chunk is not copied."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def is_text(kind: pa.DataType) -> bool:
    """Whether the values of a column are text. The column may be dictionary encoded."""
    if arrow_types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        arrow_types.is_string(kind)
        or arrow_types.is_large_string(kind)
        or arrow_types.is_string_view(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Whether a column has one list in each row."""
    return bool(
        arrow_types.is_list(kind)
        or arrow_types.is_large_list(kind)
        or arrow_types.is_fixed_size_list(kind)
    )


def list_lengths(lists: pa.Array) -> Integers:
    """The length of each list. A null has the length 0."""
    lengths: Integers = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def decode_categories(values: pa.DictionaryArray) -> pa.Array:
    """The value of each row of a dictionary column."""
    categories = values.dictionary
    # Polars stores text as views of text. Arrow 26 cannot take values from them, so they are cast.
    if arrow_types.is_string_view(categories.type):
        categories = categories.cast(pa.large_string())
    return categories.take(values.indices)


def is_list_view(kind: pa.DataType) -> bool:
    """Whether a column stores the list of each row as a view of a shared array."""
    return bool(arrow_types.is_list_view(kind) or arrow_types.is_large_list_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        arrow_types.is_binary(kind)
        or arrow_types.is_large_binary(kind)
        or arrow_types.is_binary_view(kind)
    )


def id_column(  # noqa: C901, PLR0911 - one branch for each type
    values: pa.Array | Sequence[object],
    column: str,
    where: str,
) -> pa.Array:
    """The ids of a column, as int32, int64 or large_string. A value that is no id becomes null.

    ``values`` are an Arrow array or Python's values. Raises SourceError if no value of the array's
    type can be an id.
    """
    if not isinstance(values, pa.Array):
        return id_array(values)
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid":
        return id_array(values.to_pylist())
    if arrow_types.is_dictionary(kind):
        return id_column(decode_categories(values), column, where)
    if is_text(kind):
        return _usable_text(values.cast(pa.large_string()), column, where)
    if _is_binary(kind):
        try:
            return _usable_text(values.cast(pa.large_string()), column, where)
        except pa.ArrowInvalid:  # a value is not UTF-8
            return id_array(values.to_pylist())
    if arrow_types.is_null(kind):
        return values.cast(pa.int64())
    if arrow_types.is_int32(kind):
        return values
    if arrow_types.is_integer(kind):
        is_beyond_int64 = arrow_types.is_uint64(kind) and (pc.max(values).as_py() or 0) >= 2**63
        return values.cast(pa.large_string() if is_beyond_int64 else pa.int64())
    if arrow_types.is_floating(kind):
        wide = values.cast(pa.float64())
        is_exact = pc.and_(
            pc.equal(wide, pc.floor(wide)), pc.less(pc.abs(wide), EXACT_BELOW[kind.bit_width])
        )
        return pc.if_else(is_exact, wide, None).cast(pa.int64())
    if arrow_types.is_decimal(kind):
        try:
            return pc.if_else(pc.equal(values, pc.floor(values)), values, None).cast(pa.int64())
        except pa.ArrowInvalid:  # a number needs more than 64 bits
            return id_array(values.to_pylist())
    raise SourceError(
        f"column {column!r} of {where} holds {describe_type(kind)}: {_advice(kind, column)}"
    )


def describe_type(kind: pa.DataType) -> str:
    """The type of a column in words."""
    if arrow_types.is_struct(kind):
        names = [kind.field(number).name for number in range(min(5, kind.num_fields))]
        return f"objects with {', '.join(names)}"
    if is_list(kind):
        return f"lists of {describe_type(kind.value_type)}"
    for is_of_type, word in _TYPE_WORDS:
        if is_of_type(kind):
            return word
    return str(kind)


def _advice(kind: pa.DataType, column: str) -> str:
    if arrow_types.is_struct(kind) and kind.num_fields:
        return name_a_field(column, kind.field(0).name)
    return ColumnKind.IDS


def _usable_text(values: pa.Array, column: str, where: str) -> pa.Array:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raise SourceError(
            f"column {column!r} of {where} has text that is not UTF-8: write it again as UTF-8"
        ) from None
    lengths = pc.min_max(pc.binary_length(values)).as_py()
    if lengths["min"] is None:
        return values
    if lengths["min"] > 0 and lengths["max"] <= MAX_ID_LENGTH and not _has_zero_byte(values):
        return values
    length = pc.utf8_length(values)
    odd = pc.or_(pc.equal(length, 0), pc.greater(length, MAX_ID_LENGTH))
    return pc.if_else(pc.or_(odd, pc.match_substring(values, "\0")), None, values)


def _has_zero_byte(texts: pa.Array) -> bool:
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    return data is not None and not np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].all()
