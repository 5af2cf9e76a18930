"""Counts the unreadable values of a table, and stores one example for each column."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.measures.reading.dialects import recognize_dialect
from monitor.measures.reading.ids import describe_value, id_array, id_column, user_key
from monitor.model.arrays import Flags
from monitor.model.unreadable import Need, Unreadable, add_up


class Tally:
    """The counts for one table. ``where`` is the name of the table in errors."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._parts: list[Unreadable] = []
        self._examples = dict[str, object]()

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """The unreadable values, with one entry for each column."""
        return add_up(self._parts)

    def ids(self, values: pa.Array | Sequence[object], column: str) -> pa.Array:
        """The ids of a column, as `id_column` returns them. Counts the values that are no ids."""
        ids = id_column(values, column, self.where)
        example = values[pc.index(ids.is_null(), True).as_py()] if ids.null_count else None
        self.count(column, Need.IDS, ids.null_count, len(ids), example)
        return ids

    def convert(self, values: Sequence[object], column: str) -> pa.Array:
        """The ids of Python's values. A value that is no id becomes null.

        The first such value is stored as the example. A later call of `ids` uses it.
        """
        ids = id_array(values)
        if ids.null_count:
            self._examples.setdefault(column, values[pc.index(ids.is_null(), True).as_py()])
        return ids

    def users(self, values: pa.Array | Sequence[object], column: str) -> pa.Array:
        """The ids of a column as text. Counts the values that are no ids."""
        return self.ids(values, column).cast(pa.large_string())

    def flags(
        self,
        column: str,
        need: Need,
        is_unreadable: Flags,
        values: pa.Array,
    ) -> None:
        """Count the rows of a column that are marked as unreadable."""
        example = values[int(np.argmax(is_unreadable))] if is_unreadable.any() else None
        self.count(column, need, int(is_unreadable.sum()), len(is_unreadable), example)

    def count(
        self,
        column: str,
        need: Need,
        count: int,
        rows: int,
        example: object,
    ) -> None:
        """Add ``count`` unreadable rows. ``rows`` is the number of all rows."""
        if isinstance(example, pa.Scalar):
            example = example.as_py()
        if count and example is None:
            example = self._examples.get(column)
        self._parts.append(unreadable_of(self.where, column, need, count, rows, example))


def unreadable_of(
    where: str,
    column: str,
    need: Need,
    count: int,
    rows: int,
    value: object,
) -> Unreadable:
    """An entry that reports ``count`` unreadable rows of ``rows``, with ``value`` as an example."""
    description = describe_value(value)
    hint = ""
    field = str(next(iter(value))) if isinstance(value, dict) and value else None
    is_list_of_none = need is Need.LISTS and user_key(value) is None
    if need is not Need.IDS and not is_list_of_none:
        description = _WORDS.get(type(value), description)
    if need is Need.LISTS:
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
"""Names for values that can be ids, but are not what the column needs."""
