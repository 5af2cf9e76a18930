"""Finds out whether an arm lacks nearly all users because it spells their ids differently."""

from dataclasses import replace
from datetime import datetime
from functools import partial

from monitor.measures.pairing.id_mismatches import LEAST_COMMON, find_user_mismatch
from monitor.model.errors import ConfigError, SourceError
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.model.run_reasons import IdMismatch
from monitor.pipeline.pull import Arms, ask_in_time


def explain_missing_users(
    arms: Arms,
    coverage: Coverage,
    slot: datetime,
    seconds_left: float,
) -> tuple[IdMismatch, ...]:
    """Find out how each arm that lacks nearly all users spells their ids.

    Arms that cannot list their users are left out. So are arms that spell ids as the panel does,
    because they lack the users for another reason. Each request to a source may take
    ``seconds_left``.
    """
    mismatches = []
    for arm in Arm:
        missing = coverage.all.users_by_reason.get((arm, CoverageReason.MISSING), 0)
        # If fewer users are missing, `find_user_mismatch` finds nothing, so nothing is asked.
        if missing > (1 - LEAST_COMMON) * coverage.all.asked:
            mismatches.append(compare_users(arms, arm, slot, seconds_left))
    return tuple(filter(None, mismatches))


def compare_users(
    arms: Arms,
    arm: Arm,
    slot: datetime,
    seconds_left: float,
) -> IdMismatch | None:
    """Return how this arm spells users' ids differently than the panel.

    Return None if it spells them alike, or if it cannot list its users in time.
    """
    if arm not in arms.listed or seconds_left <= 0:
        return None
    try:
        panel, listed = (
            ask_in_time(partial(source.users, slot, ()), seconds_left, "late").users
            for source in (arms.users, arms.listed[arm])
        )
    except (ConfigError, SourceError):  # pulling its lists reports the same error
        return None
    mismatch = find_user_mismatch(panel, listed)
    if mismatch is None:
        return None
    mismatch = replace(mismatch, arm=arm)
    return mismatch if arms.pseudonyms is None else mismatch.without_examples
