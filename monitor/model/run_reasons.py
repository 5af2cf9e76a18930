"""Why a run is not ok, or what an ok run lacks. `monitor.texts.run_reasons` writes sentences."""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from monitor.immutable import immutable
from monitor.model.rankings import Arm, CoverageReason


class IdKind(StrEnum):
    """What the ids identify."""

    ITEM = "item"
    USER = "user"


class MismatchKind(StrEnum):
    """How the ids of the arms differ.

    ``unknown``: hardly any id is in both arms, and no other spelling helps.
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
    """Two sides with hardly any common id, and the forms that would make ids equal.

    The sides are baseline and candidate, or the users of the run and the ``arm`` that lacks them.
    For ``padding`` both examples are the item that fills ``common`` of ``compared`` lists.
    """

    kind: MismatchKind
    ids: IdKind
    common: int  # distinct ids that both arms have
    compared: int  # distinct ids of the arm that has fewer
    would_match: int = 0  # of the ``tried`` ones, if both arms were spelled in ``forms``
    tried: int = 0
    # As a configuration names them, in their order; empty where no form helps
    forms: tuple[str, ...] = ()
    examples: tuple[str, str] | None = None  # None where they are hidden
    arm: Arm | None = None

    @property
    def is_spelling(self) -> bool:
        """Whether the ids are the same in another spelling."""
        return self.kind not in (MismatchKind.UNKNOWN, MismatchKind.PADDING)

    @property
    def without_examples(self) -> "IdMismatch":
        """The same without ids, and without parts of ids in its forms."""
        forms = []
        for form in self.forms:
            name, colon, _ = form.partition(":")
            forms.append(f"{name}: ...}}" if colon else form)
        return replace(self, examples=None, forms=tuple(forms))


@immutable
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


@immutable
class LossCause:
    """Why users of an arm have no list. ``text``: what happened, if the source says it."""

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
    """The first reason of the kind, and of the arm if it is given."""
    for reason in reasons:
        if reason.kind is kind and arm in (None, reason.arm):
            return reason
    return None
