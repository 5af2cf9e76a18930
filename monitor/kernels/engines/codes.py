"""Ids to codes by order of first appearance, where machine code may do it; else None, and pandas is to do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pandas.api.extensions import ExtensionArray

from monitor.kernels.engines import choice
from monitor.kernels.engines.results import Coded
from monitor.model.arrays import Integers

Texts = tuple[Integers, npt.NDArray[np.uint8]]
"""Offsets and bytes: text ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

TEXT_COST, INTEGER_COST = 200, 60
"""What coding an id takes without machine code, in comparisons of `engines.WORTH_LOADING`: about 100 and 30 nanoseconds."""
_OFFSETS = {"string": np.int32, "large_string": np.int64}


def code_texts(column: ExtensionArray) -> Coded | None:
    """Codes of a column of text, equal where the texts are, and where each appears first.

    The column is read where it lies, by what Arrow's arrays can do: nothing here imports Arrow. None where Arrow does not hold
    it as offsets and bytes, where texts are missing, and without machine code.
    """
    chunks = getattr(column.__arrow_array__(), "chunks", None) if hasattr(column, "__arrow_array__") else None
    if not chunks or any(chunk.null_count or str(chunk.type) not in _OFFSETS for chunk in chunks):
        return None
    parts = list(map(_read, chunks))
    return code_text(*(parts[0] if len(parts) == 1 else _join(parts)))


def code_text(offsets: Integers, data: npt.NDArray[np.uint8]) -> Coded | None:
    """Codes of the texts ``data[offsets[i]:offsets[i + 1]]``, equal where their bytes are, and where each appears first.

    ValueError for offsets that do not ascend within the data.
    """
    if (machine := choice.compiled(TEXT_COST * (len(offsets) - 1))) is None:
        return None
    if offsets[0] < 0 or offsets[-1] > len(data) or (offsets[1:] < offsets[:-1]).any():
        msg = f"offsets must ascend from 0 to at most {len(data)}, the number of bytes"
        raise ValueError(msg)
    return machine.code_by_table(np.ascontiguousarray(offsets, dtype=np.int64), data)


def code_integers(values: npt.NDArray[np.int64]) -> Coded | None:
    """Codes of the values, and where each appears first: coded as texts of eight bytes."""
    if (machine := choice.compiled(INTEGER_COST * len(values))) is None:
        return None
    data = np.ascontiguousarray(values).view(np.uint8)
    return machine.code_by_table(np.arange(0, values.nbytes + 1, values.itemsize), data)


def _read(chunk: Any) -> Texts:  # noqa: ANN401 - an array of Arrow's
    """Offsets from 0 on, and bytes; nothing is copied unless the array is a slice."""
    kind = _OFFSETS[str(chunk.type)]
    _, offsets, data = chunk.buffers()
    if not len(chunk) or data is None:
        return np.zeros(len(chunk) + 1, dtype=kind), np.empty(0, dtype=np.uint8)
    places = np.frombuffer(offsets, dtype=kind)[chunk.offset : chunk.offset + len(chunk) + 1]
    return (places - places[0] if places[0] else places), np.frombuffer(data, dtype=np.uint8)[places[0] : places[-1]]


def _join(parts: Sequence[Texts]) -> Texts:
    bounds = np.cumsum([0, *(len(data) for _, data in parts)])
    offsets = [own[:-1].astype(np.int64) + bound for (own, _), bound in zip(parts, bounds[:-1], strict=True)]
    return np.concatenate([*offsets, bounds[-1:]]), np.concatenate([data for _, data in parts])
