"""Sorts distinct texts by their bytes. This is faster than Arrow if the texts are short."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.measures.reading.ids import are_ascending, one_array
from monitor.model.arrays import Hashes, Rows

_PREFIX_BYTES = 8


def ascending_rows(users: pd.Index) -> Rows | None:
    """The row numbers that sort these distinct users. None if they are already sorted."""
    texts = one_array(pa.array(users.array)).cast(pa.large_string())
    if are_ascending(texts):
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
    shared = count_same_start(ends["min"].encode(), ends["max"].encode())
    _, offset_buffer, byte_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    data = np.frombuffer(byte_buffer, np.uint8)
    longest = int(np.diff(offsets).max())
    # The key of a shorter text ends with bytes 0. So no text may contain this byte.
    if longest - shared > _PREFIX_BYTES or not data[offsets[0] : offsets[-1]].all():
        return None
    padded = np.append(data, np.zeros(_PREFIX_BYTES, np.uint8))
    # For each byte, the integer that is made of this byte and the next ones.
    integers = np.ndarray(len(data) + 1, ">u8", padded, strides=(1,))
    keys = integers[offsets[:-1] + shared].astype(np.uint64)
    # Replace the bytes after the end of the text by bytes 0.
    excess = 8 * (_PREFIX_BYTES + shared - np.diff(offsets)).astype(np.uint64)
    return (keys >> excess) << excess


def count_same_start(one: str | bytes, other: str | bytes) -> int:
    """The number of equal characters or bytes at the beginning of both texts."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))
