"""Counts the unreadable values in each column of a table, and stores an example of them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from monitor.measures.reading.dialects import recognize_dialect
from monitor.measures.reading.ids import describe_value, first_null, id_column, user_key
from monitor.model.arrays import Flags
from monitor.model.unreadable import ColumnKind, Unreadable, add_up


class Tally:
    """Counts the unreadable values of one table. Errors name the table ``where``."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._parts: list[Unreadable] = []

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """The counts and examples, with one entry for each column."""
        return add_up(self._parts)

    def ids(self, values: pa.Array | Sequence[object], column: str) -> pa.Array:
        """The ids of a column, as `id_column` returns them. Count the values that are no ids."""
        ids = id_column(values, column, self.where)
        example = first_null(ids, values) if ids.null_count else None
        self.count(column, ColumnKind.IDS, ids.null_count, len(ids), example)
        return ids

    def users(self, values: pa.Array | Sequence[object], column: str) -> pa.Array:
        """The ids of a column as text. Count the values that are no ids."""
        return self.ids(values, column).cast(pa.large_string())

    def count_marked(
        self,
        column: str,
        need: ColumnKind,
        is_unreadable: Flags,
        values: pa.Array,
    ) -> None:
        """Count the rows of a column that ``is_unreadable`` marks."""
        example = values[int(np.argmax(is_unreadable))] if is_unreadable.any() else None
        self.count(column, need, int(is_unreadable.sum()), len(is_unreadable), example)

    def count(
        self,
        column: str,
        need: ColumnKind,
        count: int,
        rows: int,
        example: object,
    ) -> None:
        """Add the result of reading a part of a column.

        ``rows`` is the number of rows that were read, and ``count`` of them are unreadable.
        """
        if isinstance(example, pa.Scalar):
            example = example.as_py()
        self._parts.append(unreadable_of(self.where, column, need, count, rows, example))


def unreadable_of(
    where: str,
    column: str,
    need: ColumnKind,
    count: int,
    rows: int,
    value: object,
) -> Unreadable:
    """An entry that reports how many rows of a column cannot be read.

    ``count`` of all ``rows`` are unreadable. ``value`` is one of the unreadable values.
    """
    description = describe_value(value)
    hint = ""
    field = str(next(iter(value))) if isinstance(value, dict) and value else None
    is_list_of_none = need is ColumnKind.LISTS and user_key(value) is None
    if need is not ColumnKind.IDS and not is_list_of_none:
        description = _WORDS.get(type(value), description)
    if need is ColumnKind.LISTS:
        dialect = recognize_dialect(value)
        if dialect is not None:
            description = dialect.name
            hint = dialect.advice
    return Unreadable(
        where=where,
        column=column,
        need=need,
        count=count,
        rows=rows,
        found=description,
        example=None if value is None else repr(value),
        hint=hint,
        field=field,
    )


_WORDS: dict[type, str] = {str: "text", int: "a number", float: "a number"}
"""Words for values that can be ids. `describe_value` has no words for such values."""
