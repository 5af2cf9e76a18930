"""Items of one arm's lists: how often and how evenly they are listed, and repeated lists."""

from collections.abc import Iterator

import numpy as np

from monitor.kernels.alignment import blocks
from monitor.kernels.ragged import PAD
from monitor.model.arrays import Codes, Floats, Integers, Rows
from monitor.model.rankings import PairBatch

_BLOCK_CELLS = 1 << 20
_CACHED_CELLS = 1 << 15

# Codes count as dense while there are fewer than this many for each place. A table then costs less
# than a sort.
_DENSE = 4


def compact_codes(baseline: Codes, candidate: Codes) -> tuple[Codes, Codes, Codes]:
    """Both arms' codes as indexes into the listed codes, and the listed codes.

    The listed codes are distinct and ascending. Padding stays -1. Time is O(places) by a table if
    the codes are dense, else O(places log places). Memory is the result and a block.
    """
    items = distinct_items(baseline, candidate)
    top = int(items.max(initial=PAD))
    if not _is_dense(top, baseline, candidate):
        return _search(baseline, items), _search(candidate, items), items
    # The padding's code, -1, takes the last entry.
    place = np.full(top + 2, PAD, dtype=np.int32)
    place[items] = np.arange(len(items), dtype=np.int32)
    return look_up(place, baseline), look_up(place, candidate), items


def distinct_items(*parts: Integers) -> Codes:
    """The distinct codes of all parts, ascending, without padding. A part may have any shape."""
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
    # A block fits into the cache. Converting it first takes half the time of numpy's conversion in
    # the look-up.
    for low in range(0, len(codes), _CACHED_CELLS):
        yield codes[low : low + _CACHED_CELLS].astype(np.intp)


def look_up(place: Codes, codes: Integers) -> Codes:
    """``place[codes]`` in the shape of the codes."""
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
    """Items in these rows' lists, ascending, and how often each is listed.

    Codes are below ``items``, or -1 for padding. Cost: O(places + items), or a sort.
    """
    # A small segment must not pay for a large catalogue.
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
    """Share of the catalogue that is listed, in [0, 1].

    ``catalogue`` is at least the number of counts, and at least 1.
    """
    return len(counts) / catalogue


def gini(counts: Integers, catalogue: int) -> float:
    """Gini coefficient of the exposure of all N items of the catalogue, in [0, 1 - 1/N].

    Items that are never listed count with exposure 0. With x the exposures in ascending order::

        G = sum_i sum_j |x_i - x_j| / (2 N sum_i x_i) = sum_i (2 i - N - 1) x_i / (N sum_i x_i)

    0 means that all items are listed equally often. ``counts``: the m exposures above 0, at least
    one.
    Cost: O(m log m). The value is not corrected for small samples. A few lists reach few items, so
    G falls to its true value as users are added.
    Source: Gini (1912); for recommendations Fleder and Hosanagar, Blockbuster culture's next rise
    or fall, Management Science, 2009.
    """
    # The N - m zeros shift each other place by N - m, so they need not be written out.
    ordered = np.sort(counts).astype(np.float64)
    m = len(ordered)
    spread = float((2 * np.arange(1.0, m + 1) - m - 1) @ ordered)
    return spread / (catalogue * float(ordered.sum())) + (catalogue - m) / catalogue


def entropy(counts: Integers) -> float:
    """Shannon entropy of the exposure in bits, -sum p log2 p over the listed items: in [0, log2 N].

    Source: Shannon (1948), section 6.
    """
    share = counts / counts.sum()
    return max(0.0, float(-(share @ np.log2(share))))


def kolmogorov_smirnov(baseline: Floats, candidate: Floats) -> float:
    """Largest distance between the distribution functions of two samples, in [0, 1].

    Equal samples have distance 0, separate ones 1. It is sup_x |F_b(x) - F_c(x)|, with F(x) the
    share of values <= x. Each sample has at least one value and no NaN. Cost: O(n log n).
    Source: Smirnov (1939), as scipy's ks_2samp.
    """
    values = np.concatenate((np.sort(baseline), np.sort(candidate)))
    # A stable sort merges two sorted runs in one pass.
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
    """1 - overlap of each user's list with the last one: float64 (n,) in [0, 1].

    It is 1 - |A ∩ B| / max(|A|, |B|). ``codes`` (n, k) are padded with -1. ``last_codes`` (n, any
    width): a negative number within ``last_lengths`` is an item that cannot be in this run's list.
    Items of the last list after its first k places are ignored. Items within a list are distinct.

    Equal sets give 0 in any order. 1 means that every item was replaced. An empty list gives NaN. A
    list that became shorter or longer churns by the missing items.
    """
    k = codes.shape[1]
    packed, packed_lengths = _pack(last_codes[:, :k], last_lengths, k)
    batch = PairBatch(
        baseline=packed,
        candidate=codes,
        baseline_lengths=packed_lengths,
        candidate_lengths=lengths,
    )
    common = np.empty(len(codes), dtype=np.int64)
    for rows, alignment in blocks(batch):
        common[rows] = alignment.common
    replaced = np.full(len(codes), np.nan)
    longer = np.maximum(lengths, np.minimum(last_lengths, k))
    np.divide(longer - common, longer, out=replaced, where=(lengths > 0) & (last_lengths > 0))
    return replaced


def _pack(codes: Codes, lengths: Codes, k: int) -> tuple[Codes, Codes]:
    """Codes >= 0 within ``lengths``, moved to the left of k columns, and their number."""
    is_item = (codes >= 0) & (np.arange(codes.shape[1]) < lengths[:, None])
    counts = is_item.sum(axis=1, dtype=np.int32)
    packed = np.full((len(codes), k), PAD, dtype=np.int32)
    packed[np.arange(k) < counts[:, None]] = codes[is_item]
    return packed, counts


FIRST = 3
"""Items at the top whose order `is_top_reversed` compares."""
_SEED = 16


def number_repeated(codes: Codes) -> Integers:
    """A number for each list that two or more users have, else -1: (n,).

    Lists are equal if they have the same items in the same order. Empty lists get -1.
    Cost: O(n log n).
    """
    # The 64-bit hashes of 100,000 users' distinct lists collide about once in 10^9 runs.
    keys = np.frombuffer(np.random.default_rng(_SEED).bytes(8 * codes.shape[1]), dtype="<u8")
    hashes = np.zeros(len(codes), dtype=np.uint64)
    for place, key in enumerate(keys):
        hashes += (codes[:, place] + 1).astype(np.uint64) * key
        hashes ^= hashes >> np.uint64(29)
    _, numbers, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    is_repeated = (counts[numbers] > 1) & (codes[:, 0] >= 0)
    return np.where(is_repeated, numbers, -1)


def largest_group(numbers: Integers) -> int:
    """How many users have the most common list, 1 if no list is repeated.

    ``numbers`` are those of `number_repeated` for the users.
    """
    repeated = numbers[numbers >= 0]
    return int(np.unique(repeated, return_counts=True)[1].max(initial=1))


def is_unchanged(
    codes: Codes,
    lengths: Codes,
    last_codes: Codes,
    last_lengths: Codes,
) -> Floats:
    """1 for a user whose list equals the last one (cut to k), else 0: float64 (n,).

    Order counts. The value is NaN if either list is empty.
    """
    k = codes.shape[1]
    before = np.minimum(last_lengths, k)
    last = np.full(codes.shape, -1, dtype=codes.dtype)
    last[:, : last_codes.shape[1]] = last_codes[:, :k]
    differs = (codes != last) & (np.arange(k) < lengths[:, np.newaxis])
    same = (lengths == before) & ~differs.any(axis=1)
    return np.where((lengths > 0) & (before > 0), same, np.nan)


def is_top_reversed(baseline: Codes, candidate: Codes) -> Floats:
    """1 for a user with most pairs of the first `FIRST` items in opposite order: float64 (n,).

    Other users with the same first items have 0. Users with other first items or shorter lists
    have NaN. Codes are (n, k), padded with -1.
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
    """1 for a user with the same list in both arms, in the same order, else 0: float64 (n,).

    It is NaN if either list is empty.
    """
    same = (baseline == candidate).all(axis=1)
    return np.where((baseline[:, 0] >= 0) & (candidate[:, 0] >= 0), same, np.nan)


def first_differs(baseline: Codes, candidate: Codes) -> Floats:
    """1 for a user whose first items differ, else 0, NaN if a list is empty: float64 (n,)."""
    ours = baseline[:, 0]
    theirs = candidate[:, 0]
    return np.where((ours >= 0) & (theirs >= 0), ours != theirs, np.nan)
