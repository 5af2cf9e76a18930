"""Columns of text to codes, where they lie: Arrow's arrays are read by what they can do, and nothing here imports Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pandas.api.extensions import ExtensionArray

from monitor.kernels.coding.ids import code_text
from monitor.kernels.finding.found import Coded

Texts = tuple[npt.NDArray[np.signedinteger[Any]], npt.NDArray[np.uint8]]

_OFFSETS = {"string": np.int32, "large_string": np.int64}


def code_texts(column: ExtensionArray) -> Coded | None:
    """Codes by order of first appearance, and where each appears first.

    None where Arrow does not hold the column as offsets and bytes, where texts are missing, and without machine code.
    """
    chunks = getattr(column.__arrow_array__(), "chunks", None) if hasattr(column, "__arrow_array__") else None
    if not chunks or any(chunk.null_count or str(chunk.type) not in _OFFSETS for chunk in chunks):
        return None
    parts = list(map(_read, chunks))
    return code_text(*(parts[0] if len(parts) == 1 else _join(parts)))


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
