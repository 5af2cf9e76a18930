"""Converts stored lists of an earlier run to the item codes of this run."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from monitor.arm_metrics import LastLists
from monitor.immutable import immutable
from monitor.kernels import PAD
from monitor.model.arrays import Codes, Rows
from monitor.model.rankings import Arm, PairBatch, Pairing, RankingTable
from monitor.model.runs import KeptLists
from monitor.pairing.ids import codes_of, find_users


@immutable
class RecodedLists:
    """Earlier lists of n users of this run, cut to k. A user without earlier lists has length 0."""

    batch: PairBatch
    exposed: Mapping[Arm, Codes]  # the items in all lists of the arm
    first_unknown: int  # this code and higher ones belong to items that this run lacks
    unknown: pd.Index  # the ids of these items

    @property
    def last_lists(self) -> Mapping[Arm, LastLists]:
        """The lists of each arm, for metrics that compare an arm with its last run."""
        last_lists = {}
        for arm in Arm:
            codes, lengths = self.batch.of(arm)
            last_lists[arm] = LastLists(codes=codes, lengths=lengths, exposed=self.exposed[arm])
        return last_lists


def recode_lists(
    earlier: KeptLists,
    users: "pd.Index[str]",
    pairing: Pairing,
    k: int,
) -> RecodedLists:
    """Both arms' earlier lists of these users. Row i belongs to row i of the pairing."""
    tables = (earlier.baseline, earlier.candidate)
    flat = [codes_of(table.items, pairing.vocabulary) for table in tables]
    is_unknown = [codes < 0 for codes in flat]
    others = [
        pd.Series(table.items[places]).astype("str")
        for table, places in zip(tables, is_unknown, strict=True)
    ]
    numbers, unknown = pd.factorize(pd.concat(others, ignore_index=True))
    first = _first_free(pairing, flat)
    split_numbers = np.split(numbers, [len(others[0])])
    for codes, places, unknown_numbers in zip(flat, is_unknown, split_numbers, strict=True):
        codes[places] = first + unknown_numbers
    rows = find_users(users, earlier.baseline.users)
    baseline, baseline_lengths = _pad(earlier.baseline, flat[0], rows, k)
    candidate, candidate_lengths = _pad(earlier.candidate, flat[1], rows, k)
    return RecodedLists(
        batch=PairBatch(
            baseline=baseline,
            candidate=candidate,
            baseline_lengths=baseline_lengths,
            candidate_lengths=candidate_lengths,
        ),
        exposed={
            arm: _top(table, codes, k) for arm, table, codes in zip(Arm, tables, flat, strict=True)
        },
        first_unknown=first,
        unknown=pd.Index(unknown),
    )


def _first_free(pairing: Pairing, flat: list[Codes]) -> int:
    """The smallest code that no item has."""
    if pairing.vocabulary is not None:
        return len(pairing.vocabulary)
    lists = (pairing.batch.baseline, pairing.batch.candidate, *flat)
    return 1 + max(int(codes.max(initial=PAD)) for codes in lists)


def _pad(table: RankingTable, flat: Codes, rows: Rows, k: int) -> tuple[Codes, Codes]:
    # Places without an item read the appended value. So does row -1, a user without a list.
    flat = np.append(flat, np.int32(PAD))
    cut_lengths = np.minimum(np.diff(table.offsets), k)
    lengths = np.append(cut_lengths, 0)[rows]
    starts = np.append(table.offsets[:-1], 0)[rows]
    places = np.arange(k)
    is_filled = places < lengths[:, None]
    cells = np.where(is_filled, starts[:, None] + places, len(flat) - 1)
    return flat[cells], lengths.astype(np.int32)


def _top(table: RankingTable, flat: Codes, k: int) -> Codes:
    """The codes in the first k places of all lists."""
    starts = np.repeat(table.offsets[:-1], np.diff(table.offsets))
    places = np.arange(len(flat)) - starts
    return flat[places < k]
