"""Reads lists and tables from a database, with limits and without permission to write."""

import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
from monitor.boundary.foreign_errors import note_error, sql_cause
from monitor.boundary.options import format_duration
from monitor.measures.reading.lists import parse_cell
from monitor.measures.reading.tally import unreadable_of
from monitor.model.errors import ConfigError, SourceError
from monitor.model.rankings import CoverageReason, Pull
from monitor.model.runs import PullRequest
from monitor.model.unreadable import Need, Unreadable, require_readable
from monitor.sources.columns import require_columns, root_of
from monitor.sources.list_collector import pull_without
from monitor.sources.sql import SqlOptions, SqlSourceOptions, SqlTableOptions, is_file
from monitor.sources.table_lists import TableBatch, TableLists
from monitor.sources.table_options import MICROSECONDS, MILLISECONDS, SECONDS, ServedOptions
from monitor.sources.tables import Table
from monitor.texts.wording import write_extra

_FETCH = 10_000  # the number of rows
_FETCH_LENGTH = 1 << 26  # the number of characters in all rows of a fetch
_LONGEST_VALUE = 1 << 22  # the number of characters or bytes
_SQLITE_STEPS = 10_000
_LONGEST_CONNECT_S = 10.0
_HARMLESS_PRAGMAS = frozenset({"data_version", "page_size"})  # full-text tables need them
_CANCELLED = "57014"  # the SQLSTATE query_canceled, which statement_timeout causes


class ReadOnlyDatabase:
    """A database to read from. Each read has its own connection, so threads share none."""

    def __init__(self, url: str, max_rows: int) -> None:
        self._max_rows = max_rows
        address = sa.make_url(url)
        if address.drivername in ("postgresql", "postgres"):
            address = address.set(drivername="postgresql+psycopg")
        self._url = address
        self._engine = _engine(address)
        self.dialect = address.get_backend_name()
        self.where = f"database {(address.database or address.drivername)!r}"
        if address.host:
            self.where += f" on {address.host}"

    def read(
        self,
        statement: sa.Executable,
        parameter_sets: Iterable[Mapping[str, Any]],
        columns: Sequence[str],
        deadline: Deadline,
    ) -> Iterator[TableBatch]:
        """The rows for each set of parameters, in a read-only transaction.

        Raises:
            OverdueError: The deadline passed.
            SourceError: The database reports an error, or a limit is exceeded.
        """
        total = 0
        streamed = {"stream_results": True, "max_row_buffer": _FETCH}
        with self._connection(deadline, str(statement)) as connection:
            for parameters in parameter_sets:
                with connection.execute(
                    statement, parameters, execution_options=streamed
                ) as result:
                    names = list(result.keys())
                    roots = {name: root_of(name, names) for name in columns}
                    require_columns(list(roots.values()), names, f"the answer of {self.where}")
                    fetched = list(dict.fromkeys(roots.values()))
                    for rows in self._fetch(result.columns(*map(names.index, fetched))):
                        total += len(rows)
                        if total > self._max_rows:
                            raise SourceError(
                                f"{self.where} gives more than {self._max_rows} rows: select "
                                "fewer rows, or raise max_rows"
                            )
                        deadline.require_time()
                        values = dict(zip(fetched, zip(*rows, strict=True), strict=True))
                        yield {
                            name: _fields(values[root], name, root) for name, root in roots.items()
                        }

    def roots_of(
        self,
        options: SqlOptions,
        columns: Sequence[str],
        deadline: Deadline,
    ) -> list[str]:
        """The columns of the table that have these columns and fields of objects.

        For a query, the given columns are returned.
        """
        if options.table is None or not any("." in name for name in columns):
            return list(columns)
        statement = sa.select(sa.text("*")).select_from(_table_of(options.table)).limit(0)
        with self._connection(deadline, str(statement)) as connection:
            present = list(connection.execute(statement).keys())
        roots = list(dict.fromkeys(root_of(name, present) for name in columns))
        require_columns(roots, present, f"table {options.table} of {self.where}")
        return roots

    def _fetch(self, result: sa.Result[Any]) -> Iterator[Sequence[sa.Row[Any]]]:
        """The rows in parts. Each part has a limited size in memory."""
        size = 1  # because the length of values is not known yet
        while rows := result.fetchmany(size):
            values = chain.from_iterable(rows)
            lengths = (len(value) for value in values if type(value) in {str, bytes, list})
            longest = max(lengths, default=0)
            if longest > _LONGEST_VALUE:
                raise SourceError(
                    f"{self.where} gives a value of length {longest}: select no value longer than "
                    f"{_LONGEST_VALUE}"
                )
            yield rows
            size = min(10 * size, _FETCH, _FETCH_LENGTH // (longest + 1))

    @contextmanager
    def _connection(self, deadline: Deadline, statement: str) -> Iterator[sa.Connection]:
        with self._translated(deadline, statement):
            file = self._url.database
            # For a wrong path, SQLite would create a new and empty database.
            if self.dialect == "sqlite" and is_file(file) and not Path(str(file)).is_file():
                raise SourceError(
                    f"database file {file} does not exist: check url", permanent=False
                )
            with self._engine.connect() as connection:
                _limit(connection, deadline)
                yield connection

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
                f"{self.where} cannot be read ({type(error).__name__}): check url, query and table"
            ) from None


def _fields(values: Sequence[object], name: str, root: str) -> Sequence[object]:
    """The values of a column, or of a field of its objects if the name has dots."""
    fields = name.removeprefix(root).split(".")[1:]
    return [_take_field(value, fields) for value in values] if fields else values


def _take_field(value: object, fields: Sequence[str]) -> object:
    """The field of an object, or of each object in a list.

    Text is read as JSON. The result is None if there is no such field.
    """
    value = parse_cell(value)
    for field in fields:
        if isinstance(value, list):
            value = [each.get(field) if isinstance(each, dict) else None for each in value]
        else:
            value = value.get(field) if isinstance(value, dict) else None
    return value


def _table_of(name: str, columns: Sequence[str] = ()) -> sa.TableClause:
    schema, _, table = name.rpartition(".")
    return sa.table(table, *map(sa.column, columns), schema=schema or None)


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
            f"url has the unknown database driver {url.drivername!r}: use postgresql or sqlite"
        ) from None
    except ImportError as error:
        problem = f"the driver of {url.drivername} is not installed ({error.name})"
        if url.get_backend_name() == "postgresql":
            problem += f": {write_extra('postgres')}"
        raise ConfigError(problem) from None


def _limit(connection: sa.Connection, deadline: Deadline) -> None:
    """Make the database end statements at the deadline and refuse to write."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        connection.exec_driver_sql(
            f"SET LOCAL statement_timeout = {max(1, int(deadline.remaining_s * 1000))}"
        )
    elif connection.dialect.name in ("mysql", "mariadb"):
        connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
        if getattr(connection.dialect, "is_mariadb", False):
            limit = f"max_statement_time = {deadline.remaining_s + 0.01:.2f}"  # 0 is no limit
        else:
            limit = f"max_execution_time = {int(deadline.remaining_s * 1000) + 10}"
        connection.exec_driver_sql(f"SET SESSION {limit}")
    raw = connection.connection.driver_connection
    if isinstance(raw, sqlite3.Connection):
        connection.exec_driver_sql("PRAGMA query_only = ON")
        raw.set_authorizer(_permission)
        raw.set_progress_handler(lambda: int(deadline.is_past), _SQLITE_STEPS)


def _permission(action: int, first: str | None, second: str | None, *_: object) -> int:
    # Even with `query_only`, ATTACH, VACUUM INTO and pragmas can change files. VACUUM INTO
    # attaches.
    is_harmless = first in _HARMLESS_PRAGMAS and second is None
    if action == sqlite3.SQLITE_ATTACH or (action == sqlite3.SQLITE_PRAGMA and not is_harmless):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def statement_of(
    options: SqlOptions,
    columns: Sequence[str],
    slot: datetime,
    dialect: str,
) -> sa.Executable:
    """A SELECT of the columns from the table or log. If the options have a query, the query."""
    if options.table is None:
        assert options.parsed_query is not None  # noqa: S101 - options have a query or a table
        return options.parsed_query.statement()
    # If a quoted name is no column, SQLite reads it as text, unless the table is named too.
    rows: sa.Select[*tuple[Any, ...]] = sa.select(*_table_of(options.table, columns).c)
    served = getattr(options, "served", None)
    if served is None:
        return rows
    return _newest(rows, served, columns[0], slot, dialect)


def _newest(
    rows: sa.Select[*tuple[Any, ...]],
    served: ServedOptions,
    user: str,
    slot: datetime,
    dialect: str,
) -> sa.Executable:
    """The rows of each user's newest list of the slot.

    If two lists of a user have the same time, the list with the greater request id is selected.
    """
    time = _instant(served, dialect)
    # PostgreSQL ignores the time zone if the column has none.
    time_format = "%Y-%m-%d %H:%M:%S.%f" + ("+00" if dialect == "postgresql" else "")
    start = _untyped((slot - served.within).strftime(time_format))
    end = _untyped(slot.strftime(time_format))
    request = time if served.request is None else sa.column(served.request)
    newest = sa.func.first_value(request).over(
        partition_by=sa.column(user), order_by=[time.desc(), request.desc()]
    )
    log = rows.add_columns((request == newest).label("rankwatch_is_newest"))
    log = log.where(time > start, time <= end, *_of_arm(served))
    *columns, is_newest = log.subquery().c
    return sa.select(*columns).where(is_newest)


def _of_arm(served: ServedOptions) -> list[sa.ColumnElement[bool]]:
    return [sa.column(name) == _untyped(value) for name, value in served.arm.items()]


def _untyped(value: str) -> sa.BindParameter[Any]:
    """A value without a type. The database uses the type of the column."""
    return sa.literal(value, type_=sa.types.NullType())


def _instant(served: ServedOptions, dialect: str) -> sa.ColumnElement[Any]:
    """The time of a row.

    SQLite has no type for times. There a time is text in ISO 8601, or a number in any unit.
    """
    time: sa.ColumnElement[Any] = sa.column(served.time)
    if dialect != "sqlite":
        return time
    number = sa.cast(time, sa.types.REAL)
    size = sa.func.abs(number)
    seconds = sa.case(
        (size < SECONDS, number),
        (size < MILLISECONDS, number / 1e3),
        (size < MICROSECONDS, number / 1e6),
        else_=number / 1e9,
    )
    is_number = sa.func.typeof(time).in_(("integer", "real"))
    is_digits = sa.and_(time.op("GLOB")("[0-9]*"), sa.not_(time.op("GLOB")("*[^0-9.]*")))
    text_form = "%Y-%m-%d %H:%M:%f"
    return sa.case(
        (sa.or_(is_number, is_digits), sa.func.strftime(text_form, seconds, "unixepoch")),
        else_=sa.func.strftime(text_form, time),
    )


def count_unserved(
    database: ReadOnlyDatabase,
    options: SqlOptions,
    deadline: Deadline,
) -> tuple[Unreadable, ...]:
    """The number of this arm's rows in a log that have no time or no request id.

    Rows need a request id only if the options name its column.
    """
    served: ServedOptions | None = getattr(options, "served", None)
    if served is None:
        return ()
    log = _table_of(str(options.table))
    checks = [(served.time, Need.TIMES, _instant(served, database.dialect))]
    if served.request is not None:
        checks.append((served.request, Need.IDS, sa.column(served.request)))
    rows = sa.func.count().label("rows")
    unreadable = []
    for column, need, value in checks:
        example = sa.func.min(sa.cast(sa.column(column), sa.types.Text)).label("example")
        query = sa.select(rows, example).select_from(log)
        query = query.where(value.is_(None), *_of_arm(served))
        (answer,) = database.read(query, [{}], ("rows", "example"), deadline)
        count = int(answer["rows"][0])
        if not count:
            continue
        query_all = sa.select(rows).select_from(log).where(*_of_arm(served))
        (answer_all,) = database.read(query_all, [{}], ("rows",), deadline)
        total = int(answer_all["rows"][0])
        shown = answer["example"][0]
        unreadable.append(unreadable_of(database.where, column, need, count, total, shown))
    return tuple(unreadable)


class SqlTable(Table):
    """One query or table of a database. One statement reads it."""

    def __init__(self, options: SqlTableOptions) -> None:
        super().__init__(options)
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)

    def where(self, slot: datetime) -> str:  # noqa: ARG002 - the base's signature
        """The database. It is the same for all slots."""
        return self._database.where

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """Batches of some thousand rows. There is no batch if there are no rows.

        Raises SourceError if the rows cannot be read within the timeout.
        """
        options = self._options
        database = self._database
        deadline = Deadline.after(options.timeout.total_seconds())
        parameters = {"slot": slot} if options.bound_names else {}
        try:
            roots = database.roots_of(options, columns, deadline)
            statement = statement_of(options, roots, slot, database.dialect)
            unserved = count_unserved(database, options, deadline)
            if unserved:
                require_readable(unserved, options.max_unreadable)
            yield from database.read(statement, [parameters], columns, deadline)
        except OverdueError:
            limit = format_duration(options.timeout)
            msg = (
                f"{database.where} did not send all rows within {limit}: raise timeout, or "
                "select fewer"
            )
            raise SourceError(msg, permanent=False) from None


class SqlSource:
    """One arm's lists from a database. Port: Source.

    If a statement does not end before the deadline, its users are ``timeout``.
    """

    def __init__(self, options: SqlSourceOptions) -> None:
        self._options = options
        self._database = ReadOnlyDatabase(options.url.get_secret_value(), options.max_rows)
        self._names = options.bound_names
        self._late = f"{self._database.where} had not answered when the run's deadline passed"

    def pull(self, request: PullRequest) -> Pull:
        """The lists of the requested users."""
        # A thread does this, because it can be left if DNS hangs or a driver waits forever.
        call = BackgroundCall(partial(self._pull, request), name="sql")
        try:
            return call.wait(Deadline.after(request.timeout_s + 1))
        except OverdueError:
            return Pull.failed(request.users, CoverageReason.TIMEOUT, self._late)

    def _pull(self, request: PullRequest) -> Pull:
        options = self._options
        users = request.users.tolist()
        size = options.batch if "users" in self._names else max(1, len(users))
        # For each statement that has not ended, its users.
        waiting = deque(users[start : start + size] for start in range(0, len(users), size))
        batches = self._batches(request, waiting)
        unserved: tuple[Unreadable, ...] = ()
        deadline = Deadline.after(request.timeout_s)
        with suppress(OverdueError):  # it has been reported for the lists
            unserved = count_unserved(self._database, options, deadline)
        lists = TableLists(
            options=options,
            users=request.users,
            k=request.k,
            where=self._database.where,
        )
        pull = lists.pull(batches)
        pull = replace(pull, unreadable=(*unserved, *pull.unreadable))
        require_readable(pull.unreadable, options.max_unreadable)
        late = list(chain.from_iterable(waiting))
        if not late:
            return pull
        return pull_without(pull, late, CoverageReason.TIMEOUT, self._late)

    def _batches(self, request: PullRequest, waiting: deque[list[str]]) -> Iterator[TableBatch]:
        """Run all statements and return their rows. Stop at the deadline.

        When a statement ends, its users are removed from ``waiting``.
        """
        options = self._options
        deadline = Deadline.after(request.timeout_s)

        def parameter_sets() -> Iterator[dict[str, object]]:
            while waiting:
                values = {"k": request.k, "slot": request.slot, "users": waiting[0]}
                yield {name: values[name] for name in self._names}
                waiting.popleft()

        with suppress(OverdueError):
            roots = self._database.roots_of(options, options.columns, deadline)
            statement = statement_of(options, roots, request.slot, self._database.dialect)
            yield from self._database.read(statement, parameter_sets(), options.columns, deadline)
