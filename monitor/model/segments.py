"""Names of segments: one name for one value, however a source writes it."""

import difflib
import re
from collections.abc import Collection

_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
_CLOSE = 0.5


def name_value(text: str) -> str:
    """The value as it stands in names: ``18`` for ``18.0``, ``true`` for ``True``.

    Other text as it is.
    """
    whole = _WHOLE.fullmatch(text)
    if whole:
        return whole[1]
    return text.lower() if text.lower() in {"true", "false"} else text


def name_segment(name: str) -> str:
    """A segment's name, ``dimension=value`` or ``all``, with its value in the one spelling."""
    dimension, sign, value = name.partition("=")
    return f"{dimension}{sign}{name_value(value)}"


def find_nearest(name: str, known: Collection[str]) -> str | None:
    """The known name that looks most like this one.

    None where none does. Of segments only the values are compared.
    """
    dimension, _, value = name.rpartition("=")
    kin = {
        each.rpartition("=")[2]: each
        for each in sorted(known)
        if each.rpartition("=")[0] == dimension
    }
    wanted = value.strip().casefold()
    ranked = sorted(kin, key=lambda each: (-_likeness(wanted, each.strip().casefold()), each))
    if not ranked or _likeness(wanted, ranked[0].strip().casefold()) < _CLOSE:
        return None
    return kin[ranked[0]]


def _likeness(one: str, other: str) -> float:
    """1 for equal text, at least `_CLOSE` where one begins with the other."""
    ratio = difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
    is_start = bool(one and other) and (one.startswith(other) or other.startswith(one))
    return max(ratio, _CLOSE) if is_start else ratio
