"""What one arm lists, to everybody and to one segment, and what it listed in its last run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from monitor.kernels.exposure import count_items
from monitor.kernels.whole_lists import largest_group
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLists:
    """What one arm listed in its last run, in the codes of the batch of this run's n users.

    ``codes`` (n, any width): row i is the list that user i had then, any negative number an item that this run's batch does
    not hold; what stands below the present k is left out. ``lengths`` (n,): lengths of these lists, 0 for a user who was not in
    that run. ``exposed``: codes of all items that the arm listed to anybody then; order, repeats and negative numbers do not
    matter.
    """

    codes: Codes
    lengths: Codes
    exposed: Codes


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLists:
    """One arm's lists of n users.

    ``codes`` (n, k) >= 0, below ``items``, padded with -1. ``catalogue``: items that could be listed. ``known`` by name: what
    is known of the users, float64 (n,), or of the places of their lists (n, k), NaN where it is not. ``is_new`` (items,),
    whether an item was listed to nobody in the last run. ``repeated`` (n,): a number for each list that several users have, -1
    for others.
    """

    codes: Codes
    items: int
    catalogue: int
    repeated: Integers
    known: Mapping[str, Floats]
    is_new: Flags | None


class Listing:
    """What one arm lists to the users of one segment, cut from the whole only when a metric asks for it.

    ``rows``: those of the segment's users. ``catalogue`` and ``is_new`` are of all users, as in `ArmLists`.
    """

    def __init__(self, whole: ArmLists, rows: Rows) -> None:
        self._whole = whole
        self._rows = rows
        self.catalogue = whole.catalogue
        self.is_new = whole.is_new

    @cached_property
    def n(self) -> int:
        """Number of lists that hold an item."""
        return int((self._whole.codes[self._rows, 0] >= 0).sum())

    @cached_property
    def exposure(self) -> tuple[Integers, Integers]:
        """The m items listed, ascending, and how often each is: two integer arrays (m,), counts at least 1."""
        return count_items(self._whole.codes, self._rows, self._whole.items)

    @property
    def counts(self) -> Integers:
        """How often each of the m items listed is: integers (m,), at least 1, in the order of ``exposure``."""
        return self.exposure[1]

    @property
    def largest_group(self) -> int:
        """How many users have the most common list."""
        return largest_group(self._whole.repeated[self._rows])

    def known(self, name: str) -> Floats:
        """The values of that name that are known: float64, flat, none where nothing is."""
        values = self._whole.known.get(name)
        cut = np.empty(0) if values is None else values[self._rows]
        return cut[~np.isnan(cut)]
