"""Item ids of both arms, and of what is known of items, as integer codes at the speed of their type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.errors import InputError
from monitor.frames.tables import read_column
from monitor.kernels.coding.ids import code_integers, mark, recode
from monitor.kernels.coding.texts import code_texts
from monitor.kernels.finding.found import Coded

Ids = npt.NDArray[Any] | ExtensionArray
"""Ids without nulls: int32, int64, float64, pandas ``str``, a Categorical of one of these, or object for everything else."""

Codes = npt.NDArray[np.int32] | npt.NDArray[np.int64]

_CODE_LIMIT = 2**31
WORTH_A_THREAD = 1 << 17
"""Ids from which on two threads are faster than one."""

_MARKED = 1 << 26
"""Codes up to this are counted by marking them in a table of as many bytes; above it the table would cost more than hashing."""


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
        msg = f"{what}: found records ({values.dtype}) where item ids were expected: give the array of one field"
        raise InputError(msg)


def _refuse_null(null: object, what: str) -> NoReturn:
    msg = f"{what}: found {null!r} where an item id was expected: drop the item or name it"
    raise InputError(msg)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The id behind each code: ``ids[code]``, or the code itself where ``ids`` is None."""

    ids: Ids | None

    def take(self, codes: npt.NDArray[Any]) -> list[Any]:
        """The ids of these codes, of several equal ones that which came first."""
        return list((codes if self.ids is None else self.ids.take(codes)).tolist())

    def rank_by_text(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Place of each of these codes in the order of their ids: ascending as text, then by the name of their type."""
        keys = [(str(item), type(item).__name__) for item in self.take(codes)]
        ranks = np.empty(len(keys), dtype=np.intp)
        ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return ranks


def encode(*parts: Ids) -> tuple[list[Codes], Vocabulary]:
    """Codes from 0 to 2**31 - 1 of each part's ids, equal where the ids are equal in Python, and the ids behind them.

    So "1" and 1 are two items; 1, 1.0 and True are one. Each part is coded by itself, in threads where that pays, and only
    the distinct ids of the parts meet. Integers that can be codes already are taken as they are; text and other integers are
    coded by machine code where there is any. Codes are the same without it: they follow the first appearance.
    """
    if all(isinstance(part, np.ndarray) and _are_codes(part) for part in parts):
        return [np.asarray(part) for part in parts], Vocabulary(None)
    if len(parts) > 1 and max(map(len, parts)) >= WORTH_A_THREAD:
        with ThreadPoolExecutor(max_workers=2) as threads:
            coded = list(threads.map(_encode_one, parts))
    else:
        coded = list(map(_encode_one, parts))
    shared, vocabulary = _encode_vocabularies([ids for _, ids in coded])
    return [_share(own, codes) for (own, _), codes in zip(coded, shared, strict=True)], vocabulary


def _share(own: npt.NDArray[Any], shared: npt.NDArray[np.int32]) -> Codes:
    """Shared codes instead of a part's own; the first part's mostly are the shared ones already."""
    return own if own.dtype == np.int32 and np.array_equal(shared, np.arange(len(shared))) else recode(own, shared)


def _are_codes(ids: npt.NDArray[Any]) -> bool:
    if ids.dtype not in (np.int32, np.int64):
        return False
    # Negative numbers seen as unsigned are above the limit, too.
    return bool(ids.view(np.uint32 if ids.dtype == np.int32 else np.uint64).max(initial=0) < _CODE_LIMIT)


def _encode_one(ids: Ids) -> tuple[npt.NDArray[Any], Ids]:
    """Codes of one part, and its distinct ids by code."""
    if isinstance(ids, pd.Categorical):
        return ids.codes, from_array(pd.Series(ids.categories), "categories")
    if ids.dtype == object:
        return _encode_objects(ids)
    if ids.dtype == np.int32:
        ids = np.asarray(ids, dtype=np.int64)
    if (found := _code(ids)) is None:
        return pd.factorize(ids if isinstance(ids, np.ndarray) else pd.Series(ids, copy=False).array)
    codes, firsts = found
    return codes, ids.take(firsts)


def _code(ids: Ids) -> Coded | None:
    """Codes of whole numbers and of texts by machine code, where there is any."""
    if not isinstance(ids, np.ndarray):
        return code_texts(ids)
    return code_integers(ids) if ids.dtype == np.int64 else None


def _encode_vocabularies(parts: Sequence[Ids]) -> tuple[list[npt.NDArray[np.int32]], Vocabulary]:
    """Codes shared by the parts' distinct ids."""
    filled = [part for part in parts if len(part)]
    if len({part.dtype for part in filled}) == 1 and filled[0].dtype != object:
        codes, ids = _encode_one(from_array(pd.concat([pd.Series(part) for part in filled], ignore_index=True), "ids"))
    else:
        codes, ids = _encode_objects(chain.from_iterable(part.tolist() for part in filled))
    bounds = np.cumsum([len(part) for part in parts])[:-1]
    return np.split(codes.astype(np.int32), bounds), Vocabulary(ids)


def _encode_objects(ids: Iterable[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.object_]]:
    known: dict[Any, int] = {}
    codes = np.fromiter((known.setdefault(item, len(known)) for item in ids), dtype=np.int64)
    return codes, np.fromiter(known, dtype=object, count=len(known))


def count_distinct(*parts: Codes) -> int:
    """How many different codes there are in all parts together."""
    top = max((int(part.max(initial=-1)) for part in parts), default=-1)
    if top >= _MARKED:
        return len(pd.unique(np.concatenate(parts)))
    seen = np.zeros(top + 1, dtype=np.bool_)
    for part in parts:
        mark(part, seen)
    return int(np.count_nonzero(seen))
