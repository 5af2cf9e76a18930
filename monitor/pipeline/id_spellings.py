"""Finds out whether ids are only spelled differently.

For item ids this looks like many new items, and for user ids like missing users.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

import numpy as np

from monitor.measures.kernels.item_codes import distinct_items
from monitor.measures.pairing.id_mismatches import (
    LEAST_COMMON_SHARE,
    find_mismatch,
    find_user_mismatch,
)
from monitor.model.errors import ConfigError, SourceError
from monitor.model.explanation import FaultKind, Finding
from monitor.model.rankings import ALL, Arm, Coverage, CoverageReason, UserTable
from monitor.model.run_reasons import IdKind, IdMismatch
from monitor.pipeline.pull import ComparisonSources, ask_in_time
from monitor.statistics.attribution.changes import PairChanges
from monitor.statistics.attribution.decomposition import find_affected_segment, rows_of_segment
from monitor.statistics.attribution.scene import Scene

_MIN_SHARE = 0.5
"""Ids are respelled if at least this share of the tried ids matches in the other spelling."""


def find_respelled(
    scene: Scene,
    finding: Finding | None,
    name_item: Callable[[int], str],
    mismatches: Sequence[IdMismatch],
) -> Finding | None:
    """Return a finding that ids are spelled differently. It explains more than ``finding`` does.

    There are two tests:

    1. The new ids of an arm are compared with its ids that disappeared since the earlier run.
    2. The ids of both arms are compared in this run. ``mismatches`` are the results.

    None if neither test finds other spellings, or if other spellings cannot cause ``finding``.
    """
    if finding is not None and not finding.kind.facts.may_be_respelled:
        return None
    if scene.changes is not None:
        arms = tuple(Arm) if finding is None else finding.arms
        for arm in arms:
            respelled = _find_respelled_since(scene, scene.changes, arm, finding, name_item)
            if respelled is not None:
                return respelled
    # If the arms spell items differently, hardly any ids match, which explains any ``finding``.
    spelling_mismatches = [
        mismatch
        for mismatch in mismatches
        if mismatch.is_only_spelling and mismatch.ids is IdKind.ITEM
    ]
    if not spelling_mismatches:
        return None
    users = len(scene.batch)
    return Finding(
        kind=FaultKind.RESPELLED,
        arms=tuple(Arm),
        segment=ALL,
        segment_share=1.0,
        users=users,
        compared=users,
        explained=None if finding is None else finding.explained,
        spelling=spelling_mismatches[0],
    )


def _find_respelled_since(
    scene: Scene,
    changes: PairChanges,
    arm: Arm,
    finding: Finding | None,
    name_item: Callable[[int], str],
) -> Finding | None:
    """Return a finding if most new ids of the arm are other spellings of ids that disappeared.

    Only the lists of the finding's segment are compared. A user is affected if more than half of
    the user's items have new ids.
    """
    lists = changes.lists[arm]
    compared_segment = ALL if finding is None else finding.segment
    rows = rows_of_segment(compared_segment, scene.segments)
    rows = rows[changes.is_known[rows]]
    codes_now = distinct_items(lists.present[rows])
    codes_before = distinct_items(lists.former[rows])
    removed_codes = np.setdiff1d(codes_before, codes_now, assume_unique=True)
    # An item is new only if no user of any segment had it.
    new_codes = np.setdiff1d(codes_now, distinct_items(lists.former), assume_unique=True)
    if not len(new_codes) or not len(removed_codes):
        return None
    removed_ids = [name_item(code) for code in removed_codes.tolist()]
    new_ids = [name_item(code) for code in new_codes.tolist()]
    # Only spellings are wanted. ``has_many_lists`` matters only for other mismatches.
    mismatch = find_mismatch(removed_ids, new_ids, IdKind.ITEM, common=0, has_many_lists=False)
    if mismatch is None or not mismatch.is_only_spelling:
        return None
    if mismatch.would_match < _MIN_SHARE * mismatch.tried:
        return None
    new_items = np.isin(lists.present, new_codes).sum(axis=1)
    affected = changes.is_known & (2 * new_items > lists.present_lengths)
    if not affected.any():
        return None
    # A healthy user never looks affected, so the usual share is 0.
    segment = find_affected_segment(affected, 0.0, scene.segments)
    affected_in_segment = affected[rows_of_segment(segment, scene.segments)]
    # The number of users is exact if all users of the segment are affected, and no other users.
    is_exact = affected_in_segment.all() and len(affected_in_segment) == affected.sum()
    return Finding(
        kind=FaultKind.RESPELLED,
        arms=(arm,),
        segment=segment,
        segment_share=float(affected_in_segment.mean()),
        users=int(affected.sum()),
        compared=len(scene.batch),
        explained=None if finding is None else finding.explained,
        is_exact=bool(is_exact),
        spelling=mismatch,
    )


def explain_missing_users(
    sources: ComparisonSources,
    coverage: Coverage,
    slot: datetime,
    seconds_left: float,
) -> tuple[IdMismatch, ...]:
    """Find out how each arm that has no list for nearly all users spells the ids of users.

    An arm is left out if it cannot list its users, or if it spells ids as the panel does. Each
    request to a source may take ``seconds_left``.
    """
    mismatches = []
    for arm in Arm:
        missing = coverage.all.users_by_reason.get((arm, CoverageReason.MISSING), 0)
        # An arm with at least `LEAST_COMMON_SHARE` of the users has no mismatch.
        if missing > (1 - LEAST_COMMON_SHARE) * coverage.all.asked_of(arm):
            mismatches.append(compare_users(sources, arm, slot, seconds_left))
    return tuple(filter(None, mismatches))


def compare_users(
    sources: ComparisonSources,
    arm: Arm,
    slot: datetime,
    seconds_left: float,
) -> IdMismatch | None:
    """Return how this arm spells users' ids differently than the panel.

    Return None if both spell ids alike, or if the arm cannot list its users in time.
    """
    if arm not in sources.listed or seconds_left <= 0:
        return None
    try:
        panel = ask_in_time(partial(sources.users.users, slot, ()), seconds_left, "late")
        listed = ask_in_time(partial(sources.listed[arm].users, slot, ()), seconds_left, "late")
    except (ConfigError, SourceError):  # pulling the lists of the arm reports the same error
        return None
    return compare_listed_users(sources, arm, panel, listed)


def compare_listed_users(
    sources: ComparisonSources, arm: Arm, panel: UserTable, listed: UserTable
) -> IdMismatch | None:
    """Return why the users that an arm lists have other ids than the panel. None if they match."""
    mismatch = find_user_mismatch(panel.users, listed.users)
    if mismatch is None:
        return None
    # Examples would show the ids that pseudonyms hide.
    shown = mismatch if sources.pseudonyms is None else mismatch.without_examples
    return replace(shown, arm=arm)
