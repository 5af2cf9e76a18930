"""Sorts distinct texts by their bytes. This is faster than Arrow if the texts are short."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.measures.reading.ids import one_array
from monitor.model.arrays import Hashes, Rows

_PREFIX_BYTES = 8


def ascending_rows(users: pd.Index) -> Rows | None:
    """The row numbers that sort these distinct users. None if they are already sorted."""
    texts = one_array(pa.array(users.array)).cast(pa.large_string())
    if pc.all(pc.less(texts[:-1], texts[1:])).as_py():
        return None
    keys = _sort_keys(texts)
    # Sorting a million integers takes a fifth of the time of sorting a million texts.
    return users.argsort() if keys is None else np.argsort(keys)


def _sort_keys(texts: pa.Array) -> Hashes | None:
    """One integer for each text, so that the integers have the order of the texts.

    An integer is made of the bytes after the common beginning of all texts. The result is None if
    these bytes do not fit into an integer, or if a text contains the byte 0.
    """
    ends = pc.min_max(texts).as_py()
    shared = _count_shared(ends["min"].encode(), ends["max"].encode())
    _, offset_buffer, byte_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(byte_buffer, np.uint8)
    longest = int(np.diff(offsets).max())
    # The key of a shorter text ends with bytes 0. So no text may contain this byte.
    if longest - shared > _PREFIX_BYTES or not data[offsets[0] : offsets[-1]].all():
        return None
    keys = np.zeros(len(texts), dtype=np.uint64)
    for place in range(shared, longest):
        cells = offsets[:-1] + place
        column = np.where(cells < offsets[1:], data.take(cells, mode="clip"), 0)
        keys = (keys << np.uint64(8)) | column.astype(np.uint64)
    return keys


def _count_shared(low: bytes, high: bytes) -> int:
    """The number of equal bytes at the beginning of both texts."""
    for place, (one, other) in enumerate(zip(low, high, strict=False)):
        if one != other:
            return place
    return len(low)
