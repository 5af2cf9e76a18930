"""Which values are ids of users and items, and their one spelling: the integer 42, the float 42.0 and the text "42" agree."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID

MAX_ID_LENGTH = 1000
"""Longest text taken for an id; longer ones are no ids but somebody's mistake."""

_INT64 = range(-(2**63), 2**63)
_EXACT_FLOAT = 2**53


def canonical_id(value: object) -> int | str | None:
    """Id in its one spelling: an int of 64 bits where it is a whole number, text otherwise; None when it is no id.

    No ids are: null, booleans, fractions, NaN, floats too large to be exact, containers, bytes, and text that is empty,
    longer than MAX_ID_LENGTH, or cannot be stored (NUL, half of a surrogate pair).
    """
    if isinstance(value, str):
        return value if is_id_text(value) else None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT_FLOAT else None
    if isinstance(value, Decimal):
        return _whole(int(value)) if value.is_finite() and value == value.to_integral_value() else None
    return str(value) if isinstance(value, UUID) else None


def user_key(value: object) -> str | None:
    """Return the user's key, always text; None when the value is no id."""
    known = canonical_id(value)
    return None if known is None else str(known)


def item_ids(value: object, k: int) -> Sequence[int | str] | None:
    """Return the first k ids of a list as ints and texts; None when it is no list or one of those k is no id."""
    if not isinstance(value, list | tuple):
        return None
    head = value[:k]
    kinds = set(map(type, head))
    if kinds == {int} and min(head) in _INT64 and max(head) in _INT64:
        return head
    if kinds == {str} and all(map(is_id_text, head)):
        return head
    ids = [known for item in head if (known := canonical_id(item)) is not None]
    return ids if len(ids) == len(head) else None


def is_id_text(text: str) -> bool:
    """Whether text may be an id."""
    return 0 < len(text) <= MAX_ID_LENGTH and "\0" not in text and (text.isascii() or _is_unicode(text))


def _whole(value: int) -> int | str | None:
    if value in _INT64:
        return value
    return str(value) if value.bit_length() < MAX_ID_LENGTH else None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
