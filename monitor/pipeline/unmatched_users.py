"""Finds out why an arm lacks nearly all users of a run. Asks the sources only in that case."""

from dataclasses import replace
from datetime import datetime
from functools import partial

from monitor.errors import ConfigError, SourceError
from monitor.model.id_mismatches import IdMismatch
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.pairing.id_mismatches import LEAST_COMMON, find_user_mismatch
from monitor.pipeline.pull import Arms, ask_in_time


def explain_missing_users(
    arms: Arms,
    coverage: Coverage,
    slot: datetime,
    seconds_left: float,
) -> tuple[IdMismatch, ...]:
    """How each arm that lacks nearly all users spells them.

    An arm that cannot list its users is left out.
    """
    mismatches = []
    for arm in Arm:
        missing = coverage.all.users_by_reason.get((arm, CoverageReason.MISSING), 0)
        if missing > (1 - LEAST_COMMON) * coverage.all.asked:
            mismatches.append(compare_users(arms, arm, slot, seconds_left))
    return tuple(filter(None, mismatches))


def compare_users(
    arms: Arms,
    arm: Arm,
    slot: datetime,
    seconds_left: float,
) -> IdMismatch | None:
    """How this arm spells users differently.

    None if the arm spells users alike, or if it cannot list its users in time.
    """
    if arm not in arms.listed or seconds_left <= 0:
        return None
    try:
        panel, listed = (
            ask_in_time(partial(source.users, slot, ()), seconds_left, "late").users
            for source in (arms.users, arms.listed[arm])
        )
    except (ConfigError, SourceError):  # the pull of the source reports the same error
        return None
    mismatch = find_user_mismatch(panel, listed)
    if mismatch is None:
        return None
    mismatch = replace(mismatch, arm=arm)
    return mismatch if arms.pseudonyms is None else mismatch.without_examples
