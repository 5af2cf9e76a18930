"""Converts lists of unequal length into one padded matrix.

The lists are cut to k, and duplicates are dropped. This module uses codes and offsets, not users
and ids.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from monitor.model.arrays import Array, Codes, Flags, Integers, Offsets, Rows

_Number = TypeVar("_Number", bound=np.number[Any])
PAD = -1
BLOCK_CELLS = 1 << 18
"""The number of items or ranks that are converted or aligned at once.

So many fit into the cache, and yet the time of a numpy call itself hardly matters.
"""
_LOOP_MAX_K = 40


def pad(
    codes: Integers,
    offsets: Offsets,
    k: int,
) -> tuple[Codes, Codes, Flags]:
    """Cut each list to its first k items, drop later duplicates, and pad with -1 on the right.

    List i is ``codes[offsets[i]:offsets[i + 1]]``. Codes are from 0 to 2**31 - 1. Returns the
    matrix (n, k), the lengths (n,) without duplicates, and flags (n,). A flag is set if the first k
    items of a list have a duplicate. An empty list has length 0. The time is O(n k). Lists with
    duplicates are sorted, which takes more time. The function needs memory for the result and one
    block.
    """
    n = len(offsets) - 1
    view = _view_matrix(codes, offsets, k)
    padded = np.empty((n, k), dtype=np.int32) if view is None else view
    lengths = np.minimum(np.diff(offsets), k).astype(np.int32)
    had_duplicates = np.zeros(n, dtype=np.bool_)
    step = max(1, BLOCK_CELLS // k)
    for low in range(0, n, step):
        rows = slice(low, min(low + step, n))
        if view is None:
            _fill(padded[rows], codes, offsets[rows], lengths[rows])
        had_duplicates[rows] = _has_duplicates(padded[rows])
        changed = low + np.flatnonzero(had_duplicates[rows])
        if len(changed):
            padded = np.require(padded, requirements="W")  # copies a view
            padded[changed], lengths[changed] = _keep_first(padded[changed])
    return padded, lengths, had_duplicates


def _view_matrix(codes: Integers, offsets: Offsets, k: int) -> Codes | None:
    """The lists as a read-only matrix (n, k). None unless all lists have k codes of type int32."""
    if codes.dtype != np.int32 or not (np.diff(offsets) == k).all():
        return None
    matrix: Codes = codes[offsets[0] : offsets[-1]].reshape(-1, k)
    matrix.flags.writeable = False
    return matrix


def offsets_of(lengths: Iterable[int] | Array) -> Offsets:
    """The place where each list begins, and the place where the last list ends."""
    if not isinstance(lengths, np.ndarray):
        lengths = np.fromiter(lengths, dtype=np.int64)
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def take_lists(
    codes: npt.NDArray[_Number],
    offsets: Offsets,
    rows: Rows,
) -> tuple[npt.NDArray[_Number], Offsets]:
    """The codes and offsets of the lists in these rows, in the order of the rows."""
    lengths = np.diff(offsets)
    first = int(offsets[0])
    width = int(lengths[0]) if len(lengths) else 0
    if width and (lengths == width).all():
        matrix = codes[first : first + width * len(lengths)].reshape(-1, width)
        return matrix[rows].ravel(), width * np.arange(len(rows) + 1)
    cells, row_offsets = find_cells(offsets, rows)
    return codes[cells], row_offsets


def find_cells(offsets: Offsets, rows: Rows) -> tuple[Rows, Offsets]:
    """The places of the items in the lists of these rows, and the offsets of these lists."""
    starts = offsets[rows]
    lengths = np.diff(offsets)[rows]
    row_offsets = offsets_of(lengths)
    cells = np.repeat(starts - row_offsets[:-1], lengths) + np.arange(row_offsets[-1])
    return cells, row_offsets


def _fill(
    block: Codes,
    codes: Integers,
    starts: Offsets,
    lengths: Codes,
) -> None:
    """Copy ``lengths[i]`` codes, beginning at ``starts[i]``, to row i. Pad the rest with -1."""
    n, k = block.shape
    if (lengths == k).all() and (np.diff(starts) == k).all():
        block[:] = codes[starts[0] : starts[0] + n * k].reshape(n, k)
        return
    if not len(codes):
        block[:] = PAD
        return
    columns = np.arange(k)
    block[:] = codes.take(starts[:, None] + columns, mode="clip")
    block[columns >= lengths[:, None]] = PAD


def _has_duplicates(block: Codes) -> Flags:
    n, k = block.shape
    if k > _LOOP_MAX_K:
        ordered = np.sort(block, axis=1)
        same = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != PAD)
        return np.asarray(np.logical_or.reduce(same, axis=1))
    ranks = block.T.copy()
    # Padding must not be a duplicate. So the padding of each column gets its own negative code.
    if ranks[-1].min(initial=0) < 0:
        np.subtract(ranks, np.arange(k, dtype=np.int32)[:, None], out=ranks, where=ranks < 0)
    flat = ranks.ravel()
    equal = np.zeros(n * k, dtype=np.bool_)
    for shift in range(1, k):
        equal[shift * n :] |= flat[shift * n :] == flat[: (k - shift) * n]
    return np.asarray(np.logical_or.reduce(equal.reshape(k, n), axis=0))


def find_first_places(rows: Integers) -> Flags:
    """Whether each place of padded rows (n, k) has the first occurrence of an item."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    # In ``ordered``, equal items are neighbours, and the one with the first place comes first.
    is_first: Flags = rows != PAD
    is_new = np.ones(rows.shape, dtype=np.bool_)
    np.put_along_axis(is_new, order[:, 1:], ordered[:, 1:] != ordered[:, :-1], axis=1)
    is_first &= is_new
    return is_first


def _keep_first(rows: Codes) -> tuple[Codes, Codes]:
    """The rows without later duplicates, padded again, and the new lengths of the rows."""
    is_first = find_first_places(rows)
    lengths = is_first.sum(axis=1, dtype=np.int32)
    shortened = np.full_like(rows, PAD)
    shortened[np.arange(rows.shape[1]) < lengths[:, None]] = rows[is_first]
    return shortened, lengths
