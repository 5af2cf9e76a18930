"""Why hardly any user that a run asked for is in an arm: asked of the sources only where that is so."""

from dataclasses import replace
from datetime import datetime
from functools import partial

from monitor.errors import ConfigError, SourceError
from monitor.model.id_mismatches import IdMismatch
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.pairing.id_mismatches import LEAST_COMMON, find_user_mismatch
from monitor.pipeline.pull import Arms, ask_in_time


def explain_missing_users(
    arms: Arms, coverage: Coverage, slot: datetime, seconds_left: float
) -> tuple[IdMismatch, ...]:
    """How users are spelled in each arm that lacks nearly all of them.

    Nothing of an arm that cannot name its users.
    """
    asked = coverage.all.asked
    found = []
    for arm in Arm:
        lacking = coverage.all.reasons.get((arm, CoverageReason.MISSING), 0)
        if lacking > (1 - LEAST_COMMON) * asked and (
            each := compare_users(arms, arm, slot, seconds_left)
        ):
            found.append(each)
    return tuple(found)


def compare_users(arms: Arms, arm: Arm, slot: datetime, seconds_left: float) -> IdMismatch | None:
    """How users are spelled otherwise in this arm.

    None where they are not, or the arm cannot name them in time.
    """
    if arm not in arms.listed or seconds_left <= 0:
        return None
    try:
        sources = (arms.users, arms.listed[arm])
        asked, listed = (
            ask_in_time(partial(each.users, slot, ()), seconds_left, "late").users
            for each in sources
        )
    except (ConfigError, SourceError):  # what cannot be read has its own error
        return None
    mismatch = find_user_mismatch(asked, listed)
    if mismatch is None:
        return None
    mismatch = replace(mismatch, arm=arm)
    return mismatch if arms.pseudonyms is None else mismatch.without_examples
