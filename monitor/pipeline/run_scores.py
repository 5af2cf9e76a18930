"""The scores of one run's users: taken in any order, given by user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from monitor.model import Comparison, Keep, Scores
from monitor.model.arrays import Flags, Floats
from monitor.ports import ScoreSpool
from monitor.sampling import kept_among

HELD_USERS = 1_000_000
"""Most users whose scores are held in memory; those of more wait in a spool."""
GIVEN_USERS = 100_000
"""Users whose scores are given at once."""


class RunScores:
    """The scores of a run, each user once. Iterating gives batches with the same metrics whose users ascend.

    They can be read again until they are closed. ``open_spool``: where more than ``held_users`` wait; all of them are held in
    memory without it.
    """

    def __init__(self, open_spool: Callable[[], ScoreSpool] | None = None, held_users: int = HELD_USERS) -> None:
        self.count = 0
        self._open_spool = open_spool
        self._most = held_users
        self._held: list[Scores] = []
        self._spool: ScoreSpool | None = None

    def add(self, scores: Scores) -> None:
        """Take scores of users who have not come before. OutputError where the spool cannot take them."""
        self.count += len(scores.users)
        self._held.append(scores)
        if self._open_spool is not None and self.count > self._most:
            self._spool = self._spool or self._open_spool()
            for held in self._held:
                self._spool.add(held)
            self._held = []

    def __iter__(self) -> Iterator[Scores]:
        return self._spool.batches() if self._spool is not None else self._sorted()

    def _sorted(self) -> Iterator[Scores]:
        if not self._held:
            return
        whole = join_scores(self._held)
        self._held = [whole]
        order = None if whole.users.is_monotonic_increasing else whole.users.argsort()
        for start in range(0, len(whole.users), GIVEN_USERS):
            some = slice(start, start + GIVEN_USERS)
            yield _at(whole, some if order is None else order[some])

    def close(self) -> None:
        """Let go of them; nothing is left of the spool."""
        self._held = []
        if self._spool is not None:
            self._spool.close()


def take_scores(scores: Scores, is_taken: Flags) -> Scores:
    """Those of the users, bool (n,)."""
    return scores if is_taken.all() else _at(scores, np.flatnonzero(is_taken))


def draw_scores(scores: Scores, keep: Keep | int, comparison: Comparison) -> Scores:
    """The scores of those users of whom a run keeps them. What is drawn of batches can be drawn once more, see `kept_among`."""
    return scores if keep is Keep.ALL else take_scores(scores, kept_among(scores.users, keep, comparison))


def join_scores(parts: Sequence[Scores]) -> Scores:
    """The scores of the users of all parts, in their order; NaN where a part lacks a metric."""
    if len(parts) == 1:
        return parts[0]
    names = dict.fromkeys(name for part in parts for name in part.by_metric)

    def column(name: str) -> Floats:
        return np.concatenate([part.by_metric.get(name, np.full(len(part.users), np.nan)) for part in parts])

    users: pd.Index[str] = parts[0].users.append([part.users for part in parts[1:]])
    return Scores(users=users, by_metric={name: column(name) for name in names})


def _at(scores: Scores, rows: slice | np.ndarray) -> Scores:
    return Scores(users=scores.users[rows], by_metric={name: values[rows] for name, values in scores.by_metric.items()})
