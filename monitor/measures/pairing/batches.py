"""Makes a batch of pairs from lists of integer codes.

This module cuts the lists, drops duplicates and orders tied items. Then it attaches item weights
and relevance.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from monitor.measures.kernels.labels import place_grades, place_weights
from monitor.measures.kernels.ragged import PAD, find_first_places, pad, take_lists
from monitor.measures.pairing.ids import codes_of, encode_ids, rank_by_text
from monitor.model.arrays import Codes, Flags, Floats, Integers, Offsets, Rows
from monitor.model.immutable import immutable
from monitor.model.rankings import ByArm, ItemWeights, PairBatch, RankingTable, RelevanceTable


@immutable
class CodedLists:
    """One arm's lists with items as codes, in the layout of `RankingTable`."""

    codes: Integers
    offsets: Offsets
    scores: Floats | None

    @property
    def lengths(self) -> Offsets:
        """The number of items in each list. Duplicates are counted too."""
        return np.diff(self.offsets)


@immutable
class PaddedLists:
    """Lists that are cut to k and have no duplicates.

    The codes are an array (n, k), padded with -1. The scores have the same shape. They are None if
    the arm has no scores.
    """

    codes: Codes
    lengths: Codes
    scores: Floats | None
    had_duplicates: Flags

    def take(self, rows: Rows) -> "PaddedLists":
        """The lists of these rows, in this order.

        Returns ``self`` if these are all rows, in the order that they have already.
        """
        if len(rows) == len(self.lengths) and np.array_equal(rows, np.arange(len(rows))):
            return self
        scores = None if self.scores is None else self.scores[rows]
        return PaddedLists(
            codes=self.codes[rows],
            lengths=self.lengths[rows],
            scores=scores,
            had_duplicates=self.had_duplicates[rows],
        )


@immutable
class CodedKnowledge:
    """Item weights and grades of relevance, with items as codes.

    ``weights`` is a pair: items and their weights. ``grades`` are the offsets, items and grades of
    a `RelevanceTable`.
    """

    weights: tuple[Codes, Floats] | None
    grades: tuple[Offsets, Codes, Floats] | None


def encode_arms(
    baseline: RankingTable, candidate: RankingTable
) -> tuple[tuple[CodedLists, CodedLists], pd.Index | None]:
    """Both arms' lists with items as codes of one vocabulary, and this vocabulary.

    The vocabulary is None if each id is its own code.
    """
    codes, vocabulary = encode_ids(baseline.items, candidate.items)
    first = CodedLists(codes=codes[0], offsets=baseline.offsets, scores=baseline.scores)
    second = CodedLists(codes=codes[1], offsets=candidate.offsets, scores=candidate.scores)
    return (first, second), vocabulary


def encode_knowledge(
    item_weights: ItemWeights | None,
    relevance: RelevanceTable | None,
    vocabulary: pd.Index | None,
) -> CodedKnowledge:
    """Item weights and relevance, with items as codes of a vocabulary.

    Without a vocabulary, the codes are the ids.
    """
    weights = None
    if item_weights is not None:
        weights = (codes_of(item_weights.items, vocabulary), item_weights.weights)
    grades = None
    if relevance is not None:
        items = codes_of(relevance.items, vocabulary)
        grades = (relevance.offsets, items, relevance.grades)
    return CodedKnowledge(weights=weights, grades=grades)


def pad_lists(lists: CodedLists, rows: Rows | None, k: int) -> PaddedLists:
    """The lists of these rows, cut to k and without later duplicates.

    If ``rows`` is None, these are the lists of all rows.
    """
    if rows is not None:
        lists = _take(lists, rows)
    padded, lengths, had_duplicates = pad(lists.codes, lists.offsets, k)
    return PaddedLists(
        codes=padded,
        lengths=lengths,
        scores=_pad_scores(lists, padded, had_duplicates),
        had_duplicates=had_duplicates,
    )


def make_batch(
    baseline: PaddedLists,
    candidate: PaddedLists,
    vocabulary: pd.Index | None,
) -> PairBatch:
    """A batch of pairs. Each row of one arm is paired with the same row of the other arm.

    Tied items are ordered by their ids. Without a vocabulary, the codes are the ids. If only one arm
    has scores, all scores of the other arm are NaN.
    """
    batch = PairBatch(
        baseline=baseline.codes,
        candidate=candidate.codes,
        baseline_lengths=baseline.lengths,
        candidate_lengths=candidate.lengths,
    )
    if baseline.scores is None and candidate.scores is None:
        return batch
    scores = []
    for arm in (baseline, candidate):
        if arm.scores is None:
            scores.append(np.full(arm.codes.shape, np.nan))
        else:
            scores.append(arm.scores)
    return replace(
        batch,
        baseline=order_ties(baseline.codes, scores[0], vocabulary),
        candidate=order_ties(candidate.codes, scores[1], vocabulary),
        scores=ByArm(baseline=scores[0], candidate=scores[1]),
    )


def attach_knowledge(
    batch: PairBatch, knowledge: CodedKnowledge, graded_rows: Rows | None
) -> PairBatch:
    """The batch with item weights and labels.

    An item without a weight has the weight NaN. ``graded_rows`` is the row of each user in the
    grades. It is -1 for a user without grades.
    """
    if knowledge.weights is not None:
        weights = ByArm(
            baseline=place_weights(batch.baseline, *knowledge.weights, np.nan),
            candidate=place_weights(batch.candidate, *knowledge.weights, np.nan),
        )
        batch = replace(batch, weights=weights)
    if graded_rows is not None and knowledge.grades is not None:
        labels = place_grades(batch.baseline, batch.candidate, graded_rows, *knowledge.grades)
        batch = replace(batch, labels=labels)
    return batch


def order_ties(codes: Codes, scores: Floats, vocabulary: pd.Index | None) -> Codes:
    """Order the tied items of padded lists (n, k) by their ids as text.

    Neighbours with equal scores are tied. NaN is never tied. Places after the end of a list have
    the score NaN. The scores do not change. If no items are tied, ``codes`` itself is returned.
    """
    tied = np.zeros(codes.shape, dtype=bool)
    np.equal(scores[:, 1:], scores[:, :-1], out=tied[:, 1:])
    if not tied.any():
        return codes
    ordered = codes.ravel().copy()
    cells, order = order_of_ties(ordered, tied.ravel(), vocabulary)
    ordered[cells] = ordered[cells[order]]
    return ordered.reshape(codes.shape)


def order_of_ties(codes: Integers, tied: Flags, vocabulary: pd.Index | None) -> tuple[Rows, Rows]:
    """The cells of all tied items, and the new order of these cells.

    ``tied`` marks each item with the same score as the item before it.
    """
    # The first item of a tied group is not marked, but the item after it is.
    cells = np.flatnonzero(tied | np.append(tied[1:], False))
    groups = np.cumsum(~tied)[cells]
    distinct = np.unique(codes[cells])
    text_ranks = rank_by_text(distinct, vocabulary)[np.searchsorted(distinct, codes[cells])]
    return cells, np.lexsort((text_ranks, groups))


def _take(lists: CodedLists, rows: Rows) -> CodedLists:
    """The lists of these rows. Consecutive rows are not copied."""
    if len(rows) and (rows[1:] == rows[:-1] + 1).all():
        return replace(lists, offsets=lists.offsets[rows[0] : rows[-1] + 2])
    codes, offsets = take_lists(lists.codes, lists.offsets, rows)
    scores = lists.scores
    if scores is not None:
        scores, _ = take_lists(scores, lists.offsets, rows)
    return CodedLists(codes=codes, offsets=offsets, scores=scores)


def _pad_scores(lists: CodedLists, padded: Codes, had_duplicates: Flags) -> Floats | None:
    """Scores in the shape of ``padded``. They are NaN after the end of a list.

    The result is None if the arm has items but no scores. If the arm has no items, it is not known
    whether its source has scores, so all scores are NaN.
    """
    if not len(lists.codes):
        return np.broadcast_to(np.nan, padded.shape)
    if lists.scores is None:
        return None
    places = np.arange(padded.shape[1])
    cells = lists.offsets[:-1, None] + places
    is_inside = places < lists.lengths[:, None]
    # After the end of a list, the cells belong to other lists, or are outside of the array.
    scores = lists.scores.take(cells, mode="clip")
    scores[~is_inside] = np.nan
    rows = np.flatnonzero(had_duplicates)
    if len(rows):
        # An item that is in the list more than once gets the score of its first place.
        codes = lists.codes.take(cells[rows], mode="clip")
        is_first = find_first_places(np.where(is_inside[rows], codes, PAD))
        first_scores = np.full(is_first.shape, np.nan)
        first_scores[places < is_first.sum(axis=1)[:, None]] = scores[rows][is_first]
        scores[rows] = first_scores
    return scores
