"""Queries and tables of a database as tables, and lists from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from monitor.deadline import Deadline, OverdueError
from monitor.errors import SourceError
from monitor.model import CoverageReason, Pull, PullRequest
from monitor.options import format_duration
from monitor.sources.list_collector import pull_without
from monitor.sources.sql import SqlSourceOptions, SqlTableOptions, bound_names
from monitor.sources.sql.read_only_database import ReadOnlyDatabase, statement_of
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
            yield from database.read(statement, [bound], columns, deadline)
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
        self._names = bound_names(options.query) if options.query else frozenset()

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        waiting, where = self._statements_of(request), self._database.where
        batches = self._batches(request, waiting)
        pull = TableLists(options=self._options, request=request, where=where).pull(batches)
        if late := [user for users in waiting for user in users]:
            return pull_without(pull, late, CoverageReason.TIMEOUT, f"{where} had not answered when the run's deadline passed")
        return pull

    def close(self) -> None:
        """Every reading has a connection of its own."""

    def _statements_of(self, request: PullRequest) -> deque[list[str]]:
        """The users of each statement."""
        users = request.users.tolist()
        size = self._options.batch if "users" in self._names else max(1, len(users))
        return deque(users[start : start + size] for start in range(0, len(users), size))

    def _batches(self, request: PullRequest, waiting: deque[list[str]]) -> Iterator[TableBatch]:
        """Rows of every statement until the deadline; the users of those that have ended wait no longer."""
        options, deadline = self._options, Deadline.after(request.timeout_s)

        def bind() -> Iterator[dict[str, object]]:
            while waiting:
                values = {"k": request.k, "slot": request.slot, "users": waiting[0]}
                yield {name: values[name] for name in self._names}
                waiting.popleft()

        statement = statement_of(options.query, options.table, options.columns)
        with suppress(OverdueError):
            yield from self._database.read(statement, bind(), options.columns, deadline)


sql_users = over_table(TableUsers, SqlTable)
sql_item_weights = over_table(TableItemWeights, SqlTable)
sql_item_titles = over_table(TableItemTitles, SqlTable)
sql_relevance = over_table(TableRelevance, SqlTable)
