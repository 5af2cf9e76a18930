"""Columns and lists of numbers beside ids: scores, weights, grades. A null is NaN; what is no number is flagged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from math import nan

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from monitor.errors import SourceError
from monitor.model.arrays import Flags, Floats
from monitor.sources.id_columns import is_list, is_text

_NUMBER = re.compile(r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)\s*", re.ASCII | re.IGNORECASE)


def number_column(values: pa.Array, what: str) -> tuple[Floats, Flags]:
    """Values as float64, NaN for null and empty text, and which are no number; SourceError when the column holds none."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return number_column(values.dictionary_decode(), what)
    if is_text(kind):
        return _texts(values.to_pylist())
    if not is_numeric(kind):
        msg = f"{what} holds {kind}: it must hold numbers"
        raise SourceError(msg)
    numbers: Floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers, np.zeros(len(numbers), dtype=np.bool_)


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column holds numbers, or nothing at all."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def numbers_beside(lengths: npt.NDArray[np.int64], lists: pa.Array, what: str) -> tuple[Floats, Flags]:
    """The flat numbers of a column of lists that should be of these lengths, and which are not: NaN stands at their places.

    SourceError when the column holds anything but lists of numbers.
    """
    if not is_list(lists.type) or not is_numeric(lists.type.value_type):
        msg = f"{what} holds {lists.type}: it must hold lists of numbers"
        raise SourceError(msg)
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


def _texts(texts: Sequence[str | None]) -> tuple[Floats, Flags]:
    is_bad = [bool(text) and not _NUMBER.fullmatch(str(text)) for text in texts]
    numbers = [float(text) if text and not bad else nan for text, bad in zip(texts, is_bad, strict=True)]
    return np.array(numbers, dtype=np.float64), np.array(is_bad, dtype=np.bool_)
