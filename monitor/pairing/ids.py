"""Ids of items and users as integer codes, and which ids are equal."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.kernels.coding.ids import code_integers
from monitor.kernels.coding.texts import code_texts
from monitor.model.arrays import Codes

_CODE_LIMIT = np.iinfo(np.int32).max
_WHOLE = r"0|[1-9][0-9]{0,9}"

ItemIds: TypeAlias = npt.NDArray[np.int64] | ExtensionArray


def encode(baseline: ItemIds, candidate: ItemIds) -> tuple[tuple[Codes, Codes], pd.Index | None]:
    """Codes (int32, >= 0) of both arms' items, and the ids by code; None where the code is the id itself.

    The integer 42 and the string "42" get the same code: one arm may speak JSON numbers and the other CSV.
    """
    if _is_integer(baseline) and _is_integer(candidate):
        ids = (np.asarray(baseline), np.asarray(candidate))
        if all(len(part) == 0 or (part.min() >= 0 and part.max() <= _CODE_LIMIT) for part in ids):
            return (ids[0].astype(np.int32), ids[1].astype(np.int32)), None
        series = pd.Series(np.concatenate(ids))
    else:
        series = pd.concat([_as_text(baseline), _as_text(candidate)], ignore_index=True)
    shared, vocabulary = _factorize(series)
    return (shared[: len(baseline)], shared[len(baseline) :]), vocabulary


def _factorize(ids: pd.Series) -> tuple[Codes, pd.Index]:
    """Codes by order of first appearance, and the ids by code: by machine code where there is any."""
    found = code_integers(ids.to_numpy()) if ids.dtype == np.int64 else code_texts(ids.array)
    if found is None:
        codes, unique = pd.factorize(ids)
        return codes.astype(np.int32), pd.Index(unique)
    return found[0], pd.Index(ids.array.take(found[1]))


def codes_of(ids: ItemIds, vocabulary: pd.Index | None) -> Codes:
    """Codes of ids that came from elsewhere, -1 for an item that no list can hold; 42 and "42" are one item here too."""
    if vocabulary is None:
        return _own_codes(ids)
    if not (_is_integer(ids) and vocabulary.dtype == np.int64):
        ids, vocabulary = _as_text(ids).array, vocabulary.astype("str")
    codes: Codes = vocabulary.get_indexer(pd.Index(ids)).astype(np.int32)
    return codes


def decode(codes: npt.NDArray[np.int32], vocabulary: pd.Index | None) -> tuple[str, ...]:
    """Item ids of one padded row as strings, padding left out."""
    present = codes[codes >= 0]
    return tuple(str(code) for code in (present if vocabulary is None else vocabulary[present]))


def text_ranks(codes: npt.NDArray[np.int32], vocabulary: pd.Index | None) -> npt.NDArray[np.intp]:
    """Place of each code's id among the ids of all of them in the order of their text."""
    ids = codes if vocabulary is None else vocabulary[codes]
    ranks = np.empty(len(codes), dtype=np.intp)
    ranks[pd.Index(ids).astype("str").argsort()] = np.arange(len(codes))
    return ranks


def _own_codes(ids: ItemIds) -> Codes:
    """Each id as its own code where it can be one."""
    if not _is_integer(ids):
        texts = _as_text(ids)
        is_whole = texts.str.fullmatch(_WHOLE).to_numpy(dtype=np.bool_)
        whole = np.full(len(texts), -1, dtype=np.int64)
        whole[is_whole] = texts[is_whole].astype(np.int64)
    else:
        whole = np.asarray(ids)
    return np.where((whole >= 0) & (whole <= _CODE_LIMIT), whole, -1).astype(np.int32)


def _is_integer(ids: ItemIds) -> bool:
    return isinstance(ids, np.ndarray) and ids.dtype.kind == "i"


def _as_text(ids: ItemIds) -> pd.Series[str]:
    return pd.Series(ids).astype("str")


def find_users(wanted: pd.Index[str], present: pd.Index[str]) -> npt.NDArray[np.intp]:
    """Position of each wanted user among those present, -1 where absent."""
    if present is wanted or present.equals(wanted):
        return np.arange(len(wanted), dtype=np.intp)
    codes, _ = pd.factorize(pd.concat([pd.Series(wanted), pd.Series(present)], ignore_index=True))
    row_of = np.full(len(codes), -1, dtype=np.intp)
    row_of[codes[len(wanted) :]] = np.arange(len(present))
    return row_of[: len(wanted)]
