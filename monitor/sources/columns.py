"""Ids and numbers, alone, in lists and in Arrow's columns: 42, 42.0 and "42" are one id; of numbers a null is NaN."""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from math import nan
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.extensions import ExtensionArray

from monitor.errors import SourceError
from monitor.model.arrays import Flags, Floats
from monitor.sources.id_forms import Forms, speller

MAX_ID_LENGTH = 1000  # longest text taken for an id; longer ones are no ids but somebody's mistake

_INT64 = range(-(2**63), 2**63)
_EXACT_FLOAT = float(2**53)
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_NUMBER = 1000  # characters
_NUMBER = re.compile(
    r"\s*[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)\s*", re.ASCII | re.IGNORECASE
)


def canonical_id(value: object) -> int | str | None:
    """Id in its one spelling: an int of 64 bits where it is a whole number, text otherwise; None when it is no id.

    No ids are: null, booleans, fractions, NaN, floats too large to be exact, containers, bytes, and text that is empty,
    longer than MAX_ID_LENGTH, or cannot be stored (NUL, half of a surrogate pair).
    """
    if isinstance(value, str):
        return value if is_id_text(value) else None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT_FLOAT else None
    if isinstance(value, Decimal):
        return _whole(int(value)) if value.is_finite() and value == value.to_integral_value() else None
    return str(value) if isinstance(value, UUID) else None


def user_key(value: object) -> str | None:
    """Return the user's key, always text; None when the value is no id."""
    known = canonical_id(value)
    return None if known is None else str(known)


def item_ids(value: object, k: int) -> Sequence[int | str] | None:
    """Return the first k ids of a list as ints and texts; None when it is no list or one of those k is no id."""
    if not isinstance(value, list | tuple):
        return None
    head = value[:k]
    kinds = set(map(type, head))
    if kinds == {int} and min(head) in _INT64 and max(head) in _INT64:
        return head
    if kinds == {str} and all(map(is_id_text, head)):
        return head
    ids = [known for item in head if (known := canonical_id(item)) is not None]
    return ids if len(ids) == len(head) else None


def is_id_text(text: str) -> bool:
    """Whether text may be an id."""
    return 0 < len(text) <= MAX_ID_LENGTH and "\0" not in text and (text.isascii() or not _SURROGATE.search(text))


def _whole(value: int) -> int | str | None:
    if value in _INT64:
        return value
    return str(value) if value.bit_length() < MAX_ID_LENGTH else None


def require_columns(names: Sequence[str], present: Sequence[str], where: str) -> None:
    """SourceError naming the first column that is not there, those that are, and the likeliest one."""
    for name in names:
        if name in present:
            continue
        near = difflib.get_close_matches(name, present, n=1)
        meant = f" (did you mean {on_one_line(near[0])!r}?)" if near else ""
        shown = ", ".join(map(on_one_line, present[:20])) + (", ..." if len(present) > 20 else "")  # noqa: PLR2004 - a screenful
        raise SourceError(f"{where} has no column {name!r}{meant}: it has {shown or 'no columns'}")


def on_one_line(name: str, most: int = 60) -> str:
    """A column's name or an id on one line of bounded length, whatever it holds."""
    return "".join(char for char in name[:most] if unicodedata.category(char)[0] != "C")


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text, dictionary encoded or not."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_string_view(plain))


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds one list a row."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def id_column(values: pa.Array, what: str) -> pa.Array:
    """Ids as int32, int64 or large_string, null where a value is no id; SourceError when the column cannot hold ids."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return id_column(values.dictionary_decode(), what)
    if is_text(kind):
        return _usable_text(values.cast(pa.large_string()), what)
    if pa.types.is_null(kind):
        return values.cast(pa.int64())
    if pa.types.is_uint64(kind) and pc.max(values).as_py() is not None and pc.max(values).as_py() >= 2**63:
        return values.cast(pa.large_string())
    if pa.types.is_integer(kind):
        return values if pa.types.is_int32(kind) else values.cast(pa.int64())
    if pa.types.is_floating(kind):
        exact = values.cast(pa.float64())
        is_whole = pc.and_(pc.equal(exact, pc.floor(exact)), pc.less(pc.abs(exact), _EXACT_FLOAT))
        return pc.if_else(is_whole, exact, None).cast(pa.int64())
    raise SourceError(f"{what} holds {kind}: ids must be integers or text")


def user_column(values: pa.Array, what: str) -> pa.Array:
    """Users as large_string, null where there is none."""
    return id_column(values, what).cast(pa.large_string())


def user_index(keys: pa.Array) -> "pd.Index[str]":
    """A column of keys as an index."""
    users: pd.Index[str] = pd.Index(pd.array(keys.cast(pa.large_string()), dtype="str"))
    return users


def spell_column(ids: pa.Array, forms: Forms) -> pa.Array:
    """A column of ids that are text, null where there is none."""
    if not forms:
        return ids
    return pa.array(speller(forms)(ids.to_pylist()), pa.large_string())


def flat_ids(lists: pa.Array, what: str) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The ids of a column of lists one behind the other, as `id_column` gives them, and the lists' lengths, 0 for null."""
    if pa.types.is_fixed_size_list(lists.type):
        lists = lists.cast(pa.list_(lists.type.value_type))
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return id_column(lists.flatten(), what), lengths


def id_array(values: Iterable[object]) -> pa.Array:
    """Ids from Python values, null where one is no id."""
    ids = [canonical_id(value) for value in values]
    if any(isinstance(known, str) for known in ids):
        return pa.array([None if known is None else str(known) for known in ids], type=pa.large_string())
    return pa.array(ids, type=pa.int64())


def value_array(values: Iterable[object]) -> pa.Array:
    """Python values of any type, as text where they are of several."""
    given = [float(value) if isinstance(value, Decimal) else value for value in values]
    kinds = set(map(type, given)) - {type(None)}
    # Arrow takes True for 1 beside numbers; and it does not know every type.
    with suppress(pa.ArrowException, TypeError, OverflowError):
        if bool not in kinds or len(kinds) == 1:
            return pa.array(given)
    return pa.array([None if value is None else str(value) for value in given], pa.large_string())


def join_items(parts: Sequence[pa.Array]) -> npt.NDArray[np.int32] | npt.NDArray[np.int64] | ExtensionArray:
    """Parts of an id column without nulls as one array; text as soon as one part is text; no copy for a single part."""
    if all(pa.types.is_integer(part.type) for part in parts):
        arrays: list[npt.NDArray[np.int64]] = [part.to_numpy(zero_copy_only=True) for part in parts]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays or [np.zeros(0, dtype=np.int64)])
    texts: ExtensionArray = pd.array(pa.chunked_array([part.cast(pa.large_string()) for part in parts]), dtype="str")
    return texts


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One array of a column; no copy when it has one chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _usable_text(values: pa.Array, what: str) -> pa.Array:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raise SourceError(f"{what} holds text that is not UTF-8: write it anew as UTF-8") from None
    length = pc.utf8_length(values)
    odd = pc.or_(pc.equal(length, 0), pc.greater(length, MAX_ID_LENGTH))
    odd = pc.or_(odd, pc.match_substring(values, "\0"))
    return pc.if_else(odd, None, values) if pc.any(odd).as_py() else values


def number_column(values: pa.Array, what: str) -> tuple[Floats, Flags]:
    """Values as float64, NaN for null and empty text, and which are no number; SourceError when the column holds none."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return number_column(values.dictionary_decode(), what)
    if is_text(kind):
        texts = values.to_pylist()
        is_bad = [bool(text) and not _is_number(text) for text in texts]
        read = [float(text) if text and not bad else nan for text, bad in zip(texts, is_bad, strict=True)]
        return np.array(read, dtype=np.float64), np.array(is_bad, dtype=np.bool_)
    if not is_numeric(kind):
        raise SourceError(f"{what} holds {kind}: it must hold numbers")
    numbers: Floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers, np.zeros(len(numbers), dtype=np.bool_)


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) is not None


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column holds numbers, or nothing at all."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def numbers_beside(lengths: npt.NDArray[np.int64], lists: pa.Array, what: str) -> tuple[Floats, Flags]:
    """Flat numbers of a column of lists, NaN in lists not of these lengths, and which those are; SourceError for none."""
    if not is_list(lists.type) or not is_numeric(lists.type.value_type):
        raise SourceError(f"{what} holds {lists.type}: it must hold lists of numbers")
    if pa.types.is_fixed_size_list(lists.type):
        lists = lists.cast(pa.list_(lists.type.value_type))
    flat, _ = number_column(lists.flatten(), what)
    own = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    fits = own == lengths
    if fits.all():
        return flat, ~fits
    numbers = np.full(int(lengths.sum()), nan)
    numbers[np.repeat(fits, lengths)] = flat[np.repeat(fits, own)]
    return numbers, ~fits


def number_list(value: object, length: int) -> Sequence[float] | None:
    """A list of so many numbers, NaN for null; None when it is no list, of another length, or holds what is no number."""
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
