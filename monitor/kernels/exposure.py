"""Items of one arm's lists: how often and how evenly they are listed.

Whole lists that are shared, kept or turned round.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.kernels.alignment import blocks
from monitor.kernels.ragged import PAD
from monitor.model.arrays import Codes, Floats, Integers, Rows
from monitor.model.rankings import PairBatch

_BLOCK_CELLS = 1 << 20
_CACHED_CELLS = 1 << 15

# Codes count as dense while there are fewer of them than this many for each place: a table then
# costs less than sorting.
_DENSE = 4


def compact_codes(baseline: Codes, candidate: Codes) -> tuple[Codes, Codes, Codes]:
    """Both arms' codes as places in the ascending, distinct codes that either arm lists, and these; padding stays -1.

    O(places) by a table while codes are dense, O(places log places) by sorting else. Memory: the results, and a block.
    """
    items = distinct_items(baseline, candidate)
    top = int(items[-1]) if len(items) else PAD
    if not _is_dense(top, baseline, candidate):
        return _search(baseline, items), _search(candidate, items), items
    # The padding's code, -1, takes the last entry.
    place = np.full(top + 2, PAD, dtype=np.int32)
    place[items] = np.arange(len(items), dtype=np.int32)
    return look_up(place, baseline), look_up(place, candidate), items


def distinct_items(*parts: Integers) -> Codes:
    """The distinct codes in all parts together, each of any shape, ascending; padding left out."""
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
    # Widened by hand: where numpy does so in a look-up it takes twice as long. A block at a time
    # stays in the cache.
    return (
        codes[low : low + _CACHED_CELLS].astype(np.intp)
        for low in range(0, len(codes), _CACHED_CELLS)
    )


def look_up(place: Codes, codes: Integers) -> Codes:
    """``place[codes]``, of the shape of the codes."""
    places = np.empty(codes.size, dtype=np.int32)
    for low, block in zip(range(0, codes.size, _CACHED_CELLS), _blocks(codes.ravel()), strict=True):
        places[low : low + len(block)] = place[block]
    return places.reshape(codes.shape)


def _search(codes: Codes, items: Codes) -> Codes:
    places = np.searchsorted(items, codes).astype(np.int32)
    places[codes < 0] = PAD
    return places


def count_items(
    codes: Codes, rows: npt.NDArray[np.intp], items: int
) -> tuple[npt.NDArray[np.signedinteger[Any]], Integers]:
    """Items in these rows' lists, ascending, and how often.

    Codes below ``items``, -1 padding. O(places + items), or a sort.
    """
    # A small segment must not pay for a large catalogue.
    if items >= _DENSE * len(rows) * codes.shape[1]:
        found, counts = np.unique(codes[rows], return_counts=True)
        return found[found >= 0], counts[found >= 0]
    total = np.zeros(items + 1, dtype=np.int64)
    step = max(1, _BLOCK_CELLS // max(1, codes.shape[1]))
    for low in range(0, len(rows), step):
        total += np.bincount(codes[rows[low : low + step]].ravel() + 1, minlength=items + 1)
    listed = np.flatnonzero(total[1:])
    return listed, total[1:][listed]


def catalogue_coverage(counts: Integers, catalogue: int) -> float:
    """Share of the catalogue that is listed at all, in [0, 1].

    ``catalogue`` >= the number of counts, and at least 1.
    """
    return len(counts) / catalogue


def gini(counts: Integers, catalogue: int) -> float:
    """Gini coefficient of the exposure of all N items of the catalogue, those never listed included: in [0, 1 - 1/N].

    With x the exposures in ascending order, zeros first::

        G = sum_i sum_j |x_i - x_j| / (2 N sum_i x_i) = sum_i (2 i - N - 1) x_i / (N sum_i x_i)

    0: all listed equally often. ``counts``: the m exposures above 0, at least one. O(m log m). Not corrected for small samples:
    a few lists cannot reach many items, so that G falls as users are added, down to its true value.
    Gini (1912); for recommendations Fleder and Hosanagar, Blockbuster culture's next rise or fall, Management Science, 2009.
    """
    # The N - m zeros shift each of the others by so many places, and need not be written out.
    ordered = np.sort(counts).astype(np.float64)
    m = len(ordered)
    spread = float((2 * np.arange(1.0, m + 1) - m - 1) @ ordered)
    return spread / (catalogue * float(ordered.sum())) + (catalogue - m) / catalogue


def entropy(counts: Integers) -> float:
    """Shannon entropy (1948, section 6) of the exposure in bits, -sum p log2 p over the listed items: in [0, log2 N]."""
    share = counts / counts.sum()
    return max(0.0, float(-(share @ np.log2(share))))


def kolmogorov_smirnov(
    baseline: npt.NDArray[np.float64], candidate: npt.NDArray[np.float64]
) -> float:
    """Largest distance between the two samples' distribution functions, in [0, 1]: 0 for equal samples, 1 for separate ones.

    sup_x |F_b(x) - F_c(x)|, F(x) the share of values <= x, of at least one value each, without NaN. Smirnov (1939), as scipy's
    ks_2samp; O(n log n).
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


def churn(codes: Codes, lengths: Codes, last_codes: Codes, last_lengths: Codes) -> Floats:
    """1 - overlap of each user's list with the last one, 1 - |A ∩ B| / max(|A|, |B|): float64 (n,) in [0, 1].

    ``codes`` (n, k) padded with -1. ``last_codes`` (n, any width): any negative number above ``last_lengths`` is an item that
    cannot be in this run's list; what stands below the first k places is left out. Distinct items within a list.
    Equal sets: 0, in any order. Nothing kept: 1. Either list empty: NaN. A list that shrank or grew churns by what is missing.
    """
    k = codes.shape[1]
    packed, held = _pack(last_codes[:, :k], last_lengths, k)
    batch = PairBatch(
        baseline=packed, candidate=codes, baseline_lengths=held, candidate_lengths=lengths
    )
    common = np.empty(len(codes), dtype=np.int64)
    for rows, alignment in blocks(batch):
        common[rows] = alignment.common
    replaced = np.full(len(codes), np.nan)
    longer = np.maximum(lengths, np.minimum(last_lengths, k))
    np.divide(longer - common, longer, out=replaced, where=(lengths > 0) & (last_lengths > 0))
    return replaced


def _pack(codes: Codes, lengths: Codes, k: int) -> tuple[Codes, Codes]:
    """Codes >= 0 within ``lengths`` pushed to the left of k columns, padding behind them.

    And how many there are.
    """
    is_held = (codes >= 0) & (np.arange(codes.shape[1]) < lengths[:, None])
    held = is_held.sum(axis=1, dtype=np.int32)
    packed = np.full((len(codes), k), PAD, dtype=np.int32)
    packed[np.arange(k) < held[:, None]] = codes[is_held]
    return packed, held


FIRST = 3
"""Items at the top whose order is looked at."""
_SEED = 16


def number_repeated(codes: Codes) -> Integers:
    """A number for each list that two users have or more, item by item, -1 for any other or empty list, (n,). O(n log n)."""
    # Distinct lists meet in a hash of 64 bits once in 10^9 times even where 100,000 users are
    # looked at.
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
    """How many users have the most common list, 1 where each has another.

    ``numbers`` of `number_repeated`, of some users.
    """
    repeated = numbers[numbers >= 0]
    return int(np.unique(repeated, return_counts=True)[1].max(initial=1))


def is_unchanged(codes: Codes, lengths: Codes, last_codes: Codes, last_lengths: Codes) -> Floats:
    """1 for a user with the last list (cut to k), item by item, else 0, NaN where either is empty: float64 (n,)."""
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


def is_identical(baseline: Codes, candidate: Codes) -> Floats:
    """1 for a user with the same list in both arms, item by item, else 0, NaN where either list is empty: float64 (n,)."""
    same = (baseline == candidate).all(axis=1)
    return np.where((baseline[:, 0] >= 0) & (candidate[:, 0] >= 0), same, np.nan)


def first_differs(baseline: Codes, candidate: Codes) -> Floats:
    """1 for a user whose first items differ, else 0, NaN where either list is empty: float64 (n,)."""
    one, other = baseline[:, 0], candidate[:, 0]
    return np.where((one >= 0) & (other >= 0), one != other, np.nan)
