"""Recognizes lists that other programs wrote as text, and advises what to write instead."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to write a list as text, with a pattern that recognizes it."""

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
        'write a JSON array such as ["a","b"], or one item in each row',
    ),
)


_LONGEST_CELL_CHARS = 400
"""If a text is longer than this, only its start and its end are matched."""


def recognize_dialect(cell: object) -> Dialect | None:
    """The first dialect whose pattern matches the text. None if there is none."""
    if not isinstance(cell, str):
        return None
    text = cell.strip()
    if len(text) > _LONGEST_CELL_CHARS:
        text = text[: _LONGEST_CELL_CHARS // 2] + text[-_LONGEST_CELL_CHARS // 2 :]
    for dialect in _DIALECTS:
        if re.fullmatch(dialect.pattern, text, re.DOTALL):
            return dialect
    return None
