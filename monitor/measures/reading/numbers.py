"""Reads numbers: scores, grades, weights and ranks. A number that is null becomes NaN."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from math import nan

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_types

from monitor.measures.reading.ids import decode_categories, describe_type, is_text
from monitor.model.arrays import Flags, Floats
from monitor.model.errors import SourceError
from monitor.model.unreadable import ColumnKind

_LONGEST_NUMBER = 1000  # characters; a longer text is no number
_NUMBER = re.compile(
    r"\s*[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)\s*",
    re.ASCII | re.IGNORECASE,
)


def value_array(values: pa.Array | Iterable[object]) -> pa.Array:
    """An Arrow array of Python values of any type. Values of different types become text."""
    if isinstance(values, pa.Array):
        return values
    plain = list(values)
    kinds = set(map(type, plain)) - {type(None)}
    if any(issubclass(kind, Decimal) for kind in kinds):
        return value_array(
            [float(value) if isinstance(value, Decimal) else value for value in plain]
        )
    # Arrow would read True as 1 among numbers. It raises an error for values that it cannot
    # convert.
    with suppress(pa.ArrowException, TypeError, OverflowError):
        if bool not in kinds or len(kinds) == 1:
            return pa.array(plain)
    return pa.array([None if value is None else str(value) for value in plain], pa.large_string())


def number_column(
    values: pa.Array | Iterable[object], column: str, where: str
) -> tuple[Floats, Flags]:
    """The values as float64, and a flag for each text that is no number.

    Null and empty text become NaN. Raises SourceError if the type of the column is neither text nor
    a number.
    """
    values = value_array(values)
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
        return np.array(parsed, dtype=float), np.array(is_bad, dtype=bool)
    if not is_numeric(kind):
        raise SourceError(
            f"column {column!r} of {where} holds {describe_type(kind)}: {ColumnKind.NUMBERS}"
        )
    numbers: Floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers, np.zeros(len(numbers), dtype=bool)


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


def numbers_of(values: Sequence[object]) -> tuple[Floats, Flags]:
    """Python's values as float64, and a flag for each value that is no number.

    Text is no number. Null becomes NaN.
    """
    if set(map(type, values)) <= {int, float, np.float64, np.float32, type(None)}:
        with suppress(OverflowError):
            return np.array(values, dtype=float), np.zeros(len(values), dtype=bool)
    numbers = list(map(_number, values))
    is_bad = np.array([number is None for number in numbers], dtype=bool)
    return np.array(numbers, dtype=float), is_bad


def _number(value: object) -> float | None:
    if value is None:
        return nan
    numbers = int | float | Decimal | np.integer | np.floating
    if isinstance(value, numbers) and not isinstance(value, bool):
        with suppress(OverflowError, ValueError):  # Decimal's signalling NaN raises ValueError
            return float(value)
    return None
