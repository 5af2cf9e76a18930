"""Pairs of lists of any length, in chunks of like width that the metrics can measure."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from monitor.errors import InputError
from monitor.frames.side_information import require_weights
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedPairs:
    """All pairs of lists of one call, coded once, and what is known of their items and users."""

    arms: tuple[CodedLists, CodedLists]
    rows: tuple[Rows, Rows]  # which list of each arm makes each pair
    k: int | None
    vocabulary: pd.Index | None
    known: CodedKnowledge
    graded_rows: Rows | None  # its user's graded items, -1 for none

    @property
    def lengths(self) -> Offsets:
        """Length of each compared list of either arm, as given and cut to k."""
        lengths = np.concatenate(
            [arm.lengths[rows] for arm, rows in zip(self.arms, self.rows, strict=True)]
        )
        return lengths if self.k is None else np.minimum(lengths, self.k)

    @property
    def widths(self) -> Offsets:
        """Places that each pair needs: for its longer list, and for all of its user's graded items.

        At least 1, at most k.
        """
        longest = np.maximum(
            *(arm.lengths[rows] for arm, rows in zip(self.arms, self.rows, strict=True))
        )
        if self.graded_rows is not None and self.known.grades is not None:
            # A row of -1, of a user who graded nothing, takes the entry behind the last: no places.
            longest = np.maximum(
                longest, np.append(np.diff(self.known.grades[0]), 0)[self.graded_rows]
            )
        return np.maximum(longest if self.k is None else np.minimum(longest, self.k), 1)


def encode_pairs(
    tables: tuple[RankingTable, RankingTable],
    rows: tuple[Rows, Rows],
    k: int | None,
    item_weights: ItemWeights | None,
    relevance: RelevanceTable | None,
) -> CodedPairs:
    """Code all lists and what is known beside them.

    InputError for a listed item without a weight, where any are given.
    """
    arms, vocabulary = encode_arms(*tables)
    known = encode_knowledge(item_weights, relevance, vocabulary)
    if known.weights is not None:
        require_weights([arm.codes for arm in arms], *known.weights, vocabulary)
    graded_rows = None if relevance is None else _graded_rows(tables[0].users[rows[0]], relevance)
    return CodedPairs(
        arms=arms, rows=rows, k=k, vocabulary=vocabulary, known=known, graded_rows=graded_rows
    )


def chunks_of_pairs(pairs: CodedPairs) -> Iterator[tuple[Rows, PairBatch, tuple[int, int]]]:
    """Go through the pairs: the rows of each chunk, their batch, and how many of each arm's lists held duplicates."""
    for rows, width in _groups(pairs.widths):
        taken = (pairs.rows[0][rows], pairs.rows[1][rows])
        baseline, candidate = pad_both(pairs.arms, taken, width, len(rows) * width)
        batch = make_batch(baseline, candidate, pairs.vocabulary)
        graded_rows = None if pairs.graded_rows is None else pairs.graded_rows[rows]
        repeats = (int(baseline.had_duplicates.sum()), int(candidate.had_duplicates.sum()))
        yield rows, attach(batch, pairs.known, graded_rows), repeats


def _graded_rows(users: pd.Index, relevance: RelevanceTable) -> Rows:
    found = find_users(users, relevance.users)
    if len(users) and len(relevance) and (found < 0).all():
        raise InputError(
            "relevance knows none of the compared users: it has users such as "
            f"{relevance.users[:1].tolist()[0]!r}, the lists {users[:1].tolist()[0]!r}; spell them "
            "alike"
        )
    return found


def _groups(widths: Offsets) -> Iterator[tuple[Rows, int]]:
    """Groups of rows and the width that holds their lists."""
    # Rows of like width stand together, so that padding stays small.
    order = np.argsort(widths, kind="stable")
    low = 0
    while low < len(order):
        nearest = widths[order[low : low + max(1, _CHUNK_CELLS // int(widths[order[low]]))]]
        count = max(1, int((np.arange(1, len(nearest) + 1) * nearest <= _CHUNK_CELLS).sum()))
        yield order[low : low + count], int(nearest[count - 1])
        low += count
