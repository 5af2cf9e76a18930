"""Measures how often and how evenly items are listed, and which lists are equal."""

from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from monitor.measures.kernels.alignment import blocks, count_discordant, count_shared
from monitor.measures.kernels.ragged import PAD
from monitor.model.arrays import Codes, Floats, Integers, Rows
from monitor.model.rankings import PairBatch

_BLOCK_CELLS = 1 << 20
_CACHED_CELLS = 1 << 15

# Codes are dense if the highest code is below this factor times the number of places. For dense
# codes, a table takes less time than a sort.
_DENSE = 4


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
    place = np.full(top + 2, PAD, dtype=np.int32)
    place[items] = np.arange(len(items), dtype=np.int32)
    return look_up(place, baseline), look_up(place, candidate), items


def index_codes(baseline: Codes, candidate: Codes) -> tuple[Codes, Codes, Codes]:
    """Replace both arms' codes by codes that can index a small table.

    Codes are already small enough if a table for them has at most `_DENSE` entries for each list.
    Then they stay the same, and the third array has all codes up to the highest one. Otherwise the
    result is that of `compact_codes`.
    """
    top = max(int(baseline.max(initial=PAD)), int(candidate.max(initial=PAD)))
    if _is_dense(top, baseline[:, :1], candidate[:, :1]):
        return baseline, candidate, np.arange(top + 1, dtype=np.int32)
    return compact_codes(baseline, candidate)


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
    return top < _DENSE * sum(part.size for part in parts)


def _blocks(codes: Integers) -> Iterator[Rows]:
    # A block fits into the cache. If numpy converted the codes during the look-up, it would take
    # twice the time of converting each block first.
    for low in range(0, len(codes), _CACHED_CELLS):
        yield codes[low : low + _CACHED_CELLS].astype(np.intp)


def look_up(place: Codes, codes: Integers) -> Codes:
    """Compute ``place[codes]``. The result has the shape of ``codes``."""
    places = np.empty(codes.size, dtype=np.int32)
    for low, block in zip(range(0, codes.size, _CACHED_CELLS), _blocks(codes.ravel()), strict=True):
        places[low : low + len(block)] = place[block]
    return places.reshape(codes.shape)


def _search(codes: Codes, items: Codes) -> Codes:
    places = np.searchsorted(items, codes).astype(np.int32)
    places[codes < 0] = PAD
    return places


def count_items(
    codes: Codes,
    rows: Rows,
    items: int,
) -> tuple[Integers, Integers]:
    """The items in the lists of these rows, in ascending order, and how often each is listed.

    Codes are below ``items``. Padding is -1. The cost is O(places + items). If ``items`` is large,
    the cost is that of sorting the places.
    """
    # If the segment is small and the catalogue is large, a sort takes less time than a table.
    if items >= _DENSE * len(rows) * codes.shape[1]:
        values, times = np.unique(codes[rows], return_counts=True)
        return values[values >= 0], times[values >= 0]
    total = np.zeros(items + 1, dtype=np.int64)
    step = max(1, _BLOCK_CELLS // max(1, codes.shape[1]))
    for low in range(0, len(rows), step):
        total += np.bincount(codes[rows[low : low + step]].ravel() + 1, minlength=items + 1)
    counts = total[1:]
    listed = np.flatnonzero(counts)
    return listed, counts[listed]


def catalogue_coverage(counts: Integers, catalogue: int) -> float:
    """The share of the catalogue's items that are listed, in [0, 1].

    ``counts`` has one entry for each listed item. ``catalogue`` is the number of all items, at
    least 1.
    """
    return len(counts) / catalogue


def gini(counts: Integers, catalogue: int) -> float:
    """The Gini coefficient of the exposure of all N items of the catalogue, in [0, 1 - 1/N].

    The exposure of an item is how often it is listed. An item that is never listed has exposure 0.
    Let x_1 to x_N be the exposures in ascending order::

        G = sum_i sum_j |x_i - x_j| / (2 N sum_i x_i) = sum_i (2 i - N - 1) x_i / (N sum_i x_i)

    G is 0 if all items are listed equally often. ``counts`` has the m exposures above 0. m is at
    least 1. G is too high for a small sample, because a few lists contain only a few items. This is
    not corrected. G falls to its true value as users are added.
    Cost: O(m log m).
    Source: Gini (1912). For recommendations: Fleder and Hosanagar, Blockbuster culture's next rise
    or fall, Management Science, 2009.
    """
    # The formula needs no array with the N - m zeros. They only add N - m to the rank of each other
    # exposure.
    ordered = np.sort(counts).astype(np.float64)
    m = len(ordered)
    spread = float((2 * np.arange(1.0, m + 1) - m - 1) @ ordered)
    return spread / (catalogue * float(ordered.sum())) + (catalogue - m) / catalogue


def entropy(counts: Integers) -> float:
    """The Shannon entropy of the exposure in bits, in [0, log2 N].

    It is -sum p log2 p over the listed items. p is an item's share of all exposure.
    Source: Shannon (1948), section 6.
    """
    share = counts / counts.sum()
    return max(0.0, float(-(share @ np.log2(share))))


def kolmogorov_smirnov(baseline: Floats, candidate: Floats) -> float:
    """The largest distance between the distribution functions of two samples, in [0, 1].

    It is sup_x |F_b(x) - F_c(x)|. F(x) is the share of the values that are at most x. Equal samples
    have distance 0. Samples that do not overlap have distance 1. Each sample must have at least one
    value and no NaN.
    Cost: O(n log n).
    Source: Smirnov (1939). scipy's ks_2samp computes the same value.
    """
    values = np.concatenate((np.sort(baseline), np.sort(candidate)))
    # numpy's stable sort merges the two sorted samples in one pass.
    order = np.argsort(values, kind="stable")
    values = values[order]
    baseline_seen = np.cumsum(order < len(baseline))
    is_last = np.append(values[1:] != values[:-1], True)
    ours = baseline_seen[is_last]
    theirs = np.flatnonzero(is_last) + 1 - ours
    return float(np.abs(ours / len(baseline) - theirs / len(candidate)).max())


def churn(
    codes: Codes,
    lengths: Codes,
    last_codes: Codes,
    last_lengths: Codes,
) -> Floats:
    """1 minus the overlap of each user's list with the last run's list: float64 (n,) in [0, 1].

    For the two lists A and B it is 1 - |A ∩ B| / max(|A|, |B|). The codes of both runs are arrays
    (n, k), padded with -1. The items of a list must be distinct.

    The value is 0 if both lists have the same items in any order. It is 1 if every item was
    replaced. It is NaN if a list is empty. If the lists have different lengths, each missing item
    raises the value.
    """
    batch = PairBatch(
        baseline=last_codes,
        candidate=codes,
        baseline_lengths=last_lengths,
        candidate_lengths=lengths,
    )
    common = np.empty(len(codes), dtype=np.int64)
    for rows, alignment in blocks(batch):
        common[rows] = alignment.common
    replaced = np.full(len(codes), np.nan)
    longer = np.maximum(lengths, last_lengths)
    np.divide(longer - common, longer, out=replaced, where=(lengths > 0) & (last_lengths > 0))
    return replaced


_TIMES_OTHERS = 40
_CHANGED_MOST = 5
FIRST = 3
"""`is_top_reversed` compares this many items at the top of each list."""
_TOP = 5
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
    for depth in (_TOP, codes.shape[1]):
        if not len(rows):
            return numbers
        group_of, counts = _group_lists(codes[rows, :depth])
        is_repeated = counts[group_of] > 1
        rows = rows[is_repeated]
    numbers[rows] = group_of[is_repeated]
    return numbers


def _group_lists(codes: Codes) -> tuple[Integers, Integers]:
    """The number of each list (n,), equal for equal lists, and how often each number occurs."""
    # Two of the 64-bit hashes of 100,000 distinct lists are equal about once in 10^9 runs.
    hashes = np.zeros(len(codes), dtype=np.uint64)
    for place, key in enumerate(_hash_keys(codes.shape[1])):
        hashes += (codes[:, place] + 1).astype(np.uint64) * key
        hashes ^= hashes >> np.uint64(29)
    _, group_of, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return group_of, counts


@cache
def _hash_keys(width: int) -> npt.NDArray[np.uint64]:
    """A key for each place of a list. The keys are always the same."""
    return np.frombuffer(np.random.default_rng(_SEED).bytes(8 * width), dtype="<u8")


def largest_jump(before: Codes, now: Codes, items: int) -> int:
    """The largest change of an item's number of lists, or of its number of first places.

    Changes are weighed (`weigh_changes`), and the result is rounded. ``before`` and ``now`` have a
    row (k,) for each user, with codes below ``items``, padded with -1. The result is 0 without
    users.
    Cost: O(places + items).
    """
    largest = 0.0
    for depth in (before.shape[1], 1):
        a, b = (
            np.bincount(codes[:, :depth].ravel() + 1, minlength=items + 1)[1:]
            for codes in (before, now)
        )
        largest = max(largest, float(weigh_changes(a, b).max(initial=0.0)))
    return round(largest)


def weigh_changes(before: Integers, now: Integers) -> Floats:
    """Weigh each item's change of its number of users: float64 (items,), at least 0.

    The weight of a change from a to b users is (b - a)^2 / (a + b), minus `_TIMES_OTHERS` times the
    mean weight of the changes of other items. These are all items but the `_CHANGED_MOST` items
    with the largest changes. So a change of all items has hardly any weight. If a few items are new
    or gone, their weights are nearly the numbers of their users.

    On 52 healthy days of real lists (all users and two segments) the largest change is at most 36
    times the mean. If an item vanishes from the lists of 59 of 711 users, its weight is 48 users.
    In the benchmark `calibration` a lower factor caused half of the false alerts.
    """
    squares = (now - before) ** 2
    users = now + before
    is_other = np.ones(len(squares), dtype=np.bool_)
    if len(squares):
        first = max(0, len(squares) - _CHANGED_MOST)
        is_other[np.argpartition(squares, first)[first:]] = False
    of_others = squares[is_other].sum() / max(1, users[is_other].sum())
    weighed: Floats = squares / np.maximum(users, 1) - _TIMES_OTHERS * of_others
    return np.maximum(weighed, 0.0)


def largest_group(numbers: Integers) -> int:
    """The number of users with the most common list. It is 1 if all lists are different.

    ``numbers`` is a result of `number_repeated`.
    """
    repeated = numbers[numbers >= 0]
    return int(np.unique(repeated, return_counts=True)[1].max(initial=1))


def is_unchanged(
    codes: Codes,
    lengths: Codes,
    last_codes: Codes,
    last_lengths: Codes,
) -> Floats:
    """1 for a user whose list equals the last run's list, 0 for other users: float64 (n,).

    The codes of both runs are arrays (n, k), padded with -1. Equal lists have the same items in the
    same order. The value is NaN if one of the lists is empty.
    """
    same = (codes == last_codes).all(axis=1)
    return np.where((lengths > 0) & (last_lengths > 0), same, np.nan)


def is_top_reversed(baseline: Codes, candidate: Codes) -> Floats:
    """1 for a user whose first items are mostly in opposite order in the two lists: float64 (n,).

    The first `FIRST` items of both lists are compared. The value is 1 if more than half of their
    pairs are in opposite order. If not, it is 0. It is NaN if the first items of the two lists are
    not the same set, or if a list has fewer than `FIRST` items. Codes are arrays (n, k), padded
    with -1.
    """
    ours = baseline[:, :FIRST]
    theirs = candidate[:, :FIRST]
    if ours.shape[1] < FIRST:
        return np.full(len(ours), np.nan)
    is_equal = ours[:, :, np.newaxis] == theirs[:, np.newaxis, :]
    has_same_items = (is_equal.any(axis=2) & (ours >= 0)).all(axis=1)
    places = is_equal.argmax(axis=2)
    first, second = np.triu_indices(FIRST, 1)
    swapped = (places[:, first] > places[:, second]).sum(axis=1)
    return np.where(has_same_items, swapped > len(first) / 2, np.nan)


def is_identical(baseline: Codes, candidate: Codes) -> Floats:
    """1 for a user whose lists are equal, 0 for other users: float64 (n,).

    Equal lists have the same items in the same order. The value is NaN if one of the lists is
    empty.
    """
    same = (baseline == candidate).all(axis=1)
    return np.where((baseline[:, 0] >= 0) & (candidate[:, 0] >= 0), same, np.nan)


_PLACES_A_DIFFERENCE = 10
"""Nearly the same lists have one difference for each of so many places, but at least one."""


def flag_similar_lists(batch: PairBatch) -> tuple[Floats, Floats]:
    """Return for each user two flags as float64 (n,), 1 or 0. NaN for a list of fewer than 2 items.

    1. Whether the lists are nearly the same. They are if the number of items that only the longer
       list has, plus the number of pairs of common items in opposite order, is at most one for each
       `_PLACES_A_DIFFERENCE` places. One difference is always allowed.
    2. Whether the baseline's first items are near the top of the candidate's list. They are if the
       first 2 i places of the candidate's list have the first i items of the baseline's list, for
       each i up to half of the shorter list. This is so if the two lists were interleaved.

    Cost: one alignment.
    """
    is_alike = np.empty(len(batch))
    is_interleaved = np.empty(len(batch))
    for rows, alignment in blocks(batch):
        differences = alignment.long - count_shared(alignment) + count_discordant(alignment)
        allowed = np.maximum(1, alignment.long // _PLACES_A_DIFFERENCE)
        half = int(alignment.short.max()) // 2
        place = np.arange(half, dtype=np.int32)[:, np.newaxis]
        deepest = np.maximum.accumulate(alignment.positions[:half], axis=0)
        is_in_half = place < alignment.short // 2
        is_too_deep = is_in_half & (deepest >= 2 * (place + 1))
        is_known = alignment.short > 1
        is_alike[rows] = np.where(is_known, differences <= allowed, np.nan)
        is_interleaved[rows] = np.where(is_known, ~is_too_deep.any(axis=0), np.nan)
    return is_alike, is_interleaved


def count_shifted(before: Codes, now: Codes) -> int:
    """Count the users whose former first item is gone, and those whose first item is new.

    Returns the larger count. ``before`` and ``now`` have a row (k,) for each user, padded with -1.
    """
    is_gone = ~(now == before[:, :1]).any(axis=1)
    is_new = ~(before == now[:, :1]).any(axis=1)
    return max(int(is_gone.sum()), int(is_new.sum()))


def first_differs(baseline: Codes, candidate: Codes) -> Floats:
    """1 for a user whose lists have different first items, 0 for other users: float64 (n,).

    The value is NaN if one of the lists is empty.
    """
    ours = baseline[:, 0]
    theirs = candidate[:, 0]
    return np.where((ours >= 0) & (theirs >= 0), ours != theirs, np.nan)
