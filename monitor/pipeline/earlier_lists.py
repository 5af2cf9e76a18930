"""Converts stored lists of an earlier run to the item codes of this run."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from monitor.measures.arm_metrics import LastLists, measure_arms, parse_arm_metric
from monitor.measures.kernels import PAD, pad
from monitor.measures.pairing.ids import codes_of, find_users
from monitor.model.arrays import Codes, Rows
from monitor.model.immutable import immutable
from monitor.model.memory import Memory
from monitor.model.rankings import Arm, PairBatch, Pairing, RankingTable
from monitor.model.rules import MeasuringPlan
from monitor.model.runs import ArmScore, KeptLists
from monitor.pipeline.accumulator import Sample


@immutable
class RecodedLists:
    """Earlier lists of users of this run, cut to k. Empty for a user without earlier lists."""

    batch: PairBatch
    exposed: Mapping[Arm, Codes]  # the items in all earlier lists of the arm
    first_unknown: int  # items that this run lacks have this code or a higher one
    unknown: pd.Index  # the ids of the items that this run lacks

    @property
    def last_lists(self) -> Mapping[Arm, LastLists]:
        """The earlier lists of each arm, for metrics that compare an arm with its last run."""
        last_lists = {}
        for arm in Arm:
            codes, lengths = self.batch.of(arm)
            last_lists[arm] = LastLists(codes=codes, lengths=lengths, exposed=self.exposed[arm])
        return last_lists


def recode_earlier(
    memory: Memory,
    measuring: MeasuringPlan,
    sample: Sample,
) -> tuple[RecodedLists | None, RecodedLists | None]:
    """Return the lists of the last run, and of the last run before the firing alerts began.

    Usually these are the same run. A value is None if no run has stored such lists.
    """

    def recode(lists: KeptLists | None) -> RecodedLists | None:
        if lists is None:
            return None
        return recode_lists(lists, sample.scores.users, sample.pairing, measuring.k)

    last = recode(memory.last_lists)
    if memory.former_lists is memory.last_lists:
        return last, last
    return last, recode(memory.former_lists)


def measure_arm_scores(
    measuring: MeasuringPlan,
    sample: Sample,
    *,
    last: RecodedLists | None,
    former: RecodedLists | None,
) -> tuple[ArmScore, ...]:
    """Measure the arm metrics of the plan. ``last`` and ``former`` are those of `recode_earlier`."""
    if not measuring.arm_metrics:
        return ()
    return measure_arms(
        sample.pairing.batch,
        sample.segments,
        [parse_arm_metric(name) for name in measuring.arm_metrics],
        catalogue_size=measuring.catalogue_size,
        last=None if last is None else last.last_lists,
        former=None if former is None else former.last_lists,
    )


def recode_lists(
    earlier: KeptLists,
    users: "pd.Index[str]",
    pairing: Pairing,
    k: int,
) -> RecodedLists:
    """Return both arms' earlier lists of these users, who are the users of the pairing's rows."""
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
    baseline, baseline_lengths, baseline_items = _pad(earlier.baseline, flat[0], rows, k)
    candidate, candidate_lengths, candidate_items = _pad(earlier.candidate, flat[1], rows, k)
    return RecodedLists(
        batch=PairBatch(
            baseline=baseline,
            candidate=candidate,
            baseline_lengths=baseline_lengths,
            candidate_lengths=candidate_lengths,
        ),
        exposed={Arm.BASELINE: baseline_items, Arm.CANDIDATE: candidate_items},
        first_unknown=first,
        unknown=pd.Index(unknown),
    )


def _first_free(pairing: Pairing, flat: list[Codes]) -> int:
    """Return the smallest code that no item has."""
    if pairing.vocabulary is not None:
        return len(pairing.vocabulary)
    lists = (pairing.batch.baseline, pairing.batch.candidate, *flat)
    return 1 + max(int(codes.max(initial=PAD)) for codes in lists)


def _pad(table: RankingTable, flat: Codes, rows: Rows, k: int) -> tuple[Codes, Codes, Codes]:
    """Return the padded lists in these rows, their lengths, and the items of all lists.

    All lists are cut to k. Row -1 means a user without a list, whose list is empty.
    """
    lists, lengths, _ = pad(flat, table.offsets, k)
    no_list = np.full((1, k), PAD, dtype=np.int32)
    with_none = np.concatenate([lists, no_list])
    return with_none[rows], np.append(lengths, np.int32(0))[rows], lists[lists >= 0]
