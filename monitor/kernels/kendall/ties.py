"""Items in common ranked with their ties, and Vigna's weighted tau of lists with ties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.kernels.alignment import Alignment
from monitor.kernels.engines.positions import count_earlier_larger, rank_dtype
from monitor.kernels.shared import divide, sum_ranks
from monitor.model.arrays import Floats, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """Places from 0 of n pairs' items in either list, equal where tied, at the baseline's ranks: int64 (k, n), k where absent.

    ``count`` (n,): items in common.
    """

    baseline: Integers
    candidate: Integers
    count: Integers

    def sort(self) -> Integers:
        """Both places in one number, baseline * (k + 1) + candidate, ascending down each column; absent items last."""
        return np.sort(self.baseline * (len(self.baseline) + 1) + self.candidate, axis=0)

    def exchange(self) -> Tied:
        """The same items with the arms exchanged."""
        return Tied(baseline=self.candidate, candidate=self.baseline, count=self.count)


def find_tied(alignment: Alignment) -> npt.NDArray[np.bool_]:
    """Whether a list of the pair has items of equal scores: (n,). Scores that are NaN tie with nothing."""
    found = np.zeros(alignment.positions.shape[1], dtype=np.bool_)
    if alignment.scores is not None:
        for scores in (alignment.scores.baseline, alignment.scores.candidate):
            found |= (scores[1:] == scores[:-1]).any(axis=0)
    return found


def rank_tied(alignment: Alignment, columns: npt.NDArray[np.intp]) -> Tied:
    """The items in common of these pairs with their ties; ValueError when the alignment has no scores."""
    if alignment.scores is None:
        msg = "the lists come without scores"
        raise ValueError(msg)
    k = alignment.k
    positions = alignment.positions[:, columns]
    is_common = positions < k
    theirs = _number(alignment.scores.candidate[:, columns])
    found = np.take_along_axis(theirs, np.minimum(positions, k - 1).astype(np.intp), axis=0)
    return Tied(
        baseline=np.where(is_common, _number(alignment.scores.baseline[:, columns]), k),
        candidate=np.where(is_common, found, k),
        count=np.add.reduce(is_common, axis=0, dtype=np.int64),
    )


def _number(values: Floats | Integers) -> Integers:
    """Runs of equal values, numbered from 0 down each column."""
    starts = np.zeros(values.shape, dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return np.cumsum(starts, axis=0, dtype=np.int64)


def weighted_tau_of_ties(tied: Tied) -> Floats:
    """`monitor.kernels.kendall.weighted.weighted_tau` where items are tied: float64 (n,) in [-1, 1].

    A pair that is tied in a list is in neither order; with W the weight of all pairs in the same order less that of those in
    opposite order, W1 and W2 the weight of the pairs not tied in either list, tau = W / sqrt(W1 W2). Ranks follow the one list,
    its ties the other, and the results of both are averaged. NaN where all items in common are tied in a list.
    """
    # What is tied in both is alike in all, so that its order cannot matter.
    mean: Floats = (_one_way(tied) + _one_way(tied.exchange())) / 2
    return np.clip(mean, -1.0, 1.0)


def _one_way(tied: Tied) -> Floats:
    """Tau with ranks by the baseline, its ties by the candidate: each item's rank weighs the pairs that it is part of."""
    keys, k, z = tied.sort(), len(tied.baseline), tied.count
    ours, theirs = keys // (k + 1), keys % (k + 1)
    weights = np.where(np.arange(k)[:, None] < z, 1.0 / np.arange(1, k + 1)[:, None], 0.0)
    untied_ours, untied_theirs = z - _count_equal(ours), z - _count_equal(theirs)
    untied = untied_ours + untied_theirs - (z - _count_equal(_number(keys)))
    surplus = untied - 2 * _count_opposite(theirs)
    norms = (sum_ranks(weights * part) for part in (untied_ours, untied_theirs))
    return divide(sum_ranks(weights * surplus), np.sqrt(np.prod(list(norms), axis=0)))


def _count_opposite(ranks: Integers) -> Integers:
    """For each, how many stand ahead of it but belong behind it or the other way round."""
    narrow = ranks.astype(rank_dtype(len(ranks)))
    behind = count_earlier_larger(len(ranks) - narrow[::-1])[::-1]
    opposite: Integers = count_earlier_larger(narrow).astype(np.int64) + behind
    return opposite


def _count_equal(ranks: Integers) -> Integers:
    """For each, how many of its column equal it, itself included; values from 0 to k."""
    k, n = ranks.shape
    cells = ranks * n + np.arange(n)
    equal: Integers = np.bincount(cells.ravel(), minlength=(k + 1) * n)[cells]
    return equal
