"""Lists, users, item weights, item titles and relevance from a database."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import sqlalchemy as sa

from monitor.deadline import Deadline, OverdueError
from monitor.errors import ConfigError, SourceError
from monitor.model import CoverageReason, ItemWeights, Pull, PullRequest, RelevanceTable, UserTable
from monitor.sources.arrow_lists import LongLists, WantedUsers, merge_batches
from monitor.sources.graded_items import GradedItems
from monitor.sources.id_columns import id_array, user_key
from monitor.sources.list_collector import ListCollector, pull_without
from monitor.sources.lookup_tables import item_titles, item_weights, label_array, user_table
from monitor.sources.number_columns import number_array
from monitor.sources.sql.options import (
    SqlItemTitlesOptions,
    SqlItemWeightsOptions,
    SqlRelevanceOptions,
    SqlSourceOptions,
    SqlUsersOptions,
    bound_names,
)
from monitor.sources.sql.read_only_database import ReadOnlyDatabase, SqlRows, statement_of


class SqlTable:
    """One query or table of a database, read whole and anew each time."""

    def __init__(
        self, options: SqlUsersOptions | SqlItemWeightsOptions | SqlItemTitlesOptions | SqlRelevanceOptions, what: str
    ) -> None:
        self._options = options
        self._what = what
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)
        self.where = self._database.where

    def rows(self, slot: datetime, columns: Sequence[str]) -> Iterator[SqlRows]:
        """Rows with these columns, some thousand at a time. SourceError also when they do not come in time."""
        options = self._options
        deadline = Deadline.after(options.timeout.total_seconds())
        bound = {"slot": slot} if options.query and bound_names(options.query) else {}
        statement = statement_of(options.query, options.table, columns)
        try:
            with self._database.connection(deadline) as connection:
                yield from self._database.counted(self._database.rows(connection, statement, bound, columns), deadline)
        except OverdueError:
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


def ids_at(rows: SqlRows, place: int) -> pa.Array:
    """One column of rows as ids."""
    return id_array(row[place] for row in rows)


def numbers_at(rows: SqlRows, place: int) -> pa.Array:
    """One column of rows as numbers."""
    return number_array(row[place] for row in rows)


class SqlSource:
    """One arm's lists from a database. Port: Source.

    When the deadline passes, users of statements that had ended keep their lists, the others are ``timeout``.
    """

    def __init__(self, options: SqlSourceOptions) -> None:
        self._options = options
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        reading = _SqlPull(self._database, self._options, request)
        pull = self._wide(reading.batches(), request) if self._options.items else self._long(reading.batches(), request)
        if late := reading.unfinished:
            return pull_without(pull, late, CoverageReason.TIMEOUT, f"{self._database.where} did not answer in time")
        return pull

    def close(self) -> None:
        """Release the engine."""
        self._database.close()

    def _wide(self, batches: Iterator[SqlRows], request: PullRequest) -> Pull:
        has_scores = self._options.scores is not None
        wanted, lists = set(request.users), ListCollector(request.k, has_scores=has_scores)
        for rows in batches:
            for key, *cells in rows:
                if (user := user_key(key)) is not None and user in wanted:
                    lists.add_cell(user, *cells)
        return lists.pull()

    def _long(self, batches: Iterator[SqlRows], request: PullRequest) -> Pull:
        options, lists = self._options, LongLists(WantedUsers(request.users), self._database.where)
        for batch in merge_batches((_columns(rows, options) for rows in batches), len(request.users)):
            lists.add(
                batch[options.user],
                batch[str(options.item)],
                ranks=batch[options.rank] if options.rank else None,
                scores=batch[options.scores] if options.scores else None,
            )
        return lists.pull()


class _SqlPull:
    """The statements of one pull; keeps account of the users whose statement has not ended."""

    def __init__(self, database: ReadOnlyDatabase, options: SqlSourceOptions, request: PullRequest) -> None:
        self._database = database
        self._options = options
        self._request = request
        self._deadline = Deadline.after(request.timeout_s)
        users = request.users.tolist()
        size = options.batch if options.query and "users" in bound_names(options.query) else max(1, len(users))
        self._waiting = deque(users[start : start + size] for start in range(0, len(users), size))

    @property
    def unfinished(self) -> list[str]:
        """Users whose statement did not end in time."""
        return [user for users in self._waiting for user in users]

    def batches(self) -> Iterator[SqlRows]:
        """Rows of every statement until the deadline."""
        try:
            with self._database.connection(self._deadline) as connection:
                yield from self._database.counted(self._rows(connection), self._deadline)
        except OverdueError:
            return

    def _rows(self, connection: sa.Connection) -> Iterator[SqlRows]:
        options = self._options
        statement = statement_of(options.query, options.table, options.columns)
        known = {"k": self._request.k, "slot": self._request.slot}
        names = bound_names(options.query) if options.query else frozenset()
        while self._waiting:
            values = known | {"users": self._waiting[0]}
            bound = {name: values[name] for name in names}
            yield from self._database.rows(connection, statement, bound, options.columns)
            self._waiting.popleft()


def users_options_of(options: SqlSourceOptions) -> SqlUsersOptions:
    """Return options that list every user of a source of lists; ConfigError when its query asks for named users only."""
    if options.query and bound_names(options.query) & {"users", "k"}:
        msg = "all: true needs a table, or a query without :users and :k: give users.sql or users.file instead"
        raise ConfigError(msg)
    return SqlUsersOptions(
        url=options.url, table=options.table, query=options.query, user=options.user, max_rows=options.max_rows
    )


def _columns(rows: SqlRows, options: SqlSourceOptions) -> dict[str, pa.Array]:
    """The columns of rows of the long form."""
    return {
        name: numbers_at(rows, place) if name in options.numbers else ids_at(rows, place)
        for place, name in enumerate(options.columns)
    }
