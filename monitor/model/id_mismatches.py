"""Why ids of the two arms do not meet, or what fills the ends of lists: values, see `monitor.texts.id_mismatches`."""

from dataclasses import dataclass, replace
from enum import StrEnum

from monitor.model.rankings import Arm


class IdKind(StrEnum):
    """What the ids stand for."""

    ITEM = "item"
    USER = "user"


class MismatchKind(StrEnum):
    """In what the ids of the arms differ.

    ``unknown``: hardly any is in both arms, and no other spelling helps.
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
    """Ids that hardly meet, with an example of each side and the forms under which they would meet.

    The sides are baseline and candidate, or the users asked and the ``arm`` that lacks them. Of
    ``padding`` the example is the item, twice, ``common`` counts the lists that it fills, of
    ``compared`` lists of the ``arm``."""

    kind: MismatchKind
    ids: IdKind
    common: int  # distinct ids that both arms have
    compared: int  # distinct ids of the arm that has fewer
    would_match: int = 0  # of the ``tried`` ones, if both arms were spelled in ``forms``
    tried: int = 0
    forms: tuple[
        str, ...
    ] = ()  # as a configuration names them, in their order; empty where no form helps
    examples: tuple[str, str] | None = None  # None where they are hidden
    arm: Arm | None = None

    @property
    def is_spelling(self) -> bool:
        """Whether the ids are the same in another spelling."""
        return self.kind not in (MismatchKind.UNKNOWN, MismatchKind.PADDING)

    @property
    def without_examples(self) -> "IdMismatch":
        """The same without ids, and without parts of ids in its forms."""
        forms = tuple(
            f"{form.partition(':')[0]}: ...}}" if form.startswith("{") else form
            for form in self.forms
        )
        return replace(self, examples=None, forms=forms)
