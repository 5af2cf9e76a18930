"""What an arm listed in its last run, brought into the codes of this one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.arm_metrics import ArmNeed, LastLists, parse_arm_metric
from monitor.model import Arm, Comparison, KeptLists, NoiseFloor, Pairing, RankingTable
from monitor.pairing.users import rows_of
from monitor.pairing.vocabulary import codes_of


def needs_last(comparison: Comparison) -> bool:
    """Whether the noise floor or an arm-wide metric of the comparison looks back at the last run."""
    return comparison.noise_floor is NoiseFloor.TEMPORAL or any(
        parse_arm_metric(name).need is ArmNeed.KEEP_LISTS for name in comparison.arm_metrics
    )


def recall(last: KeptLists, users: pd.Index[str], pairing: Pairing, k: int) -> Mapping[Arm, LastLists]:
    """Both arms' last lists, cut to k, for these users, one a row of the pairing."""
    rows = rows_of(users, last.baseline.users)
    return {
        arm: _recalled(table, rows, pairing.vocabulary, k)
        for arm, table in ((Arm.BASELINE, last.baseline), (Arm.CANDIDATE, last.candidate))
    }


def _recalled(table: RankingTable, rows: npt.NDArray[np.intp], vocabulary: pd.Index | None, k: int) -> LastLists:
    flat = np.append(codes_of(table.items, vocabulary), np.int32(-1))  # the last one stands for places without an item
    lengths = np.append(np.minimum(np.diff(table.offsets), k), 0)[rows]  # row -1, a user who was not there, had no list
    starts = np.append(table.offsets[:-1], 0)[rows]
    places = np.arange(k)
    is_inside = places < lengths[:, None]
    codes = flat[np.where(is_inside, starts[:, None] + places, len(flat) - 1)]
    return LastLists(codes=codes, lengths=lengths.astype(np.int32), exposed=_top(table, flat, k))


def _top(table: RankingTable, flat: npt.NDArray[np.int32], k: int) -> npt.NDArray[np.int32]:
    """Codes of what stood in the first k places of any list."""
    counts = np.diff(table.offsets)
    places = np.arange(len(flat) - 1) - np.repeat(table.offsets[:-1], counts)
    return flat[:-1][places < k]
