"""Why ids of the two arms differ, or what fills the ends of lists. See `monitor.texts`."""

from dataclasses import dataclass, replace
from enum import StrEnum

from monitor.model.rankings import Arm


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


@dataclass(frozen=True, slots=True, kw_only=True)
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
