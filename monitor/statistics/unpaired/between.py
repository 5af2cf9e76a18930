"""Compares the lists of users of different arms with the lists of users of the same arm.

The values are exact over all pairs of users. The cost is O(k) for each user and each item.
"""

import math

import numpy as np

from monitor.model.arrays import Codes, Floats, Integers
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL
from monitor.model.unpaired import BetweenExcess


@immutable
class ListCounts:
    """How often each item is at each place, in the lists of one arm.

    100,000 items with k = 10 need 8 MB.
    """

    users: int
    counts: Integers  # (items, k), the number of lists with the item there


def count_lists(codes: Codes, items: int) -> ListCounts:
    """Count the items in the lists of n users, int32 (n, k), each item at most once in a list.

    Codes are below ``items``, which must be the same for both arms. -1 means that there is no item.
    A user with an empty list is a user.
    """
    k = codes.shape[1]
    cells = codes.astype(np.int64) * k + np.arange(k)
    counts = np.bincount(cells[codes >= 0], minlength=items * k)
    return ListCounts(users=len(codes), counts=counts.reshape(items, k))


def between_excess(
    baseline: ListCounts, candidate: ListCounts, p: float, segment: str = ALL
) -> BetweenExcess:
    """How much more alike two users of one arm are than two users of different arms.

    ``segment`` names the segment of the users. A value is NaN if there is no pair of users.

    The similarity of two lists is RBO summed to depth k, ``rbo_truncated``. X_d is the number of
    items that are among the first d of both lists. The highest value is 1 - p^k::

        sum_{d=1..k} w_d X_d / d,    w_d = (1 - p) p^(d - 1)

    The sum always ends at depth k. Beyond the end of a shorter list, X_d stays the same.
    (``rbo_truncated`` of two lists ends at the shorter list.) An empty list has the similarity 0 to
    all lists.

    Let c(i, d) be the number of an arm's n users that have item i among their first d items. Two
    different users of the arm share sum_i c (c - 1) / (n (n - 1)) items at depth d on average. Two
    users of different arms share sum_i c_A c_B / (n_A n_B) items. So the expected value is 0 if
    both arms draw their users and lists from one population. Otherwise it is half of the squared
    distance between the arms' mean vectors (Gretton et al. 2012, the squared maximum mean
    discrepancy).

    Even healthy trainings differ, so compare the value with earlier runs. No standard error is
    returned, because it would need a second pass over all lists.
    """
    shared = _count_shared(baseline.counts, candidate.counts)
    return BetweenExcess(
        segment=segment,
        baseline=_mean_within_arm(baseline, p),
        candidate=_mean_within_arm(candidate, p),
        across=_mean_similarity(shared, baseline.users * candidate.users, p),
    )


def _mean_within_arm(arm: ListCounts, p: float) -> float:
    """The mean similarity of two different users of one arm."""
    shared_with_self = np.cumsum(arm.counts.sum(axis=0))
    shared = _count_shared(arm.counts, arm.counts) - shared_with_self
    return _mean_similarity(shared, arm.users * (arm.users - 1), p)


def _count_shared(first: Integers, second: Integers) -> Floats:
    """For each depth, the number of shared items, summed over all pairs of users, (k,).

    A pair is one user of each arm. ``first`` and ``second`` are the arms' counts, (items, k).
    """
    k = first.shape[1]
    shared = np.zeros(k)
    first_above = np.zeros(len(first), dtype=np.int64)
    second_above = np.zeros(len(second), dtype=np.int64)
    for place in range(k):
        first_above += first[:, place]
        second_above += second[:, place]
        shared[place] = first_above @ second_above
    return shared


def _mean_similarity(shared: Floats, pairs: int, p: float) -> float:
    """The mean similarity of the pairs, from the shared items at each depth. NaN without pairs."""
    if not pairs:
        return math.nan
    depths = np.arange(1, len(shared) + 1)
    weights = (1 - p) * p ** (depths - 1.0) / depths
    return float(weights @ shared) / pairs
