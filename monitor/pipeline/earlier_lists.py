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
from monitor.pipeline.accumulator import Subset


@immutable
class RecodedLists:
    """Earlier lists of this run's users, cut to k. A user without earlier lists has empty lists."""

    last_lists: Mapping[Arm, LastLists]
    batch: PairBatch  # the same lists, as pairs
    first_new_code: int  # items that this run lacks have this code or a higher one
    new_code_ids: pd.Index  # the ids of the items that this run lacks, in the order of their codes


def recode_earlier(
    memory: Memory,
    measuring: MeasuringPlan,
    subset: Subset,
) -> tuple[RecodedLists | None, RecodedLists | None]:
    """Return the lists of the last run, and of the last run before the firing alerts began.

    Usually both are the lists of one run. Then they are the same object. A value is None if no run
    has stored such lists.
    """

    def recode(lists: KeptLists | None) -> RecodedLists | None:
        if lists is None:
            return None
        return recode_lists(lists, subset.scores.users, subset.pairing, measuring.k)

    last = recode(memory.last_lists)
    if memory.former_lists is memory.last_lists:
        return last, last
    return last, recode(memory.former_lists)


def measure_arm_scores(
    measuring: MeasuringPlan,
    subset: Subset,
    *,
    last: RecodedLists | None,
    former: RecodedLists | None,
) -> tuple[ArmScore, ...]:
    """Measure the plan's arm metrics.

    ``last`` are the lists of the last run, and ``former`` those of the last run before the firing
    alerts began.
    """
    if not measuring.arm_metrics:
        return ()
    return measure_arms(
        subset.pairing.batch,
        subset.segments,
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
    """Return both arms' earlier lists of ``users``, in the order of the rows of ``pairing``."""
    baseline_codes = codes_of(earlier.baseline.items, pairing.vocabulary)
    candidate_codes = codes_of(earlier.candidate.items, pairing.vocabulary)
    first_new_code = _first_free_code(pairing, baseline_codes, candidate_codes)
    # Items that this run lacks have the code -1 so far. They get new codes.
    baseline_lacks_code = baseline_codes < 0
    candidate_lacks_code = candidate_codes < 0
    # The items of both arms are numbered together, so an item has the same code in both arms.
    baseline_ids = pd.Index(earlier.baseline.items[baseline_lacks_code]).astype("str")
    candidate_ids = pd.Index(earlier.candidate.items[candidate_lacks_code]).astype("str")
    numbers, new_code_ids = pd.factorize(baseline_ids.append(candidate_ids))
    new_codes = first_new_code + numbers
    baseline_codes[baseline_lacks_code] = new_codes[: len(baseline_ids)]
    candidate_codes[candidate_lacks_code] = new_codes[len(baseline_ids) :]
    # The row of each user in the earlier lists, -1 for a user without earlier lists.
    rows = find_users(users, earlier.baseline.users)
    baseline = _select_lists(earlier.baseline, baseline_codes, rows, k)
    candidate = _select_lists(earlier.candidate, candidate_codes, rows, k)
    return RecodedLists(
        last_lists={Arm.BASELINE: baseline, Arm.CANDIDATE: candidate},
        batch=PairBatch(
            baseline=baseline.codes,
            candidate=candidate.codes,
            baseline_lengths=baseline.lengths,
            candidate_lengths=candidate.lengths,
        ),
        first_new_code=first_new_code,
        new_code_ids=new_code_ids,
    )


def _first_free_code(pairing: Pairing, *earlier: Codes) -> int:
    """Return the smallest code that no item of this run and of the earlier lists has."""
    if pairing.vocabulary is not None:
        return len(pairing.vocabulary)
    lists = (pairing.batch.baseline, pairing.batch.candidate, *earlier)
    return 1 + max(int(codes.max(initial=PAD)) for codes in lists)


def _select_lists(table: RankingTable, codes: Codes, rows: Rows, k: int) -> LastLists:
    """Return the lists in these rows of the table, padded and cut to k.

    ``codes`` are the codes of the table's items. Row -1 gives an empty list. The field ``exposed``
    has the items of all lists of the table, because the exposure in the earlier run is needed.
    """
    lists, lengths, _ = pad(codes, table.offsets, k)
    # An empty list is appended, so that the index -1 finds it.
    empty_list = np.full((1, k), PAD, dtype=np.int32)
    return LastLists(
        codes=np.concatenate([lists, empty_list])[rows],
        lengths=np.append(lengths, np.int32(0))[rows],
        exposed=lists[lists >= 0],
    )
