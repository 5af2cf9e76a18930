"""Checks the names of columns, and converts columns of ids."""

import difflib
import unicodedata
from collections.abc import Sequence

import pyarrow as pa

from monitor.model.errors import UnreadableError
from monitor.model.id_forms import Forms, make_speller

_MOST_NAMES = 20  # the largest number of columns that an error names


def require_columns(names: Sequence[str], present: Sequence[str], where: str) -> None:
    """Raise UnreadableError if the table lacks one of these columns.

    The error has two texts. One lists the table's columns and suggests the most similar one. The
    other lists no columns, to protect privacy. If a file has no header, its first line may contain
    users instead of column names.
    """
    for name in names:
        if name in present:
            continue
        problem = f"{where} has no column {name!r}"
        hidden = (
            f"{problem}: check the name in the options. The setting privacy hides the names of "
            "the columns"
        )
        for similar in difflib.get_close_matches(name, present, n=1):
            problem += f" (did you mean {on_one_line(similar)!r}?)"
        shown = ", ".join(map(on_one_line, present[:_MOST_NAMES])) or "no columns"
        if len(present) > _MOST_NAMES:
            shown += ", ..."
        raise UnreadableError(hidden, f"{problem}: it has {shown}")


def root_of(name: str, present: Sequence[str]) -> str:
    """The column that a name means.

    This is the column of this name, or the column before the dot in a name such as ``recs.id``.
    """
    if name in present:
        return name
    parts = name.split(".")
    beginnings = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return next((beginning for beginning in beginnings if beginning in present), name)


def on_one_line(name: str, most: int = 60) -> str:
    """The first characters of a name or an id, without control characters."""
    return "".join(char for char in name[:most] if unicodedata.category(char)[0] != "C")


def spell_column(ids: pa.Array, forms: Forms) -> pa.Array:
    """A column of ids as text, rewritten by ``forms``. A value that is no id becomes null."""
    if not forms:
        return ids
    return pa.array(make_speller(forms)(ids.to_pylist()), pa.large_string())
