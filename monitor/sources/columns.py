"""Columns of tables: which there are, ids and numbers in them and in lists.

Of numbers a null is NaN.
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

from monitor.errors import SourceError, UnreadableError
from monitor.model.arrays import Flags, Floats
from monitor.model.id_forms import Forms, speller
from monitor.model.unreadable import Need
from monitor.reading.ids import describe_type, is_list, is_text

_LONGEST_NUMBER = 1000  # characters
_NUMBER = re.compile(
    r"\s*[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)\s*",
    re.ASCII | re.IGNORECASE,
)


def require_columns(names: Sequence[str], present: Sequence[str], where: str) -> None:
    """UnreadableError naming the first column that is not there.

    If shown, those that are, and the likeliest one.

    Names can be users: in a file without a header, or in objects whose keys are users.
    """
    for name in names:
        if name in present:
            continue
        near = difflib.get_close_matches(name, present, n=1)
        meant = f" (did you mean {on_one_line(near[0])!r}?)" if near else ""
        shown = ", ".join(map(on_one_line, present[:20])) + (", ..." if len(present) > 20 else "")  # noqa: PLR2004 - a screenful
        hidden = (
            f"{where} has no column {name!r}: check the name in the options. Its own names "
            "are not shown with privacy"
        )
        raise UnreadableError(
            hidden, f"{where} has no column {name!r}{meant}: it has {shown or 'no columns'}"
        )


def on_one_line(name: str, most: int = 60) -> str:
    """A column's name or an id on one line of bounded length, whatever it holds."""
    return "".join(char for char in name[:most] if unicodedata.category(char)[0] != "C")


def user_index(keys: pa.Array) -> "pd.Index[str]":
    """A column of keys as an index."""
    users: pd.Index[str] = pd.Index(pd.array(keys.cast(pa.large_string()), dtype="str"))
    return users


def spell_column(ids: pa.Array, forms: Forms) -> pa.Array:
    """A column of ids that are text, null where there is none."""
    if not forms:
        return ids
    return pa.array(speller(forms)(ids.to_pylist()), pa.large_string())


def flat_lists(lists: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The values of a column of lists one behind the other, and the lists' lengths, 0 for null."""
    if pa.types.is_fixed_size_list(lists.type):
        lists = lists.cast(pa.list_(lists.type.value_type))
    lengths = (
        pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return lists.flatten(), lengths


def value_array(values: Iterable[object]) -> pa.Array:
    """Python values of any type, as text where they are of several."""
    given = [float(value) if isinstance(value, Decimal) else value for value in values]
    kinds = set(map(type, given)) - {type(None)}
    # Arrow takes True for 1 beside numbers; and it does not know every type.
    with suppress(pa.ArrowException, TypeError, OverflowError):
        if bool not in kinds or len(kinds) == 1:
            return pa.array(given)
    return pa.array([None if value is None else str(value) for value in given], pa.large_string())


def join_items(
    parts: Sequence[pa.Array],
) -> npt.NDArray[np.int32] | npt.NDArray[np.int64] | ExtensionArray:
    """Parts of an id column without nulls as one array.

    Text as soon as one part is text; no copy for a single part.
    """
    if all(pa.types.is_integer(part.type) for part in parts):
        arrays: list[npt.NDArray[np.int64]] = [part.to_numpy(zero_copy_only=True) for part in parts]
        return (
            arrays[0]
            if len(arrays) == 1
            else np.concatenate(arrays or [np.zeros(0, dtype=np.int64)])
        )
    texts: ExtensionArray = pd.array(
        pa.chunked_array([part.cast(pa.large_string()) for part in parts]), dtype="str"
    )
    return texts


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One array of a column; no copy when it has one chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def number_column(values: pa.Array, column: str, where: str) -> tuple[Floats, Flags]:
    """Values as float64, NaN for null and empty text, and which are no number.

    SourceError when the column holds none.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return number_column(values.dictionary_decode(), column, where)
    if is_text(kind):
        texts = values.to_pylist()
        is_bad = [bool(text) and not _is_number(text) for text in texts]
        read = [
            float(text) if text and not bad else nan
            for text, bad in zip(texts, is_bad, strict=True)
        ]
        return np.array(read, dtype=np.float64), np.array(is_bad, dtype=np.bool_)
    if not is_numeric(kind):
        raise SourceError(
            f"column {column!r} of {where} holds {describe_type(kind)}: {Need.NUMBERS}"
        )
    numbers: Floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers, np.zeros(len(numbers), dtype=np.bool_)


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) is not None


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column holds numbers, or nothing at all."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def numbers_beside(
    lengths: npt.NDArray[np.int64], lists: pa.Array, column: str, where: str
) -> tuple[Floats, Flags]:
    """Flat numbers of a column of lists, NaN in lists not of these lengths, and which those are; SourceError for none."""
    if not is_list(lists.type) or not is_numeric(lists.type.value_type):
        raise SourceError(
            (
                f"column {column!r} of {where} holds {describe_type(lists.type)}: it must hold "
                "lists of numbers"
            )
        )
    values, own = flat_lists(lists)
    flat, _ = number_column(values, column, where)
    fits = own == lengths
    if fits.all():
        return flat, ~fits
    numbers = np.full(int(lengths.sum()), nan)
    numbers[np.repeat(fits, lengths)] = flat[np.repeat(fits, own)]
    return numbers, ~fits


def number_list(value: object, length: int) -> Sequence[float] | None:
    """A list of so many numbers, NaN for null.

    None when it is no list, of another length, or holds what is no number.
    """
    if not isinstance(value, list | tuple) or len(value) != length:
        return None
    if set(map(type, value)) == {float}:
        return value
    numbers = [number for each in value if (number := _number(each)) is not None]
    return numbers if len(numbers) == length else None


def _number(value: object) -> float | None:
    if value is None:
        return nan
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        with suppress(OverflowError, ValueError):  # a signalling NaN is the ValueError
            return float(value)
    return None
