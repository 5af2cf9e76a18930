"""Why a run is not ok, or what an ok run lacks. `monitor.texts.run_reasons` writes sentences."""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from monitor.model.immutable import immutable
from monitor.model.rankings import Arm, CoverageReason


class IdKind(StrEnum):
    """What the ids identify."""

    ITEM = "item"
    USER = "user"


class MismatchKind(StrEnum):
    """How the ids of the arms differ.

    ``unknown``: both arms have hardly any common id, and no other spelling makes ids equal.
    """

    BLANKS = "blanks"
    CASE = "case"
    LEADING_ZEROS = "leading_zeros"
    TYPE = "type"
    BYTES = "bytes"
    QUOTES = "quotes"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    SEPARATORS = "separators"
    PAIRS = "pairs"
    SEVERAL = "several"
    UNKNOWN = "unknown"
    PADDING = "padding"  # one item fills the ends of many lists


@immutable
class IdMismatch:
    """Two sides that have hardly any id in common, and the forms that would make ids equal.

    The sides are baseline and candidate, or the users of the run and the ``arm`` that lacks them.
    ``padding`` means that one item fills the ends of many lists. Then ``common`` is the number of
    these lists, ``compared`` is the number of all lists, and both examples are the item.
    """

    kind: MismatchKind
    ids: IdKind
    common: int  # number of distinct ids that both arms have
    compared: int  # number of distinct ids of the arm that has fewer
    would_match: int = 0  # how many of the ``tried`` ids would be equal with ``forms``
    tried: int = 0
    # Names of forms as in the configuration, in order; empty if no form makes ids equal
    forms: tuple[str, ...] = ()
    examples: tuple[str, str] | None = None  # None if they are hidden
    arm: Arm | None = None

    @property
    def is_only_spelling(self) -> bool:
        """Whether the ids are the same in another spelling."""
        return self.kind not in (MismatchKind.UNKNOWN, MismatchKind.PADDING)

    @property
    def without_examples(self) -> "IdMismatch":
        """A copy without ids, and without parts of ids in ``forms``."""
        forms = []
        for form in self.forms:
            name, colon, _ = form.partition(":")
            forms.append(f"{name}: ...}}" if colon else form)
        return replace(self, examples=None, forms=tuple(forms))


@immutable
class UnmatchedName:
    """A name that matches nothing. ``owner`` uses this name, for example a rule or a route."""

    owner: str
    name: str  # a segment that does not exist, or a matcher that no alert matches
    is_matcher: bool = False
    nearest: str | None = None  # the most similar name that exists
    known: tuple[str, ...] = ()  # some of the names that exist


class RunReasonKind(StrEnum):
    """The kinds of reasons. The comments name the fields that each kind has."""

    TOO_FEW = "too_few"  # users, asked, limit (the least share of users to compare)
    BOTH_FAILED = "both_failed"  # each arm lost at least half of the users
    LOST_LISTS = "lost_lists"  # arm, users, asked, causes
    OTHER_ANSWERED = "other_answered"  # arm, asked; no user lacks a list of this arm
    LATE = "late"  # limit (the deadline of the run in seconds)
    EXAMPLES = "examples"  # examples (some users without a list)
    ID_MISMATCH = "id_mismatch"  # mismatch
    UNMATCHED_NAME = "unmatched_name"  # unmatched
    LEFT_OUT = "left_out"  # text (what was not measured or read, in the source's words)
    UNTRUSTED_FLOOR = "untrusted_floor"  # doubt, users, asked; text, limit
    NOTHING_COMPARED = "nothing_compared"
    NEW_CONFIGURATION = "new_configuration"  # slot (of the first run with this configuration)
    CHANGED = "changed"  # text (what else changed since the last ok run)
    ERROR = "error"  # text (why the run ended before any user was asked)
    LAST_OK = "last_ok"  # slot
    # In unpaired comparisons: users (of the baseline), asked (of both arms), limit (the baseline's
    # planned share), slot (when its alert began)
    SPLIT_OFF = "split_off"
    SWITCHED = "switched"  # users (of both arms), asked, limit (largest share)
    # users (with a list of the other arm), asked (with a list), limit (largest share)
    SERVED_BY_OTHER = "served_by_other"
    NOT_SERVED = "not_served"  # arm; no user of the run has a list of this arm
    FEW_BEFORE = "few_before"  # arm, users (with a pre-test list), asked, limit (least share)
    ROWS_LOST = "rows_lost"  # users (since the test began), asked (the same in an earlier run)
    ARMS_DIFFERED = "arms_differed"  # limit (the chance of such a difference)


class FloorDoubt(StrEnum):
    """Why the baseline's second lists are not independent answers."""

    CACHED = "cached"  # text (the header that shows it)
    SAME_ID = "same_id"
    EQUAL = "equal"  # limit (how many zeros the chance of equal lists has after the decimal point)


@immutable
class LossCause:
    """Why users of an arm have no list. ``text`` says what happened, if the source reports it."""

    reason: CoverageReason
    users: int
    text: str = ""


@immutable
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
    """Return the first reason of the kind, and of the arm if it is given. None without one."""
    for reason in reasons:
        if reason.kind is kind and arm in (None, reason.arm):
            return reason
    return None
