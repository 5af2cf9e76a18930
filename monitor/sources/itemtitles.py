"""Titles of a few items, looked up in columns of a catalogue: what people call them. Only what is asked for is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from monitor.errors import SourceError
from monitor.sources.columns import id_column

LONGEST = 200
"""Characters of a title that are kept."""

Column: TypeAlias = pa.Array | Sequence[object]


def item_titles(batches: Iterable[tuple[pa.Array, Column]], items: Collection[str], where: str) -> dict[str, str]:
    """Titles of those of the items that have one, from batches of an item and a title column; the first of an item counts.

    Rows without an item or a title are passed over; 42 and "42" are one item. SourceError when a title is neither text nor a
    number.
    """
    wanted, found = pa.array(sorted(items), pa.large_string()), dict[str, str]()
    for column, titles in batches:
        ids = id_column(column, f"the item column of {where}").cast(pa.large_string())
        for place in pc.indices_nonzero(pc.is_in(ids, value_set=wanted)).to_pylist():
            title = _text(titles[place], where)
            if title is not None:
                found.setdefault(ids[place].as_py(), title)
    return found


def _text(given: object, where: str) -> str | None:
    value = given.as_py() if isinstance(given, pa.Scalar) else given
    if value is None or value == "":
        return None
    if not isinstance(value, str | int | float):
        msg = f"the title column of {where} holds {type(value).__name__}: titles must be text"
        raise SourceError(msg)
    return str(value)[:LONGEST]
