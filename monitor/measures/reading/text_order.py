"""Sorts distinct texts by their bytes, faster than Arrow if they are short."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.measures.reading.ids import one_array
from monitor.model.arrays import Hashes, Rows

_KEY_BYTES = 8


def ascending_rows(users: pd.Index) -> Rows | None:
    """The rows of these distinct users in ascending order. None if they are in this order."""
    texts = one_array(pa.array(users.array)).cast(pa.large_string())
    if pc.all(pc.less(texts[:-1], texts[1:])).as_py():
        return None
    keys = _sort_keys(texts)
    # A million integers are sorted in a fifth of the time of a million texts.
    return users.argsort() if keys is None else np.argsort(keys)


def _sort_keys(texts: pa.Array) -> Hashes | None:
    """Integers in the order of the texts: the bytes after the common beginning.

    None if these bytes do not fit into an integer.
    """
    ends = pc.min_max(texts).as_py()
    shared = _count_shared(ends["min"].encode(), ends["max"].encode())
    _, offset_buffer, byte_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(byte_buffer, np.uint8)
    longest = int(np.diff(offsets).max())
    # The end of a text has the byte 0 in its key. So no text may have that byte.
    if longest - shared > _KEY_BYTES or not data[offsets[0] : offsets[-1]].all():
        return None
    keys = np.zeros(len(texts), dtype=np.uint64)
    for place in range(shared, longest):
        cells = offsets[:-1] + place
        column = np.where(cells < offsets[1:], data.take(cells, mode="clip"), 0)
        keys = (keys << np.uint64(8)) | column.astype(np.uint64)
    return keys


def _count_shared(low: bytes, high: bytes) -> int:
    """How many first bytes are equal."""
    for place, (one, other) in enumerate(zip(low, high, strict=False)):
        if one != other:
            return place
    return len(low)
