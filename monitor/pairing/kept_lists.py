"""Lists that were compared, as they are kept with the run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.model import KeptLists, Pairing, RankingTable
from monitor.model.arrays import Codes


def keep_lists(pairing: Pairing, users: pd.Index[str], segments: Mapping[str, npt.NDArray[np.intp]]) -> KeptLists:
    """Both arms' lists of these users, one a row of the pairing, with ids in place of codes and scores where known.

    ``segments`` hold rows of the pairing.
    """
    batch = pairing.batch
    scores = (None, None) if batch.scores is None else (batch.scores.baseline, batch.scores.candidate)
    return KeptLists(
        baseline=_table(users, batch.baseline, batch.baseline_lengths, scores[0], pairing.vocabulary),
        candidate=_table(users, batch.candidate, batch.candidate_lengths, scores[1], pairing.vocabulary),
        segments=segments,
    )


def _table(
    users: pd.Index[str],
    codes: Codes,
    lengths: npt.NDArray[np.int32],
    scores: npt.NDArray[np.float64] | None,
    vocabulary: pd.Index | None,
) -> RankingTable:
    is_listed = codes >= 0
    flat = codes[is_listed].astype(np.int64)
    items = pd.Index(flat) if vocabulary is None else vocabulary.take(flat)
    return RankingTable(
        users=users,
        offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        items=items.to_numpy() if items.dtype == np.int64 else items.array,
        scores=None if scores is None else scores[is_listed],
    )
