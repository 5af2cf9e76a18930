"""Why an arm lacks nearly all users of a run. Asks the sources only in that case."""

from dataclasses import replace
from datetime import datetime
from functools import partial

from monitor.errors import ConfigError, SourceError
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.model.run_reasons import IdMismatch
from monitor.pairing.id_mismatches import LEAST_COMMON, find_user_mismatch
from monitor.pipeline.pull import Arms, ask_in_time


def explain_missing_users(
    arms: Arms,
    coverage: Coverage,
    slot: datetime,
    seconds_left: float,
) -> tuple[IdMismatch, ...]:
    """How each arm that lacks nearly all users spells them, if it can name its users."""
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
    """How this arm spells users differently. None if it does not, or cannot name them in time."""
    if arm not in arms.listed or seconds_left <= 0:
        return None
    try:
        panel, listed = (
            ask_in_time(partial(source.users, slot, ()), seconds_left, "late").users
            for source in (arms.users, arms.listed[arm])
        )
    except (ConfigError, SourceError):  # reported where the source is pulled
        return None
    mismatch = find_user_mismatch(panel, listed)
    if mismatch is None:
        return None
    mismatch = replace(mismatch, arm=arm)
    return mismatch if arms.pseudonyms is None else mismatch.without_examples
