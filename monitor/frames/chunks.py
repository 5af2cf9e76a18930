"""Pairs of lists of any length, in chunks of similar width for the metrics."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from monitor.errors import InputError
from monitor.frames.side_information import require_weights
from monitor.immutable import immutable
from monitor.model.arrays import Offsets, Rows
from monitor.model.rankings import ItemWeights, PairBatch, RankingTable, RelevanceTable
from monitor.pairing.batches import (
    CodedKnowledge,
    CodedLists,
    attach,
    encode_arms,
    encode_knowledge,
    make_batch,
    pad_both,
)
from monitor.pairing.ids import find_users

_CHUNK_CELLS = 1 << 22


@immutable
class CodedPairs:
    """All pairs of lists of one call, coded once, with the data about their items and users."""

    arms: tuple[CodedLists, CodedLists]
    rows: tuple[Rows, Rows]  # the row of each pair's list in either arm
    k: int | None
    vocabulary: pd.Index | None
    knowledge: CodedKnowledge
    graded_rows: Rows | None  # the row of each pair's user in the grades, -1 for none

    @property
    def lengths(self) -> tuple[Offsets, Offsets]:
        """Lengths of each pair's lists, cut to k."""
        ours, theirs = (arm.lengths[rows] for arm, rows in zip(self.arms, self.rows, strict=True))
        if self.k is None:
            return ours, theirs
        return np.minimum(ours, self.k), np.minimum(theirs, self.k)

    @property
    def widths(self) -> Offsets:
        """Places that each pair needs, from 1 to k.

        They are enough for the longer list and for all graded items of the user.
        """
        widths = np.maximum(*self.lengths)
        if self.graded_rows is not None and self.knowledge.grades is not None:
            # A row of -1, for a user without grades, takes the entry after the last: no places.
            graded = np.append(np.diff(self.knowledge.grades[0]), 0)[self.graded_rows]
            widths = np.maximum(widths, graded)
        if self.k is not None:
            widths = np.minimum(widths, self.k)
        return np.maximum(widths, 1)


def encode_pairs(
    tables: tuple[RankingTable, RankingTable],
    rows: tuple[Rows, Rows],
    k: int | None,
    item_weights: ItemWeights | None,
    relevance: RelevanceTable | None,
) -> CodedPairs:
    """Code all lists, weights and grades.

    Raises InputError for a listed item without a weight if there are weights.
    """
    arms, vocabulary = encode_arms(*tables)
    knowledge = encode_knowledge(item_weights, relevance, vocabulary)
    if knowledge.weights is not None:
        require_weights([arm.codes for arm in arms], *knowledge.weights, vocabulary)
    graded_rows = None
    if relevance is not None:
        graded_rows = _graded_rows(tables[0].users[rows[0]], relevance)
    return CodedPairs(
        arms=arms,
        rows=rows,
        k=k,
        vocabulary=vocabulary,
        knowledge=knowledge,
        graded_rows=graded_rows,
    )


def chunks_of_pairs(pairs: CodedPairs) -> Iterator[tuple[Rows, PairBatch, tuple[int, int]]]:
    """The pairs in chunks: rows, batch, and each arm's number of lists with duplicates."""
    for rows, width in _groups(pairs.widths):
        arm_rows = (pairs.rows[0][rows], pairs.rows[1][rows])
        baseline, candidate = pad_both(pairs.arms, arm_rows, width, len(rows) * width)
        batch = make_batch(baseline, candidate, pairs.vocabulary)
        graded_rows = None if pairs.graded_rows is None else pairs.graded_rows[rows]
        duplicated = (int(baseline.had_duplicates.sum()), int(candidate.had_duplicates.sum()))
        yield rows, attach(batch, pairs.knowledge, graded_rows), duplicated


def _graded_rows(users: pd.Index, relevance: RelevanceTable) -> Rows:
    rows = find_users(users, relevance.users)
    if len(users) and len(relevance) and (rows < 0).all():
        raise InputError(
            "relevance knows none of the compared users: it has users such as "
            f"{relevance.users[:1].tolist()[0]!r}, the lists {users[:1].tolist()[0]!r}; spell them "
            "alike"
        )
    return rows


def _groups(widths: Offsets) -> Iterator[tuple[Rows, int]]:
    """Groups of rows, each with the width of its longest list."""
    # Rows of similar width are in one group, so there is little padding.
    order = np.argsort(widths, kind="stable")
    low = 0
    while low < len(order):
        most = max(1, _CHUNK_CELLS // int(widths[order[low]]))
        nearest = widths[order[low : low + most]]
        fits = np.arange(1, len(nearest) + 1) * nearest <= _CHUNK_CELLS
        count = max(1, int(fits.sum()))
        yield order[low : low + count], int(nearest[count - 1])
        low += count
