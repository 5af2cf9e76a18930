"""Pair both arms' lists by user."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.kernels.ragged import pad
from monitor.model import (
    Arm,
    ByArm,
    CoverageReason,
    ItemWeights,
    PairBatch,
    Pairing,
    Panel,
    Pull,
    RelevanceTable,
)
from monitor.model.arrays import Floats
from monitor.pairing.batches import add_labels, add_weights, order_ties, pad_scores
from monitor.pairing.coverage import LISTED, ArmStanding, count_coverage, standing_code
from monitor.pairing.ids import encode, find_users


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lists:
    """One arm's padded lists in the table's order, and the table row of each panel user (-1 for none)."""

    codes: npt.NDArray[np.int32]
    scores: Floats | None
    lengths: npt.NDArray[np.int32]
    had_duplicates: npt.NDArray[np.bool_]
    row_of: npt.NDArray[np.intp]


def pair(
    panel: Panel,
    baseline: Pull,
    candidate: Pull,
    k: int,
    *,
    item_weights: ItemWeights | None = None,
    relevance: RelevanceTable | None = None,
) -> Pairing:
    """Pair the panel's users whose lists both arms gave.

    Lists are cut to k, then duplicates are dropped keeping the first, then items tied by their scores are put in the order of
    their ids. A user counts as paired when both lists hold at least one item; every other user is counted under the reason and
    arm that stood in the way (under both, if both did). An arm without scores has NaN where the other tells them.
    """
    codes, vocabulary = encode(baseline.rankings.items, candidate.rankings.items)
    lists = {
        Arm.BASELINE: _lists(panel, baseline, codes[0], k),
        Arm.CANDIDATE: _lists(panel, candidate, codes[1], k),
    }
    standings = {arm: _standing(panel, pull, lists[arm], k) for arm, pull in zip(Arm, (baseline, candidate), strict=True)}
    is_paired = (standings[Arm.BASELINE].reason == LISTED) & (standings[Arm.CANDIDATE].reason == LISTED)
    panel_rows = np.flatnonzero(is_paired)
    batch = _batch(lists, panel_rows, vocabulary)
    if item_weights is not None:
        batch = add_weights(batch, item_weights, vocabulary)
    if relevance is not None:
        batch = add_labels(batch, panel.users[panel_rows], relevance, vocabulary)
    return Pairing(
        batch=batch,
        panel_rows=panel_rows,
        vocabulary=vocabulary,
        coverage=count_coverage(panel.segments, standings, is_paired),
    )


def _lists(panel: Panel, pull: Pull, codes: npt.NDArray[np.int32], k: int) -> _Lists:
    padded, lengths, had_duplicates = pad(codes, pull.rankings.offsets, k)
    return _Lists(
        codes=padded,
        scores=pad_scores(pull.rankings, codes, padded, had_duplicates),
        lengths=lengths,
        had_duplicates=had_duplicates,
        row_of=find_users(panel.users, pull.rankings.users),
    )


def _standing(panel: Panel, pull: Pull, lists: _Lists, k: int) -> ArmStanding:
    """What became of each panel user in one arm."""
    has_row = lists.row_of >= 0
    rows = lists.row_of[has_row]
    lengths = lists.lengths[rows]
    reason = np.full(len(panel), standing_code(CoverageReason.MISSING), dtype=np.int8)
    reason[has_row] = np.where(lengths > 0, LISTED, standing_code(CoverageReason.EMPTY))
    if pull.failures:
        failed = pd.Index(list(pull.failures), dtype="str")
        positions = panel.users.get_indexer(failed)
        failure_codes = np.array([standing_code(reason) for reason in pull.failures.values()], dtype=np.int8)
        reason[positions[positions >= 0]] = failure_codes[positions >= 0]
    is_short = np.zeros(len(panel), dtype=np.bool_)
    is_short[has_row] = lengths < k
    is_duplicated = np.zeros(len(panel), dtype=np.bool_)
    is_duplicated[has_row] = lists.had_duplicates[rows]
    is_listed = reason == LISTED
    return ArmStanding(reason=reason, is_short=is_short & is_listed, is_duplicated=is_duplicated & is_listed)


def _batch(lists: dict[Arm, _Lists], panel_rows: npt.NDArray[np.intp], vocabulary: pd.Index | None) -> PairBatch:
    """The paired users' lists in the panel's order, with their scores where an arm tells them."""
    rows = {arm: of.row_of[panel_rows] for arm, of in lists.items()}
    codes = {arm: of.codes[rows[arm]] for arm, of in lists.items()}
    scores = None
    if any(of.scores is not None for of in lists.values()):
        scores = ByArm(**{arm: _scores(lists[arm], rows[arm]) for arm in Arm})
        codes = {arm: order_ties(codes[arm], getattr(scores, arm), vocabulary) for arm in Arm}
    return PairBatch(
        baseline=codes[Arm.BASELINE],
        candidate=codes[Arm.CANDIDATE],
        baseline_lengths=lists[Arm.BASELINE].lengths[rows[Arm.BASELINE]],
        candidate_lengths=lists[Arm.CANDIDATE].lengths[rows[Arm.CANDIDATE]],
        scores=scores,
    )


def _scores(lists: _Lists, rows: npt.NDArray[np.intp]) -> Floats:
    return np.full((len(rows), lists.codes.shape[1]), np.nan) if lists.scores is None else lists.scores[rows]
