"""Names of segments. A value has the same name even if sources write it differently."""

import difflib
import re
from collections.abc import Collection

AND = " and "
"""Joins the names of two segments. The joined name means the users who are in both segments."""
_INTEGRAL = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
_CLOSE = 0.5


def name_value(value: str) -> str:
    """Write the value as names do.

    ``18.0`` becomes ``18``, and ``True`` becomes ``true``. Other texts do not change.
    """
    integral = _INTEGRAL.fullmatch(value)
    if integral:
        return integral[1]
    return value.lower() if value.lower() in {"true", "false"} else value


def name_segment(name: str) -> str:
    """Write a segment's name, ``dimension=value`` or ``all``. `name_value` writes the value."""
    dimension, sign, value = name.partition("=")
    return f"{dimension}{sign}{name_value(value)}"


def find_nearest(name: str, candidates: Collection[str]) -> str | None:
    """Return the candidate of the same dimension with the most similar value.

    Returns None if no value is close.
    """
    dimension, _, value = name.rpartition("=")
    nearest = None
    best = 0.0
    for candidate in sorted(candidates, key=lambda other: other.rpartition("=")[2]):
        other_dimension, _, other_value = candidate.rpartition("=")
        if other_dimension == dimension:
            likeness = _likeness(value.strip().casefold(), other_value.strip().casefold())
            if likeness >= _CLOSE and likeness > best:
                nearest = candidate
                best = likeness
    return nearest


def _likeness(one: str, other: str) -> float:
    """Return 1 for equal texts, and at least `_CLOSE` if one text begins with the other."""
    ratio = difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
    is_start = bool(one and other) and (one.startswith(other) or other.startswith(one))
    return max(ratio, _CLOSE) if is_start else ratio
