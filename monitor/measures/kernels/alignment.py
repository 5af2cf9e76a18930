"""Aligns pairs of lists. An alignment says where each item of one list is in the other list.

All pairwise metrics use this alignment. This module also ranks and counts the common items.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np

from monitor.measures.kernels.engines import choice
from monitor.measures.kernels.engines.choice import MAX_K
from monitor.measures.kernels.engines.positions import (
    ALL_PAIRS_MAX_K,
    AlignedRanks,
    Ranks,
    count_inversions,
    find_positions,
)
from monitor.measures.kernels.ragged import BLOCK_CELLS
from monitor.model.arrays import Array, Codes, Flags, Floats, Integers
from monitor.model.immutable import immutable
from monitor.model.rankings import ByArm, Labels, PairBatch

_ValueT = TypeVar("_ValueT")


@dataclass(eq=False, repr=False)
class Alignment:
    """The positions of the baseline's items in the candidate's lists, for n users.

    The aligned lists never change. A value that is derived from them is computed when it is first
    read, and then kept. ``scores``, ``weights`` and ``labels`` come from the batch. Their arrays
    have the layout of ``positions``, which is (k, n). If the batch lacks one of them, it is None.
    """

    # (k, n): each baseline item's rank (from 0) in the candidate's list, k if absent
    positions: Ranks
    baseline_lengths: Codes  # (n,), at most k
    candidate_lengths: Codes
    scores: ByArm | None = field(default=None, kw_only=True)
    weights: ByArm | None = field(default=None, kw_only=True)
    labels: Labels | None = field(default=None, kw_only=True)
    # Values that machine code has computed together with the positions
    computed: AlignedRanks | None = field(default=None, kw_only=True)
    # The value of ``agreement`` as soon as it is computed
    known_agreement: Ranks | None = field(default=None, kw_only=True)
    derived: dict[Callable[["Alignment"], Any], Any] = field(default_factory=dict, init=False)

    @property
    def k(self) -> int:
        """The depth of the aligned lists."""
        return len(self.positions)

    @cached_property
    def is_full(self) -> bool:
        """Whether every list of both arms has length k."""
        return bool(
            (self.baseline_lengths == self.k).all() and (self.candidate_lengths == self.k).all()
        )

    @cached_property
    def short(self) -> Codes:
        """The length of the shorter list of each pair."""
        return np.minimum(self.baseline_lengths, self.candidate_lengths)

    @cached_property
    def long(self) -> Codes:
        """The length of the longer list of each pair."""
        return np.maximum(self.baseline_lengths, self.candidate_lengths)

    @cached_property
    def common(self) -> Array:
        """The number of items that the lists of each pair have in common."""
        if self.known_agreement is not None:
            last: Array = self.known_agreement[-1]
            return last
        is_common = (self.positions < self.k).view(np.uint8)
        common: Array = np.add.reduce(is_common, axis=0, dtype=self.positions.dtype)
        return common

    @cached_property
    def position_sums(self) -> Array:
        """The sum of each column of ``positions``. An absent item has position k."""
        if self.computed is not None:
            return self.computed.position_sums
        sums: Array = np.add.reduce(
            self.positions,
            axis=0,
            dtype=np.min_scalar_type(self.k * self.k),
        )
        return sums

    @cached_property
    def candidate_positions(self) -> Ranks:
        """The rank (from 0) of each candidate item in the baseline's list: (k, n).

        An absent item has rank k.
        """
        n = self.positions.shape[1]
        back = np.full((self.k + 1, n), self.k, dtype=self.positions.dtype)
        cells = self.positions * np.intp(n) + np.arange(n)
        back.ravel()[cells] = np.arange(self.k, dtype=back.dtype)[:, None]
        return back[:-1]

    @cached_property
    def inversions(self) -> Integers:
        """The number of pairs of baseline items that the candidate's list has in opposite order.

        Absent items are treated as tied items at the end of the candidate's list.
        """
        if self.computed is not None:
            return self.computed.inversions
        return count_inversions(self.positions)

    @property
    def agreement(self) -> Ranks:
        """How many items the first d ranks of both lists share, for d = 1 to k: (k, n)."""
        if self.known_agreement is None:
            count = _agree_by_pairs if self.k <= ALL_PAIRS_MAX_K else _agree_by_counting
            self.known_agreement = count(self.positions)
        return self.known_agreement

    def sum_by_depth(self, weights: Floats) -> Floats:
        """The sum of the weights of all common items.

        An item at the positions i and j has the weight ``weights[max(i, j)]``. There are k weights,
        one for each depth.
        """
        # All engines add the terms in the same order: depth by depth from the top. So the sum
        # depends neither on the engine nor on the other pairs.
        steps = -np.diff(weights, append=0.0)
        compiled = choice.compiled() if self.k <= MAX_K else None
        if compiled is not None:
            weighted: Floats = compiled.weigh_counts(self.agreement, steps)
            return weighted
        total = np.zeros(self.positions.shape[1], dtype=np.float64)
        for step, shared in zip(steps, self.agreement, strict=True):
            total += step * shared
        return total

    def common_within(self, depths: Integers) -> Array:
        """How many items the first ``depths[i]`` places of both lists of pair i share.

        Depths are from 0 to k.
        """
        cells = (np.maximum(depths, 1) - 1) * np.intp(len(depths)) + np.arange(len(depths))
        within: Array = self.agreement.take(cells) * (depths > 0)
        return within

    def cut(self, depth: int) -> "Alignment":
        """The alignment of the same lists cut to their first ``depth`` items."""
        if depth >= self.k and (self.labels is None or depth >= len(self.labels.ideal)):
            return self

        def cut_ranks(ranks: Array) -> Array:
            return ranks[:depth]

        agreement = self.known_agreement
        return Alignment(
            np.minimum(self.positions[:depth], self.positions.dtype.type(min(depth, self.k))),
            np.minimum(self.baseline_lengths, depth),
            np.minimum(self.candidate_lengths, depth),
            scores=self.scores and self.scores.map(cut_ranks),
            weights=self.weights and self.weights.map(cut_ranks),
            labels=self.labels and _change_labels(self.labels, cut_ranks, cut_ranks),
            known_agreement=None if agreement is None else cut_ranks(agreement),
        )


def derive_once(derive: Callable[[Alignment], _ValueT]) -> Callable[[Alignment], _ValueT]:
    """Cache the result of a function in each alignment. Callers must not change the result."""

    @wraps(derive)
    def cached(alignment: Alignment) -> _ValueT:
        if derive not in alignment.derived:
            alignment.derived[derive] = derive(alignment)
        value: _ValueT = alignment.derived[derive]
        return value

    return cached


def _agree_by_pairs(positions: Ranks) -> Ranks:
    """`Alignment.agreement` in O(k²) for each pair, which is faster for short lists."""
    agreement = np.empty_like(positions)
    inside = np.empty(positions.shape, dtype=np.bool_)
    for depth in range(1, len(positions) + 1):
        np.less(positions[:depth], depth, out=inside[:depth])
        np.add.reduce(inside[:depth].view(np.uint8), axis=0, out=agreement[depth - 1])
    return agreement


def _agree_by_counting(positions: Ranks) -> Ranks:
    """`Alignment.agreement` in O(k) for each pair."""
    k, n = positions.shape
    depths = np.maximum(positions, np.arange(k, dtype=positions.dtype)[:, None])
    cells = depths * np.intp(n) + np.arange(n)
    counts = np.bincount(cells.ravel(), minlength=(k + 1) * n)
    agreement = counts[: k * n].reshape(k, n).astype(positions.dtype)
    for depth in range(1, k):
        agreement[depth] += agreement[depth - 1]
    return agreement


def _change_labels(
    labels: Labels,
    change: Callable[[Floats], Floats],
    change_ideal: Callable[[Floats], Floats],
) -> Labels:
    return Labels(
        grades=labels.grades.map(change),
        ideal=change_ideal(labels.ideal),
        relevant=labels.relevant,
    )


def align(batch: PairBatch) -> Alignment:
    """Align all pairs of a batch.

    Use `blocks` for a large batch, because the memory of `align` grows with the batch. Let k be the
    length of the longest list. numpy makes k² comparisons for each pair if k is at most
    `ALL_PAIRS_MAX_K`. For longer lists the cost is O(k log k) for each pair. Machine code needs
    less time.
    """
    longest = max(
        1, int(batch.baseline_lengths.max(initial=0)), int(batch.candidate_lengths.max(initial=0))
    )
    aligned: AlignedRanks | None = None
    if longest <= MAX_K:
        compiled = choice.compiled(len(batch) * longest * longest)
        if compiled is not None:
            lengths = batch.baseline_lengths, batch.candidate_lengths
            aligned = compiled.align_lists(batch.baseline, batch.candidate, lengths, longest)
    if aligned is None:
        positions = find_positions(batch.baseline[:, :longest], batch.candidate[:, :longest])
    else:
        positions = aligned.positions

    def by_rank(values: Floats) -> Floats:
        return np.ascontiguousarray(values[:, :longest].T)

    # The ideal list is not cut to the longest list of this batch, because the result for a pair
    # must not depend on the other pairs.
    def ideal_by_rank(ideal: Floats) -> Floats:
        return np.ascontiguousarray(ideal.T)

    return Alignment(
        positions,
        batch.baseline_lengths,
        batch.candidate_lengths,
        scores=batch.scores and batch.scores.map(by_rank),
        weights=batch.weights and batch.weights.map(by_rank),
        labels=batch.labels and _change_labels(batch.labels, by_rank, ideal_by_rank),
        computed=aligned,
        known_agreement=None if aligned is None else aligned.agreement,
    )


def row_blocks(batch: PairBatch) -> Iterator[slice]:
    """Yield the rows of blocks that fit into the cache, in order."""
    step = max(1, BLOCK_CELLS // max(1, batch.baseline.shape[1]))
    for low in range(0, len(batch), step):
        yield slice(low, min(low + step, len(batch)))


def blocks(batch: PairBatch) -> list[tuple[slice, Alignment]]:
    """Align a batch in blocks that fit into the cache, without scores, weights and labels.

    The function returns the rows and the alignment of each block. The batch stores the alignments.
    For lists of at most 255 items they take an eighth of the memory of the lists.
    """
    if not batch.alignments:
        lists = replace(batch, scores=None, weights=None, labels=None)
        for rows in row_blocks(batch):
            batch.alignments.append((rows, align(lists.take(rows))))
    return batch.alignments


@immutable
class Shared:
    """The ranks of the common items in both lists: arrays (k, n).

    An array has the value of an item at the item's rank in the baseline's list. An item that is not
    common has the value 0 or False.
    """

    is_common: Flags
    baseline: Integers  # the item's rank from 0 among the common items of the baseline's list
    candidate: Integers  # its rank from 0 among the common items of the candidate's list
    count: Integers  # (n,), the number of common items


@derive_once
def rank_shared(alignment: Alignment) -> Shared:
    """Rank the common items. The cost is O(k) for each pair."""
    k = alignment.k
    is_common = alignment.positions < k
    ours = np.cumsum(is_common, axis=0, dtype=np.int32)
    theirs_by_rank = np.cumsum(alignment.candidate_positions < k, axis=0, dtype=np.int32)
    theirs = by_baseline_rank(alignment.positions, theirs_by_rank)
    return Shared(
        is_common=is_common,
        baseline=np.where(is_common, ours - 1, 0),
        candidate=np.where(is_common, theirs - 1, 0),
        count=ours[-1].astype(np.int64),
    )


def count_shared(alignment: Alignment) -> Integers:
    """The number of common items as int64 (n,), which is wide enough for products."""
    return alignment.common.astype(np.int64)


def count_pairs(count: Integers) -> Integers:
    """The number of pairs that can be chosen from ``count`` items."""
    chosen: Integers = count * (count - 1) // 2
    return chosen


@derive_once
def count_discordant(alignment: Alignment) -> Integers:
    """The number of pairs of common items in opposite order: int64 (n,).

    Unlike `Alignment.inversions`, this does not count pairs with an absent item.
    """
    is_common = alignment.positions < alignment.k
    ranks = np.arange(alignment.k, dtype=alignment.positions.dtype)[:, None]
    rank_sums = np.add.reduce(is_common * ranks, axis=0, dtype=np.int64)
    # Without absent items, the ranks of the common items would add up to `count_pairs`. Each absent
    # item adds 1 for each common item behind it.
    pairs_with_absent: Integers = rank_sums - count_pairs(count_shared(alignment))
    return alignment.inversions.astype(np.int64) - pairs_with_absent


def exchange_arms(alignment: Alignment) -> Alignment:
    """The same pairs with exchanged arms. The result has no labels."""
    return Alignment(
        alignment.candidate_positions,
        alignment.candidate_lengths,
        alignment.baseline_lengths,
        scores=alignment.scores and _exchange(alignment.scores),
        weights=alignment.weights and _exchange(alignment.weights),
    )


def measure_both_ways(measure: Callable[[Alignment], Floats], alignment: Alignment) -> Floats:
    """The mean of a metric's scores and its scores with exchanged arms.

    Exchanging the arms does not change any bit of the result.
    """
    mean: Floats = (measure(alignment) + measure(exchange_arms(alignment))) / 2
    return mean


def by_baseline_rank(positions: Ranks, values: Array) -> Array:
    """Move the value of each candidate item to the item's rank in the baseline's list.

    A baseline item that is not in the candidate's list gets the value of the last rank.
    """
    cells = np.minimum(positions, len(values) - 1).astype(np.intp)
    return np.take_along_axis(values, cells, axis=0)


def by_candidate_rank(alignment: Alignment, values: Floats) -> Floats:
    """Move the value of each baseline item to the item's rank in the candidate's list.

    The value of a candidate item that is not in the baseline's list is 0.
    """
    moved = np.zeros((alignment.k + 1, values.shape[1]))
    np.put_along_axis(moved, alignment.positions.astype(np.intp), values, axis=0)
    return moved[:-1]


def sum_ranks(values: Floats) -> Floats:
    """The sum of each column, added from the top rank down."""
    if values.shape[1] == 1:
        # numpy adds a single column in another order, which would change the last bit of the sum.
        last: Floats = values.cumsum(axis=0)[-1]
        return last
    total: Floats = values.sum(axis=0)
    return total


def divide(numerator: Floats | Integers, denominator: Floats | Integers) -> Floats:
    """The quotients. A quotient is NaN if its denominator is not above 0."""
    quotient = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient


def _exchange(values: ByArm) -> ByArm:
    return ByArm(baseline=values.candidate, candidate=values.baseline)
