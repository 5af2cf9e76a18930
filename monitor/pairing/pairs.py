"""Pair both arms' lists by user, with every user of the panel accounted for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from monitor.model import Arm, CoverageReason, ItemWeights, Pairing, Panel, Pull, RelevanceTable
from monitor.model.arrays import Rows
from monitor.pairing.batches import PaddedLists, attach, encode_arms, encode_knowledge, make_batch, pad_both
from monitor.pairing.coverage import LISTED, ArmStanding, count_coverage, standing_code
from monitor.pairing.ids import find_users, unlike_ids_note


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
    arm that stood in the way (under both, if both did). An arm without scores has NaN where the other has them.
    """
    pulls = (baseline, candidate)
    arms, vocabulary = encode_arms(baseline.rankings, candidate.rankings)
    padded = pad_both(arms, (None, None), k, max(len(arm.codes) for arm in arms))
    rows = [find_users(panel.users, pull.rankings.users) for pull in pulls]
    standings = {
        arm: _standing(panel, pull, lists, taken, k) for arm, pull, lists, taken in zip(Arm, pulls, padded, rows, strict=True)
    }
    is_paired = (standings[Arm.BASELINE].reason == LISTED) & (standings[Arm.CANDIDATE].reason == LISTED)
    panel_rows = np.flatnonzero(is_paired)
    taken_lists = [lists.take(taken[panel_rows]) for lists, taken in zip(padded, rows, strict=True)]
    batch = make_batch(taken_lists[0], taken_lists[1], vocabulary)
    graded_rows = None if relevance is None else find_users(panel.users[panel_rows], relevance.users)
    return Pairing(
        batch=attach(batch, encode_knowledge(item_weights, relevance, vocabulary), graded_rows),
        panel_rows=panel_rows,
        vocabulary=vocabulary,
        coverage=count_coverage(panel.segments, standings, is_paired),
        unlike_ids=unlike_ids_note([pull.rankings.items for pull in pulls], [arm.codes for arm in arms]),
    )


def _standing(panel: Panel, pull: Pull, lists: PaddedLists, row_of: Rows, k: int) -> ArmStanding:
    """What became of each panel user in one arm."""
    has_row = row_of >= 0
    rows = row_of[has_row]
    lengths = lists.lengths[rows]
    reason = np.full(len(panel), standing_code(CoverageReason.MISSING), dtype=np.int8)
    reason[has_row] = np.where(lengths > 0, LISTED, standing_code(CoverageReason.EMPTY))
    if pull.failures:  # they count before a list that came all the same
        failed = pd.Index(list(pull.failures), dtype="str")
        positions = panel.users.get_indexer(failed)
        failure_codes = np.array([standing_code(reason) for reason in pull.failures.values()], dtype=np.int8)
        reason[positions[positions >= 0]] = failure_codes[positions >= 0]
    is_short = np.zeros(len(panel), dtype=np.bool_)
    is_short[has_row] = lengths < k  # lengths after duplicates were dropped
    is_duplicated = np.zeros(len(panel), dtype=np.bool_)
    is_duplicated[has_row] = lists.had_duplicates[rows]
    is_listed = reason == LISTED
    return ArmStanding(reason=reason, is_short=is_short & is_listed, is_duplicated=is_duplicated & is_listed)
