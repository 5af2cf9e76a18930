"""From coded lists to a batch of pairs: cut, without duplicates, tied items in order, weights and relevance attached."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from monitor.kernels.labels import place_grades, place_weights
from monitor.kernels.ragged import PAD, find_first_places, pad, take_lists
from monitor.model.arrays import Codes, Flags, Floats, Integers, Offsets, Rows
from monitor.model.rankings import ByArm, ItemWeights, PairBatch, RankingTable, RelevanceTable
from monitor.pairing.ids import WORTH_A_THREAD, codes_of, encode, rank_by_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedLists:
    """One arm's lists as codes, in the shape of `RankingTable`."""

    codes: Integers
    offsets: Offsets
    scores: Floats | None

    @property
    def lengths(self) -> Offsets:
        """How many items each list holds, as given."""
        return np.diff(self.offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedLists:
    """Lists cut to k and without duplicates: codes (n, k) padded with -1, and scores in their shape where the arm has any."""

    codes: Codes
    lengths: Codes
    scores: Floats | None
    had_duplicates: Flags

    def take(self, rows: Rows) -> "PaddedLists":
        """The lists of these rows, in this order.

        The very same where it is all of them as they stand.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedKnowledge:
    """What is known beside the lists: items in their codes with weights.

    Offsets, items and grades, as in `RelevanceTable`.
    """

    weights: tuple[Codes, Floats] | None = None
    grades: tuple[Offsets, Codes, Floats] | None = None


def encode_arms(
    baseline: RankingTable, candidate: RankingTable
) -> tuple[tuple[CodedLists, CodedLists], pd.Index | None]:
    """Both arms' lists in codes of one vocabulary, None where codes are the ids."""
    codes, vocabulary = encode(baseline.items, candidate.items)
    first, second = (
        CodedLists(codes=own, offsets=table.offsets, scores=table.scores)
        for own, table in zip(codes, (baseline, candidate), strict=True)
    )
    return (first, second), vocabulary


def encode_knowledge(
    item_weights: ItemWeights | None, relevance: RelevanceTable | None, vocabulary: pd.Index | None
) -> CodedKnowledge:
    """Weights and relevance in the codes of a vocabulary."""
    return CodedKnowledge(
        weights=None
        if item_weights is None
        else (codes_of(item_weights.items, vocabulary), item_weights.weights),
        grades=None
        if relevance is None
        else (relevance.offsets, codes_of(relevance.items, vocabulary), relevance.grades),
    )


def pad_lists(lists: CodedLists, rows: Rows | None, k: int) -> PaddedLists:
    """The lists of these rows (None: of all) cut to k, later duplicates dropped, scores at the places of their items."""
    if rows is not None:
        lists = _take(lists, rows)
    padded, lengths, had_duplicates = pad(lists.codes, lists.offsets, k)
    return PaddedLists(
        codes=padded,
        lengths=lengths,
        scores=_pad_scores(lists, padded, had_duplicates),
        had_duplicates=had_duplicates,
    )


def pad_both(
    arms: Sequence[CodedLists], rows: Sequence[Rows] | Sequence[None], k: int, cells: int
) -> tuple[PaddedLists, PaddedLists]:
    """`pad_lists` of both arms, each in a thread of its own where so many ``cells`` pay for it."""
    if cells < WORTH_A_THREAD:
        baseline, candidate = (
            pad_lists(lists, taken, k) for lists, taken in zip(arms, rows, strict=True)
        )
        return baseline, candidate
    with ThreadPoolExecutor(max_workers=2) as threads:
        both = [
            threads.submit(pad_lists, lists, taken, k)
            for lists, taken in zip(arms, rows, strict=True)
        ]
        return both[0].result(), both[1].result()


def make_batch(
    baseline: PaddedLists, candidate: PaddedLists, vocabulary: pd.Index | None
) -> PairBatch:
    """The pairs of two arms' rows.

    An arm without scores has NaN where the other has them; tied items stand in order.
    """
    batch = PairBatch(
        baseline=baseline.codes,
        candidate=candidate.codes,
        baseline_lengths=baseline.lengths,
        candidate_lengths=candidate.lengths,
    )
    if baseline.scores is None and candidate.scores is None:
        return batch
    scores = [
        np.full(arm.codes.shape, np.nan) if arm.scores is None else arm.scores
        for arm in (baseline, candidate)
    ]
    return replace(
        batch,
        baseline=order_ties(baseline.codes, scores[0], vocabulary),
        candidate=order_ties(candidate.codes, scores[1], vocabulary),
        scores=ByArm(baseline=scores[0], candidate=scores[1]),
    )


def attach(batch: PairBatch, known: CodedKnowledge, graded_rows: Rows | None) -> PairBatch:
    """The batch with weights, NaN for an item without one, and labels.

    ``graded_rows``: each user's graded list, -1: none.
    """
    if known.weights is not None:
        weights = [
            place_weights(codes, *known.weights, np.nan)
            for codes in (batch.baseline, batch.candidate)
        ]
        batch = replace(batch, weights=ByArm(baseline=weights[0], candidate=weights[1]))
    if graded_rows is not None and known.grades is not None:
        batch = replace(
            batch, labels=place_grades(batch.baseline, batch.candidate, graded_rows, *known.grades)
        )
    return batch


def order_ties(codes: Codes, scores: Floats, vocabulary: pd.Index | None) -> Codes:
    """Padded lists (n, k) with tied items in the order of their ids as text.

    The very same array where nothing is tied.

    Neighbours with equal scores are tied; NaN, as behind a list's end, ties with nothing. Scores
    stay as they are."""
    tied = np.zeros(codes.shape, dtype=np.bool_)
    np.equal(scores[:, 1:], scores[:, :-1], out=tied[:, 1:])
    if not tied.any():
        return codes
    ordered = codes.ravel().copy()
    cells, order = order_of_ties(ordered, tied.ravel(), vocabulary)
    ordered[cells] = ordered[cells[order]]
    return ordered.reshape(codes.shape)


def order_of_ties(codes: Integers, tied: Flags, vocabulary: pd.Index | None) -> tuple[Rows, Rows]:
    """The cells of all runs of items that are ``tied`` with the one before, and the order that these cells shall have."""
    cells = np.flatnonzero(tied | np.append(tied[1:], False))
    runs, moved = np.cumsum(~tied)[cells], codes[cells]
    known = np.unique(moved)
    return cells, np.lexsort((rank_by_text(known, vocabulary)[np.searchsorted(known, moved)], runs))


def _take(lists: CodedLists, rows: Rows) -> CodedLists:
    if len(rows) and (rows[1:] == rows[:-1] + 1).all():
        return replace(lists, offsets=lists.offsets[rows[0] : rows[-1] + 2])
    codes, offsets = take_lists(lists.codes, lists.offsets, rows)
    scores = lists.scores
    if scores is not None:
        scores = take_lists(scores, lists.offsets, rows)[0]
    return CodedLists(codes=codes, offsets=offsets, scores=scores)


def _pad_scores(lists: CodedLists, padded: Codes, had_duplicates: Flags) -> Floats | None:
    """Scores in the shape of ``padded``.

    NaN where a list has ended. None where the arm has items and no scores.
    """
    if not len(lists.codes):  # an arm that gave nothing must not hide that the other has scores
        return np.broadcast_to(np.nan, padded.shape)
    if lists.scores is None:
        return None
    places = np.arange(padded.shape[1])
    cells, is_inside = lists.offsets[:-1, None] + places, places < lists.lengths[:, None]
    # Places behind a list's end point into other lists or beyond the last one.
    scores = lists.scores.take(cells, mode="clip")
    scores[~is_inside] = np.nan
    rows = np.flatnonzero(had_duplicates)
    if len(rows):
        # An item that stood twice has the score of its first place.
        is_first = find_first_places(
            np.where(is_inside[rows], lists.codes.take(cells[rows], mode="clip"), PAD)
        )
        kept = np.full(is_first.shape, np.nan)
        kept[places < is_first.sum(axis=1)[:, None]] = scores[rows][is_first]
        scores[rows] = kept
    return scores
