"""Compares the lists of users of different arms with the lists of users of the same arm.

The values are exact over all pairs of users. The cost is O(k) for each user and each item.
"""

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from monitor.model.arrays import Codes, Floats, Integers
from monitor.model.errors import InputError
from monitor.model.rankings import ALL
from monitor.model.unpaired import BetweenExcess


@dataclass(slots=True)
class ListCounts:
    """How often each item is at each place, in the lists of one arm.

    Batches may come in any order. All arms and batches must use the same codes. 100,000 items with
    k = 10 need 8 MB.
    """

    k: int
    users: int = 0
    counts: Integers = field(init=False)  # (items, k), the number of lists with the item there

    def __post_init__(self) -> None:
        """Begin without items."""
        self.counts = np.zeros((0, self.k), dtype=np.int64)

    def add(self, codes: Codes) -> None:
        """Add the lists of n users, int32 (n, k), each item at most once in a list.

        -1 means that there is no item. A user with an empty list is a user. Raises InputError if
        the lists do not have k places.
        """
        if codes.shape[1:] != (self.k,):
            raise InputError(f"the lists have the shape {codes.shape}, and not (n, {self.k})")
        self.users += len(codes)
        is_item = codes >= 0
        cells = codes.astype(np.int64) * self.k + np.arange(self.k)
        self._grow(int(codes.max(initial=-1)) + 1)
        counts = np.bincount(cells[is_item], minlength=self.counts.size)
        self.counts += counts.reshape(self.counts.shape)

    def merge(self, other: Self) -> None:
        """Add all lists of another object with the same k and codes."""
        if other.k != self.k:
            raise InputError(f"lists of {other.k} and of {self.k} places cannot be merged")
        self.users += other.users
        self._grow(len(other.counts))
        self.counts[: len(other.counts)] += other.counts

    def _grow(self, items: int) -> None:
        if items > len(self.counts):
            self.counts = self.up_to(items)

    def up_to(self, items: int) -> Integers:
        """The counts with rows for at least this many items, (items, k)."""
        missing = max(items - len(self.counts), 0)
        return np.pad(self.counts, ((0, missing), (0, 0)))


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
    returned, because it would need a second pass over all lists. Raises InputError if the arms have
    different k, or unless 0 < p < 1.
    """
    if baseline.k != candidate.k:
        raise InputError(f"lists of {baseline.k} and of {candidate.k} places cannot be compared")
    if not 0 < p < 1:
        raise InputError(f"the persistence is {p:g}: write one between 0 and 1, such as 0.9")
    items = max(len(baseline.counts), len(candidate.counts))
    baseline_counts = baseline.up_to(items)
    candidate_counts = candidate.up_to(items)
    shared = _count_shared(baseline_counts, candidate_counts)
    return BetweenExcess(
        segment=segment,
        baseline=_mean_within_arm(baseline_counts, baseline.users, p),
        candidate=_mean_within_arm(candidate_counts, candidate.users, p),
        across=_mean_similarity(shared, baseline.users * candidate.users, p),
    )


def _mean_within_arm(counts: Integers, users: int, p: float) -> float:
    """The mean similarity of two different users of one arm."""
    shared_with_self = np.cumsum(counts.sum(axis=0))
    shared = _count_shared(counts, counts) - shared_with_self
    return _mean_similarity(shared, users * (users - 1), p)


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
