"""Pairs the lists of both arms by user, and counts the outcome for each user.

This module also counts the distinct listed items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa

from monitor.measures.kernels.item_codes import distinct_items
from monitor.measures.pairing.batches import (
    PaddedLists,
    attach_knowledge,
    encode_arms,
    encode_knowledge,
    make_batch,
    pad_lists,
)
from monitor.measures.pairing.id_mismatches import IdComparison
from monitor.measures.pairing.ids import find_users, hash_ids, id_values
from monitor.measures.reading.ids import id_column, join_columns
from monitor.model.arrays import Flags, Hashes, Integers, Rows
from monitor.model.rankings import (
    Arm,
    ArmOutcome,
    Coverage,
    CoverageReason,
    CoverageRow,
    ItemWeights,
    Pairing,
    Panel,
    Pull,
    RelevanceTable,
)
from monitor.model.runs import KeptLists

HAS_LIST = 0
"""The outcome for a user whose list can be compared."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
mix = partial(pd.util.hash_array, categorize=False)
"""Hashes whole numbers by SplitMix64.

Each bit of a hash depends on all bits of the number. So even sums of hashes are hardly ever equal
for different numbers.
"""
_CODES = {reason: code for code, reason in enumerate(CoverageReason, start=HAS_LIST + 1)}


def pair_users(  # noqa: PLR0913 - two arms and further inputs
    panel: Panel,
    baseline: Pull,
    candidate: Pull,
    k: int,
    *,
    item_weights: ItemWeights | None = None,
    relevance: RelevanceTable | None = None,
    id_comparison: IdComparison | None = None,
) -> Pairing:
    """Pair the panel's users who have a list from both arms.

    Lists are cut to k. If an item occurs more than once in a list, only its first place is kept.
    Items with equal scores are ordered by their ids. A user is paired if both lists have at least
    one item. For any other user, the reason is counted for each arm without a list. If
    ``id_comparison`` is given, it compares the item ids of both arms.
    """
    arms, vocabulary = encode_arms(baseline.rankings, candidate.rankings)
    if id_comparison is not None:
        id_comparison.add(arms, vocabulary, k)
    outcomes = {}
    lists = []
    rows = []
    for arm, pull, coded in zip(Arm, (baseline, candidate), arms, strict=True):
        lists.append(pad_lists(coded, None, k))
        rows.append(find_users(panel.users, pull.rankings.users))
        outcomes[arm] = _find_outcome(panel, pull, lists[-1], rows[-1], k)
    panel_rows = np.flatnonzero(_are_paired(outcomes))
    batch = make_batch(
        lists[0].take(rows[0][panel_rows]), lists[1].take(rows[1][panel_rows]), vocabulary
    )
    graded_rows = None
    if relevance is not None:
        graded_rows = find_users(panel.users[panel_rows], relevance.users)
    knowledge = encode_knowledge(item_weights, relevance, vocabulary)
    return Pairing(
        outcomes=outcomes,
        batch=attach_knowledge(batch, knowledge, graded_rows),
        panel_rows=panel_rows,
        vocabulary=vocabulary,
        coverage=count_coverage(panel.segments, outcomes),
        input_hashes=_hash_input(lists, rows, vocabulary),
    )


def pair_kept(
    lists: KeptLists,
    k: int,
    weights: ItemWeights | None = None,
    relevance: RelevanceTable | None = None,
) -> Pairing:
    """Pair lists of users that were paired before, cut to k. The users stay in the same order."""
    baseline = Pull(rankings=lists.baseline, failures={})
    candidate = Pull(rankings=lists.candidate, failures={})
    return pair_users(
        lists.panel, baseline, candidate, k, item_weights=weights, relevance=relevance
    )


def _hash_input(
    arms: Sequence[PaddedLists],
    rows: Sequence[Rows],
    vocabulary: pd.Index | None,
) -> Hashes:
    """For each user of the panel, a hash of the items in both lists and of their places.

    ``rows`` are the rows of the users in each arm. A row is -1 if the arm has no list of the user.
    Without a vocabulary, the codes themselves are hashed, because they are the ids.
    """
    item_hashes = None
    if vocabulary is not None:
        item_hashes = np.append(hash_ids(vocabulary), ~np.uint64(0))  # the last is for code -1
    hashes = np.zeros(len(rows[0]), dtype=np.uint64)
    for lists, rows_of_arm in zip(arms, rows, strict=True):
        items = lists.codes if item_hashes is None else item_hashes[lists.codes]
        k = items.shape[1]
        powers = np.multiply.accumulate(np.array([1, *[_FACTOR] * k], dtype=np.uint64))[::-1]
        # An id may have the hash of padding, -1. So the length is hashed too.
        sums = lists.lengths.astype(np.uint64) * powers[0]
        sums += np.einsum("ij,j->i", items, powers[1:], dtype=np.uint64, casting="unsafe")
        # The last hash, 0, is for the row -1.
        list_hashes = np.append(mix(sums), np.uint64(0))
        hashes = mix(hashes + list_hashes[rows_of_arm])
    return hashes


def _find_outcome(
    panel: Panel,
    pull: Pull,
    lists: PaddedLists,
    row_of_user: Rows,
    k: int,
) -> ArmOutcome:
    """The outcome of one arm for each user of the panel. ``row_of_user`` is -1 without a list."""
    has_row = row_of_user >= 0
    rows = row_of_user[has_row]
    lengths = lists.lengths[rows]
    reason = np.full(len(panel), _CODES[CoverageReason.MISSING], dtype=np.int8)
    reason[has_row] = np.where(lengths > 0, HAS_LIST, _CODES[CoverageReason.EMPTY])
    if pull.failures:  # a user with a failure is counted as failed, even with a list
        failed = pd.Index(list(pull.failures), dtype="str")
        positions = panel.users.get_indexer(failed)
        failure_codes = np.array(list(map(_CODES.get, pull.failures.values())), dtype=np.int8)
        reason[positions[positions >= 0]] = failure_codes[positions >= 0]
    is_short = np.zeros(len(panel), dtype=bool)
    is_short[has_row] = lengths < k  # duplicates are not counted
    is_duplicated = np.zeros(len(panel), dtype=bool)
    is_duplicated[has_row] = lists.had_duplicates[rows]
    is_listed = reason == HAS_LIST
    return ArmOutcome(
        reason=reason,
        is_short=is_short & is_listed,
        is_duplicated=is_duplicated & is_listed,
    )


def count_coverage(segments: Mapping[str, Rows], outcomes: Mapping[Arm, ArmOutcome]) -> Coverage:
    """The coverage of one batch: one row for each segment, in the order of the segments."""
    is_paired = _are_paired(outcomes)
    rows = []
    for name, positions in segments.items():
        reasons = {}
        for arm, outcome in outcomes.items():
            for reason, count in _count_reasons(outcome, positions).items():
                if count:
                    reasons[arm, reason] = count
        paired = int(is_paired[positions].sum())
        rows.append(
            CoverageRow(segment=name, asked=len(positions), paired=paired, users_by_reason=reasons)
        )
    return Coverage(rows=tuple(rows))


def _are_paired(outcomes: Mapping[Arm, ArmOutcome]) -> Flags:
    """Whether each user has a list of both arms that can be compared."""
    are_paired: Flags = np.logical_and(
        *(outcome.reason == HAS_LIST for outcome in outcomes.values())
    )
    return are_paired


def _count_reasons(outcome: ArmOutcome, positions: Rows) -> dict[CoverageReason, int]:
    """The number of users for each reason, including users with short or duplicated lists."""
    by_code = np.bincount(outcome.reason[positions], minlength=len(_CODES) + 1)
    counts = {reason: int(by_code[code]) for reason, code in _CODES.items()}
    counts[CoverageReason.SHORT] = int(outcome.is_short[positions].sum())
    counts[CoverageReason.DUPLICATED] = int(outcome.is_duplicated[positions].sum())
    return counts


_MERGED_BATCHES = 16
"""The ids of this many batches are merged, so that each distinct id is stored once."""


def distinct_ids(parts: Sequence[pa.Array]) -> pa.Array:
    """The distinct ids of many batches. If one batch has texts, all ids become texts."""
    return join_columns([part for part in parts if len(part)]).unique()


@dataclass(slots=True)
class ListedItems:
    """Collects the distinct items of several batches. Each batch has its own vocabulary.

    ``listed`` and ``unweighted`` are ids of several batches. ``unweighted`` are items without a
    weight, and ``users_with_unweighted`` is the number of users who have such items.
    """

    listed: list[pa.Array] = field(default_factory=list)
    unweighted: list[pa.Array] = field(default_factory=list)
    users: int = 0
    users_with_unweighted: int = 0

    def add(self, pairing: Pairing) -> None:
        """Add the items of a batch."""
        batch = pairing.batch
        listed = distinct_items(batch.baseline, batch.candidate)
        part = ListedItems([_id_array(listed, pairing.vocabulary)], users=len(batch))
        if batch.weights is not None:
            in_baseline = (batch.baseline >= 0) & np.isnan(batch.weights.baseline)
            in_candidate = (batch.candidate >= 0) & np.isnan(batch.weights.candidate)
            has_unweighted = in_baseline.any(axis=1) | in_candidate.any(axis=1)
            part.users_with_unweighted = int(has_unweighted.sum())
            unweighted = distinct_items(batch.baseline[in_baseline], batch.candidate[in_candidate])
            part.unweighted = [_id_array(unweighted, pairing.vocabulary)]
        self.merge(part)

    def merge(self, other: ListedItems) -> None:
        """Add the items of other batches."""
        self.users += other.users
        self.users_with_unweighted += other.users_with_unweighted
        self.listed += other.listed
        self.unweighted += other.unweighted
        if len(self.listed) >= _MERGED_BATCHES:
            self.listed = [distinct_ids(self.listed)]
            self.unweighted = [distinct_ids(self.unweighted)]

    @property
    def count(self) -> int:
        """The number of distinct listed items."""
        return len(distinct_ids(self.listed))

    @property
    def unweighted_note(self) -> str | None:
        """A sentence about the listed items without a weight.

        It counts these items, and the users who have such items. The result is None if every listed
        item has a weight.
        """
        if not self.users_with_unweighted:
            return None
        return (
            f"item_weights: {len(distinct_ids(self.unweighted)):,} of {self.count:,} listed items "
            f"have no weight, so metrics that need weights leave out {self.users_with_unweighted:,} of "
            f"{self.users:,} users: give every listed item a weight"
        )


def _id_array(codes: Integers, vocabulary: pd.Index | None) -> pa.Array:
    """The ids of these codes. If the vocabulary is None, each code is its own id."""
    if vocabulary is None:
        return pa.array(codes, pa.int64())
    return id_column(pa.array(id_values(vocabulary.take(codes))), "", "")
