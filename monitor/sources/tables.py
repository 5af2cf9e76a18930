"""Users, item weights, item titles and relevance from any table, a file or what a query gives: all rows mean the same."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from monitor.errors import SourceError
from monitor.model.rankings import ItemWeights, RelevanceTable, UserTable
from monitor.model.unreadable import MAX_UNREADABLE, require_readable
from monitor.reading.ids import is_text
from monitor.reading.tally import Tally
from monitor.sources import table_lists
from monitor.sources.columns import spell_column, value_array
from monitor.sources.lookup_tables import GradedItems, item_titles, item_weights, user_table


class MissingTableError(SourceError):
    """The table is not there yet, for whoever waits for it."""


class Table(ABC):
    """Rows of columns, read whole.

    Ports: UserSource, ItemWeightSource, ItemTitleSource, RelevanceSource, by its options.
    """

    max_bytes: int | None = (
        None  # most memory for what is kept of the rows, None where their number is bounded already
    )

    def __init__(self, options: Any) -> None:  # noqa: ANN401 - those of what is read
        self._options = options

    @abstractmethod
    def where(self, slot: datetime) -> str:
        """The table of a slot, as errors call it."""

    @abstractmethod
    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[table_lists.TableBatch]:
        """Rows of these columns as of a slot.

        MissingTableError, or another SourceError when they cannot be read.
        """

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users of the table, with these columns as segments."""
        user, where, rows, size = self._options.user, self.where(slot), [], 0
        tally = Tally(where)
        for batch in self.batches(slot, tuple(dict.fromkeys((user, *dimensions)))):
            users = self._users(batch, tally)
            segments = {name: value_array(batch[name]) for name in dimensions}
            rows.append((users, segments))
            size += users.nbytes + sum(column.nbytes for column in segments.values())
            table_lists.check_size(size, self.max_bytes, where)
        require_readable(tally.unreadable, self._max_unreadable)
        table = user_table(rows, tally)
        require_readable(table.unreadable, self._max_unreadable)
        return table

    @property
    def _max_unreadable(self) -> float:
        return float(getattr(self._options, "max_unreadable", MAX_UNREADABLE))

    def _users(self, batch: table_lists.TableBatch, tally: Tally) -> pa.Array:
        return spell_column(
            tally.users(batch[self._options.user], self._options.user), self._options.user_ids
        )

    def weights(self, slot: datetime) -> ItemWeights:
        """Weights of the table as of this slot."""
        return item_weights(
            self._batches(slot), (self._options.item, self._options.weight), self.where(slot)
        )

    def _batches(self, slot: datetime) -> Iterator[tuple[pa.Array, pa.Array]]:
        size, item, weight = 0, self._options.item, self._options.weight
        for batch in self.batches(slot, (item, weight)):
            columns = table_lists.arrow_arrays(batch, {weight})
            size += sum(column.nbytes for column in columns.values())
            table_lists.check_size(size, self.max_bytes, self.where(slot))
            yield columns[item], columns[weight]

    def titles(self, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """Titles that the table has of these items as of this slot."""
        item, title, tally = self._options.item, self._options.title, Tally(self.where(slot))
        batches = (
            (tally.ids(batch[item], item), batch[title])
            for batch in self.batches(slot, (item, title))
        )
        return item_titles(batches, items, tally)

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """The slot's table of what users found relevant, perhaps nothing.

        None while it is not there or gives no batch.
        """
        where, has_arrived = self.where(slot), False
        options, tally = self._options, Tally(where)
        graded = GradedItems(
            tally, str(options.item or options.items), str(options.grade or options.grades)
        )
        try:
            with table_lists.arrow_errors(where):
                for batch in self.batches(slot, options.columns):
                    has_arrived = True
                    self._add(graded, batch, tally)
                    table_lists.check_size(graded.nbytes, self.max_bytes, where)
        except MissingTableError:
            return None
        require_readable(tally.unreadable, self._max_unreadable)
        return graded.table() if has_arrived else None

    def _add(self, graded: GradedItems, batch: table_lists.TableBatch, tally: Tally) -> None:
        options, users = self._options, self._users(batch, tally)
        if options.item:
            grades = (
                table_lists.arrow_array(batch[options.grade], is_number=True)
                if options.grade
                else None
            )
            graded.add_rows(users, table_lists.arrow_array(batch[options.item]), grades)
            return
        lists, grades = batch[str(options.items)], batch[options.grades] if options.grades else None
        if not isinstance(lists, pa.Array):
            graded.add_cells(users, lists, grades)
        elif is_text(lists.type):
            graded.add_cells(
                users, lists.to_pylist(), None if grades is None else grades.to_pylist()
            )
        else:
            table_lists.require_lists(lists, str(options.items), tally.where, "grade")
            graded.add_lists(users, lists, grades)
