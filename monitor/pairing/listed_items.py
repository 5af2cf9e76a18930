"""The distinct items that either arm lists to anybody, and those of them without a weight, over any number of batches."""

from __future__ import annotations

import numpy as np
import pandas as pd

from monitor.kernels.exposure import distinct_items
from monitor.model import Pairing
from monitor.model.arrays import Ids, Integers
from monitor.pairing.ids import encode

_TOGETHER = 16
"""Batches whose items are held apart, before those that they share are held once."""


class ListedItems:
    """Counts distinct items of pairs that come in batches, each with a vocabulary of its own."""

    def __init__(self) -> None:
        self._listed = DistinctIds()
        self._lacking = DistinctIds()
        self._users = 0
        self._lacking_users = 0

    def add(self, pairing: Pairing) -> None:
        """Take a batch of pairs."""
        batch, vocabulary = pairing.batch, pairing.vocabulary
        self._users += len(batch)
        self._listed.add(distinct_items(batch.baseline, batch.candidate), vocabulary)
        if batch.weights is None:
            return
        sides = ((batch.baseline, batch.weights.baseline), (batch.candidate, batch.weights.candidate))
        lacking = [(codes >= 0) & np.isnan(weights) for codes, weights in sides]
        self._lacking_users += int((lacking[0].any(axis=1) | lacking[1].any(axis=1)).sum())
        items = [codes[mask] for (codes, _), mask in zip(sides, lacking, strict=True)]
        self._lacking.add(distinct_items(*items), vocabulary)

    def merge(self, other: ListedItems) -> None:
        """Take all that another one took."""
        self._listed.merge(other._listed)
        self._lacking.merge(other._lacking)
        self._users += other._users
        self._lacking_users += other._lacking_users

    @property
    def count(self) -> int:
        """How many items are listed to anybody: the size of the catalogue as far as it can be seen."""
        return self._listed.count

    @property
    def unweighted_note(self) -> str | None:
        """A note on listed items without a weight and the users who have them; None when there are none."""
        if not self._lacking_users:
            return None
        return (
            f"item_weights: {self._lacking.count:,} of {self.count:,} listed items have no weight, so {self._lacking_users:,} "
            f"of {self._users:,} users are left out where weights are needed"
        )


class DistinctIds:
    """Distinct ids of many vocabularies."""

    def __init__(self) -> None:
        self._parts: list[Ids] = []

    def add(self, codes: Integers, vocabulary: pd.Index | None) -> None:
        """Take distinct codes of a vocabulary."""
        ids = pd.Index(codes.astype(np.int64)) if vocabulary is None else vocabulary.take(codes)
        self._take(ids.to_numpy() if isinstance(ids.dtype, np.dtype) else ids.array)

    def merge(self, other: DistinctIds) -> None:
        """Take the ids of another one."""
        for ids in other._parts:
            self._take(ids)

    def _take(self, ids: Ids) -> None:
        self._parts.append(ids)
        if len(self._parts) == _TOGETHER:
            self._join()

    @property
    def count(self) -> int:
        """How many there are."""
        if len(self._parts) > 1:
            self._join()
        return sum(map(len, self._parts))

    def _join(self) -> None:
        coded, vocabulary = encode(*self._parts)
        self._parts = []
        self.add(distinct_items(*coded), vocabulary)
