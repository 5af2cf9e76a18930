"""SqlSource and SqlUsers: what a database's rows mean."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from monitor.errors import ConfigError, SourceError
from monitor.model import CoverageReason, Pull, PullRequest, UserTable
from monitor.sources.batches import merged
from monitor.sources.collecting import ListCollector, without
from monitor.sources.columns import id_array
from monitor.sources.deadlines import Deadline, TooLateError
from monitor.sources.ids import user_key
from monitor.sources.lists import LongLists, WantedUsers
from monitor.sources.sql.database import ReadOnlyDatabase, Rows
from monitor.sources.sql.options import SqlOptions, SqlUsersOptions, bound_names
from monitor.sources.usertables import label_array, user_table


class SqlSource:
    """One arm's lists from a database. Port: Source.

    When the deadline passes, users of statements that had ended keep their lists, the others are ``timeout``.
    """

    def __init__(self, options: SqlOptions) -> None:
        self._options = options
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        reading = _Reading(self._database, self._options, request)
        pull = self._wide(reading.batches(), request) if self._options.items else self._long(reading.batches(), request)
        if late := reading.unfinished:
            return without(pull, late, CoverageReason.TIMEOUT, f"{self._database.where} did not answer in time")
        return pull

    def close(self) -> None:
        """Release the engine."""
        self._database.close()

    def _wide(self, batches: Iterator[Rows], request: PullRequest) -> Pull:
        wanted, lists = set(request.users), ListCollector(request.k)
        for rows in batches:
            for key, value in rows:
                if (user := user_key(key)) is not None and user in wanted:
                    lists.add_cell(user, value)
        return lists.pull()

    def _long(self, batches: Iterator[Rows], request: PullRequest) -> Pull:
        names = self._options.columns
        lists = LongLists(WantedUsers(request.users), self._database.where)
        for batch in merged(({n: _column(rows, i) for i, n in enumerate(names)} for rows in batches), len(request.users)):
            lists.add(*(batch[name] for name in names))
        return lists.pull()


class _Reading:
    """The statements of one pull; keeps account of the users whose statement has not ended."""

    def __init__(self, database: ReadOnlyDatabase, options: SqlOptions, request: PullRequest) -> None:
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

    def batches(self) -> Iterator[Rows]:
        """Rows of every statement until the deadline."""
        try:
            with self._database.connection(self._deadline) as connection:
                yield from self._database.counted(self._rows(connection), self._deadline)
        except TooLateError:
            return

    def _rows(self, connection: sa.Connection) -> Iterator[Rows]:
        options = self._options
        statement = _statement(options.query, options.table, options.columns)
        known = {"k": self._request.k, "slot": self._request.slot}
        names = bound_names(options.query) if options.query else frozenset()
        while self._waiting:
            values = known | {"users": self._waiting[0]}
            bound = {name: values[name] for name in names}
            yield from self._database.rows(connection, statement, bound, options.columns)
            self._waiting.popleft()


class SqlUsers:
    """Users from a database, read anew each time. Port: UserSource."""

    def __init__(self, options: SqlUsersOptions) -> None:
        self._options = options
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users of the query or table with these columns as segments."""
        options, where = self._options, self._database.where
        columns = list(dict.fromkeys([options.user, *dimensions]))
        deadline = Deadline.after(options.timeout.total_seconds())
        bound = {"slot": slot} if options.query and bound_names(options.query) else {}
        statement = _statement(options.query, options.table, columns)
        batches = []
        try:
            with self._database.connection(deadline) as connection:
                found = self._database.rows(connection, statement, bound, columns)
                for rows in self._database.counted(found, deadline):
                    segments = {
                        name: label_array((row[columns.index(name)] for row in rows), name, where) for name in dimensions
                    }
                    batches.append((_column(rows, 0), segments))
        except TooLateError:
            msg = f"{where} did not give the users within {options.timeout}: raise timeout, or select fewer"
            raise SourceError(msg, permanent=False) from None
        if not batches:
            msg = f"{where} gives no user: check query or table"
            raise SourceError(msg)
        return user_table(batches, where)

    def close(self) -> None:
        """Release the engine."""
        self._database.close()


def users_of(options: SqlOptions) -> SqlUsersOptions:
    """Return options that list every user of a source of lists; ConfigError when its query asks for named users only."""
    if options.query and bound_names(options.query) & {"users", "k"}:
        msg = "all: true needs a table, or a query without :users and :k: give users.sql or users.file instead"
        raise ConfigError(msg)
    return SqlUsersOptions(
        url=options.url, table=options.table, query=options.query, user=options.user, max_rows=options.max_rows
    )


def _statement(query: str | None, table: str | None, columns: Sequence[str]) -> sa.Executable:
    if table is not None:
        schema, _, name = table.rpartition(".")
        return sa.select(*map(sa.column, columns)).select_from(sa.table(name, schema=schema or None))
    text = sa.text(re.sub(r"\(\s*:users\s*\)", ":users", query or ""))
    known: dict[str, sa.BindParameter[Any]] = {
        "users": sa.bindparam("users", expanding=True, type_=sa.types.NullType()),  # the database knows the column's type
        "slot": sa.bindparam("slot", type_=sa.DateTime(timezone=True)),
    }
    return text.bindparams(*(known[name] for name in bound_names(query or "") if name in known))


def _column(rows: Rows, place: int) -> object:
    return id_array(row[place] for row in rows)
