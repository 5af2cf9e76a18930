"""Finds positions of baseline items in the candidate's list, and counts inversions, by numpy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.measures.kernels.ragged import PAD
from monitor.model.arrays import Array, Codes, Floats, Integers
from monitor.model.immutable import immutable

Ranks = npt.NDArray[np.unsignedinteger[Any]]


# Up to this length of lists, all pairs of places are compared. Extended tau with RBO took half the
# time of sorting for lists of 20 items, and the same time for lists of about 50 items.
ALL_PAIRS_MAX_K = 48
_NARROW_LIMIT = 2**16 - 2
# Up to these lengths of lists, all pairs of ranks are compared. Longer lists are merged. Measured
# speed of comparing, as a multiple of the speed of merging: 13 for counts at 300 items, 2 for
# counts at 2000 items, 3 for sums of weights at 300 items, 0.5 for sums of weights at 1000 items.
COUNT_ALL_PAIRS_MAX_K = 2500
SUM_ALL_PAIRS_MAX_K = 600
_BYTE_MAX_K = 255


@immutable
class AlignedRanks:
    """The values of an `Alignment` that machine code computes.

    They are arrays (k, n) of ranks and arrays (n,) of int32.
    """

    positions: Ranks
    agreement: Ranks
    position_sums: npt.NDArray[np.int32]
    inversions: npt.NDArray[np.int32]


def rank_dtype(k: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned type for values from 0 to k. A sum of k ones does not overflow it."""
    return np.dtype(np.min_scalar_type(k))


def find_positions(baseline: Codes, candidate: Codes) -> Ranks:
    """The position (from 0) of each baseline item in the candidate's list: (k, n).

    The position of an absent item is k. Codes are arrays (n, k), padded with -1.
    """
    if baseline.shape[1] <= ALL_PAIRS_MAX_K:
        return find_by_all_pairs(baseline, candidate)
    return find_by_sorting(baseline, candidate)


def find_by_all_pairs(baseline: Codes, candidate: Codes) -> Ranks:
    """`find_positions` with k**2 comparisons for each pair, for k up to 255.

    The candidate's ranks are read from the top down. ``seen[i]`` becomes 1 when the baseline's item
    i is found, and stays 1. The item's position is k minus the sum of ``seen[i]`` over all ranks.
    For an absent item the sum is 0. This way each comparison needs only two additions of bytes, and
    no branch.
    """
    n, k = baseline.shape
    ours, theirs = _by_rank(baseline, candidate)
    equal = np.empty((k, n), dtype=np.bool_)
    seen = np.zeros((k, n), dtype=np.uint8)
    positions = np.full((k, n), k, dtype=np.uint8)
    for rank in range(k):
        np.equal(ours, theirs[rank], out=equal)
        np.add(seen, equal.view(np.uint8), out=seen)
        np.subtract(positions, seen, out=positions)
    return positions


def _by_rank(baseline: Codes, candidate: Codes) -> tuple[Array, Array]:
    """The codes of both arms as arrays (k, n). They have 16 bits if all codes fit into 16 bits."""
    n, k = baseline.shape
    top = max(baseline.max(initial=0), candidate.max(initial=0))
    dtype = np.uint16 if top < _NARROW_LIMIT else np.int32
    ours = np.empty((k, n), dtype=dtype)
    theirs = np.empty((k, n), dtype=dtype)
    np.copyto(ours, baseline.T, casting="unsafe")
    np.copyto(theirs, candidate.T, casting="unsafe")
    # Each arm gets its own code for padding, so that the padding of the two arms is never equal.
    padding = np.array(PAD, dtype=np.int32).astype(dtype)
    if (theirs[-1] == padding).any():
        np.subtract(theirs, (theirs == padding).view(np.uint8), out=theirs)
    return ours, theirs


def find_by_sorting(baseline: Codes, candidate: Codes) -> Ranks:
    """`find_positions` in O(k log k) for each pair.

    Both lists are sorted together by code, arm and rank. If two neighbours have the same code, it
    is the code of a common item.
    """
    n, k = baseline.shape
    rank_bits = int(k - 1).bit_length()
    keys = _sort_keys(baseline, candidate, rank_bits)
    keys.sort(axis=1)
    ordered = keys.ravel()
    # Neighbours with the same code differ above the rank in the bit of the arm only.
    is_match = ((ordered[1:] ^ ordered[:-1]) >> rank_bits) == 1
    # The last key of a user and the first key of the next user are not neighbours.
    is_match[2 * k - 1 :: 2 * k] = False
    matches = np.flatnonzero(is_match)
    ranks = (ordered & ((1 << rank_bits) - 1)).astype(rank_dtype(k))
    # The key of the baseline's item is followed by the key of the candidate's item.
    cells = ranks[:-1].take(matches).astype(np.intp)
    cells *= n
    cells += matches // (2 * k)
    positions = np.full(k * n, k, dtype=rank_dtype(k))
    positions[cells] = ranks[1:].take(matches)
    return positions.reshape(k, n)


def _sort_keys(baseline: Codes, candidate: Codes, rank_bits: int) -> Array:
    """One integer for each place of both lists: (n, 2k).

    The integer is composed of the code, the arm (one bit) and the rank. It has 32 bits if they
    suffice, and 64 bits otherwise.
    """
    n, k = baseline.shape
    top = int(max(baseline.max(initial=0), candidate.max(initial=0)))
    is_narrow = (top + 3) << (rank_bits + 1) <= 1 << 32
    keys = np.empty((n, 2, k), dtype=np.uint32 if is_narrow else np.int64)
    for arm, codes in enumerate((baseline, candidate)):
        if (codes[:, -1] == PAD).any():
            # The padding of each arm gets its own code, so that it never matches.
            codes = np.where(codes == PAD, top + 1 + arm, codes)  # noqa: PLW2901 - a copy
        shift = keys.dtype.type(rank_bits + 1)
        np.left_shift(codes, shift, out=keys[:, arm], casting="unsafe", dtype=keys.dtype)
    arm_bits = np.array([[0], [1 << rank_bits]])
    keys |= (arm_bits + np.arange(k)).astype(keys.dtype)
    return keys.reshape(n, 2 * k)


def count_inversions(ranks: Ranks) -> Integers:
    """The number of pairs i < j with ``ranks[i] > ranks[j]`` in each column of (k, n)."""
    # 255 ranks have at most 255 * 254 / 2 inversions, which fit into 16 bits.
    dtype = np.int16 if len(ranks) <= _BYTE_MAX_K else np.int64
    total: Integers = np.add.reduce(count_earlier_larger(ranks), axis=0, dtype=dtype)
    return total


def count_earlier_larger(ranks: Ranks) -> Array:
    """For each i, the number of j < i with ``ranks[j] > ranks[i]`` in the same column: (k, n).

    The cost is O(k²). It is O(k log² k) for long lists.
    """
    k, n = ranks.shape
    if k > COUNT_ALL_PAIRS_MAX_K:
        return _sum_by_merging(ranks, np.ones((k, n))).astype(np.int64)
    counts = np.zeros((k, n), dtype=np.uint8 if k <= _BYTE_MAX_K else np.uint16)
    larger = np.empty((k, n), dtype=np.bool_)
    for shift in range(1, k):
        np.greater(ranks[: k - shift], ranks[shift:], out=larger[shift:])
        np.add(counts[shift:], larger[shift:].view(np.uint8), out=counts[shift:])
    return counts


def sum_earlier_larger(ranks: Ranks, weights: Floats) -> Floats:
    """For each i, the sum of ``weights[j]`` over all j < i with ``ranks[j] > ranks[i]``.

    The result is float64 (k, n). A sum is exactly 0 if every such weight is 0.
    """
    k = len(ranks)
    if k > SUM_ALL_PAIRS_MAX_K:
        return _sum_by_merging(ranks, weights)
    # A sum of zeros is exactly 0, because nothing is subtracted.
    total = np.zeros(ranks.shape)
    for shift in range(1, k):
        total[shift:] += weights[: k - shift] * (ranks[: k - shift] > ranks[shift:])
    return total


def _sum_by_merging(ranks: Ranks, weights: Floats) -> Floats:
    """`sum_earlier_larger` in O(k log² k), by a bottom-up merge sort of the indices by rank."""
    k, n = ranks.shape
    size = 1 << int(k - 1).bit_length()
    order = np.argsort(ranks.T, axis=1, kind="stable")
    runs: npt.NDArray[np.int32] = np.tile(np.arange(size, dtype=np.int32), (n, 1))
    runs[:, :k] = order
    run_weights: Floats = np.zeros((n, size))
    total: Floats = np.zeros((n, size))
    run_weights[:, :k] = np.take_along_axis(weights.T, order, axis=1)
    half = 1
    while half < size:
        shape = (n, size // (2 * half), 2 * half)
        order = np.argsort(runs.reshape(shape), axis=2, kind="stable")
        runs = np.take_along_axis(runs.reshape(shape), order, axis=2)
        run_weights = np.take_along_axis(run_weights.reshape(shape), order, axis=2)
        # Two runs of length ``half`` are merged. The right run has the larger ranks. So if an
        # element of the right run moves before an element of the left run, the moved element has
        # a larger rank and a smaller index.
        passed = np.cumsum(np.where(order >= half, run_weights, 0.0), axis=2)
        total = np.take_along_axis(total.reshape(shape), order, axis=2)
        total += np.where(order < half, passed, 0.0)
        half *= 2
    return np.ascontiguousarray(total.reshape(n, size)[:, :k].T)
