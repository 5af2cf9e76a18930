"""Alignment: the one pass over pairs of lists that every pairwise measure shares, and the items in common by their ranks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from monitor.kernels.engines import choice
from monitor.kernels.engines.choice import MAX_K
from monitor.kernels.engines.positions import (
    ALL_PAIRS_MAX_K,
    AlignedRanks,
    Ranks,
    find_positions,
    inversions,
)
from monitor.model.arrays import Codes, Floats, Integers
from monitor.model.rankings import ByArm, Labels, PairBatch

Value = TypeVar("Value")

# Ranks aligned at once: small enough for the cache, large enough that a numpy call's own cost does
# not count.
BLOCK_CELLS = 1 << 18

# Below this many pairs numpy's call a depth costs more than the work in it. Measured at k = 300 and
# 1000.
_FEW_PAIRS = 128


@dataclass(eq=False, repr=False)
class Alignment:
    """Where the baseline's items of n users stand in the candidate's lists.

    Never changes; what is derived is kept.

    Each of ``scores``, ``weights``, ``labels`` is what the batch holds, rank by rank like
    ``positions``: (k, n), or None."""

    # (k, n), from 0, in the candidate's list of each baseline rank's item, k where absent
    positions: Ranks
    baseline_lengths: Codes  # (n,), at most k
    candidate_lengths: Codes
    scores: ByArm | None = field(default=None, kw_only=True)
    weights: ByArm | None = field(default=None, kw_only=True)
    labels: Labels | None = field(default=None, kw_only=True)
    derived: dict[Callable[["Alignment"], Any], Any] = field(default_factory=dict, init=False)

    @property
    def k(self) -> int:
        """Depth of the aligned lists."""
        return len(self.positions)

    @cached_property
    def is_full(self) -> bool:
        """Whether every list of both arms has length k."""
        return bool(
            (self.baseline_lengths == self.k).all() and (self.candidate_lengths == self.k).all()
        )

    @cached_property
    def short(self) -> Codes:
        """Length of the shorter list of each pair."""
        return np.minimum(self.baseline_lengths, self.candidate_lengths)

    @cached_property
    def long(self) -> Codes:
        """Length of the longer list of each pair."""
        return np.maximum(self.baseline_lengths, self.candidate_lengths)

    @property
    def common(self) -> npt.NDArray[Any]:
        """Number of items that each pair has in common."""
        common: npt.NDArray[Any] = self.agreement[-1]
        return common

    @cached_property
    def position_sums(self) -> npt.NDArray[Any]:
        """Sum of each column of ``positions``, absent items at k."""
        sums: npt.NDArray[Any] = np.add.reduce(
            self.positions, axis=0, dtype=np.min_scalar_type(self.k * self.k)
        )
        return sums

    @cached_property
    def candidate_positions(self) -> Ranks:
        """The way back, (k, n): position from 0 in the baseline's list of the item at each candidate rank, k where absent."""
        n = self.positions.shape[1]
        back = np.full((self.k + 1, n), self.k, dtype=self.positions.dtype)
        back.ravel()[self.positions * np.intp(n) + np.arange(n)] = np.arange(
            self.k, dtype=back.dtype
        )[:, None]
        return back[:-1]

    @cached_property
    def inversions(self) -> Integers:
        """Pairs of baseline ranks in the wrong order in the candidate's list, absent items last and tied."""
        return inversions(self.positions)

    @cached_property
    def agreement(self) -> Ranks:
        """(k, n): how many items the two top d's share, for d = 1 to k."""
        return (
            _agree_by_pairs(self.positions)
            if self.k <= ALL_PAIRS_MAX_K
            else _agree_by_counting(self.positions)
        )

    def sum_by_depth(self, weights: Floats) -> Floats:
        """Sum over common items of ``weights[d]``, d the larger of the item's two positions.

        K weights, one a depth.
        """
        # By depth from the top, so that the sum depends neither on the engine nor on the other
        # pairs.
        steps = -np.diff(weights, append=0.0)
        if self.k <= MAX_K and (machine := choice.compiled()) is not None:
            weighed: Floats = machine.weigh_counts(self.agreement, steps)
            return weighed
        if self.positions.shape[1] < _FEW_PAIRS:
            # The same sums in the same order; a call a depth would cost more than the sum. Adding 0
            # takes the sign from -0.
            sums: Floats = np.add.accumulate(steps[:, None] * self.agreement, axis=0)[-1] + 0.0
            return sums
        total = np.zeros(self.positions.shape[1], dtype=np.float64)
        for step, shared in zip(steps, self.agreement, strict=True):
            total += step * shared
        return total

    def common_within(self, depths: npt.NDArray[np.signedinteger[Any]]) -> npt.NDArray[Any]:
        """Number of items that the top ``depths[i]`` of both lists of pair i share.

        Depths from 0 to k.
        """
        cells = (np.maximum(depths, 1) - 1) * np.intp(len(depths)) + np.arange(len(depths))
        within: npt.NDArray[Any] = self.agreement.take(cells) * (depths > 0)
        return within

    def cut(self, depth: int) -> "Alignment":
        """The alignment of the same lists cut to their first ``depth`` items."""
        if depth >= self.k and (self.labels is None or depth >= len(self.labels.ideal)):
            return self
        cut = Alignment(
            np.minimum(self.positions[:depth], self.positions.dtype.type(min(depth, self.k))),
            np.minimum(self.baseline_lengths, depth),
            np.minimum(self.candidate_lengths, depth),
            scores=self.scores and self.scores.map(lambda ranks: ranks[:depth]),
            weights=self.weights and self.weights.map(lambda ranks: ranks[:depth]),
            labels=self.labels
            and _each_label(self.labels, lambda ranks: ranks[:depth], lambda ideal: ideal[:depth]),
        )
        if "agreement" in self.__dict__:
            cut.agreement = self.agreement[:depth]
        return cut


def derive_once(derive: Callable[[Alignment], Value]) -> Callable[[Alignment], Value]:
    """A function of alignments that several measures share: each alignment keeps its result, which nobody may change."""

    @wraps(derive)
    def kept(alignment: Alignment) -> Value:
        if derive not in alignment.derived:
            alignment.derived[derive] = derive(alignment)
        found: Value = alignment.derived[derive]
        return found

    return kept


def _agree_by_pairs(positions: Ranks) -> Ranks:
    agreement = np.empty_like(positions)
    inside = np.empty(positions.shape, dtype=np.bool_)
    for depth in range(1, len(positions) + 1):
        np.less(positions[:depth], depth, out=inside[:depth])
        np.add.reduce(inside[:depth].view(np.uint8), axis=0, out=agreement[depth - 1])
    return agreement


def _agree_by_counting(positions: Ranks) -> Ranks:
    k, n = positions.shape
    depths = np.maximum(positions, np.arange(k, dtype=positions.dtype)[:, None])
    cells = depths * np.intp(n) + np.arange(n)
    counts = np.bincount(cells.ravel(), minlength=(k + 1) * n).reshape(k + 1, n)
    return np.cumsum(counts[:-1], axis=0, dtype=positions.dtype)


def _each_label(
    labels: Labels, change: Callable[[Floats], Floats], change_ideal: Callable[[Floats], Floats]
) -> Labels:
    return Labels(
        grades=labels.grades.map(change), ideal=change_ideal(labels.ideal), relevant=labels.relevant
    )


def align(batch: PairBatch) -> Alignment:
    """Align a batch as a whole.

    Memory grows with it, so that `blocks` is the way to go through a large one.

    Cost a pair: k² comparisons up to k = `ALL_PAIRS_MAX_K`, O(k log k) beyond, or machine code's.
    All-padding columns are left out."""
    longest = max(
        1, int(batch.baseline_lengths.max(initial=0)), int(batch.candidate_lengths.max(initial=0))
    )
    found: AlignedRanks | None = None
    if (
        longest <= MAX_K
        and (machine := choice.compiled(len(batch) * longest * longest)) is not None
    ):
        lengths = batch.baseline_lengths, batch.candidate_lengths
        found = machine.find(batch.baseline, batch.candidate, lengths, longest)
    positions = (
        find_positions(batch.baseline[:, :longest], batch.candidate[:, :longest])
        if found is None
        else found.positions
    )

    def by_rank(places: Floats) -> Floats:
        return np.ascontiguousarray(places[:, :longest].T)

    alignment = Alignment(
        positions,
        batch.baseline_lengths,
        batch.candidate_lengths,
        scores=batch.scores and batch.scores.map(by_rank),
        weights=batch.weights and batch.weights.map(by_rank),
        # The ideal stays as deep as the batch: it must not follow the longest list of a block.
        labels=batch.labels
        and _each_label(batch.labels, by_rank, lambda ideal: np.ascontiguousarray(ideal.T)),
    )
    if found is not None:  # what the engine found in its pass is not derived again
        alignment.agreement, alignment.inversions = found.agreement, found.inversions
        alignment.position_sums = found.position_sums
    return alignment


def row_blocks(batch: PairBatch) -> Iterator[slice]:
    """The rows of cache-sized blocks, in order, each to be taken and aligned by itself."""
    step = max(1, BLOCK_CELLS // max(1, batch.baseline.shape[1]))
    for low in range(0, len(batch), step):
        yield slice(low, min(low + step, len(batch)))


def blocks(batch: PairBatch) -> Iterator[tuple[slice, Alignment]]:
    """Go through a batch in cache-sized blocks: the rows of each and their alignment."""
    for rows in row_blocks(batch):
        yield rows, align(batch.take(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The items in common at the baseline's ranks, arrays (k, n) that hold 0 (False) where an item is absent or padding."""

    is_common: npt.NDArray[np.bool_]
    baseline: Integers  # its rank from 0 among the items in common, in either list
    candidate: Integers
    count: Integers  # (n,), how many there are


@derive_once
def rank_shared(alignment: Alignment) -> Shared:
    """Ranks of the items in common; O(k) a pair."""
    k = alignment.k
    is_common = alignment.positions < k
    ours = np.cumsum(is_common, axis=0, dtype=np.int32)
    theirs = np.cumsum(alignment.candidate_positions < k, axis=0, dtype=np.int32)
    found = np.take_along_axis(
        theirs, np.minimum(alignment.positions, k - 1).astype(np.intp), axis=0
    )
    return Shared(
        is_common=is_common,
        baseline=np.where(is_common, ours - 1, 0),
        candidate=np.where(is_common, found - 1, 0),
        count=ours[-1].astype(np.int64),
    )


def count_shared(alignment: Alignment) -> Integers:
    """Number of items in common, wide enough for products: int64 (n,)."""
    return alignment.common.astype(np.int64)


def pairs(count: Integers) -> Integers:
    """Number of pairs among so many items."""
    chosen: Integers = count * (count - 1) // 2
    return chosen


@derive_once
def count_discordant(alignment: Alignment) -> Integers:
    """Pairs of items in common in opposite order: int64 (n,), `Alignment.inversions` less those of absent items."""
    is_common = alignment.positions < alignment.k
    places = np.add.reduce(is_common * np.arange(alignment.k, dtype=np.int64)[:, None], axis=0)
    absent_ahead: Integers = places - pairs(np.add.reduce(is_common, axis=0, dtype=np.int64))
    return alignment.inversions.astype(np.int64) - absent_ahead


def reverse(alignment: Alignment) -> Alignment:
    """The same pairs with their arms exchanged; labels are left out."""
    return Alignment(
        alignment.candidate_positions,
        alignment.candidate_lengths,
        alignment.baseline_lengths,
        scores=alignment.scores and _exchange(alignment.scores),
        weights=alignment.weights and _exchange(alignment.weights),
    )


def measure_both_ways(measure: Callable[[Alignment], Floats], alignment: Alignment) -> Floats:
    """Mean of a measure and itself with the arms exchanged: the same bits in either order, whatever rounding does."""
    mean: Floats = (measure(alignment) + measure(reverse(alignment))) / 2
    return mean


def by_candidate_rank(alignment: Alignment, values: Floats) -> Floats:
    """Values of the baseline's items moved to the ranks that the items hold in the candidate's list; 0 at the others'."""
    moved = np.zeros((alignment.k + 1, values.shape[1]))
    np.put_along_axis(moved, alignment.positions.astype(np.intp), values, axis=0)
    return moved[:-1]


def sum_ranks(places: Floats) -> Floats:
    """Sum of each column from the top rank down."""
    # numpy adds a lone column in another order, which would change the last bit.
    total: Floats = places.cumsum(axis=0)[-1] if places.shape[1] == 1 else places.sum(axis=0)
    return total


def divide(numerator: Floats | Integers, denominator: Floats | Integers) -> Floats:
    """Quotients, NaN where the denominator is not above 0."""
    quotient = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient


def _exchange(values: ByArm) -> ByArm:
    return ByArm(baseline=values.candidate, candidate=values.baseline)
