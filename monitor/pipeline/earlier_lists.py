"""Lists kept with an earlier run, in the codes of this run's pairs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from monitor.arm_metrics import LastLists
from monitor.kernels import PAD
from monitor.model.arrays import Codes, Rows
from monitor.model.rankings import Arm, PairBatch, Pairing, RankingTable
from monitor.model.runs import KeptLists
from monitor.pairing.ids import codes_of, find_users


@dataclass(frozen=True, slots=True, kw_only=True)
class RecodedLists:
    """What n users of this run were listed then, cut to k: length 0 for who was not there."""

    batch: PairBatch
    exposed: Mapping[Arm, Codes]  # all that the arm listed to anybody
    first_unknown: int  # from here on codes are of items that this run lacks,
    unknown: pd.Index  # whose ids these are

    @property
    def last_lists(self) -> Mapping[Arm, LastLists]:
        """By arm, for measures that compare an arm with its own last run."""
        lists = ((arm, self.batch.of(arm)) for arm in Arm)
        return {
            arm: LastLists(codes=codes, lengths=lengths, exposed=self.exposed[arm])
            for arm, (codes, lengths) in lists
        }


def recode_lists(kept: KeptLists, users: "pd.Index[str]", pairing: Pairing, k: int) -> RecodedLists:
    """Both arms' lists of then for these users, one a row of the pairing."""
    tables = (kept.baseline, kept.candidate)
    flat = [codes_of(table.items, pairing.vocabulary) for table in tables]
    is_unknown = [codes < 0 for codes in flat]
    others = [
        pd.Series(table.items[places]).astype("str")
        for table, places in zip(tables, is_unknown, strict=True)
    ]
    numbers, unknown = pd.factorize(pd.concat(others, ignore_index=True))
    first = _first_free(pairing, flat)
    for codes, places, found in zip(
        flat, is_unknown, np.split(numbers, [len(others[0])]), strict=True
    ):
        codes[places] = first + found
    rows = find_users(users, kept.baseline.users)
    (baseline, our_lengths), (candidate, their_lengths) = (
        _pad(table, codes, rows, k) for table, codes in zip(tables, flat, strict=True)
    )
    return RecodedLists(
        batch=PairBatch(
            baseline=baseline,
            candidate=candidate,
            baseline_lengths=our_lengths,
            candidate_lengths=their_lengths,
        ),
        exposed={
            arm: _top(table, codes, k) for arm, table, codes in zip(Arm, tables, flat, strict=True)
        },
        first_unknown=first,
        unknown=pd.Index(unknown),
    )


def _first_free(pairing: Pairing, flat: list[Codes]) -> int:
    """The least code that is nobody's."""
    if pairing.vocabulary is not None:
        return len(pairing.vocabulary)
    batch = pairing.batch
    return 1 + max(
        int(codes.max(initial=PAD)) for codes in (batch.baseline, batch.candidate, *flat)
    )


def _pad(table: RankingTable, flat: Codes, rows: Rows, k: int) -> tuple[Codes, Codes]:
    flat = np.append(flat, np.int32(PAD))  # the last one stands for places without an item
    lengths = np.append(np.minimum(np.diff(table.offsets), k), 0)[
        rows
    ]  # row -1, a user who was not there, had no list
    starts = np.append(table.offsets[:-1], 0)[rows]
    places = np.arange(k)
    codes = flat[np.where(places < lengths[:, None], starts[:, None] + places, len(flat) - 1)]
    return codes, lengths.astype(np.int32)


def _top(table: RankingTable, flat: Codes, k: int) -> Codes:
    # What stood in the first k places of any list.
    places = np.arange(len(flat)) - np.repeat(table.offsets[:-1], np.diff(table.offsets))
    return flat[places < k]
