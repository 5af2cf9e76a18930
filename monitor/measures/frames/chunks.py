"""Splits pairs of lists of any length into chunks for the metrics.

The lists of one chunk have similar lengths.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from monitor.measures.frames.side_information import require_weights
from monitor.measures.pairing.batches import (
    CodedKnowledge,
    CodedLists,
    attach_knowledge,
    encode_arms,
    encode_knowledge,
    make_batch,
    pad_lists,
)
from monitor.measures.pairing.ids import find_users
from monitor.model.arrays import Offsets, Rows
from monitor.model.errors import InputError
from monitor.model.immutable import immutable
from monitor.model.rankings import ItemWeights, PairBatch, RankingTable, RelevanceTable

_CHUNK_CELLS = 1 << 22


@immutable
class CodedPairs:
    """All pairs of lists that one call compares, with integer codes instead of items.

    ``knowledge`` has the item weights and the grades.
    """

    arms: tuple[CodedLists, CodedLists]
    rows: tuple[Rows, Rows]  # for each arm, the row of the list of each pair
    k: int | None
    vocabulary: pd.Index | None
    knowledge: CodedKnowledge
    graded_rows: Rows | None  # each pair: the row of its user in the grades, or -1

    @property
    def lengths(self) -> tuple[Offsets, Offsets]:
        """The lengths of both lists of each pair. Each length is at most k."""
        ours, theirs = (arm.lengths[rows] for arm, rows in zip(self.arms, self.rows, strict=True))
        if self.k is None:
            return ours, theirs
        return np.minimum(ours, self.k), np.minimum(theirs, self.k)

    @property
    def widths(self) -> Offsets:
        """How many places a padded list of each pair must have: from 1 to k.

        The places are enough for the longer list, and for k graded items of the user.
        """
        widths = np.maximum(*self.lengths)
        if self.graded_rows is not None and self.knowledge.grades is not None:
            # A user without grades has the row -1. It selects the appended last entry, which is 0.
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
    """Replace the items of all lists, weights and grades by codes.

    Raises InputError if weights are given and a listed item has no valid weight.
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
    """Yield the pairs in chunks.

    For each chunk, the function yields the positions of its pairs, their batch, and the number of
    lists with duplicates in each arm.
    """
    for rows, width in _groups(pairs.widths):
        arms = zip(pairs.arms, pairs.rows, strict=True)
        baseline, candidate = (pad_lists(arm, arm_rows[rows], width) for arm, arm_rows in arms)
        batch = make_batch(baseline, candidate, pairs.vocabulary)
        graded_rows = None if pairs.graded_rows is None else pairs.graded_rows[rows]
        duplicated = (int(baseline.had_duplicates.sum()), int(candidate.had_duplicates.sum()))
        yield rows, attach_knowledge(batch, pairs.knowledge, graded_rows), duplicated


def _graded_rows(users: pd.Index, relevance: RelevanceTable) -> Rows:
    rows = find_users(users, relevance.users)
    if len(users) and len(relevance) and (rows < 0).all():
        raise InputError(
            "relevance has none of the compared users: it has users such as "
            f"{relevance.users[:1].tolist()[0]!r}, the lists have users such as "
            f"{users[:1].tolist()[0]!r}: spell each user in the same way"
        )
    return rows


def _groups(widths: Offsets) -> Iterator[tuple[Rows, int]]:
    """Yield for each group the positions of its pairs, and the largest of their widths."""
    # The pairs of a group have similar widths, so their lists need little padding.
    order = np.argsort(widths, kind="stable")
    low = 0
    while low < len(order):
        most = max(1, _CHUNK_CELLS // int(widths[order[low]]))
        nearest = widths[order[low : low + most]]
        fits = np.arange(1, len(nearest) + 1) * nearest <= _CHUNK_CELLS
        count = max(1, int(fits.sum()))
        yield order[low : low + count], int(nearest[count - 1])
        low += count
