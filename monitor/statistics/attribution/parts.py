"""Splits the distance of two lists into three parts: membership, order and length."""

from collections.abc import Callable
from dataclasses import replace
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

# A sum of costs up to this value may be 0 apart from rounding errors.
_ROUNDING_ERROR = 1e-12


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

    def where(self, is_defined: Flags) -> "Parts":
        """Return the parts, with NaN for all users that are not in ``is_defined``."""
        return Parts(
            membership=np.where(is_defined, self.membership, np.nan),
            order=np.where(is_defined, self.order, np.nan),
            length=np.where(is_defined, self.length, np.nan),
        )


@immutable
class Walk:
    """The way from the pairs ``before`` to the pairs ``after``, in five steps.

    If a list changes, its score changes. A walk shows how much of this is due to replaced items, to
    another order, and to another length. For this, the candidate's list is changed step by step.
    The score that is lost in a step is the cost of this step.

    For example, the candidate's list of a user changes from A B C D E to X C A D. The score is the
    average overlap with the baseline's list A B C D E::

        batch              list       score  what the step to this batch does
        before             A B C D E  1.00
        before_cut         A B C D    0.96   length: cuts the list to the shorter length
        replaced_in_place  A X C D    0.70   membership: puts X in the place of B
        before_reordering  X A C D    0.50   both: moves X to its new place, so A moves too
        after_cut          X C A D    0.40   order: gives the common items their new order
        after              X C A D    0.40   length: adds the cut places (here there are none)

    Items of both cut lists (A, C, D) are called common. Items of only one are called removed (B) or
    new (X). One step belongs to membership and to order. `share_steps` divides its cost of 0.20 in
    proportion to the step before it (0.26) and the step after it (0.10). So membership costs 0.40,
    order costs 0.16, and length costs 0.04. Together they cost 0.60, which is 1.00 - 0.40.

    If no list has to be cut, the cut batch is the same object as the uncut batch.
    """

    before: PairBatch
    before_cut: PairBatch
    replaced_in_place: PairBatch
    before_reordering: PairBatch
    after_cut: PairBatch
    after: PairBatch


def split_distances(
    batch: PairBatch,
    score: ScoreBatch,
    scores: Floats | None = None,
) -> Parts:
    """Split each pair's distance into the parts membership, order and length.

    The distance of the baseline's list B and the candidate's list C is score(B, B) - score(B, C).
    A `Walk` changes the pair (B, B) to (B, C) in steps. The score that is lost in a step is added
    to the part of this step, so the parts add up to the distance. The computing time is O(n k).

    A part can be negative if the metric does not lower the score of short lists, such as ``rbo``.
    It can also be negative if the metric may prefer a wrong order or a wrong item. If any score of
    a pair is NaN, all parts of this pair are NaN. For example, the baseline's list may be empty.
    ``score`` must not use relevance, because the steps change the items but not their relevance.
    ``scores`` are the scores of the batch, if they are already known.
    """
    identical = _with_baseline_twice(batch)

    def score_on_walk(pairs: PairBatch) -> Floats:
        if pairs is identical:
            return _score_identical(identical, score)
        if pairs is batch and scores is not None:
            return scores
        return score(pairs)

    return share_steps(walk_to(identical, batch), score_on_walk)


def _score_identical(twice: PairBatch, score: ScoreBatch) -> Floats:
    """Return the scores of pairs of identical lists, float64 (n,)."""
    if twice.scores is not None or twice.weights is not None:
        return score(twice)
    # Without item scores and weights, the score of identical lists depends only on their length. So
    # one pair of each length is scored.
    _, first_rows, length_index = np.unique(
        twice.baseline_lengths, return_index=True, return_inverse=True
    )
    return score(twice.take(first_rows))[length_index]


def walk_to(before: PairBatch, after: PairBatch) -> Walk:
    """Return the batches of the walk from ``before`` to ``after``. `Walk` has an example.

    The arguments may differ only in the candidate's lists. The first and the last batch of the walk
    are the arguments themselves, not copies. Two batches are built here:

    - ``replaced_in_place`` has the common items at the places of ``before_cut``. The new items fill
      the other places, in the order of ``after_cut``.
    - ``before_reordering`` has the new items at the places of ``after_cut``. The common items fill
      the other places, in the order of ``before_cut``.

    If both cut lists have the same items, both batches have the lists of ``before_cut``. Then
    membership costs nothing.

    A weight moves with its item. Equal scores (ties) of ``before_reordering`` are at the same
    places as in ``after_cut``. The parts depend on the order of the steps (sequential
    decomposition: Oaxaca 1973; DiNardo, Fortin and Lemieux 1996).
    """
    shorter = np.minimum(before.candidate_lengths, after.candidate_lengths)
    before_cut = _cut(before, shorter)
    after_cut = _cut(after, shorter)
    # Each of these pairs has both cut lists of a user. Their alignment shows the common items.
    cut_pairs = after_cut
    # `split_distances` begins the walk with the baseline's own lists. If these are not cut, the
    # pairs of ``after_cut`` are the same, and may be aligned already.
    if before_cut.candidate is not after_cut.baseline:
        cut_pairs = PairBatch(
            baseline=before_cut.candidate,
            candidate=after_cut.candidate,
            baseline_lengths=shorter,
            candidate_lengths=shorter,
        )
    replaced_in_place = _with_copies(before_cut)
    before_reordering = _with_copies(after_cut)
    for rows, alignment in blocks(cut_pairs):
        # The alignment has k rows. After k places, all lists of these users have only padding. The
        # position k means that the other list does not have the item.
        k = alignment.k
        was_common = np.zeros(before_cut.candidate[rows].shape, dtype=bool)
        is_common = np.zeros_like(was_common)
        was_common[:, :k] = (alignment.positions < k).T
        is_common[:, :k] = (alignment.candidate_positions < k).T
        is_removed = ~was_common & (before_cut.candidate[rows] >= 0)
        is_new = ~is_common & (after_cut.candidate[rows] >= 0)
        # `take` with a slice returns views, so these calls change the two copies.
        _copy_items(replaced_in_place.take(rows), is_removed, after_cut.take(rows), is_new)
        _copy_items(before_reordering.take(rows), is_common, before_cut.take(rows), was_common)
    return Walk(
        before=before,
        before_cut=before_cut,
        replaced_in_place=replaced_in_place,
        before_reordering=before_reordering,
        after_cut=after_cut,
        after=after,
    )


def share_steps(walk: Walk, score: ScoreBatch) -> Parts:
    """Return for each pair how much score is lost in the steps of each part: the part's cost.

    The step from ``replaced_in_place`` to ``before_reordering`` moves new items and common items.
    So it belongs to membership and to order. Its cost is divided between them in proportion to
    these two costs:

    - From ``before_cut`` to ``replaced_in_place``, items are only replaced.
    - From ``before_reordering`` to ``after_cut``, common items are only reordered.
    """

    def score_defined(pairs: PairBatch) -> Floats:
        values = score(pairs)
        # Infinite scores are undefined too.
        return np.where(np.isfinite(values), values, np.nan)

    # A cut batch that is the same object as the uncut batch is not scored again.
    before = score_defined(walk.before)
    before_cut = before
    if walk.before_cut is not walk.before:
        before_cut = score_defined(walk.before_cut)
    replaced_in_place = score_defined(walk.replaced_in_place)
    before_reordering = score_defined(walk.before_reordering)
    after_cut = score_defined(walk.after_cut)
    after = after_cut
    if walk.after is not walk.after_cut:
        after = score_defined(walk.after)
    replacing_cost = before_cut - replaced_in_place
    reordering_cost = before_reordering - after_cut
    order_share = _share_of_reordering(replacing_cost, reordering_cost)
    # What the step between the two costs adds to the order. The rest of this step is membership.
    added_to_order = order_share * (replaced_in_place - before_reordering)
    parts = Parts(
        membership=before_cut - before_reordering - added_to_order,
        order=reordering_cost + added_to_order,
        length=(before - before_cut) + (after_cut - after),
    )
    is_defined = ~np.isnan(parts.membership + parts.order + parts.length)
    return parts.where(is_defined)


def _share_of_reordering(replacing_cost: Floats, reordering_cost: Floats) -> Floats:
    """Return the share of ``reordering_cost`` in the sum of both absolute costs, 0 to 1.

    The share is 0 if both costs are 0, or if a cost is NaN.
    """
    total = np.abs(replacing_cost) + np.abs(reordering_cost)
    share: Floats = np.zeros_like(total)
    np.divide(np.abs(reordering_cost), total, out=share, where=total > _ROUNDING_ERROR)
    return share


def _with_baseline_twice(batch: PairBatch) -> PairBatch:
    """Return the batch with the baseline's lists in place of the candidate's lists."""
    twice = replace(batch, candidate=batch.baseline, candidate_lengths=batch.baseline_lengths)
    return _change_values(twice, lambda values: replace(values, candidate=values.baseline))


def _cut(batch: PairBatch, lengths: Codes) -> PairBatch:
    """Return the batch with each candidate list cut to its length in ``lengths``, (n,).

    If no list is longer, ``batch`` itself is returned.
    """
    if (batch.candidate_lengths <= lengths).all():
        return batch
    is_inside = np.arange(batch.candidate.shape[1]) < lengths[:, None]

    def cut(values: ByArm) -> ByArm:
        return replace(values, candidate=np.where(is_inside, values.candidate, np.nan))

    cut_batch = replace(
        batch,
        candidate=np.where(is_inside, batch.candidate, np.int32(PAD)),
        candidate_lengths=np.minimum(batch.candidate_lengths, lengths),
    )
    return _change_values(cut_batch, cut)


def _change_values(batch: PairBatch, change: Callable[[ByArm], ByArm]) -> PairBatch:
    """Return the batch with ``change`` applied to its item scores and weights, if it has any."""
    if batch.scores is not None:
        batch = replace(batch, scores=change(batch.scores))
    if batch.weights is not None:
        batch = replace(batch, weights=change(batch.weights))
    return batch


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

    Both masks have the shape (n, k), and select the same number of places in each row. The order of
    the items is kept. The arrays of ``target`` are changed, so `_with_copies` must have made them.
    Either both batches have weights, or neither has.
    """
    # With indexes instead of masks this takes a third of the time.
    to_indexes = np.flatnonzero(target_places)
    from_indexes = np.flatnonzero(source_places)
    np.put(target.candidate, to_indexes, source.candidate.take(from_indexes))
    if target.weights is not None and source.weights is not None:
        np.put(target.weights.candidate, to_indexes, source.weights.candidate.take(from_indexes))


def average_parts(parts: Parts, rows: Rows) -> PartMeans | None:
    """Return the mean of each part over the users in these rows. None if no user has parts.

    Users with undefined parts are left out.
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
