"""The definition of an id, for Python's values, Arrow's columns and DuckDB's expressions.

| type | id |
|---|---|
| integer | the number. If it needs more than 64 signed bits, its digits as text |
| float | the number if it is whole and below the limit in `EXACT` |
| decimal | the number if it is whole |
| text, UTF-8 binary, UUID, categories | the text: 1 to `MAX_ID_LENGTH` characters, without NUL |
| null, NaN, boolean, date, time, interval, object, list | none |

These functions raise SourceError if the type of a column cannot have ids. If the type can have ids,
a value that is no id becomes null.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from monitor.errors import SourceError
from monitor.model.unreadable import Need, name_a_field

MAX_ID_LENGTH = 1000
"""The largest number of characters in an id. A longer text is probably a mistake: it is no id."""
EXACT = {16: 2.0**11, 32: 2.0**24, 64: 2.0**53}
"""The limit of exact whole numbers, by the number of bits of a float.

A float represents each whole number below the limit exactly. The limit itself and the next whole
number are the same float.
"""

_INT64 = range(-(2**63), 2**63)
_MAX_BYTES = 4 * MAX_ID_LENGTH
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


def canonical_id(value: object) -> int | str | None:  # noqa: PLR0911 - one line for each type
    """The id as an integer of 64 bits or as text. None if the value is no id."""
    if isinstance(value, str):
        return value if is_id_text(value) else None
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return _whole(int(value))
    if isinstance(value, float | np.floating):
        limit = EXACT[64]
        if isinstance(value, np.floating):
            limit = EXACT.get(8 * value.itemsize, limit)
        number = float(value)
        is_exact = number.is_integer() and abs(number) < limit
        return int(number) if is_exact else None
    if isinstance(value, Decimal):
        is_whole = value.is_finite() and value == value.to_integral_value()
        return _whole(int(value)) if is_whole else None
    if isinstance(value, bytes):
        try:
            return canonical_id(value.decode())
        except UnicodeDecodeError:
            return None
    if isinstance(value, UUID):
        return str(value)
    return None


def user_key(value: object) -> str | None:
    """The user's key as text. None if the value is no id."""
    key = canonical_id(value)
    return None if key is None else str(key)


def item_ids(value: object, k: int) -> Sequence[int | str] | None:
    """The first k ids of a list, as integers and texts.

    None if the value is no list, or if one of the first k values is no id.
    """
    if not isinstance(value, list | tuple):
        return None
    head = value[:k]
    types = set(map(type, head))
    if types == {int} and min(head) in _INT64 and max(head) in _INT64:
        return head
    if types == {str} and all(map(is_id_text, head)):
        return head
    ids = list(map(canonical_id, head))
    return None if None in ids else ids  # type: ignore[return-value] # none of the ids is None here


def is_id_text(text: str) -> bool:
    """Whether the text can be an id."""
    return (
        0 < len(text) <= MAX_ID_LENGTH
        and "\0" not in text
        and (text.isascii() or not _SURROGATE.search(text))
    )


def _whole(value: int) -> int | str | None:
    if value in _INT64:
        return value
    return str(value) if value.bit_length() < MAX_ID_LENGTH else None


def describe_value(value: object) -> str:  # noqa: C901, PLR0911 - one kind for each type
    """Names the kind of a value that is no id. The text does not contain the value itself."""
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


def id_array(values: Iterable[object]) -> pa.Array:
    """Ids from Python's values. A value that is no id becomes null."""
    values = list(values)
    types = set(map(type, values)) - {type(None)}
    # Arrow converts all values in one call. It refuses some values that are no ids.
    with suppress(pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        if types == {int}:
            return pa.array(values, pa.int64())
        if types == {str}:
            return _usable_text(pa.array(values, pa.large_string()), "", "")
    ids = list(map(canonical_id, values))
    if str in map(type, ids):
        return pa.array(map(user_key, ids), type=pa.large_string())
    return pa.array(ids, type=pa.int64())


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


def decode_categories(values: pa.DictionaryArray) -> pa.Array:
    """The value of each row of a dictionary column."""
    categories = values.dictionary
    # Arrow 26 cannot take values from views of text. Polars stores text as such views.
    if arrow_types.is_string_view(categories.type):
        categories = categories.cast(pa.large_string())
    return categories.take(values.indices)


def is_list_view(kind: pa.DataType) -> bool:
    """Whether a column has one list in each row, stored as views of a shared array."""
    return bool(arrow_types.is_list_view(kind) or arrow_types.is_large_list_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        arrow_types.is_binary(kind)
        or arrow_types.is_large_binary(kind)
        or arrow_types.is_binary_view(kind)
    )


def id_column(  # noqa: C901, PLR0911 - one branch for each type
    values: pa.Array,
    column: str,
    where: str,
) -> pa.Array:
    """Ids as int32, int64 or large_string. A value that is no id becomes null.

    Raises SourceError if values of this type cannot be ids.
    """
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
            pc.equal(wide, pc.floor(wide)), pc.less(pc.abs(wide), EXACT[kind.bit_width])
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


def user_column(values: pa.Array, column: str, where: str) -> pa.Array:
    """Users as large_string. A value that is no id becomes null."""
    return id_column(values, column, where).cast(pa.large_string())


def describe_type(kind: pa.DataType) -> str:
    """The type of a column in words."""
    if arrow_types.is_struct(kind):
        names = [kind.field(place).name for place in range(min(5, kind.num_fields))]
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
    return Need.IDS


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


def id_sql(kind: pa.DataType, value: str) -> str:
    """DuckDB's expression that gives the same id as `user_column` does.

    ``value`` is an expression of the Arrow type ``kind``. Values of this type must be able to be
    ids.
    """
    if arrow_types.is_integer(kind):
        return f"CAST({value} AS VARCHAR)"
    if arrow_types.is_floating(kind):
        return _whole_sql(value, EXACT[kind.bit_width])
    if arrow_types.is_decimal(kind):
        return (
            f"CASE WHEN {value} = floor({value}) THEN CAST(CAST({value} AS HUGEINT) AS VARCHAR) END"
        )
    if _is_binary(kind):
        return _text_sql(f"TRY(decode({value}))")
    if arrow_types.is_dictionary(kind):
        value = f"CAST({value} AS VARCHAR)"
    return _text_sql(value)


def json_id_sql(value: str) -> str:
    """DuckDB's expression for the id in a JSON value."""
    kind = f"json_type({value})"
    raw = f"CAST({value} AS VARCHAR)"
    text_id = _text_sql(f"({value} ->> '$')")
    float_id = _whole_sql(f"CAST({value} AS DOUBLE)", EXACT[64])
    return (
        f"CASE WHEN {kind} = 'VARCHAR' THEN {text_id} "
        f"WHEN regexp_full_match({raw}, '0|-?[1-9][0-9]{{0,299}}') THEN {raw} "
        f"WHEN {kind} IN ('DOUBLE', 'BIGINT') THEN {float_id} END"
    )


def short_text_sql(value: str) -> str:
    """DuckDB's expression for the text. It is NULL if the text is certainly too long for an id."""
    return f"CASE WHEN strlen({value}) <= {_MAX_BYTES} THEN {value} END"


def _text_sql(text: str) -> str:
    is_id = (
        f"strlen({text}) <= {_MAX_BYTES} AND length({text}) BETWEEN 1 AND {MAX_ID_LENGTH} "
        f"AND NOT contains({text}, chr(0))"
    )
    return f"CASE WHEN {is_id} THEN {text} END"


def _whole_sql(number: str, limit: float) -> str:
    is_whole = f"{number} = floor({number}) AND abs({number}) < {limit:.0f}"
    return f"CASE WHEN {is_whole} THEN CAST(CAST({number} AS BIGINT) AS VARCHAR) END"
