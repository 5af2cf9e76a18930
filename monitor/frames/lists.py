"""Many users' lists, in every shape that `compare_many` takes, as users, offsets, flat ids and, where told, scores."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.errors import InputError
from monitor.frames.ids import Ids
from monitor.model.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ListColumns:
    """Column names of frames: ``item``, ``rank`` and ``score`` of long ones, ``items`` and ``scores`` of wide ones.

    With rank None the rows of a long frame stand best first. A column whose name is in ``optional`` need not be there.
    """

    user: Hashable
    item: Hashable
    rank: Hashable | None
    items: Hashable
    score: Hashable | None
    scores: Hashable | None
    optional: frozenset[Hashable] = frozenset({"rank", "score", "scores"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLists:
    """One arm: user ``i``, unique, has ``items[offsets[i]:offsets[i + 1]]``, best first, with ``scores``, one an item.

    ``is_by_score``: nothing but the scores made the order, so that tied items have none.
    """

    users: pd.Index
    offsets: npt.NDArray[np.int64]
    items: Ids
    scores: Floats | None = None
    is_by_score: bool = False

    def __len__(self) -> int:
        return len(self.users)


def offsets_of(lengths: Iterable[int] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Where each list begins and the last one ends."""
    counts = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, dtype=np.int64)
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def checked_users(users: pd.Index, arm: str) -> pd.Index:
    """The users; InputError when one is missing."""
    if users.hasnans:
        msg = f"{arm} holds a missing user id (None or NaN): every list needs its user; drop the row or name the user"
        raise InputError(msg)
    return users


def shown(names: Iterable[Hashable]) -> str:
    """The first of these names, for a message."""
    return ", ".join(map(repr, list(names)[:10])) or "no columns"
