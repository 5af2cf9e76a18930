"""Queries and tables of a database as tables, and lists from them.

Read within limits and without permission to write.
"""

import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import ConfigError, SourceError
from monitor.foreign_errors import note_error, sql_cause
from monitor.model.rankings import CoverageReason, Pull
from monitor.model.runs import PullRequest
from monitor.model.unreadable import Need, Unreadable, require_readable
from monitor.options import format_duration
from monitor.reading.tally import unreadable_of
from monitor.sources.columns import require_columns
from monitor.sources.list_collector import pull_without
from monitor.sources.sql import SqlOptions, SqlSourceOptions, SqlTableOptions
from monitor.sources.table_lists import TableBatch, TableLists
from monitor.sources.table_options import MICROSECONDS, MILLISECONDS, SECONDS, ServedOptions
from monitor.sources.tables import Table

_FETCH = 10_000
_FETCH_LENGTH = 1 << 26  # of all rows, if each is as long as the longest value before
_LONGEST_VALUE = 1 << 22
_SQLITE_STEPS = 10_000
_LONGEST_CONNECT_S = 10.0
_HARMLESS_PRAGMAS = frozenset({"data_version", "page_size"})  # full-text tables read them
_CANCELLED = "57014"  # SQLSTATE query_canceled: what statement_timeout ends with


class ReadOnlyDatabase:
    """A database to read from; every read has a connection of its own, so threads never meet."""

    def __init__(self, url: str, max_rows: int) -> None:
        self._max_rows = max_rows
        self._url = sa.make_url(url)
        if self._url.drivername in ("postgresql", "postgres"):
            self._url = self._url.set(drivername="postgresql+psycopg")
        self._engine, self.dialect = _engine(self._url), self._url.get_backend_name()
        self.name = self._url.database or self._url.drivername
        self.where = f"database {self.name!r}" + (f" on {self._url.host}" if self._url.host else "")

    def read(
        self,
        statement: sa.Executable,
        each: Iterable[Mapping[str, Any]],
        columns: Sequence[str],
        deadline: Deadline,
    ) -> Iterator[TableBatch]:
        """Rows for each set of parameters, in a read-only transaction.

        OverdueError at the deadline, else SourceError.
        """
        total, streamed = 0, {"stream_results": True, "max_row_buffer": _FETCH}
        with self._connection(deadline, str(statement)) as connection:
            for parameters in each:
                with connection.execute(
                    statement, parameters, execution_options=streamed
                ) as result:
                    names = list(result.keys())
                    require_columns(columns, names, f"the answer of {self.where}")
                    picked = result.columns(*(names.index(name) for name in columns))
                    # At first: what is fetched at once is in memory before its length is known
                    size = 1
                    while rows := picked.fetchmany(size):
                        total += len(rows)
                        if total > self._max_rows:
                            msg = (
                                f"{self.where} gives more than {self._max_rows} rows: select fewer, or "
                                "raise max_rows"
                            )
                            raise SourceError(msg)
                        texts = (
                            value
                            for row in rows
                            for value in row
                            if type(value) in {str, bytes, list}
                        )
                        if (longest := max(map(len, texts), default=0)) > _LONGEST_VALUE:
                            msg = (
                                f"{self.where} gives a value of length {longest}: select none longer "
                                f"than {_LONGEST_VALUE}"
                            )
                            raise SourceError(msg)
                        size = min(10 * size, _FETCH, _FETCH_LENGTH // (longest + 1))
                        deadline.require_time()
                        yield {
                            name: [row[place] for row in rows] for place, name in enumerate(columns)
                        }

    @contextmanager
    def _connection(self, deadline: Deadline, statement: str) -> Iterator[sa.Connection]:
        with self._translated(deadline, statement):
            self._require_file()
            with self._engine.connect() as connection:
                _limit(connection, deadline)
                yield connection

    def _require_file(self) -> None:
        file = self._url.database
        in_file = (
            self._url.get_backend_name() == "sqlite"
            and file
            and not file.startswith((":memory:", "file:"))
        )
        # SQLite would make a new, empty database of a mistyped path.
        if in_file and not Path(str(file)).is_file():
            raise SourceError(
                f"database file {file} does not exist: check the url", permanent=False
            )

    @contextmanager
    def _translated(self, deadline: Deadline, statement: str) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            if deadline.is_past or getattr(error.orig, "sqlstate", None) == _CANCELLED:
                raise OverdueError from None
            cause = sql_cause(error.orig or error, statement)
            raise SourceError(
                f"{self.where} cannot be read: {cause}", permanent=cause.permanent
            ) from None
        except SQLAlchemyError as error:
            note_error(error)
            raise SourceError(
                f"{self.where} cannot be read: {type(error).__name__}; check url, query and table"
            ) from None


def _engine(url: sa.URL) -> sa.Engine:
    limits = {
        "postgresql": {"connect_timeout": int(_LONGEST_CONNECT_S)},
        "sqlite": {"timeout": _LONGEST_CONNECT_S / 2},
    }
    try:
        return sa.create_engine(
            url,
            poolclass=NullPool,
            connect_args=limits.get(url.get_backend_name(), {}),
            hide_parameters=True,
        )
    except NoSuchModuleError:
        raise ConfigError(
            f"url names the unknown database driver {url.drivername!r}: use postgresql or sqlite"
        ) from None
    except ImportError as error:
        extra = (
            ": pip install 'rankwatch[postgres]'" if url.get_backend_name() == "postgresql" else ""
        )
        raise ConfigError(
            f"the driver of {url.drivername} is not installed ({error.name}){extra}"
        ) from None


def _limit(connection: sa.Connection, deadline: Deadline) -> None:
    """Let the database itself end what runs too long, and refuse what would write."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        connection.exec_driver_sql(
            f"SET LOCAL statement_timeout = {max(1, int(deadline.remaining_s * 1000))}"
        )
    elif connection.dialect.name in ("mysql", "mariadb"):
        connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
        if getattr(connection.dialect, "is_mariadb", False):
            limit = f"max_statement_time = {deadline.remaining_s + 0.01:.2f}"  # 0 would be none
        else:
            limit = f"max_execution_time = {int(deadline.remaining_s * 1000) + 10}"
        connection.exec_driver_sql(f"SET SESSION {limit}")
    raw = connection.connection.driver_connection
    if isinstance(raw, sqlite3.Connection):
        connection.exec_driver_sql("PRAGMA query_only = ON")
        raw.set_authorizer(_permission)
        raw.set_progress_handler(lambda: int(deadline.is_past), _SQLITE_STEPS)


def _permission(action: int, first: str | None, second: str | None, *_: object) -> int:
    # `query_only` keeps no query from making or changing files: ATTACH, VACUUM INTO by an ATTACH of
    # its own, and pragmas do.
    is_pragma = action == sqlite3.SQLITE_PRAGMA and not (
        first in _HARMLESS_PRAGMAS and second is None
    )
    return (
        sqlite3.SQLITE_DENY if is_pragma or action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
    )


def statement_of(
    options: SqlOptions, columns: Sequence[str], slot: datetime, dialect: str
) -> sa.Executable:
    """A SELECT of the columns from the table or its newest lists, or the query with the types of what it binds."""
    if options.table is not None:
        schema, _, name = options.table.rpartition(".")
        table = sa.table(name, schema=schema or None)
        found: sa.Select[*tuple[Any, ...]] = sa.select(*map(sa.column, columns)).select_from(table)
        served = getattr(options, "served", None)
        return found if served is None else _newest(found, served, columns[0], slot, dialect)
    assert options.parsed_query is not None  # noqa: S101 - options have a query or a table
    return options.parsed_query.statement()


def _newest(
    rows: sa.Select[*tuple[Any, ...]],
    served: ServedOptions,
    user: str,
    slot: datetime,
    dialect: str,
) -> sa.Executable:
    """Those rows that are each user's newest list of the slot.

    Of two at one time that whose request's id is greater.
    """
    at = _instant(served, dialect)
    # Columns decide what type these texts are. PostgreSQL passes over a zone where its column has
    # none.
    zone, untyped = (
        "+00" if dialect == "postgresql" else "",
        partial(sa.literal, type_=sa.types.NullType()),
    )
    start, end = (
        untyped(f"{each:%Y-%m-%d %H:%M:%S.%f}{zone}") for each in (slot - served.within, slot)
    )
    request = at if served.request is None else sa.column(served.request)
    newest = sa.func.first_value(request).over(
        partition_by=sa.column(user), order_by=[at.desc(), request.desc()]
    )
    log = rows.add_columns((request == newest).label("rankwatch_is_newest"))
    log = log.where(at > start, at <= end, *_of_arm(served))
    *columns, is_newest = log.subquery().c
    return sa.select(*columns).where(is_newest)


def _of_arm(served: ServedOptions) -> list[sa.ColumnElement[bool]]:
    return [
        sa.column(name) == sa.literal(value, type_=sa.types.NullType())
        for name, value in served.arm.items()
    ]


def _instant(served: ServedOptions, dialect: str) -> sa.ColumnElement[Any]:
    """The time of a row.

    SQLite has no type for times: text of ISO 8601, or a number whose size tells its unit.
    """
    at: sa.ColumnElement[Any] = sa.column(served.time)
    if dialect != "sqlite":
        return at
    number, text_form = sa.cast(at, sa.types.REAL), "%Y-%m-%d %H:%M:%f"
    size = sa.func.abs(number)
    seconds = sa.case(
        (size < SECONDS, number),
        (size < MILLISECONDS, number / 1e3),
        (size < MICROSECONDS, number / 1e6),
        else_=number / 1e9,
    )
    of_number = sa.func.strftime(text_form, seconds, "unixepoch")
    is_number = sa.func.typeof(at).in_(("integer", "real"))
    is_digits = sa.and_(at.op("GLOB")("[0-9]*"), sa.not_(at.op("GLOB")("*[^0-9.]*")))
    return sa.case((sa.or_(is_number, is_digits), of_number), else_=sa.func.strftime(text_form, at))


def count_unserved(
    database: "ReadOnlyDatabase", options: Any, deadline: Deadline
) -> tuple[Unreadable, ...]:  # noqa: ANN401
    """How many rows of a log of this arm have no time, or no request where one is named."""
    served: ServedOptions | None = getattr(options, "served", None)
    if served is None:
        return ()
    schema, _, name = options.table.rpartition(".")
    table = sa.table(name, schema=schema or None)
    checks = [(served.time, Need.TIMES, _instant(served, database.dialect))]
    if served.request is not None:
        checks.append((served.request, Need.IDS, sa.column(served.request)))
    count, unreadable = sa.func.count(), []
    for column, need, value in checks:
        example = sa.func.min(sa.cast(sa.column(column), sa.types.Text)).label("example")
        odd = (
            sa.select(count.label("rows"), example)
            .select_from(table)
            .where(value.is_(None), *_of_arm(served))
        )
        for found in database.read(odd, [{}], ("rows", "example"), deadline):
            if not found["rows"][0]:
                continue
            every = sa.select(count.label("rows")).select_from(table).where(*_of_arm(served))
            for whole in database.read(every, [{}], ("rows",), deadline):
                lost, shown = int(found["rows"][0]), found["example"][0]
                unreadable.append(
                    unreadable_of(database.where, column, need, lost, int(whole["rows"][0]), shown)
                )
    return tuple(unreadable)


class SqlTable(Table):
    """One query or table of a database, read whole in one statement."""

    def __init__(self, options: SqlTableOptions) -> None:
        super().__init__(options)
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)

    def where(self, slot: datetime) -> str:  # noqa: ARG002 - the base's signature
        """The database, whatever the slot."""
        return self._database.where

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """Some thousand rows at a time, none when there is no row.

        SourceError also when they do not come in time.
        """
        options, database = self._options, self._database
        deadline = Deadline.after(options.timeout.total_seconds())
        bound = {"slot": slot} if options.bound_names else {}
        statement = statement_of(options, columns, slot, database.dialect)
        try:
            if getattr(options, "served", None) is not None:
                require_readable(
                    count_unserved(database, options, deadline), options.max_unreadable
                )
            yield from database.read(statement, [bound], columns, deadline)
        except OverdueError:
            limit = format_duration(options.timeout)
            msg = (
                f"{database.where} did not give all rows within {limit}: raise timeout, or "
                "select fewer"
            )
            raise SourceError(msg, permanent=False) from None


class SqlSource:
    """One arm's lists from a database.

    Port: Source. Users of statements that the deadline ends are ``timeout``.
    """

    def __init__(self, options: SqlSourceOptions) -> None:
        self._options = options
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)
        self._names = options.bound_names
        self._late = f"{self._database.where} had not answered when the run's deadline passed"

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        # In a thread that is given up: names may hang in DNS, and drivers wait for what never comes
        try:
            return BackgroundCall(lambda: self._pull(request), name="sql").wait(
                Deadline.after(request.timeout_s + 1)
            )
        except OverdueError:
            return Pull.failed(request.users, CoverageReason.TIMEOUT, self._late)

    def _pull(self, request: PullRequest) -> Pull:
        users, where = request.users.tolist(), self._database.where
        size = self._options.batch if "users" in self._names else max(1, len(users))
        # The users of each statement.
        waiting = deque(users[start : start + size] for start in range(0, len(users), size))
        batches = self._batches(request, waiting)
        unserved: tuple[Unreadable, ...] = ()
        with suppress(OverdueError):  # what is late is told of the lists
            unserved = count_unserved(
                self._database, self._options, Deadline.after(request.timeout_s)
            )
        pull = TableLists(
            options=self._options, users=request.users, k=request.k, where=where
        ).pull(batches)
        pull = replace(pull, unreadable=(*unserved, *pull.unreadable))
        require_readable(pull.unreadable, self._options.max_unreadable)
        late = [user for unanswered in waiting for user in unanswered]
        return pull_without(pull, late, CoverageReason.TIMEOUT, self._late) if late else pull

    def _batches(self, request: PullRequest, waiting: deque[list[str]]) -> Iterator[TableBatch]:
        """Rows of every statement until the deadline.

        The users of those that have ended wait no longer.
        """
        options, deadline = self._options, Deadline.after(request.timeout_s)

        def bind() -> Iterator[dict[str, object]]:
            while waiting:
                values = {"k": request.k, "slot": request.slot, "users": waiting[0]}
                yield {name: values[name] for name in self._names}
                waiting.popleft()

        statement = statement_of(options, options.columns, request.slot, self._database.dialect)
        with suppress(OverdueError):
            yield from self._database.read(statement, bind(), options.columns, deadline)
