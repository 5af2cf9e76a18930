"""Reads users, item weights, item titles and relevance from the rows of any table.

A table is a file or the result of a query. Rows have the same meaning in all tables.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from monitor.measures.reading.ids import id_column
from monitor.measures.reading.numbers import number_column, value_array
from monitor.measures.reading.unreadable_values import Tally
from monitor.model.errors import SourceError
from monitor.model.rankings import ItemWeights, RelevanceTable, UserSums, UserTable
from monitor.model.unreadable import MAX_UNREADABLE, require_readable
from monitor.sources import table_lists
from monitor.sources.columns import spell_column
from monitor.sources.lookup_tables import (
    GradedItems,
    add_outcomes,
    build_user_table,
    item_titles,
    item_weights,
    user_sums,
)


class MissingTableError(SourceError):
    """The table does not exist yet. Callers may wait for it."""


class Table(ABC):
    """A table that is read completely.

    Its options decide which of these ports it implements: UserSource, ItemWeightSource,
    ItemTitleSource, RelevanceSource, OutcomeSource.
    """

    # The largest memory for the rows in use, in bytes. None if the number of rows is limited
    # instead.
    max_bytes: int | None = None

    def __init__(self, options: Any) -> None:  # noqa: ANN401 - options of any reader
        self._options = options

    @abstractmethod
    def where(self, slot: datetime) -> str:
        """The name of the slot's table in errors."""

    @abstractmethod
    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[table_lists.TableBatch]:
        """The rows of the slot's table, with these columns.

        Raises:
            MissingTableError: The table does not exist yet.
            SourceError: The rows cannot be read.
        """

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users of the table. The columns ``dimensions`` have the users' segments."""
        user = self._options.user
        where = self.where(slot)
        tally = Tally(where)
        rows = []
        nbytes = 0
        for batch in self.batches(slot, tuple(dict.fromkeys((user, *dimensions)))):
            users = self._users(batch, tally)
            segments = {name: value_array(batch[name]) for name in dimensions}
            rows.append((users, segments))
            nbytes += users.nbytes + sum(labels.nbytes for labels in segments.values())
            table_lists.check_size(nbytes, self.max_bytes, where)
        require_readable(tally.unreadable, self._max_unreadable)
        table = build_user_table(rows, tally)
        require_readable(table.unreadable, self._max_unreadable)
        return table

    def sums(self, slot: datetime, outcomes: Sequence[str]) -> UserSums:
        """The sums of these columns for each user. A batch has one row for rows that are equal."""
        user = self._options.user
        where = self.where(slot)
        tally = Tally(where)
        of_users = Tally(where)  # ignored, because the lists count rows without a user
        parts = []
        nbytes = 0
        for batch in self.batches(slot, tuple(dict.fromkeys((user, *outcomes)))):
            parts.append(add_outcomes(self._users(batch, of_users), batch, outcomes, tally))
            nbytes += int(parts[-1].memory_usage().sum())
            table_lists.check_size(nbytes, self.max_bytes, where)
        require_readable(tally.unreadable, self._max_unreadable)
        return user_sums(parts, outcomes, tally)

    @property
    def _max_unreadable(self) -> float:
        return float(getattr(self._options, "max_unreadable", MAX_UNREADABLE))

    def _users(self, batch: table_lists.TableBatch, tally: Tally) -> pa.Array:
        user = self._options.user
        return spell_column(tally.users(batch[user], user), self._options.user_ids)

    def weights(self, slot: datetime) -> ItemWeights:
        """The item weights in the slot's table."""
        item = self._options.item
        weight = self._options.weight
        where = self.where(slot)
        items = []
        weights = []
        nbytes = 0
        for batch in self.batches(slot, (item, weight)):
            items.append(id_column(batch[item], item, where))
            weights.append(number_column(batch[weight], weight, where)[0])
            nbytes += items[-1].nbytes + weights[-1].nbytes
            table_lists.check_size(nbytes, self.max_bytes, where)
        return item_weights(items, weights, where)

    def titles(self, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """The titles of these items in the slot's table. Items without a title are left out."""
        item = self._options.item
        title = self._options.title
        tally = Tally(self.where(slot))
        batches = self.batches(slot, (item, title))
        titled = ((tally.ids(batch[item], item), batch[title]) for batch in batches)
        return item_titles(titled, items, tally)

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """What users found relevant, in the slot's table. The result may be empty.

        The result is None if the table does not exist yet or has no batch.
        """
        options = self._options
        where = self.where(slot)
        tally = Tally(where)
        item = str(options.item or options.items)
        graded = GradedItems(tally, item, str(options.grade or options.grades))
        has_arrived = False
        try:
            with table_lists.arrow_errors(where):
                for batch in self.batches(slot, options.columns):
                    has_arrived = True
                    self._add(graded, batch, tally)
                    table_lists.check_size(graded.nbytes, self.max_bytes, where)
        except MissingTableError:
            return None
        require_readable(tally.unreadable, self._max_unreadable)
        if not has_arrived:
            return None
        return graded.table()

    def _add(self, graded: GradedItems, batch: table_lists.TableBatch, tally: Tally) -> None:
        options = self._options
        users = self._users(batch, tally)
        if options.item:
            grades = batch[options.grade] if options.grade else None
            graded.add_rows(users, batch[options.item], grades)
            return
        grades = batch[options.grades] if options.grades else None
        name = options.items
        lists = table_lists.lists_in(batch[name], grades, name, tally.where, "grade")
        graded.add_lists(users, *lists)
