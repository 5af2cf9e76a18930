"""Ids to codes by order of first appearance, where machine code may do it; else None, and pandas is to do it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.kernels.finding import engines
from monitor.kernels.finding.found import Coded

Codes = npt.NDArray[np.int32] | npt.NDArray[np.int64]

TEXT_COST, INTEGER_COST = 200, 60
"""What coding an id takes without machine code, in comparisons of `engines.WORTH_LOADING`: about 100 and 30 nanoseconds."""


def code_text(offsets: npt.NDArray[np.signedinteger[Any]], data: npt.NDArray[np.uint8]) -> Coded | None:
    """Codes of the texts ``data[offsets[i]:offsets[i + 1]]``, equal where their bytes are, and where each appears first.

    ValueError for offsets that do not ascend within the data.
    """
    if (machine := engines.compiled(TEXT_COST * (len(offsets) - 1))) is None:
        return None
    if offsets[0] < 0 or offsets[-1] > len(data) or (offsets[1:] < offsets[:-1]).any():
        msg = f"offsets must ascend from 0 to at most {len(data)}, the number of bytes"
        raise ValueError(msg)
    return machine.code_text(np.ascontiguousarray(offsets, dtype=np.int64), data)


def code_integers(values: npt.NDArray[np.int64]) -> Coded | None:
    """Codes of the values, and where each appears first."""
    if (machine := engines.compiled(INTEGER_COST * len(values))) is None:
        return None
    return machine.code_integers(values)


def recode(codes: Codes, others: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """``others[code]`` for each code."""
    if codes.dtype != np.int32 or (machine := engines.compiled()) is None:
        return others.take(codes)
    return machine.recode(codes.astype(np.int32, copy=False), others)


def mark(codes: Codes, seen: npt.NDArray[np.bool_]) -> None:
    """Mark each of these codes, int32 or int64, as seen."""
    if (machine := engines.compiled()) is None:
        seen[codes] = True
    else:
        machine.mark(codes, seen)
