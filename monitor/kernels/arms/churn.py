"""Churn: how much of a user's list was replaced since the last time."""

from __future__ import annotations

import numpy as np

from monitor.kernels.alignment import Floats, blocks
from monitor.kernels.ragged import PAD, Codes
from monitor.model import PairBatch


def churn(codes: Codes, lengths: Codes, last_codes: Codes, last_lengths: Codes) -> Floats:
    """1 - overlap of each user's list with the last one, 1 - |A ∩ B| / max(|A|, |B|): float64 (n,) in [0, 1].

    ``codes`` (n, k) padded with -1. ``last_codes`` (n, any width): any negative number above ``last_lengths`` is an item that
    cannot be in this run's list; what stands below the first k places is left out. Distinct items within a list.

    Equal sets: 0, in any order. Nothing kept: 1. Either list empty: NaN. A list that shrank or grew churns by what is missing.
    """
    k = codes.shape[1]
    packed, held = _pack(last_codes[:, :k], last_lengths, k)
    batch = PairBatch(baseline=packed, candidate=codes, baseline_lengths=held, candidate_lengths=lengths)
    common = np.empty(len(codes), dtype=np.int64)
    for rows, alignment in blocks(batch):
        common[rows] = alignment.common
    replaced = np.full(len(codes), np.nan)
    longer = np.maximum(lengths, np.minimum(last_lengths, k))
    np.divide(longer - common, longer, out=replaced, where=(lengths > 0) & (last_lengths > 0))
    return replaced


def _pack(codes: Codes, lengths: Codes, k: int) -> tuple[Codes, Codes]:
    """Codes >= 0 within ``lengths`` pushed to the left of k columns, padding behind them; and how many there are."""
    is_held = (codes >= 0) & (np.arange(codes.shape[1]) < lengths[:, None])
    held = is_held.sum(axis=1, dtype=np.int32)
    packed = np.full((len(codes), k), PAD, dtype=np.int32)
    packed[np.arange(k) < held[:, None]] = codes[is_held]
    return packed, held
