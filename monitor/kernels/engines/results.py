"""What one pass over pairs of lists finds, and the form of an engine that makes it; knows no engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.kernels.engines.positions import Ranks
from monitor.model.arrays import Codes

# Longest lists for machine code: hashes that meet cost up to k**2, and sums of ranks are kept in 32 bits.
MAX_K = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedRanks:
    """``positions`` and ``agreement`` (k, n), ``position_sums`` and ``inversions`` int32 (n,), as `Alignment` has them."""

    positions: Ranks
    agreement: Ranks
    position_sums: npt.NDArray[np.int32]
    inversions: npt.NDArray[np.int32]


Coded = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
"""Codes of ids by order of first appearance, and where each code appears first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Machine code for lists of up to `MAX_K` items, and for any number of ids.

    ``find(baseline, candidate, (baseline_lengths, candidate_lengths), k)`` goes over the first k places of codes
    (n, at least k). ``weigh(counts, weights)`` is ``weights @ counts`` for counts (k, n), added up from the first row on.
    ``code_by_table(offsets, data)`` codes texts, as it hardly ever cannot: None.
    """

    find: Callable[[Codes, Codes, tuple[Codes, Codes], int], AlignedRanks]
    weigh: Callable[[Ranks, npt.NDArray[np.float64]], npt.NDArray[np.float64]]
    code_by_table: Callable[[npt.NDArray[np.int64], npt.NDArray[np.uint8]], Coded | None]
