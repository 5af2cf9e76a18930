"""Reads the ids, lists and numbers in the columns of tables, and checks the columns' names.

A number that is null becomes NaN.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from math import nan

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.extensions import ExtensionArray
from pyarrow import types as arrow_types

from monitor.errors import SourceError, UnreadableError
from monitor.model.arrays import Flags, Floats, Integers
from monitor.model.id_forms import Forms, speller
from monitor.model.unreadable import Need
from monitor.reading.ids import decode_categories, describe_type, is_list, is_text

_LONGEST_NUMBER = 1000  # the number of characters
_MOST_NAMES = 20  # the number of columns that an error names
_NUMBER = re.compile(
    r"\s*[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)\s*",
    re.ASCII | re.IGNORECASE,
)


def require_columns(names: Sequence[str], present: Sequence[str], where: str) -> None:
    """Raise UnreadableError if one of these columns is not present.

    One text of the error lists the present columns and suggests the most similar one. The other
    text, for privacy, lists no columns: if a file has no header, the names may be users.
    """
    for name in names:
        if name in present:
            continue
        problem = f"{where} has no column {name!r}"
        hidden = (
            f"{problem}: check the name in the options. With privacy, the present names are not "
            f"shown"
        )
        for similar in difflib.get_close_matches(name, present, n=1):
            problem += f" (did you mean {on_one_line(similar)!r}?)"
        shown = ", ".join(map(on_one_line, present[:_MOST_NAMES])) or "no columns"
        if len(present) > _MOST_NAMES:
            shown += ", ..."
        raise UnreadableError(hidden, f"{problem}: it has {shown}")


def root_of(name: str, present: Sequence[str]) -> str:
    """The column that a name means.

    This is the column of this name, or the column before the dot in a name such as ``recs.id``.
    """
    if name in present:
        return name
    parts = name.split(".")
    beginnings = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return next((each for each in beginnings if each in present), name)


def on_one_line(name: str, most: int = 60) -> str:
    """The first characters of a name or an id, without control characters."""
    return "".join(char for char in name[:most] if unicodedata.category(char)[0] != "C")


def user_index(keys: pa.Array) -> "pd.Index[str]":
    """A column of users' keys as an index."""
    users: pd.Index[str] = pd.Index(pd.array(keys.cast(pa.large_string()), dtype="str"))
    return users


def spell_column(ids: pa.Array, forms: Forms) -> pa.Array:
    """A column of ids as text, rewritten in these forms. A value that is no id is null."""
    if not forms:
        return ids
    return pa.array(speller(forms)(ids.to_pylist()), pa.large_string())


def flat_lists(lists: pa.Array) -> tuple[pa.Array, Integers]:
    """The values of all lists of a column in one array, and the lengths. Null has length 0."""
    if arrow_types.is_fixed_size_list(lists.type):
        lists = lists.cast(pa.list_(lists.type.value_type))
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return lists.flatten(), lengths.astype(np.int64)


def value_array(values: Iterable[object]) -> pa.Array:
    """An array of Python values of any type. Values of several types become text."""
    plain = [float(value) if isinstance(value, Decimal) else value for value in values]
    kinds = set(map(type, plain)) - {type(None)}
    # Arrow reads True as 1 if there are also numbers. It cannot convert values of every type.
    with suppress(pa.ArrowException, TypeError, OverflowError):
        if bool not in kinds or len(kinds) == 1:
            return pa.array(plain)
    return pa.array([None if value is None else str(value) for value in plain], pa.large_string())


def join_items(
    parts: Sequence[pa.Array],
) -> npt.NDArray[np.int32] | Integers | ExtensionArray:
    """Joins the parts of an id column into one array. The parts have no nulls.

    The array is text if a part is text. If there is only one part, it is not copied.
    """
    if not all(arrow_types.is_integer(part.type) for part in parts):
        chunks = pa.chunked_array([part.cast(pa.large_string()) for part in parts])
        texts: ExtensionArray = pd.array(chunks, dtype="str")
        return texts
    arrays: list[Integers] = [part.to_numpy(zero_copy_only=True) for part in parts]
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays or [np.zeros(0, dtype=np.int64)])


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array. A column of one chunk is not copied."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def number_column(values: pa.Array, column: str, where: str) -> tuple[Floats, Flags]:
    """The values as float64, and a flag for each text that is no number.

    Null and empty text become NaN. Raises SourceError if the type of the column is neither text nor
    a number.
    """
    kind = values.type
    if arrow_types.is_dictionary(kind):
        return number_column(decode_categories(values), column, where)
    if is_text(kind):
        parsed = []
        is_bad = []
        for text in values.to_pylist():
            is_number = bool(text) and _is_number(text)
            parsed.append(float(text) if is_number else nan)
            is_bad.append(bool(text) and not is_number)
        return np.array(parsed, dtype=np.float64), np.array(is_bad, dtype=np.bool_)
    if not is_numeric(kind):
        raise SourceError(
            f"column {column!r} of {where} holds {describe_type(kind)}: {Need.NUMBERS}"
        )
    numbers: Floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers, np.zeros(len(numbers), dtype=np.bool_)


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) is not None


def is_numeric(kind: pa.DataType) -> bool:
    """Whether the values of a type are numbers or null."""
    tests = (
        arrow_types.is_integer,
        arrow_types.is_floating,
        arrow_types.is_decimal,
        arrow_types.is_null,
    )
    return any(test(kind) for test in tests)


def numbers_of_lists(
    lengths: Integers,
    lists: pa.Array,
    column: str,
    where: str,
) -> tuple[Floats, Flags]:
    """The numbers of all lists of a column in one array, and a flag for each list of wrong length.

    ``lengths`` has the right lengths. The numbers of a list of another length become NaN. Raises
    SourceError if the type of the column is not lists of numbers.
    """
    if not is_list(lists.type) or not is_numeric(lists.type.value_type):
        raise SourceError(
            f"column {column!r} of {where} holds {describe_type(lists.type)}: it must hold lists "
            "of numbers"
        )
    values, number_counts = flat_lists(lists)
    flat, _ = number_column(values, column, where)
    fits = number_counts == lengths
    if fits.all():
        return flat, ~fits
    numbers = np.full(int(lengths.sum()), nan)
    numbers[np.repeat(fits, lengths)] = flat[np.repeat(fits, number_counts)]
    return numbers, ~fits


def number_list(value: object, length: int) -> Sequence[float] | None:
    """The numbers of a list of this length. Null becomes NaN.

    The result is None if the value is no list or has another length, or if an element is no number.
    """
    if not isinstance(value, list | tuple) or len(value) != length:
        return None
    if set(map(type, value)) == {float}:
        return value
    numbers = []
    for element in value:
        number = _number(element)
        if number is None:
            return None
        numbers.append(number)
    return numbers


def _number(value: object) -> float | None:
    if value is None:
        return nan
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        with suppress(OverflowError, ValueError):  # Decimal's signalling NaN raises ValueError
            return float(value)
    return None
