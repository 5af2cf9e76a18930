"""Replaces the codes of items by codes that are small and dense."""

from collections.abc import Iterator

import numpy as np

from monitor.measures.kernels.ragged import PAD
from monitor.model.arrays import Codes, Integers, Rows

_CACHED_CELLS = 1 << 15


# Codes are dense if the highest code is below this factor times the number of places. For dense
# codes, a table takes less time than a sort.
DENSE_FACTOR = 4


def compact_codes(baseline: Codes, candidate: Codes) -> tuple[Codes, Codes, Codes]:
    """Replace both arms' codes by their indexes among the listed codes.

    Returns the indexes of each arm, and the listed codes. The listed codes are distinct and
    ascending. Padding stays -1. If the codes are dense, a table is used and the time is O(places).
    If not, the time is O(places log places). The function needs memory for the result and one
    block.
    """
    items = distinct_items(baseline, candidate)
    top = int(items.max(initial=PAD))
    if not _is_dense(top, baseline, candidate):
        return _search(baseline, items), _search(candidate, items), items
    # The code of padding, -1, selects the last entry.
    index_of_code = np.full(top + 2, PAD, dtype=np.int32)
    index_of_code[items] = np.arange(len(items), dtype=np.int32)
    return look_up(index_of_code, baseline), look_up(index_of_code, candidate), items


def index_codes(baseline: Codes, candidate: Codes) -> tuple[Codes, Codes, Codes]:
    """Replace both arms' codes by codes that can index a small table.

    Codes are small enough if a table of all codes has at most `DENSE_FACTOR` entries for each list.
    Then the codes stay the same, and the third array has all codes up to the highest one. Otherwise
    the result of `compact_codes` is returned.
    """
    top = max(int(baseline.max(initial=PAD)), int(candidate.max(initial=PAD)))
    if _is_dense(top, baseline[:, :1], candidate[:, :1]):
        return baseline, candidate, np.arange(top + 1, dtype=np.int32)
    return compact_codes(baseline, candidate)


def count_codes(codes: Codes, items: int) -> Integers:
    """Return how often each code from 0 to ``items`` - 1 occurs, (items,). Padding is not counted.

    ``codes`` may have any shape.
    """
    # `bincount` accepts no negative values, so each code is counted at the index code + 1. The
    # count of the padding, which has the code -1, is at index 0 and is dropped.
    return np.bincount(codes.ravel() + 1, minlength=items + 1)[1:]


def distinct_items(*parts: Integers) -> Codes:
    """The distinct codes of all parts in ascending order, without padding.

    The parts may have any shape.
    """
    top = max((int(part.max(initial=PAD)) for part in parts), default=PAD)
    if not _is_dense(top, *parts):
        items = np.unique(np.concatenate(parts, axis=None))
        return items[items >= 0].astype(np.int32)
    is_listed = np.zeros(top + 2, dtype=np.bool_)
    for part in parts:
        for codes in _blocks(part.ravel()):
            is_listed[codes] = True
    return np.flatnonzero(is_listed[:-1]).astype(np.int32)


def _is_dense(top: int, *parts: Integers) -> bool:
    return top < DENSE_FACTOR * sum(part.size for part in parts)


def _blocks(codes: Integers) -> Iterator[Rows]:
    # A block fits into the cache. If numpy converted the codes during the look-up, it would take
    # twice the time of converting each block first.
    for low in range(0, len(codes), _CACHED_CELLS):
        yield codes[low : low + _CACHED_CELLS].astype(np.intp)


def look_up(table: Codes, codes: Integers) -> Codes:
    """Compute ``table[codes]``. The result has the shape of ``codes``."""
    values = np.empty(codes.size, dtype=np.int32)
    for low, block in zip(range(0, codes.size, _CACHED_CELLS), _blocks(codes.ravel()), strict=True):
        values[low : low + len(block)] = table[block]
    return values.reshape(codes.shape)


def _search(codes: Codes, items: Codes) -> Codes:
    """The index of each code in ``items``, which has all these codes. Padding stays -1."""
    indexes = np.searchsorted(items, codes).astype(np.int32)
    indexes[codes < 0] = PAD
    return indexes
