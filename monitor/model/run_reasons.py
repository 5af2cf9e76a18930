"""Why a run is not ok, or what an ok run lacks. `monitor.texts.run_reasons` writes sentences."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.model.id_mismatches import IdMismatch
from monitor.model.rankings import Arm, CoverageReason


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedName:
    """A name that ``owner``, such as a rule or a route, uses and that matches nothing."""

    owner: str
    name: str  # a segment, or a matcher that no alert matches
    is_matcher: bool = False
    nearest: str | None = None  # the most similar name that exists
    known: tuple[str, ...] = ()  # some of the names that exist


class RunReasonKind(StrEnum):
    """The kinds of reasons, each with the fields that it has."""

    TOO_FEW = "too_few"  # users, asked, limit: the least share of users to compare
    BOTH_FAILED = "both_failed"  # each arm lost at least half of the users
    LOST_LISTS = "lost_lists"  # arm, users, asked, causes
    OTHER_ANSWERED = "other_answered"  # arm, asked: no user lacks a list of this arm
    LATE = "late"  # limit: the deadline of the run in seconds
    EXAMPLES = "examples"  # examples: some users without a list
    ID_MISMATCH = "id_mismatch"  # mismatch
    UNMATCHED_NAME = "unmatched_name"  # unmatched
    LEFT_OUT = "left_out"  # text: what was not measured or read, in the words of its source
    UNTRUSTED_FLOOR = "untrusted_floor"  # doubt, users, asked; text, limit
    NOTHING_COMPARED = "nothing_compared"
    NEW_CONFIGURATION = "new_configuration"  # slot of the first run with it
    CHANGED = "changed"  # text: what else changed since the last ok run
    ERROR = "error"  # text: why the run ended before any user was asked
    LAST_OK = "last_ok"  # slot


class FloorDoubt(StrEnum):
    """Why the baseline's second lists are no second answers."""

    CACHED = "cached"  # text: the header that shows it
    SAME_ID = "same_id"
    EQUAL = "equal"  # limit: zeros after the point in the chance of equal lists


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCause:
    """Why users of an arm have no list. ``text``: what happened, if the source says it."""

    reason: CoverageReason
    users: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReason:
    """One reason. See `RunReasonKind` for the fields of each kind."""

    kind: RunReasonKind
    arm: Arm | None = None
    users: int = 0
    asked: int = 0
    limit: float | None = None
    causes: tuple[LossCause, ...] = ()  # the most frequent one first
    examples: tuple[str, ...] = ()
    mismatch: IdMismatch | None = None
    unmatched: UnmatchedName | None = None
    doubt: FloorDoubt | None = None
    slot: datetime | None = None
    text: str = ""


RunReasons = tuple[RunReason, ...]


def find_reason(
    reasons: RunReasons, kind: RunReasonKind, arm: Arm | None = None
) -> RunReason | None:
    """The first reason of the kind, and of the arm if it is given."""
    for reason in reasons:
        if reason.kind is kind and arm in (None, reason.arm):
            return reason
    return None
