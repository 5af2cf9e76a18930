"""Pair both arms' lists by user, count what became of each user and which items are listed, keep the lists with the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.kernels.exposure import distinct_items
from monitor.model.arrays import Codes, Flags, Floats, Ids, Integers, Rows
from monitor.model.rankings import (
    Arm,
    Coverage,
    CoverageReason,
    CoverageRow,
    ItemWeights,
    Pairing,
    Panel,
    Pull,
    RankingTable,
    RelevanceTable,
)
from monitor.model.runs import KeptLists
from monitor.pairing.batches import (
    PaddedLists,
    attach,
    encode_arms,
    encode_knowledge,
    make_batch,
    pad_both,
)
from monitor.pairing.id_mismatches import IdComparison
from monitor.pairing.ids import encode, find_users, hash_ids

LISTED = 0
"""Standing of a user whose list can be compared."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
mix = partial(pd.util.hash_array, categorize=False)
"""Hashes of whole numbers in which each bit depends on all of one (SplitMix64): sums of them say of what they are sums."""
_CODES = {reason: code for code, reason in enumerate(CoverageReason, start=LISTED + 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmStanding:
    """What became of each of n panel users in one arm: LISTED or a reason's code, and two flaws of listed ones."""

    reason: npt.NDArray[np.int8]
    is_short: Flags
    is_duplicated: Flags


def pair(  # noqa: PLR0913 - two arms, and what is known beside them
    panel: Panel,
    baseline: Pull,
    candidate: Pull,
    k: int,
    *,
    item_weights: ItemWeights | None = None,
    relevance: RelevanceTable | None = None,
    compares: IdComparison | None = None,
) -> Pairing:
    """Pair the panel's users whose lists both arms gave.

    Lists are cut to k, duplicates dropped keeping the first, then items tied by their scores are
    put in the order of their ids. A user is paired when both lists hold an item; any other one is
    counted under the reason and arm (or both) in the way. ``compares`` looks at the ids of both
    arms."""
    pulls = (baseline, candidate)
    arms, vocabulary = encode_arms(baseline.rankings, candidate.rankings)
    if compares is not None:
        compares.add(arms, vocabulary, k)
    padded = pad_both(arms, (None, None), k, max(len(arm.codes) for arm in arms))
    rows = [find_users(panel.users, pull.rankings.users) for pull in pulls]
    standings = {
        arm: _standing(panel, pull, lists, taken, k)
        for arm, pull, lists, taken in zip(Arm, pulls, padded, rows, strict=True)
    }
    is_paired = (standings[Arm.BASELINE].reason == LISTED) & (
        standings[Arm.CANDIDATE].reason == LISTED
    )
    panel_rows = np.flatnonzero(is_paired)
    taken_lists = [lists.take(taken[panel_rows]) for lists, taken in zip(padded, rows, strict=True)]
    batch = make_batch(taken_lists[0], taken_lists[1], vocabulary)
    graded_rows = (
        None if relevance is None else find_users(panel.users[panel_rows], relevance.users)
    )
    return Pairing(
        batch=attach(batch, encode_knowledge(item_weights, relevance, vocabulary), graded_rows),
        panel_rows=panel_rows,
        vocabulary=vocabulary,
        coverage=_count_coverage(panel.segments, standings, is_paired),
        input_hashes=_hash_input(padded, rows, vocabulary),
    )


def _hash_input(
    arms: Sequence[PaddedLists], rows: Sequence[Rows], vocabulary: pd.Index | None
) -> npt.NDArray[np.uint64]:
    """A hash of what each user of the panel, in the arms' ``rows``, has in both arms: its items and their places."""
    known = None if vocabulary is None else np.append(hash_ids(vocabulary), ~np.uint64(0))
    found = np.zeros(len(rows[0]), dtype=np.uint64)
    for lists, taken in zip(arms, rows, strict=True):
        sums = lists.lengths.astype(np.uint64)  # an id may have the hash that stands for none
        for column in lists.codes.T:
            sums = sums * _FACTOR + (column.astype(np.uint64) if known is None else known[column])
        found = mix(found + np.append(mix(sums), np.uint64(0))[taken])
    return found


def _standing(panel: Panel, pull: Pull, lists: PaddedLists, row_of: Rows, k: int) -> ArmStanding:
    """What became of each panel user in one arm."""
    has_row = row_of >= 0
    rows = row_of[has_row]
    lengths = lists.lengths[rows]
    reason = np.full(len(panel), _CODES[CoverageReason.MISSING], dtype=np.int8)
    reason[has_row] = np.where(lengths > 0, LISTED, _CODES[CoverageReason.EMPTY])
    if pull.failures:  # they count before a list that came all the same
        failed = pd.Index(list(pull.failures), dtype="str")
        positions = panel.users.get_indexer(failed)
        failure_codes = np.array(
            [_CODES[reason] for reason in pull.failures.values()], dtype=np.int8
        )
        reason[positions[positions >= 0]] = failure_codes[positions >= 0]
    is_short = np.zeros(len(panel), dtype=np.bool_)
    is_short[has_row] = lengths < k  # lengths after duplicates were dropped
    is_duplicated = np.zeros(len(panel), dtype=np.bool_)
    is_duplicated[has_row] = lists.had_duplicates[rows]
    is_listed = reason == LISTED
    return ArmStanding(
        reason=reason, is_short=is_short & is_listed, is_duplicated=is_duplicated & is_listed
    )


def _count_coverage(
    segments: Mapping[str, Rows], standings: Mapping[Arm, ArmStanding], is_paired: Flags
) -> Coverage:
    """One row a segment, in the order of the segments."""
    return Coverage(
        rows=tuple(
            CoverageRow(
                segment=name,
                asked=len(positions),
                paired=int(is_paired[positions].sum()),
                reasons={
                    (arm, reason): count
                    for arm, standing in standings.items()
                    for reason, count in _counts(standing, positions).items()
                    if count
                },
            )
            for name, positions in segments.items()
        )
    )


def sum_coverage(parts: Sequence[Coverage], segments: Iterable[str]) -> Coverage:
    """The coverage of all users together, one row for each of these segments, in their order."""
    rows: dict[str, list[CoverageRow]] = {name: [] for name in segments}
    for part in parts:
        for row in part.rows:
            rows[row.segment].append(row)
    return Coverage(rows=tuple(_sum_rows(name, found) for name, found in rows.items()))


def _sum_rows(segment: str, rows: Sequence[CoverageRow]) -> CoverageRow:
    counts = sum((Counter(row.reasons) for row in rows), Counter())
    return CoverageRow(
        segment=segment,
        asked=sum(row.asked for row in rows),
        paired=sum(row.paired for row in rows),
        reasons=dict(counts),
    )


def _counts(standing: ArmStanding, positions: Rows) -> dict[CoverageReason, int]:
    by_code = np.bincount(standing.reason[positions], minlength=len(_CODES) + 1)
    counts = {reason: int(by_code[code]) for reason, code in _CODES.items()}
    counts[CoverageReason.SHORT] = int(standing.is_short[positions].sum())
    counts[CoverageReason.DUPLICATED] = int(standing.is_duplicated[positions].sum())
    return counts


def keep_lists(pairing: Pairing, users: pd.Index[str], segments: Mapping[str, Rows]) -> KeptLists:
    """Both arms' lists of these users, one a row of the pairing, as ids, scores where known.

    ``segments`` hold such rows.
    """
    batch = pairing.batch
    scores = (
        (None, None) if batch.scores is None else (batch.scores.baseline, batch.scores.candidate)
    )
    return KeptLists(
        baseline=_table(
            users, batch.baseline, batch.baseline_lengths, scores[0], pairing.vocabulary
        ),
        candidate=_table(
            users, batch.candidate, batch.candidate_lengths, scores[1], pairing.vocabulary
        ),
        segments=segments,
    )


def _table(
    users: pd.Index[str],
    codes: Codes,
    lengths: Codes,
    scores: Floats | None,
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


_TOGETHER = 16
"""Batches whose items are held apart, before those that they share are held once."""


class ListedItems:
    """Counts distinct items of pairs that come in batches, each with a vocabulary of its own."""

    def __init__(self) -> None:
        self._listed = DistinctIds()
        self._lacking = DistinctIds()
        self._users = 0
        self._lacking_users = 0

    def add(self, pairing: Pairing) -> None:
        """Take a batch of pairs."""
        batch, vocabulary = pairing.batch, pairing.vocabulary
        self._users += len(batch)
        self._listed.add(distinct_items(batch.baseline, batch.candidate), vocabulary)
        if batch.weights is None:
            return
        sides = (
            (batch.baseline, batch.weights.baseline),
            (batch.candidate, batch.weights.candidate),
        )
        lacking = [(codes >= 0) & np.isnan(weights) for codes, weights in sides]
        self._lacking_users += int((lacking[0].any(axis=1) | lacking[1].any(axis=1)).sum())
        items = [codes[mask] for (codes, _), mask in zip(sides, lacking, strict=True)]
        self._lacking.add(distinct_items(*items), vocabulary)

    def merge(self, other: ListedItems) -> None:
        """Take all that another one took."""
        self._listed.merge(other._listed)
        self._lacking.merge(other._lacking)
        self._users += other._users
        self._lacking_users += other._lacking_users

    @property
    def count(self) -> int:
        """How many items are listed to anybody: the size of the catalogue as far as it can be seen."""
        return self._listed.count

    @property
    def unweighted_note(self) -> str | None:
        """A note on listed items without a weight and the users who have them.

        None when there are none.
        """
        if not self._lacking_users:
            return None
        return (
            f"item_weights: {self._lacking.count:,} of {self.count:,} listed items have no weight, "
            f"so {self._lacking_users:,} of {self._users:,} users are left out where weights are "
            "needed"
        )


class DistinctIds:
    """Distinct ids of many vocabularies."""

    def __init__(self) -> None:
        self._parts: list[Ids] = []

    def add(self, codes: Integers, vocabulary: pd.Index | None) -> None:
        """Take distinct codes of a vocabulary."""
        ids = pd.Index(codes.astype(np.int64)) if vocabulary is None else vocabulary.take(codes)
        self._take(ids.to_numpy() if isinstance(ids.dtype, np.dtype) else ids.array)

    def merge(self, other: DistinctIds) -> None:
        """Take the ids of another one."""
        for ids in other._parts:
            self._take(ids)

    def _take(self, ids: Ids) -> None:
        self._parts.append(ids)
        if len(self._parts) == _TOGETHER:
            self._join()

    @property
    def count(self) -> int:
        """How many there are."""
        if len(self._parts) > 1:
            self._join()
        return sum(map(len, self._parts))

    def _join(self) -> None:
        coded, vocabulary = encode(*self._parts)
        self._parts = []
        self.add(distinct_items(*coded), vocabulary)
