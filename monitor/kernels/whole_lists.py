"""Lists as wholes: which users have one and the same, who has the list of the last run, and how first items are ordered."""

import numpy as np

from monitor.model.arrays import Codes, Floats, Integers

FIRST = 3
"""Items at the top whose order is looked at."""
_SEED = 16


def number_repeated(codes: Codes) -> Integers:
    """A number for each list that two users have or more, -1 for a list that nobody else has and for an empty one, (n,).

    ``codes`` (n, k) padded with -1. Lists are the same with equal items in equal places. O(n k + n log n).
    """
    # Distinct lists meet in a hash of 64 bits once in 10^9 times even where 100,000 users are looked at.
    keys = np.frombuffer(np.random.default_rng(_SEED).bytes(8 * codes.shape[1]), dtype="<u8")
    hashes = np.zeros(len(codes), dtype=np.uint64)
    for place, key in enumerate(keys):
        hashes += (codes[:, place] + 1).astype(np.uint64) * key
        hashes ^= hashes >> np.uint64(29)
    found, numbers, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    is_repeated = (counts > 1)[numbers] & (codes[:, 0] >= 0)
    numbered: Integers = np.where(is_repeated, np.arange(len(found))[numbers], -1)
    return numbered


def largest_group(numbers: Integers) -> int:
    """How many users have the most common list, 1 where each has another; ``numbers`` of `number_repeated`, of some users."""
    repeated = numbers[numbers >= 0]
    return int(np.unique(repeated, return_counts=True)[1].max(initial=1))


def is_unchanged(codes: Codes, lengths: Codes, last_codes: Codes, last_lengths: Codes) -> Floats:
    """1 for a user with the last list, item by item, 0 for another list, NaN where either is empty: float64 (n,).

    Arguments are those of `exposure.churn`; a last list is cut to k.
    """
    k = codes.shape[1]
    before = np.minimum(last_lengths, k)
    last = np.full(codes.shape, -1, dtype=codes.dtype)
    last[:, : last_codes.shape[1]] = last_codes[:, :k]
    differs = (codes != last) & (np.arange(k) < lengths[:, np.newaxis])
    same = (lengths == before) & ~differs.any(axis=1)
    return np.where((lengths > 0) & (before > 0), same, np.nan)


def is_top_reversed(baseline: Codes, candidate: Codes) -> Floats:
    """Of users with the same FIRST items in both arms, 1 where more than half of their pairs stand the other way round, else 0.

    Float64 (n,), NaN for users whose first items differ and for shorter lists. Codes (n, k), padded with -1.
    """
    one, other = baseline[:, :FIRST], candidate[:, :FIRST]
    if one.shape[1] < FIRST:
        return np.full(len(one), np.nan)
    meets = one[:, :, np.newaxis] == other[:, np.newaxis, :]
    same = (meets.any(axis=2) & (one >= 0)).all(axis=1)
    places = meets.argmax(axis=2)
    pairs = [(i, j) for i in range(FIRST) for j in range(i + 1, FIRST)]
    swapped = sum((places[:, i] > places[:, j]).astype(np.intp) for i, j in pairs)
    return np.where(same, swapped > len(pairs) / 2, np.nan)


def first_differs(baseline: Codes, candidate: Codes) -> Floats:
    """1 for a user whose first items differ, else 0, NaN where either list is empty: float64 (n,)."""
    one, other = baseline[:, 0], candidate[:, 0]
    return np.where((one >= 0) & (other >= 0), one != other, np.nan)
