"""Counts what a reader of one table cannot read, with the first value of each column for example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.model.arrays import Flags, Integers
from monitor.model.unreadable import Need, Unreadable, add_up
from monitor.reading.dialects import recognize_dialect
from monitor.reading.ids import describe_value, id_array, id_column, name_a_field, user_key


class Tally:
    """What cannot be read of the table ``where``."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._parts: list[Unreadable] = []
        self._odd = dict[str, object]()

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """One value for each column."""
        return add_up(self._parts)

    def ids(self, values: pa.Array | Sequence[object], column: str) -> pa.Array:
        """The ids of a column as `id_column` has them. Counts the values that are no ids."""
        ids = (
            id_column(values, column, self.where)
            if isinstance(values, pa.Array)
            else id_array(values)
        )
        example = values[pc.index(ids.is_null(), True).as_py()] if ids.null_count else None
        self.count(column, Need.IDS, ids.null_count, len(ids), example)
        return ids

    def list_items(self, values: pa.Array, column: str, lengths: Integers) -> pa.Array:
        """The ids of a column of lists, one behind the other.

        Counts the lists that hold a value that is no id.
        """
        ids = id_column(values, column, self.where)
        count, example = 0, None
        if ids.null_count:
            odd = np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))
            count, example = (
                len(np.unique(np.repeat(np.arange(len(lengths)), lengths)[odd])),
                values[int(odd[0])],
            )
        self.count(column, Need.IDS, count, len(lengths), example)
        return ids

    def convert(self, values: Sequence[object], column: str) -> pa.Array:
        """The ids of Python's values, null where one is no id.

        Keeps the first of these for `ids`, which counts.
        """
        ids = id_array(values)
        if ids.null_count:
            self._odd.setdefault(column, values[pc.index(ids.is_null(), True).as_py()])
        return ids

    def users(self, values: pa.Array | Sequence[object], column: str) -> pa.Array:
        """The same as text."""
        return self.ids(values, column).cast(pa.large_string())

    def flags(self, column: str, need: Need, is_unreadable: Flags, values: pa.Array) -> None:
        """Count rows of a column."""
        example = values[int(np.argmax(is_unreadable))] if is_unreadable.any() else None
        self.count(column, need, int(is_unreadable.sum()), len(is_unreadable), example)

    def count(self, column: str, need: Need, count: int, rows: int, example: object) -> None:
        """Count so many of so many rows, perhaps none."""
        value = example.as_py() if isinstance(example, pa.Scalar) else example
        value = self._odd.get(column) if count and value is None else value
        self._parts.append(unreadable_of(self.where, column, need, count, rows, value))


def unreadable_of(
    where: str, column: str, need: Need, count: int, rows: int, value: object
) -> Unreadable:
    """So many of so many rows, of which one holds ``value``."""
    found = describe_value(value)
    hint = name_a_field(column, str(next(iter(value)))) if isinstance(value, dict) and value else ""
    if need is not Need.IDS:
        is_item = need is Need.LISTS and user_key(value) is None
        found = found if is_item else _WORDS.get(type(value), found)
    if need is Need.LISTS and (dialect := recognize_dialect(value)) is not None:
        found, hint = dialect.name, dialect.advice
    return Unreadable(
        where=where,
        column=column,
        need=need,
        count=count,
        rows=rows,
        found=found,
        example=None if value is None else repr(value),
        hint=hint,
    )


_WORDS: dict[type, str] = {str: "text", int: "a number", float: "a number"}
"""What a value is where no ids are wanted."""
