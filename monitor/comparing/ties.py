"""Items tied by their scores in the order of their ids, so that no measure sees an accident of order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.comparing.ids import Codes, Vocabulary
from monitor.comparing.lists import Floats

Flags = npt.NDArray[np.bool_]


def order_ties(codes: npt.NDArray[np.int32], scores: Floats, vocabulary: Vocabulary) -> npt.NDArray[np.int32]:
    """Padded lists (n, k) with tied items in the order of their ids: ascending as text, then by the name of their type.

    Tied are neighbours with equal scores; NaN, as behind a list's end, ties with nothing. Nothing else moves, nor any score, as
    those of tied items are equal.
    """
    tied = np.zeros(codes.shape, dtype=np.bool_)
    np.equal(scores[:, 1:], scores[:, :-1], out=tied[:, 1:])
    return _put_in_order(codes.ravel(), tied.ravel(), vocabulary).reshape(codes.shape).astype(np.int32, copy=False)


def order_whole_lists(codes: Codes, scores: Floats, offsets: npt.NDArray[np.int64], vocabulary: Vocabulary) -> Codes:
    """The same on flat lists, before anything is cut."""
    tied = np.zeros(len(codes), dtype=np.bool_)
    np.equal(scores[1:], scores[:-1], out=tied[1:])
    starts = offsets[:-1]
    tied[starts[starts < len(tied)]] = False
    return _put_in_order(codes, tied, vocabulary)


def _put_in_order(codes: Codes, tied: Flags, vocabulary: Vocabulary) -> Codes:
    """The codes, each run of items that are ``tied`` with the one before by the text of their ids."""
    if not tied.any():
        return codes
    cells = np.flatnonzero(tied | np.append(tied[1:], False))
    runs, moved = np.cumsum(~tied)[cells], codes[cells]
    known = np.unique(moved)
    ordered = codes.copy()
    ordered[cells] = moved[np.lexsort((vocabulary.rank_by_text(known)[np.searchsorted(known, moved)], runs))]
    return ordered
