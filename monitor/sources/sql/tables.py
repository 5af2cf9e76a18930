"""SqlUsers, SqlItemWeights, SqlItemTitles and SqlRelevance: what is read whole, in one statement a slot."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from monitor.errors import SourceError
from monitor.model import ItemWeights, RelevanceTable, UserTable
from monitor.sources.columns import id_array
from monitor.sources.deadlines import Deadline, TooLateError
from monitor.sources.itemtitles import item_titles
from monitor.sources.itemweights import item_weights
from monitor.sources.numbers import number_array
from monitor.sources.relevance import GradedItems
from monitor.sources.sql.database import ReadOnlyDatabase, Rows
from monitor.sources.sql.options import (
    SqlItemTitlesOptions,
    SqlItemWeightsOptions,
    SqlRelevanceOptions,
    SqlUsersOptions,
    bound_names,
)
from monitor.sources.sql.statements import statement_of
from monitor.sources.usertables import label_array, user_table


class SqlTable:
    """One query or table of a database, read whole and anew each time."""

    def __init__(
        self, options: SqlUsersOptions | SqlItemWeightsOptions | SqlItemTitlesOptions | SqlRelevanceOptions, what: str
    ) -> None:
        self._options = options
        self._what = what
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)
        self.where = self._database.where

    def rows(self, slot: datetime, columns: Sequence[str]) -> Iterator[Rows]:
        """Rows with these columns, some thousand at a time. SourceError also when they do not come in time."""
        options = self._options
        deadline = Deadline.after(options.timeout.total_seconds())
        bound = {"slot": slot} if options.query and bound_names(options.query) else {}
        statement = statement_of(options.query, options.table, columns)
        try:
            with self._database.connection(deadline) as connection:
                yield from self._database.counted(self._database.rows(connection, statement, bound, columns), deadline)
        except TooLateError:
            msg = f"{self.where} did not give the {self._what} within {options.timeout}: raise timeout, or select fewer"
            raise SourceError(msg, permanent=False) from None

    def close(self) -> None:
        """Release the engine."""
        self._database.close()


class SqlUsers:
    """Users from a database, read anew each time. Port: UserSource."""

    def __init__(self, options: SqlUsersOptions) -> None:
        self._options = options
        self._table = SqlTable(options, "users")

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users of the query or table with these columns as segments."""
        where = self._table.where
        columns = list(dict.fromkeys([self._options.user, *dimensions]))
        batches = []
        for rows in self._table.rows(slot, columns):
            places = {name: columns.index(name) for name in dimensions}
            segments = {name: label_array((row[place] for row in rows), name, where) for name, place in places.items()}
            batches.append((ids_at(rows, 0), segments))
        if not batches:
            msg = f"{where} gives no user: check query or table"
            raise SourceError(msg)
        return user_table(batches, where)

    def close(self) -> None:
        """Release the engine."""
        self._table.close()


class SqlItemWeights:
    """Weights of items from a database, read anew each time. Port: ItemWeightSource."""

    def __init__(self, options: SqlItemWeightsOptions) -> None:
        self._options = options
        self._table = SqlTable(options, "weights")

    def weights(self, slot: datetime) -> ItemWeights:
        """Weights that query or table give as of this slot."""
        batches = self._table.rows(slot, (self._options.item, self._options.weight))
        return item_weights(((ids_at(rows, 0), numbers_at(rows, 1)) for rows in batches), self._table.where)

    def close(self) -> None:
        """Release the engine."""
        self._table.close()


class SqlItemTitles:
    """Titles of items from a database, read anew each time. Port: ItemTitleSource."""

    def __init__(self, options: SqlItemTitlesOptions) -> None:
        self._options = options
        self._table = SqlTable(options, "titles")

    def titles(self, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        """Titles that query or table give of these items as of this slot."""
        batches = self._table.rows(slot, (self._options.item, self._options.title))
        return item_titles(((ids_at(rows, 0), [row[1] for row in rows]) for rows in batches), items, self._table.where)

    def close(self) -> None:
        """Release the engine."""
        self._table.close()


class SqlRelevance:
    """What users found relevant from a database, read anew each time. Port: RelevanceSource."""

    def __init__(self, options: SqlRelevanceOptions) -> None:
        self._options = options
        self._table = SqlTable(options, "relevance")

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """What query or table say of this slot; None while they have no row."""
        options, graded, is_there = self._options, GradedItems(self._table.where), False
        columns = tuple(name for name in (options.user, options.item, options.grade) if name)
        for rows in self._table.rows(slot, columns):
            is_there = True
            graded.add_rows(ids_at(rows, 0), ids_at(rows, 1), numbers_at(rows, 2) if options.grade else None)
        return graded.table() if is_there else None

    def close(self) -> None:
        """Release the engine."""
        self._table.close()


def ids_at(rows: Rows, place: int) -> pa.Array:
    """One column of rows as ids."""
    return id_array(row[place] for row in rows)


def numbers_at(rows: Rows, place: int) -> pa.Array:
    """One column of rows as numbers."""
    return number_array(row[place] for row in rows)
