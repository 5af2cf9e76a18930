"""Measures how often and how evenly items are listed, and how that changes."""

import numpy as np

from monitor.measures.kernels.alignment import blocks, divide
from monitor.measures.kernels.item_codes import DENSE_FACTOR, count_codes
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows
from monitor.model.rankings import PairBatch

_COUNTED_CELLS = 1 << 20


def count_items(
    codes: Codes,
    rows: Rows,
    items: int,
) -> tuple[Integers, Integers]:
    """The items in the lists of these rows, in ascending order, and how often each is listed.

    Codes are below ``items``. Padding is -1. The cost is O(places + items). If ``items`` is large,
    the places are sorted instead.
    """
    # If the segment is small and the catalogue is large, a sort takes less time than a table.
    if items >= DENSE_FACTOR * len(rows) * codes.shape[1]:
        values, times = np.unique(codes[rows], return_counts=True)
        return values[values >= 0], times[values >= 0]
    counts = np.zeros(items, dtype=np.int64)
    step = max(1, _COUNTED_CELLS // max(1, codes.shape[1]))
    for low in range(0, len(rows), step):
        counts += count_codes(codes[rows[low : low + step]], items)
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
    differences = float((2 * np.arange(1.0, m + 1) - m - 1) @ ordered)
    return differences / (catalogue * float(ordered.sum())) + (catalogue - m) / catalogue


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
    # The functions are compared at the last of several equal values.
    is_last = np.append(values[1:] != values[:-1], True)
    baseline_count = np.cumsum(order < len(baseline))[is_last]
    candidate_count = np.flatnonzero(is_last) + 1 - baseline_count
    differences = baseline_count / len(baseline) - candidate_count / len(candidate)
    return float(np.abs(differences).max())


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
    replaced = np.empty(len(codes))
    for rows, alignment in blocks(batch):
        long = alignment.long
        replaced[rows] = divide(long - alignment.common, np.where(alignment.short > 0, long, 0))
    return replaced


_TIMES_OTHERS = 40
_CHANGED_MOST = 5


def largest_jump(before: Codes, now: Codes, items: int) -> int:
    """The largest change of an item's number of lists, or of its number of first places.

    Changes are weighed (`weigh_changes`), and the result is rounded. ``before`` and ``now`` have a
    row (k,) for each user, with codes below ``items``, padded with -1. The result is 0 without
    users.
    Cost: O(places + items).
    """
    largest = 0.0
    for depth in (before.shape[1], 1):
        count_before = count_codes(before[:, :depth], items)
        count_now = count_codes(now[:, :depth], items)
        changes = weigh_changes(count_before, count_now)
        largest = max(largest, float(changes.max(initial=0.0)))
    return round(largest)


def flag_exclusive(before: Codes, now: Codes, items: int) -> tuple[Flags, Flags]:
    """Flag the users with items that only one of two runs lists to anybody: two arrays (n,).

    The first array is about the lists ``before``, which have items that nobody gets now. The second
    array is about the lists ``now``. The arguments are those of `largest_jump`.
    """
    # The last flag is for the padding, which has the index -1.
    is_gone = np.append(count_codes(now, items) == 0, False)
    is_new = np.append(count_codes(before, items) == 0, False)
    return np.asarray(is_gone[before].any(axis=1)), np.asarray(is_new[now].any(axis=1))


# Two counts with one mean differ by four standard deviations if their change has this weight. On 52
# healthy days of real lists the weight is at most 13.
_BY_CHANCE = 16


def weigh_exclusive(before: int, now: int) -> int:
    """Weigh a change of `flag_exclusive` from ``before`` to ``now`` users, as that of one item.

    In a healthy run, about as many users lose items that nobody gets any more as get items that
    nobody got before. So the weight is 0, even if the catalogue changes every day.
    """
    return max(0, round((now - before) ** 2 / max(1, now + before)) - _BY_CHANCE)


def weigh_changes(before: Integers, now: Integers) -> Floats:
    """Weigh each item's change of its number of users: float64 (items,), at least 0.

    The weight of a change from a to b users is (b - a)^2 / (a + b), minus `_TIMES_OTHERS` times the
    mean weight of the other items' changes. The other items are all but the `_CHANGED_MOST` items
    with the largest changes. So a change of all items has hardly any weight. If a few items are new
    or gone, each item's weight is nearly the number of its users.

    On 52 healthy days of real lists (all users and two segments) the largest change is at most 36
    times the mean. If an item vanishes from the lists of 59 of 711 users, its weight is 48 users.
    In the benchmark `calibration` a lower factor caused half of the false alerts.
    """
    squares = (now - before) ** 2
    users = now + before
    is_other = np.ones(len(squares), dtype=np.bool_)
    if len(squares):
        others = max(0, len(squares) - _CHANGED_MOST)
        is_other[np.argpartition(squares, others)[others:]] = False
    weight_of_others = squares[is_other].sum() / max(1, users[is_other].sum())
    weights: Floats = squares / np.maximum(users, 1) - _TIMES_OTHERS * weight_of_others
    return np.maximum(weights, 0.0)
