"""The items that both lists of a pair hold, ranked with their ties: neighbours of equal scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.kernels.alignment import Alignment, Floats
from monitor.kernels.shared import Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """Places from 0 of n pairs' items in either list, equal where tied, at the baseline's ranks: int64 (k, n), k where absent.

    ``count`` (n,): items in common.
    """

    baseline: Integers
    candidate: Integers
    count: Integers

    def sort(self) -> Integers:
        """Both places in one number, baseline * (k + 1) + candidate, ascending down each column; absent items last."""
        return np.sort(self.baseline * (len(self.baseline) + 1) + self.candidate, axis=0)

    def exchange(self) -> Tied:
        """The same items with the arms exchanged."""
        return Tied(baseline=self.candidate, candidate=self.baseline, count=self.count)


def find_tied(alignment: Alignment) -> npt.NDArray[np.bool_]:
    """Whether a list of the pair has items of equal scores: (n,). Scores that are NaN tie with nothing."""
    found = np.zeros(alignment.positions.shape[1], dtype=np.bool_)
    if alignment.scores is not None:
        for scores in (alignment.scores.baseline, alignment.scores.candidate):
            found |= (scores[1:] == scores[:-1]).any(axis=0)
    return found


def rank_tied(alignment: Alignment, columns: npt.NDArray[np.intp]) -> Tied:
    """The items in common of these pairs with their ties; ValueError when the alignment has no scores."""
    if alignment.scores is None:
        msg = "the lists come without scores"
        raise ValueError(msg)
    k = alignment.k
    positions = alignment.positions[:, columns]
    is_common = positions < k
    theirs = _number(alignment.scores.candidate[:, columns])
    found = np.take_along_axis(theirs, np.minimum(positions, k - 1).astype(np.intp), axis=0)
    return Tied(
        baseline=np.where(is_common, _number(alignment.scores.baseline[:, columns]), k),
        candidate=np.where(is_common, found, k),
        count=np.add.reduce(is_common, axis=0, dtype=np.int64),
    )


def _number(scores: Floats) -> Integers:
    """Runs of equal scores, numbered from 0 down each column."""
    starts = np.zeros(scores.shape, dtype=np.bool_)
    np.not_equal(scores[1:], scores[:-1], out=starts[1:])
    return np.cumsum(starts, axis=0, dtype=np.int64)
