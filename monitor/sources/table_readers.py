"""Readers over any table, a file or what a query gives: lists, users, item weights, item titles and relevance.

A kind of source that holds tables opens a `Table`; what its rows mean is the same for all of them and stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from monitor.errors import SourceError
from monitor.model.rankings import ItemWeights, RelevanceTable, UserTable
from monitor.sources.columns import is_text, user_column, value_array
from monitor.sources.lookup_tables import GradedItems, item_titles, item_weights, user_table
from monitor.sources.table_lists import TableBatch, arrow_array, arrow_arrays, arrow_errors, check_size, require_lists
from monitor.sources.table_options import GradeColumnOptions, TitleColumnOptions, UserColumnOptions, WeightColumnOptions

_O = TypeVar("_O")
_R = TypeVar("_R")


class MissingTableError(SourceError):
    """The table is not there yet, for whoever waits for it."""


class Table(Protocol):
    """Rows of named columns, read whole and anew each time."""

    @property
    def max_bytes(self) -> int | None:
        """Most memory that a reader may keep of the rows, None where their number is bounded already."""

    def where(self, slot: datetime) -> str:
        """The table of a slot, as errors call it."""

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """Rows of these columns as of a slot. MissingTableError, or another SourceError when they cannot be read."""

    def close(self) -> None:
        """Release what is held between reads."""


def over_table(reader: Callable[[Table, Any], _R], table: Callable[[_O], Table]) -> Callable[[_O], _R]:
    """What opens this reader over a table of this kind, both with the same options."""
    return lambda options: reader(table(options), options)


class _TableReader(Generic[_O]):
    """What every reader holds."""

    def __init__(self, table: Table, options: _O) -> None:
        self._table, self._options = table, options

    def close(self) -> None:
        """Close the table."""
        self._table.close()


class TableUsers(_TableReader[UserColumnOptions]):
    """Users of a table. Port: UserSource."""

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users of the table, with these columns as segments."""
        user, where, rows, size = self._options.user, self._table.where(slot), [], 0
        for batch in self._table.batches(slot, tuple(dict.fromkeys((user, *dimensions)))):
            users = arrow_array(batch[user])
            segments = {name: value_array(batch[name]) for name in dimensions}
            rows.append((users, segments))
            size += users.nbytes + sum(column.nbytes for column in segments.values())
            check_size(size, self._table.max_bytes, where)
        return user_table(rows, where)


class TableItemWeights(_TableReader[WeightColumnOptions]):
    """Weights of items in a table. Port: ItemWeightSource."""

    def weights(self, slot: datetime) -> ItemWeights:
        """Weights of the table as of this slot."""
        return item_weights(self._batches(slot), self._table.where(slot))

    def _batches(self, slot: datetime) -> Iterator[tuple[pa.Array, pa.Array]]:
        size, item, weight = 0, self._options.item, self._options.weight
        for batch in self._table.batches(slot, (item, weight)):
            columns = arrow_arrays(batch, {weight})
            size += sum(column.nbytes for column in columns.values())
            check_size(size, self._table.max_bytes, self._table.where(slot))
            yield columns[item], columns[weight]


class TableItemTitles(_TableReader[TitleColumnOptions]):
    """Titles of items in a table. Port: ItemTitleSource."""

    def titles(self, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """Titles that the table has of these items as of this slot."""
        item, title = self._options.item, self._options.title
        batches = ((arrow_array(batch[item]), batch[title]) for batch in self._table.batches(slot, (item, title)))
        return item_titles(batches, items, self._table.where(slot))


class TableRelevance(_TableReader[GradeColumnOptions]):
    """What users found relevant, in a table. Port: RelevanceSource.

    A table that gives a batch has arrived; if that has no row, nobody found anything relevant.
    """

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """What the table of this slot holds; None while it is not there or gives nothing."""
        where, has_arrived = self._table.where(slot), False
        graded = GradedItems(where)
        try:
            with arrow_errors(where):
                for batch in self._table.batches(slot, self._options.columns):
                    has_arrived = True
                    self._add(graded, batch, where)
                    check_size(graded.nbytes, self._table.max_bytes, where)
        except MissingTableError:
            return None
        return graded.table() if has_arrived else None

    def _add(self, graded: GradedItems, batch: TableBatch, where: str) -> None:
        options, users = self._options, batch[self._options.user]
        if options.item:
            grades = arrow_array(batch[options.grade], is_number=True) if options.grade else None
            graded.add_rows(arrow_array(users), arrow_array(batch[options.item]), grades)
            return
        lists, grades = batch[str(options.items)], batch[options.grades] if options.grades else None
        if not isinstance(lists, pa.Array):
            graded.add_cells(users, lists, grades)
        elif is_text(lists.type):
            users = user_column(users, f"column {options.user!r} of {where}")
            graded.add_cells(users.to_pylist(), lists.to_pylist(), None if grades is None else grades.to_pylist())
        else:
            require_lists(lists, str(options.items), where, "grade")
            graded.add_lists(users, lists, grades)
