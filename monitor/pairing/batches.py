"""Padded lists with scores, tied items in order, weights and relevance attached."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.kernels.labels import place_grades, place_weights
from monitor.model import ByArm, ItemWeights, PairBatch, RankingTable, RelevanceTable
from monitor.model.arrays import Codes, Floats
from monitor.pairing.ids import codes_of, find_users, text_ranks


def pad_scores(table: RankingTable, codes: Codes, padded: Codes, had_duplicates: npt.NDArray[np.bool_]) -> Floats | None:
    """Scores in the shape of ``padded``, the table's lists as `monitor.kernels.pad` returned them; NaN where one has ended.

    An item that stood twice has the score of its first place. None when the table tells no scores although it holds items.
    """
    if not len(table.items):
        return np.broadcast_to(np.nan, padded.shape)
    if table.scores is None:
        return None
    cells, is_inside = _cells(table.offsets, padded.shape[1])
    scores = table.scores.take(cells, mode="clip")
    scores[~is_inside] = np.nan
    rows = np.flatnonzero(had_duplicates)
    if len(rows):
        raw = np.where(is_inside[rows], codes.take(cells[rows], mode="clip"), -1)
        scores[rows] = _at_first_places(raw, scores[rows])
    return scores


def order_ties(codes: Codes, scores: Floats, vocabulary: pd.Index | None) -> Codes:
    """Padded lists with items of equal score side by side in the order of their ids as text; scores need no moving.

    NaN ties with nothing. The very same array where nothing is tied.
    """
    is_tied = scores[:, 1:] == scores[:, :-1]
    rows = np.flatnonzero(is_tied.any(axis=1))
    if not len(rows):
        return codes
    tied = codes[rows]
    runs = np.zeros(tied.shape, dtype=np.int64)
    np.cumsum(~is_tied[rows], axis=1, out=runs[:, 1:])
    items = np.unique(tied[tied >= 0])
    # Padding is a run by itself at each place, so whatever rank it gets here it stays where it is.
    ranks = text_ranks(items, vocabulary)[np.searchsorted(items, tied)]
    order = np.argsort(runs * len(items) + ranks, axis=1, kind="stable")
    ordered = codes.copy()
    ordered[rows] = np.take_along_axis(tied, order, axis=1)
    return ordered


def _cells(offsets: npt.NDArray[np.int64], k: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Where each place of the padded lists stands in the flat items, and which places lie inside their list."""
    places = np.arange(k)
    return offsets[:-1, None] + places, places < np.diff(offsets)[:, None]


def _at_first_places(raw: Codes, scores: Floats) -> Floats:
    """Scores of rows with duplicates: those of first places, moved up."""
    order = np.argsort(raw, axis=1, kind="stable")
    ordered = np.take_along_axis(raw, order, axis=1)
    is_first = np.ones(raw.shape, dtype=np.bool_)
    np.put_along_axis(is_first, order[:, 1:], ordered[:, 1:] != ordered[:, :-1], axis=1)
    is_first &= raw >= 0
    kept = np.full(scores.shape, np.nan)
    kept[np.arange(raw.shape[1]) < is_first.sum(axis=1)[:, None]] = scores[is_first]
    return kept


def add_weights(batch: PairBatch, known: ItemWeights, vocabulary: pd.Index | None) -> PairBatch:
    """The batch with the weight of each listed item; NaN for an item that has none: missing data is never a weight."""
    items = codes_of(known.items, vocabulary)
    weights = ByArm(
        baseline=place_weights(batch.baseline, items, known.weights, np.nan),
        candidate=place_weights(batch.candidate, items, known.weights, np.nan),
    )
    return replace(batch, weights=weights)


def add_labels(batch: PairBatch, users: pd.Index[str], table: RelevanceTable, vocabulary: pd.Index | None) -> PairBatch:
    """The batch with what its users, one a row, found relevant; a user whom the table does not know has nothing relevant."""
    rows, items = find_users(users, table.users), codes_of(table.items, vocabulary)
    return replace(batch, labels=place_grades(batch.baseline, batch.candidate, rows, table.offsets, items, table.grades))


def unweighted_note(batch: PairBatch) -> str | None:
    """A sentence that says how many listed items have no weight, and for how many pairs; None when all have one."""
    if batch.weights is None:
        return None
    sides = ((batch.baseline, batch.weights.baseline), (batch.candidate, batch.weights.candidate))
    lacking = [(codes >= 0) & np.isnan(weights) for codes, weights in sides]
    users = int((lacking[0].any(axis=1) | lacking[1].any(axis=1)).sum())
    if not users:
        return None
    items = len(np.unique(np.concatenate([codes[mask] for (codes, _), mask in zip(sides, lacking, strict=True)])))
    listed = len(np.unique(np.concatenate([codes[codes >= 0] for codes, _ in sides])))
    return (
        f"item_weights: {items:,} of {listed:,} listed items have no weight, so {users:,} of {len(batch):,} users are left out "
        "where weights are needed"
    )
