"""SqlSource: what a database's rows mean."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pyarrow as pa
import sqlalchemy as sa

from monitor.errors import ConfigError
from monitor.model import CoverageReason, Pull, PullRequest
from monitor.sources.batches import merged
from monitor.sources.collecting import ListCollector, without
from monitor.sources.deadlines import Deadline, TooLateError
from monitor.sources.ids import user_key
from monitor.sources.lists import LongLists, WantedUsers
from monitor.sources.sql.database import ReadOnlyDatabase, Rows
from monitor.sources.sql.options import SqlOptions, SqlUsersOptions, bound_names
from monitor.sources.sql.statements import statement_of
from monitor.sources.sql.tables import ids_at, numbers_at


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
        has_scores = self._options.scores is not None
        wanted, lists = set(request.users), ListCollector(request.k, has_scores=has_scores)
        for rows in batches:
            for key, *cells in rows:
                if (user := user_key(key)) is not None and user in wanted:
                    lists.add_cell(user, *cells)
        return lists.pull()

    def _long(self, batches: Iterator[Rows], request: PullRequest) -> Pull:
        options, lists = self._options, LongLists(WantedUsers(request.users), self._database.where)
        for batch in merged((_columns(rows, options) for rows in batches), len(request.users)):
            lists.add(
                batch[options.user],
                batch[str(options.item)],
                ranks=batch[options.rank] if options.rank else None,
                scores=batch[options.scores] if options.scores else None,
            )
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
        statement = statement_of(options.query, options.table, options.columns)
        known = {"k": self._request.k, "slot": self._request.slot}
        names = bound_names(options.query) if options.query else frozenset()
        while self._waiting:
            values = known | {"users": self._waiting[0]}
            bound = {name: values[name] for name in names}
            yield from self._database.rows(connection, statement, bound, options.columns)
            self._waiting.popleft()


def users_of(options: SqlOptions) -> SqlUsersOptions:
    """Return options that list every user of a source of lists; ConfigError when its query asks for named users only."""
    if options.query and bound_names(options.query) & {"users", "k"}:
        msg = "all: true needs a table, or a query without :users and :k: give users.sql or users.file instead"
        raise ConfigError(msg)
    return SqlUsersOptions(
        url=options.url, table=options.table, query=options.query, user=options.user, max_rows=options.max_rows
    )


def _columns(rows: Rows, options: SqlOptions) -> dict[str, pa.Array]:
    """The columns of rows of the long form."""
    return {
        name: numbers_at(rows, place) if name in options.numbers else ids_at(rows, place)
        for place, name in enumerate(options.columns)
    }
