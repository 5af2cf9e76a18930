"""Queries and tables of a database as tables, and lists from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime

import sqlalchemy as sa

from monitor.deadline import Deadline, OverdueError
from monitor.errors import SourceError
from monitor.model import CoverageReason, Pull, PullRequest
from monitor.options import format_duration
from monitor.sources.list_collector import pull_without
from monitor.sources.sql import SqlSourceOptions, SqlTableOptions, bound_names
from monitor.sources.sql.read_only_database import ReadOnlyDatabase, SqlRows, statement_of
from monitor.sources.table_lists import TableBatch, TableLists
from monitor.sources.table_readers import (
    TableItemTitles,
    TableItemWeights,
    TableRelevance,
    TableUsers,
    over_table,
)


class SqlTable:
    """One query or table of a database, read whole in one statement. Port: Table."""

    max_bytes = None  # the number of rows is bounded

    def __init__(self, options: SqlTableOptions) -> None:
        self._options = options
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)

    def where(self, slot: datetime) -> str:
        """The database, whatever the slot."""
        del slot
        return self._database.where

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """Some thousand rows at a time, none when there is no row. SourceError also when they do not come in time."""
        options, database = self._options, self._database
        deadline = Deadline.after(options.timeout.total_seconds())
        bound = {"slot": slot} if options.query and bound_names(options.query) else {}
        statement = statement_of(options.query, options.table, columns)
        try:
            with database.connection(deadline) as connection:
                for rows in database.counted(database.rows(connection, statement, bound, columns), deadline):
                    yield _batch(rows, columns)
        except OverdueError:
            limit = format_duration(options.timeout)
            msg = f"{database.where} did not give all rows within {limit}: raise timeout, or select fewer"
            raise SourceError(msg, permanent=False) from None

    def close(self) -> None:
        """Every reading has a connection of its own."""


class SqlSource:
    """One arm's lists from a database. Port: Source.

    When the deadline passes, users of statements that had ended keep their lists, the others are ``timeout``.
    """

    def __init__(self, options: SqlSourceOptions) -> None:
        self._options = options
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        statements, where = _Statements(self._database, self._options, request), self._database.where
        pull = TableLists(options=self._options, request=request, where=where).pull(statements.batches())
        if late := statements.unfinished:
            return pull_without(pull, late, CoverageReason.TIMEOUT, f"{where} had not answered when the run's deadline passed")
        return pull

    def close(self) -> None:
        """Every reading has a connection of its own."""


class _Statements:
    """The statements of one pull, and the users whose statement has not ended."""

    def __init__(self, database: ReadOnlyDatabase, options: SqlSourceOptions, request: PullRequest) -> None:
        self._database = database
        self._options = options
        self._request = request
        self._names = bound_names(options.query) if options.query else frozenset()
        users = request.users.tolist()
        size = options.batch if "users" in self._names else max(1, len(users))
        self._waiting = deque(users[start : start + size] for start in range(0, len(users), size))

    @property
    def unfinished(self) -> list[str]:
        """Users whose statement did not end in time."""
        return [user for users in self._waiting for user in users]

    def batches(self) -> Iterator[TableBatch]:
        """Rows of every statement until the deadline."""
        deadline = Deadline.after(self._request.timeout_s)
        try:
            with self._database.connection(deadline) as connection:
                for rows in self._database.counted(self._rows(connection), deadline):
                    yield _batch(rows, self._options.columns)
        except OverdueError:
            return

    def _rows(self, connection: sa.Connection) -> Iterator[SqlRows]:
        options = self._options
        statement = statement_of(options.query, options.table, options.columns)
        known = {"k": self._request.k, "slot": self._request.slot}
        while self._waiting:
            values = known | {"users": self._waiting[0]}
            bound = {name: values[name] for name in self._names}
            yield from self._database.rows(connection, statement, bound, options.columns)
            self._waiting.popleft()


def _batch(rows: SqlRows, columns: Sequence[str]) -> TableBatch:
    return {name: [row[place] for row in rows] for place, name in enumerate(columns)}


sql_users = over_table(TableUsers, SqlTable)
sql_item_weights = over_table(TableItemWeights, SqlTable)
sql_item_titles = over_table(TableItemTitles, SqlTable)
sql_relevance = over_table(TableRelevance, SqlTable)
