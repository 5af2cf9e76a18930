"""One integer code for each item id, shared by both arms."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import ExtensionArray

_CODE_LIMIT = np.iinfo(np.int32).max

ItemIds: TypeAlias = npt.NDArray[np.int64] | ExtensionArray
Codes: TypeAlias = npt.NDArray[np.int32]


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
    codes, unique = pd.factorize(series)
    shared: Codes = codes.astype(np.int32)
    return (shared[: len(baseline)], shared[len(baseline) :]), pd.Index(unique)


def decode(codes: npt.NDArray[np.int32], vocabulary: pd.Index | None) -> tuple[str, ...]:
    """Item ids of one padded row as strings, padding left out."""
    present = codes[codes >= 0]
    return tuple(str(code) for code in (present if vocabulary is None else vocabulary[present]))


def _is_integer(ids: ItemIds) -> bool:
    return isinstance(ids, np.ndarray) and ids.dtype.kind == "i"


def _as_text(ids: ItemIds) -> pd.Series[str]:
    return pd.Series(ids).astype("str")
