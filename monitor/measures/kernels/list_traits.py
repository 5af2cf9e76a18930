"""Finds the users whose lists have a trait: equal, unchanged, reversed, similar or shifted."""

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from monitor.measures.kernels.alignment import (
    Alignment,
    blocks,
    count_discordant,
    count_shared,
)
from monitor.model.arrays import Codes, Flags, Floats, Integers
from monitor.model.rankings import PairBatch

REVERSED_DEPTH = 3
"""`is_top_reversed` and `count_turned` compare this many items at the top of each list."""
_PAIRS = 3
"""The number of pairs of these items."""


_REPEATED_DEPTH = 5
"""`number_repeated` compares this many items first."""


_SEED = 16


def number_repeated(codes: Codes) -> Integers:
    """Give all users with the same list the same number. Other users get the number -1.

    Two lists are the same if they have the same items in the same order. Users with an empty list
    get the number -1 too.
    Cost: O(n log n).
    """
    numbers = np.full(len(codes), -1)
    # Lists with different tops differ, so most lists need not be read to the end.
    rows = np.flatnonzero(codes[:, 0] >= 0)
    for depth in (_REPEATED_DEPTH, codes.shape[1]):
        if not len(rows):
            return numbers
        list_numbers, counts = _group_lists(codes[rows, :depth])
        is_repeated = counts[list_numbers] > 1
        rows = rows[is_repeated]
    numbers[rows] = list_numbers[is_repeated]
    return numbers


def _group_lists(codes: Codes) -> tuple[Integers, Integers]:
    """The number of each list (n,), equal for equal lists, and how often each number occurs."""
    # Two of the 64-bit hashes of 100,000 distinct lists are equal about once in 10^9 runs.
    hashes = np.zeros(len(codes), dtype=np.uint64)
    for place, key in enumerate(_hash_keys(codes.shape[1])):
        hashes += (codes[:, place] + 1).astype(np.uint64) * key
        hashes ^= hashes >> np.uint64(29)
    _, list_numbers, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return list_numbers, counts


@cache
def _hash_keys(width: int) -> npt.NDArray[np.uint64]:
    """A key for each place of a list. The keys are always the same."""
    return np.frombuffer(np.random.default_rng(_SEED).bytes(8 * width), dtype="<u8")


def largest_group(numbers: Integers) -> int:
    """The number of users with the most common list. It is 1 if all lists are different.

    ``numbers`` is a result of `number_repeated`.
    """
    _, users = np.unique(numbers[numbers >= 0], return_counts=True)
    return int(users.max(initial=1))


def is_top_reversed(baseline: Codes, candidate: Codes) -> Floats:
    """1 for a user whose first items are mostly in opposite order in the two lists: float64 (n,).

    The first `REVERSED_DEPTH` items of both lists are compared. The value is 1 if more than half of
    the pairs of these items are in opposite order, and otherwise 0. It is NaN if the two lists do
    not have the same first items, or if a list has fewer than `REVERSED_DEPTH` items. Codes are
    arrays (n, k), padded with -1.
    """
    pairs_swapped = _count_swapped(baseline, candidate)
    return np.where(pairs_swapped >= 0, pairs_swapped > _PAIRS / 2, np.nan)


def _count_swapped(former: Codes, present: Codes) -> Integers:
    """Count each user's pairs of first items in opposite order in the two lists, (n,), 0 to 3.

    The count is -1 if the two lists do not have the same first `REVERSED_DEPTH` items.
    """
    ours = former[:, :REVERSED_DEPTH]
    theirs = present[:, :REVERSED_DEPTH]
    if ours.shape[1] < REVERSED_DEPTH:
        return np.full(len(ours), -1)
    is_equal = ours[:, :, np.newaxis] == theirs[:, np.newaxis, :]
    has_same_items = (is_equal.any(axis=2) & (ours >= 0)).all(axis=1)
    places = is_equal.argmax(axis=2)
    first, second = np.triu_indices(REVERSED_DEPTH, 1)
    swapped = (places[:, first] > places[:, second]).sum(axis=1)
    return np.where(has_same_items, swapped, -1)


def count_turned(before: Codes, now: Codes) -> int:
    """Count the users whose first three items are the former ones in opposite order.

    A training that moves items also turns some lists, but it more often leaves one pair of the
    items in order. There are two such orders. So half of the users with them are subtracted, and
    two standard deviations. The result is 0 for healthy lists. ``before`` and ``now`` have a row
    (k,) for each user, padded with -1.
    """
    pairs_swapped = _count_swapped(before, now)
    turned = int((pairs_swapped == _PAIRS).sum())
    nearly_turned = int((pairs_swapped == _PAIRS - 1).sum())
    by_chance = nearly_turned / 2 + math.sqrt(2 * (nearly_turned + 2))
    return max(0, round(turned - by_chance))


def is_identical(codes: Codes, other: Codes) -> Floats:
    """1 for a user whose two lists are equal, 0 for other users: float64 (n,).

    The lists are those of both arms, or those of two runs: codes (n, k), padded with -1. Equal
    lists have the same items in the same order. The value is NaN if one of the lists is empty.
    """
    same = (codes == other).all(axis=1)
    return np.where((codes[:, 0] >= 0) & (other[:, 0] >= 0), same, np.nan)


_PLACES_A_DIFFERENCE = 10
"""Nearly the same lists have one difference for each of so many places, but at least one."""


def flag_similar_lists(batch: PairBatch) -> tuple[Floats, Floats]:
    """Return for each user two flags as float64 (n,), 1 or 0. NaN for a list of fewer than 2 items.

    1. Whether the lists are nearly the same. They are if the number of items that only the longer
       list has, plus the number of pairs of common items in opposite order, is at most one for each
       `_PLACES_A_DIFFERENCE` places. One difference is always allowed.
    2. Whether the candidate's list looks as if another list and the baseline's list took turns in
       it, see `_takes_turns`.

    Cost: one alignment.
    """
    is_alike = np.empty(len(batch))
    is_interleaved = np.empty(len(batch))
    for rows, alignment in blocks(batch):
        differences = alignment.long - count_shared(alignment) + count_discordant(alignment)
        allowed = np.maximum(1, alignment.long // _PLACES_A_DIFFERENCE)
        is_known = alignment.short > 1
        is_alike[rows] = np.where(is_known, differences <= allowed, np.nan)
        is_interleaved[rows] = np.where(is_known, _takes_turns(alignment), np.nan)
    return is_alike, is_interleaved


def _takes_turns(alignment: Alignment) -> Flags:
    """Whether the candidate's list may be another list that took turns with the baseline's, (n,).

    Each list in turn gives its next item, and an item that is there already is left out. So each
    item of the baseline's list is in the candidate's list, up to its end. It is above the place
    that the turns before it reached, or at this place, or one place below. False if the candidate's
    list is shorter than the baseline's, because interleaving does not shorten lists.

    15 % of the lists of two trainings look so (k = 10, real lists and those of `incidents`), and
    70 % of lists in which each pair of turns was in random order.
    """
    reached = np.zeros(len(alignment.candidate_lengths), dtype=np.int32)
    takes_turns = alignment.candidate_lengths >= alignment.baseline_lengths
    for place, positions in enumerate(alignment.positions.astype(np.int32)):
        is_above = positions < reached
        is_next = positions <= reached + 1
        is_behind_end = reached + 1 >= alignment.candidate_lengths
        is_no_item = place >= alignment.baseline_lengths
        takes_turns &= is_above | is_next | is_behind_end | is_no_item
        reached = np.where(is_above, reached + 1, positions + 1)
    return takes_turns


def flag_shifted(before: Codes, now: Codes) -> tuple[Flags, Flags]:
    """Return whether a user's former first item is gone, and whether the first item is new: (n,).

    ``before`` and ``now`` have a row (k,) for each user, padded with -1.
    """
    return ~(now == before[:, :1]).any(axis=1), ~(before == now[:, :1]).any(axis=1)


def count_shifted(before: Codes, now: Codes) -> int:
    """Count the users with each flag of `flag_shifted`. Returns the larger count."""
    return max(int(is_shifted.sum()) for is_shifted in flag_shifted(before, now))
