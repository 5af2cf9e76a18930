"""Values of a table that cannot be read: how many, in which column, and one of them for example."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from monitor.errors import UnreadableError

MAX_UNREADABLE = 0.01
"""The share of a table's rows that may be unreadable unless an option says otherwise."""
_LONGEST_EXAMPLE = 40


class Need(StrEnum):
    """What a column must hold."""

    IDS = "ids must be integers or text"
    LISTS = "lists must be arrays of ids, or their JSON"
    NUMBERS = "it must hold numbers"
    TIMES = "times must be ISO 8601, or seconds, ms, us or ns since 1970"
    LABELS = "it must hold text, numbers or booleans"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """``count`` of ``rows`` values of one column cannot be read, perhaps 0.

    ``found`` says what the first of them is, ``hint`` what to do.
    """

    where: str
    column: str
    need: Need
    count: int
    rows: int
    found: str = ""
    example: str | None = None  # may be a user's id
    hint: str = ""

    def sentence(self, *, shows_example: bool) -> str:
        """The sentence for people. Without the example where users are hidden."""
        shown = ""
        if shows_example and self.example is not None:
            text = "".join(
                char if char.isprintable() else " " for char in self.example[:_LONGEST_EXAMPLE]
            )
            shown = f", such as {text}"
        counted = f"{self.count:,} of {self.rows:,} rows cannot be read"
        # A field that is named for example comes from the data, where fields may be users.
        hint = (
            self.hint if shows_example else re.sub(r"`[^`]*`", f"`{self.column}.FIELD`", self.hint)
        )
        return (
            f"column {self.column!r} of {self.where}: {counted} ({self.found}{shown}): "
            f"{hint or self.need}"
        )


def add_up(parts: Iterable[Unreadable]) -> tuple[Unreadable, ...]:
    """One value for each column, with the first example. Counts and rows are added."""
    sums: dict[tuple[str, str, Need], Unreadable] = {}
    for part in parts:
        key = (part.where, part.column, part.need)
        first = sums.get(key)
        if first is None:
            sums[key] = part
            continue
        told = first if first.count else part
        sums[key] = replace(told, count=first.count + part.count, rows=first.rows + part.rows)
    return tuple(sums.values())


def require_readable(parts: Iterable[Unreadable], limit: float) -> None:
    """UnreadableError for the first column of which more than this share of the rows cannot be read."""
    for part in add_up(parts):
        if part.count > limit * part.rows:
            end = f"; this is more than max_unreadable, {100 * limit:g} %"
            hidden, shown = (
                part.sentence(shows_example=is_shown) + end for is_shown in (False, True)
            )
            raise UnreadableError(hidden, shown)
