"""The items that both lists of a pair hold, ranked as if the others were not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.kernels.alignment import Alignment, derive_once
from monitor.model.arrays import Floats, Integers
from monitor.model.rankings import ByArm


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The items in common at the baseline's ranks, arrays (k, n) that hold 0 (False) where an item is absent or padding.

    ``baseline`` and ``candidate``: the item's rank from 0 among the items in common, in either list. ``count`` (n,): how many
    there are.
    """

    is_common: npt.NDArray[np.bool_]
    baseline: Integers
    candidate: Integers
    count: Integers


@derive_once
def rank_shared(alignment: Alignment) -> Shared:
    """Ranks of the items in common; O(k) a pair."""
    k = alignment.k
    is_common = alignment.positions < k
    ours = np.cumsum(is_common, axis=0, dtype=np.int32)
    theirs = np.cumsum(alignment.candidate_positions < k, axis=0, dtype=np.int32)
    found = np.take_along_axis(theirs, np.minimum(alignment.positions, k - 1).astype(np.intp), axis=0)
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
    """Pairs of items in common that stand in opposite order: int64 (n,).

    `Alignment.inversions` counts an absent item ahead of a common one as well: those are taken off.
    """
    return alignment.inversions.astype(np.int64) - count_absent_ahead(alignment.positions)


def count_absent_ahead(positions: npt.NDArray[Any]) -> Integers:
    """Pairs of an absent item ahead of a common one, positions as `Alignment.positions`: int64 (n,)."""
    k = len(positions)
    is_common = positions < k
    places = np.add.reduce(is_common * np.arange(k, dtype=np.int64)[:, None], axis=0)
    ahead: Integers = places - pairs(np.add.reduce(is_common, axis=0, dtype=np.int64))
    return ahead


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
