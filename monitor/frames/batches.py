"""Batches of padded pairs from both arms' lists, with weights and relevance."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.errors import InputError
from monitor.frames.ids import WORTH_A_THREAD, Codes, Vocabulary, encode
from monitor.frames.lists import UserLists
from monitor.frames.side_information import WeightedItems, require_weights
from monitor.kernels import pad
from monitor.kernels.labels import place_grades, place_weights
from monitor.kernels.ragged import take_lists
from monitor.model import ByArm, PairBatch, RankingTable
from monitor.model.arrays import Flags, Floats, Offsets
from monitor.pairing.batches import pad_scores


def order_ties(codes: npt.NDArray[np.int32], scores: Floats, vocabulary: Vocabulary) -> npt.NDArray[np.int32]:
    """Padded lists (n, k) with tied items in the order of their ids: ascending as text, then by the name of their type.

    Tied are neighbours with equal scores; NaN, as behind a list's end, ties with nothing. Nothing else moves, nor any score, as
    those of tied items are equal.
    """
    tied = np.zeros(codes.shape, dtype=np.bool_)
    np.equal(scores[:, 1:], scores[:, :-1], out=tied[:, 1:])
    return _put_in_order(codes.ravel(), tied.ravel(), vocabulary).reshape(codes.shape).astype(np.int32, copy=False)


def order_whole_lists(codes: Codes, scores: Floats, offsets: npt.NDArray[np.int64], vocabulary: Vocabulary) -> Codes:
    """The same on flat lists, before anything is cut."""
    tied = np.zeros(len(codes), dtype=np.bool_)
    np.equal(scores[1:], scores[:-1], out=tied[1:])
    starts = offsets[:-1]
    tied[starts[starts < len(tied)]] = False
    return _put_in_order(codes, tied, vocabulary)


def _put_in_order(codes: Codes, tied: Flags, vocabulary: Vocabulary) -> Codes:
    """The codes, each run of items that are ``tied`` with the one before by the text of their ids."""
    if not tied.any():
        return codes
    cells = np.flatnonzero(tied | np.append(tied[1:], False))
    runs, moved = np.cumsum(~tied)[cells], codes[cells]
    known = np.unique(moved)
    ordered = codes.copy()
    ordered[cells] = moved[np.lexsort((vocabulary.rank_by_text(known)[np.searchsorted(known, moved)], runs))]
    return ordered


_CHUNK_CELLS = 1 << 22

RowPairs = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCodes:
    """One arm's lists as codes, in the shape of `Lists`; ``rows``: the list of each pair."""

    codes: Codes
    offsets: Offsets
    scores: Floats | None
    rows: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedCodes:
    """Graded items as codes, in the shape of `Lists`; ``rows``: the graded list of each pair, -1 where there is none."""

    codes: npt.NDArray[np.int32]
    offsets: Offsets
    grades: Floats
    rows: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """All pairs of lists of one call, coded once, and what is known of their items and users."""

    arms: tuple[ArmCodes, ArmCodes]
    k: int | None
    vocabulary: Vocabulary
    weighted: npt.NDArray[np.int32]
    weights: Floats | None
    graded: GradedCodes | None

    def __len__(self) -> int:
        return len(self.arms[0].rows)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of each compared list of either arm, as given and cut to k."""
        lengths = np.concatenate([_lengths(arm) for arm in self.arms])
        return lengths if self.k is None else np.minimum(lengths, np.int64(self.k))

    @property
    def widths(self) -> npt.NDArray[np.int64]:
        """Places that each pair needs: for its longer list, and for all of its user's graded items; at least 1, at most k."""
        parts: list[ArmCodes | GradedCodes] = [*self.arms, *([self.graded] if self.graded else [])]
        longest: npt.NDArray[np.int64] = np.maximum.reduce([_lengths(part) for part in parts])
        return np.maximum(longest if self.k is None else np.minimum(longest, self.k), 1)


def _lengths(part: ArmCodes | GradedCodes) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = np.append(np.diff(part.offsets), 0)[part.rows]
    return lengths


def pair_up(
    lists: tuple[UserLists, UserLists], rows: RowPairs, k: int | None, weighted: WeightedItems | None, graded: UserLists | None
) -> Pairs:
    """Code everything at once and put tied items in order. InputError for a listed item without a weight, where any are given.

    ``rows``: which list of each arm makes each pair.
    """
    known = [part.items for part in (weighted, graded) if part is not None]
    codes, vocabulary = encode(*(part.items for part in lists), *known)
    if weighted is not None:
        require_weights(codes[:2], codes[2], weighted.weights, vocabulary)
    has_scores = any(part.scores is not None for part in lists)
    baseline, candidate = (
        _arm(own, part, taken, vocabulary if has_scores else None)
        for own, part, taken in zip(codes[:2], lists, rows, strict=True)
    )
    return Pairs(
        arms=(baseline, candidate),
        k=k,
        vocabulary=vocabulary,
        weighted=codes[2].astype(np.int32) if weighted is not None else np.empty(0, dtype=np.int32),
        weights=None if weighted is None else weighted.weights,
        graded=None if graded is None else _grade(codes[-1].astype(np.int32), graded, lists[0], rows[0]),
    )


def _arm(codes: Codes, lists: UserLists, rows: npt.NDArray[np.intp], vocabulary: Vocabulary | None) -> ArmCodes:
    """The arm's codes; with a vocabulary the arm has scores, NaN where it told none."""
    if vocabulary is None:
        return ArmCodes(codes=codes, offsets=lists.offsets, scores=None, rows=rows)
    scores = np.full(len(codes), np.nan) if lists.scores is None else lists.scores
    if lists.is_by_score:
        codes = order_whole_lists(codes, scores, lists.offsets, vocabulary)
    return ArmCodes(codes=codes, offsets=lists.offsets, scores=scores, rows=rows)


def _grade(codes: npt.NDArray[np.int32], graded: UserLists, baseline: UserLists, rows: npt.NDArray[np.intp]) -> GradedCodes:
    users = baseline.users[rows]
    found = graded.users.get_indexer(users)
    if len(users) and len(graded) and (found < 0).all():
        msg = (
            f"relevance knows none of the compared users: it has users such as {graded.users[:1].tolist()[0]!r}, the lists "
            f"{users[:1].tolist()[0]!r}; ids must be of one type"
        )
        raise InputError(msg)
    grades = np.empty(0) if graded.scores is None else graded.scores
    return GradedCodes(codes=codes, offsets=graded.offsets, grades=grades, rows=found)


def pair_batches(pairs: Pairs) -> Iterator[tuple[npt.NDArray[np.intp], PairBatch, tuple[int, int]]]:
    """Go through the pairs: the rows of each chunk, their batch, and how many of each arm's lists held duplicates."""
    for rows, width in _groups(pairs.widths):
        baseline, candidate = _pad_both(pairs, rows, width)
        batch = PairBatch(
            baseline=baseline.codes,
            candidate=candidate.codes,
            baseline_lengths=baseline.lengths,
            candidate_lengths=candidate.lengths,
        )
        if baseline.scores is not None and candidate.scores is not None:
            batch = replace(batch, scores=ByArm(baseline=baseline.scores, candidate=candidate.scores))
        yield rows, _tell(batch, pairs, rows), (baseline.duplicated, candidate.duplicated)


def _groups(widths: npt.NDArray[np.int64]) -> Iterator[tuple[npt.NDArray[np.intp], int]]:
    """Groups of rows and the width that holds their lists; rows of like width together, so that padding stays small."""
    order = np.argsort(widths, kind="stable")
    low = 0
    while low < len(order):
        nearest = widths[order[low : low + max(1, _CHUNK_CELLS // int(widths[order[low]]))]]
        count = max(1, int((np.arange(1, len(nearest) + 1) * nearest <= _CHUNK_CELLS).sum()))
        yield order[low : low + count], int(nearest[count - 1])
        low += count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Padded:
    codes: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    scores: Floats | None
    duplicated: int


def _pad_both(pairs: Pairs, rows: npt.NDArray[np.intp], width: int) -> tuple[_Padded, _Padded]:
    """Both arms, each in a thread of its own where that pays."""
    if len(rows) * width < WORTH_A_THREAD:
        baseline, candidate = (_pad(arm, rows, width, pairs.vocabulary) for arm in pairs.arms)
        return baseline, candidate
    with ThreadPoolExecutor(max_workers=2) as threads:
        both = [threads.submit(_pad, arm, rows, width, pairs.vocabulary) for arm in pairs.arms]
        return both[0].result(), both[1].result()


def _pad(arm: ArmCodes, rows: npt.NDArray[np.intp], width: int, vocabulary: Vocabulary) -> _Padded:
    """The arm's lists of these rows: cut, without duplicates, padded, tied items in order."""
    taken, scores = arm.rows[rows], arm.scores
    if (taken[1:] == taken[:-1] + 1).all():
        offsets, codes = arm.offsets[taken[0] : taken[-1] + 2], arm.codes
    else:
        codes, offsets = take_lists(arm.codes, arm.offsets, taken)
        if scores is not None:
            scores = scores[take_lists(np.arange(len(scores)), arm.offsets, taken)[0]]
    padded, lengths, repeats = pad(codes, offsets, width)
    placed = None
    if scores is not None:
        placed = _place_scores(scores, offsets, codes, padded, repeats)
        padded = order_ties(padded, placed, vocabulary)
    return _Padded(codes=padded, lengths=lengths, scores=placed, duplicated=int(repeats.sum()))


def _place_scores(
    scores: Floats, offsets: Offsets, codes: Codes, padded: npt.NDArray[np.int32], repeats: npt.NDArray[np.bool_]
) -> Floats:
    """Scores in the shape of the padded lists; an item that stood twice has that of its first place."""
    nobody = pd.Index([], dtype="str")
    table = RankingTable(users=nobody, offsets=offsets, items=codes.astype(np.int64, copy=False), scores=scores)
    placed = pad_scores(table, codes.astype(np.int32, copy=False), padded, repeats)
    return np.full(padded.shape, np.nan) if placed is None else placed


def _tell(batch: PairBatch, pairs: Pairs, rows: npt.NDArray[np.intp]) -> PairBatch:
    """The batch with weights and labels, where they were given."""
    if (weights := pairs.weights) is not None:
        baseline, candidate = (place_weights(arm, pairs.weighted, weights, np.nan) for arm in (batch.baseline, batch.candidate))
        batch = replace(batch, weights=ByArm(baseline=baseline, candidate=candidate))
    if (graded := pairs.graded) is not None:
        labels = place_grades(batch.baseline, batch.candidate, graded.rows[rows], graded.offsets, graded.codes, graded.grades)
        batch = replace(batch, labels=labels)
    return batch
