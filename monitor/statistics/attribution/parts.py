"""Splits the distance of two lists into three parts: membership, order and length."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from monitor.measures.kernels import PAD, blocks
from monitor.model.arrays import Codes, Flags, Floats, Rows
from monitor.model.explanation import PartMeans
from monitor.model.immutable import immutable
from monitor.model.rankings import ByArm, PairBatch

ScoreBatch: TypeAlias = Callable[[PairBatch], Floats]
"""Scores n pairs, float64 (n,). More similar lists have a higher score. Undefined scores are NaN.

The score of a pair does not depend on the other pairs.
"""

_DUST = 1e-12


@immutable
class Parts:
    """The parts of n users' distances, float64 (n,) each. If one part is NaN, all three are NaN."""

    membership: Floats  # items replaced
    order: Floats  # items moved
    length: Floats  # one list is shorter than the other

    def __len__(self) -> int:
        return len(self.membership)

    @property
    def total(self) -> Floats:
        """The distance, which is the score of identical lists minus the score of the pair."""
        return self.membership + self.order + self.length


def split_distances(
    batch: PairBatch,
    score: ScoreBatch,
    scores: Floats | None = None,
) -> Parts:
    """Split the distance score(B, B) - score(B, C) of each pair, by `walk_to` from B to C.

    B is the baseline's list and C is the candidate's list. The parts add up to the distance. A
    positive part means that the lists move apart. A part can be negative if the metric forgives
    short lists, as ``rbo`` does. It can also be negative if the metric may prefer a wrong order or
    a wrong item. If any score of a pair is NaN, all parts of this pair are NaN. This happens if the
    baseline's list is empty. Relevance is ignored. ``scores`` are the scores of the batch, if they
    are known. The cost is O(n k).
    """
    twice = _with_baseline_twice(batch)
    known_scores = {id(twice): _score_identical(twice, score)}
    if scores is not None:
        known_scores[id(batch)] = scores
    return share_steps(walk_to(twice, batch), score, known_scores)


def _score_identical(twice: PairBatch, score: ScoreBatch) -> Floats:
    """Scores of pairs of identical lists."""
    if twice.scores is not None or twice.weights is not None:
        return score(twice)
    # Without item scores and weights, the score of identical lists depends only on their length.
    _, first, length = np.unique(twice.baseline_lengths, return_index=True, return_inverse=True)
    return score(twice.take(first))[length]


def walk_to(before: PairBatch, after: PairBatch) -> tuple[PairBatch, ...]:
    """Return steps that change the candidate's lists L' (``before``) to L (``after``).

    The batches ``before`` and ``after`` may differ only in the candidate's lists. Let s be the
    length of the shorter list. These are the steps, with the part that each step belongs to::

        L'  --length-->  L' cut to s  --membership-->  H  --order-->  L cut to s  --length-->  L

    H has the items of L cut to s. If L' cut to s has an item too, the item is common. Otherwise it
    is new. The new items have the same places in H as in L. The common items fill the other places,
    in the order of L'. So the order step moves common items only. The membership step costs 0 if
    both lists have the same items.

    The last result is a batch J, which is needed to divide the costs. In J the common items have
    the same places as in L'. The new items fill the other places.

    A weight moves with its item. The ties of H are at the same places as in L. Other walks would
    divide interactions differently (sequential decomposition: Oaxaca 1973; DiNardo, Fortin and
    Lemieux 1996).
    """
    shorter = np.minimum(before.candidate_lengths, after.candidate_lengths)
    start = _cut(before, shorter)
    end = _cut(after, shorter)
    moved = replace(
        start,
        baseline=start.candidate,
        candidate=end.candidate,
        baseline_lengths=shorter,
        scores=None,
        weights=None,
        labels=None,
    )
    hybrid = _with_copies(end)
    alone = _with_copies(start)
    for rows, alignment in blocks(moved):
        k = alignment.k
        is_common_at_start = np.zeros(start.candidate[rows].shape, dtype=np.bool_)
        is_common_at_end = np.zeros_like(is_common_at_start)
        is_common_at_start[:, :k] = (alignment.positions < k).T
        is_common_at_end[:, :k] = (alignment.candidate_positions < k).T
        is_removed = ~is_common_at_start & (start.candidate[rows] >= 0)
        is_new = ~is_common_at_end & (end.candidate[rows] >= 0)
        _copy_items(hybrid.take(rows), is_common_at_end, start.take(rows), is_common_at_start)
        _copy_items(alone.take(rows), is_removed, end.take(rows), is_new)
    return before, start, hybrid, end, after, alone


def share_steps(
    walk: Sequence[PairBatch],
    score: ScoreBatch,
    known: Mapping[int, Floats] = MappingProxyType({}),
) -> Parts:
    """Compute the cost of each part from the steps of `walk_to`.

    A batch that occurs twice is scored once. ``known`` has scores that are already known, by the id
    of the batch.

    The cost from L' to J is the cost of replacing items alone. The cost from H to L is the cost of
    moving common items alone. The remaining cost, from J to H, is divided in proportion to these
    two costs.
    """
    scores: dict[int, Floats] = {}
    for step in walk:
        if id(step) not in scores:
            values = known[id(step)] if id(step) in known else score(step)
            scores[id(step)] = np.where(np.isfinite(values), values, np.nan)
    start, shortened, replaced, moved, end, alone = (scores[id(step)] for step in walk)
    is_known = ~np.isnan(start + shortened + replaced + moved + end)
    remaining_order = _share_of_order(shortened - alone, replaced - moved) * (alone - replaced)
    return Parts(
        membership=np.where(is_known, shortened - replaced - remaining_order, np.nan),
        order=np.where(is_known, replaced - moved + remaining_order, np.nan),
        length=np.where(is_known, (start - shortened) + (moved - end), np.nan),
    )


def _share_of_order(replaced: Floats, moved: Floats) -> Floats:
    """The share of ``moved`` in the sum of both costs, 0 to 1. It is 0 if both costs are 0."""
    total = np.abs(replaced) + np.abs(moved)
    share = np.divide(np.abs(moved), total, out=np.zeros_like(total), where=total > _DUST)
    return np.where(np.isnan(total), 0.0, share)


def _with_baseline_twice(batch: PairBatch) -> PairBatch:
    """Return the batch with the baseline's lists in place of the candidate's lists."""
    scores = batch.scores
    weights = batch.weights
    return replace(
        batch,
        candidate=batch.baseline,
        candidate_lengths=batch.baseline_lengths,
        scores=scores and ByArm(baseline=scores.baseline, candidate=scores.baseline),
        weights=weights and ByArm(baseline=weights.baseline, candidate=weights.baseline),
    )


def _cut(batch: PairBatch, lengths: Codes) -> PairBatch:
    """Cut each candidate list to its entry in ``lengths``.

    Returns ``batch`` if no list is longer.
    """
    if (batch.candidate_lengths <= lengths).all():
        return batch
    is_inside = np.arange(batch.candidate.shape[1]) < lengths[:, None]

    def cut(values: ByArm) -> ByArm:
        return replace(values, candidate=np.where(is_inside, values.candidate, np.nan))

    return replace(
        batch,
        candidate=np.where(is_inside, batch.candidate, np.int32(PAD)),
        candidate_lengths=np.minimum(batch.candidate_lengths, lengths),
        scores=batch.scores and cut(batch.scores),
        weights=batch.weights and cut(batch.weights),
    )


def _with_copies(batch: PairBatch) -> PairBatch:
    """Return the batch with copies of the arrays that `_copy_items` changes."""
    weights = batch.weights
    if weights is not None:
        weights = replace(weights, candidate=weights.candidate.copy())
    return replace(batch, candidate=batch.candidate.copy(), weights=weights)


def _copy_items(
    target: PairBatch,
    target_places: Flags,
    source: PairBatch,
    source_places: Flags,
) -> None:
    """Copy the candidate's items at ``source_places`` to ``target_places``, with their weights.

    The order of the items is kept. In each row both masks must select the same number of places.
    The arrays of ``target`` are changed, so `_with_copies` must have made them. Either both batches
    have weights, or neither has.
    """
    target.candidate[target_places] = source.candidate[source_places]
    if target.weights is not None and source.weights is not None:
        target.weights.candidate[target_places] = source.weights.candidate[source_places]


def average_parts(parts: Parts, rows: Rows) -> PartMeans | None:
    """Means of the parts over the users in these rows. Users with undefined parts are left out.

    None if no user is left.
    """
    defined = rows[~np.isnan(parts.total[rows])]
    if not len(defined):
        return None
    return PartMeans(
        n=len(defined),
        membership=float(parts.membership[defined].mean()),
        order=float(parts.order[defined].mean()),
        length=float(parts.length[defined].mean()),
    )
