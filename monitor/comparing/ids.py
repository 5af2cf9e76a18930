"""Item ids of two arms as integer codes, at the speed of their type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.errors import InputError

Ids = npt.NDArray[Any] | ExtensionArray
"""Ids without nulls in one of four types: int64, float64, pandas ``str``, or object for everything else."""

Codes = npt.NDArray[np.int32] | npt.NDArray[np.int64]

_CODE_LIMIT = 2**31


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
    return _checked_objects(np.fromiter(values, dtype=object, count=len(values)), what)


def _checked_objects(ids: npt.NDArray[np.object_], what: str) -> npt.NDArray[np.object_]:
    if len(nulls := np.flatnonzero(pd.isna(ids))):
        msg = f"{what}: found {ids[nulls[0]]!r} where an item id was expected: drop the item or name it"
        raise InputError(msg)
    for item in ids:
        try:
            hash(item)
        except TypeError:
            msg = f"{what}: found an item of type {type(item).__name__}: ids must be hashable, such as text, numbers or tuples"
            raise InputError(msg) from None
    return ids


def from_array(values: npt.NDArray[Any] | pd.Series, what: str) -> Ids:
    """Ids from a one-dimensional array or column; InputError when one is null or unhashable."""
    column = pd.Series(values, copy=False)
    dtype = column.dtype
    if pd.api.types.is_object_dtype(dtype):
        return from_objects(column.tolist(), what)
    if len(nulls := np.flatnonzero(column.isna())):
        msg = f"{what}: found {column.iloc[nulls[0]]!r} where an item id was expected: drop the item or name it"
        raise InputError(msg)
    if isinstance(dtype, pd.StringDtype):
        return column.astype("str").array
    if pd.api.types.is_bool_dtype(dtype) or (pd.api.types.is_integer_dtype(dtype) and column.max() < 2**63):
        return column.to_numpy(dtype=np.int64)
    if pd.api.types.is_float_dtype(dtype):
        return column.to_numpy(dtype=np.float64)
    return from_objects(column.tolist(), what)


def encode(baseline: Ids, candidate: Ids) -> tuple[Codes, Codes]:
    """Codes from 0 to 2**31 - 1 of both arms' ids, equal where the ids are equal in Python.

    So "1" and 1 are two items; 1, 1.0 and True are one.
    """
    if (
        isinstance(baseline, np.ndarray)
        and isinstance(candidate, np.ndarray)
        and _are_codes(baseline)
        and _are_codes(candidate)
    ):
        return baseline, candidate
    if baseline.dtype == candidate.dtype and baseline.dtype != object:
        codes = pd.factorize(pd.concat([pd.Series(baseline), pd.Series(candidate)], ignore_index=True))[0]
    else:
        codes = _encode_objects(chain(baseline.tolist(), candidate.tolist()), len(baseline) + len(candidate))
    return codes[: len(baseline)], codes[len(baseline) :]


def _are_codes(ids: npt.NDArray[Any]) -> bool:
    return ids.dtype == np.int64 and ids.min(initial=0) >= 0 and ids.max(initial=0) < _CODE_LIMIT


def _encode_objects(ids: Iterable[Any], count: int) -> npt.NDArray[np.int64]:
    known: dict[Any, int] = {}
    return np.fromiter((known.setdefault(item, len(known)) for item in ids), dtype=np.int64, count=count)
