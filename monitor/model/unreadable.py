"""Reports values of a table that cannot be read: how many, in which column, with an example."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from monitor.model.errors import UnreadableError
from monitor.model.immutable import immutable

MAX_UNREADABLE = 0.01
"""The share of a table's rows that may be unreadable unless an option says otherwise."""
_LONGEST_EXAMPLE = 40


class ColumnKind(StrEnum):
    """What the values of a column must be."""

    IDS = "ids must be integers or text"
    LISTS = "lists must be arrays of ids, or their JSON"
    NUMBERS = "it must hold numbers"
    COUNTS = "clicks must be true, false or numbers that are at least 0"
    RANKS = "ranks must be whole numbers; give a column of scores as scores"
    TIMES = "times must be ISO 8601, or seconds, ms, us or ns since 1970"
    LABELS = "it must hold text, numbers or booleans"


@immutable
class Unreadable:
    """The number of values in one column that cannot be read, ``count``, among all ``rows``.

    ``count`` may be 0. ``found`` describes the first unreadable value, and ``hint`` says what to
    do. If the values are objects, ``field`` is the name of a field in them.
    """

    where: str
    column: str
    need: ColumnKind
    count: int
    rows: int
    found: str = ""
    example: str | None = None  # may be a user's id
    hint: str = ""
    field: str | None = None  # may be a user's id

    def sentence(self, *, shows_example: bool) -> str:
        """Return the sentence for people. The caller hides the example if users have pseudonyms."""
        example = ""
        hint = self.hint
        if self.field is not None:
            hint = name_a_field(self.column, self.field if shows_example else "FIELD")
        if shows_example and self.example is not None:
            printable = [
                char if char.isprintable() else " " for char in self.example[:_LONGEST_EXAMPLE]
            ]
            example = f", such as {''.join(printable)}"
        counted = f"{self.count:,} of {self.rows:,} rows cannot be read"
        return (
            f"column {self.column!r} of {self.where}: {counted} ({self.found}{example}): "
            f"{hint or self.need}"
        )


def name_a_field(column: str, field: str) -> str:
    """Say what to do if a column has objects in place of ids."""
    return f"to name a field, write `{column}.{field}` in place of `{column}`"


def add_up(parts: Iterable[Unreadable]) -> tuple[Unreadable, ...]:
    """Merge the parts of each column. Adds up counts and rows, and keeps the first example."""
    sums: dict[tuple[str, str, ColumnKind], Unreadable] = {}
    for part in parts:
        key = (part.where, part.column, part.need)
        first = sums.get(key)
        if first is None:
            sums[key] = part
            continue
        with_example = first if first.count else part
        sums[key] = replace(
            with_example, count=first.count + part.count, rows=first.rows + part.rows
        )
    return tuple(sums.values())


def require_readable(parts: Iterable[Unreadable], limit: float) -> None:
    """Raise UnreadableError if more than this share of a column's rows cannot be read."""
    for part in add_up(parts):
        if part.count > limit * part.rows:
            end = f"; this is more than max_unreadable, {100 * limit:g} %"
            hidden = part.sentence(shows_example=False) + end
            raise UnreadableError(hidden, part.sentence(shows_example=True) + end)


def require_readable_lists(
    by_name: Mapping[str, Iterable[Unreadable]], limits: Mapping[str, float]
) -> None:
    """Call `require_readable` for each of the joined lists.

    The noise floor's lists are optional.
    """
    for name, parts in by_name.items():
        if name != "noise_floor":
            require_readable(parts, limits[name])
