"""How other programs write lists as text, and what to do instead."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to write a list, with its pattern."""

    pattern: str
    name: str
    advice: str


_DIALECTS = (
    Dialect(r"\{.*\}", "an array of PostgreSQL", "select it with to_json(...)"),
    Dialect(
        r"\[.*['\"]\s+['\"].*\]|\[\s*[-\d.]+(\s+[-\d.]+)+\s*\]",
        "an array as numpy prints it",
        "write json.dumps(array.tolist())",
    ),
    Dialect(r"\[.*\]|\(.*\)", "a list as Python prints it", "write json.dumps(items)"),
    Dialect(
        r"[^\[\]{},;|]+([,;|][^\[\]{},;|]+)+",
        "text with separators",
        "write a JSON array, or one item a row",
    ),
)


_LONGEST = 400
"""Of a longer text only the two ends are matched."""


def recognize_dialect(cell: object) -> Dialect | None:
    """The first dialect that a text may be written in."""
    if not isinstance(cell, str):
        return None
    text = cell.strip()
    if len(text) > _LONGEST:
        text = text[: _LONGEST // 2] + text[-_LONGEST // 2 :]
    for dialect in _DIALECTS:
        if re.fullmatch(dialect.pattern, text, re.DOTALL):
            return dialect
    return None
