"""What is known of items from outside the lists, brought to the places of a batch: weights and relevance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from monitor.kernels.relevance.labels import label, weigh
from monitor.model import ByArm, ItemWeights, PairBatch, RelevanceTable
from monitor.pairing.users import rows_of
from monitor.pairing.vocabulary import codes_of


def add_weights(batch: PairBatch, known: ItemWeights, vocabulary: pd.Index | None) -> PairBatch:
    """The batch with the weight of each listed item; NaN for an item that has none: missing data is never a weight."""
    items = codes_of(known.items, vocabulary)
    weights = ByArm(
        baseline=weigh(batch.baseline, items, known.weights, np.nan),
        candidate=weigh(batch.candidate, items, known.weights, np.nan),
    )
    return replace(batch, weights=weights)


def add_labels(batch: PairBatch, users: pd.Index[str], table: RelevanceTable, vocabulary: pd.Index | None) -> PairBatch:
    """The batch with what its users, one a row, found relevant; a user whom the table does not know has nothing relevant."""
    rows, items = rows_of(users, table.users), codes_of(table.items, vocabulary)
    return replace(batch, labels=label(batch.baseline, batch.candidate, rows, table.offsets, items, table.grades))


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
