"""Why the ids of the two arms differ, or which item fills the ends of lists."""

from dataclasses import dataclass, replace
from enum import StrEnum

from monitor.model.rankings import Arm


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


@dataclass(frozen=True, slots=True, kw_only=True)
class IdMismatch:
    """Two sides that have hardly any id in common, and the forms that would make ids equal.

    The sides are baseline and candidate, or the users of the run and the ``arm`` that lacks them.
    For ``padding``, one item fills the ends of ``common`` of ``compared`` lists. Both examples are
    this item.
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
    def is_spelling(self) -> bool:
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
