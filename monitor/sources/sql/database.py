"""A database that is read with limits and without permission to write."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress
from operator import itemgetter
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from monitor.boundary.deadline import Deadline, OverdueError, interrupt_when_given_up
from monitor.boundary.foreign_errors import log_error, sql_cause
from monitor.measures.reading.lists import parse_cell
from monitor.model.errors import ConfigError, SourceError
from monitor.model.ports import do_nothing
from monitor.sources.columns import require_columns, root_of
from monitor.sources.sql import SqlOptions, is_file
from monitor.sources.table_lists import TableBatch
from monitor.texts.wording import write_extra

REQUEST = "rankwatch_newest_first"
"""The last column of sorted rows. Each user's newest rows are those with the user's first value."""
_FETCH = 10_000  # the number of rows
_FETCH_LENGTH = 1 << 26  # the largest number of characters in all rows of a fetch
_LONGEST_VALUE = 1 << 22  # the largest number of characters or bytes
_SQLITE_STEPS = 1_000_000
_LONGEST_CONNECT_S = 10.0
_HARMLESS_PRAGMAS = frozenset({"data_version", "page_size"})  # full-text tables use these pragmas
_CANCELLED = "57014"  # the SQLSTATE query_canceled, which statement_timeout causes


class ReadOnlyDatabase:
    """A database to read from.

    Each read opens its own connection, so threads share no connection.
    """

    def __init__(self, options: SqlOptions) -> None:
        self._max_rows = options.max_rows
        address = sa.make_url(options.url.get_secret_value())
        if address.drivername in ("postgresql", "postgres"):
            address = address.set(drivername="postgresql+psycopg")
        self._url = address
        self._engine = _engine(address)
        self.dialect = address.get_backend_name()
        # The method that ends the statement of another thread. MariaDB has none.
        self._interrupt = "interrupt" if self.dialect == "sqlite" else "cancel"
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
        """Yield the rows for each set of parameters, in a read-only transaction.

        If the statement has the column `REQUEST`, only each user's newest rows are yielded. Then the
        first of ``columns`` has the users.

        Raises:
            OverdueError: The deadline passed.
            SourceError: The database reports an error, or a limit is exceeded.
        """
        total = 0
        streamed = {"stream_results": self.dialect != "sqlite"}  # SQLite always streams
        with self._connection(deadline, str(statement)) as connection:
            for parameters in parameter_sets:
                with connection.execute(
                    statement, parameters, execution_options=streamed
                ) as result:
                    names = list(result.keys())
                    roots = {name: root_of(name, names) for name in columns}
                    require_columns(list(roots.values()), names, f"the answer of {self.where}")
                    indexes = {root: names.index(root) for root in roots.values()}
                    parts = self._fetch(result, [*indexes.values()])
                    if names[-1] == REQUEST:
                        parts = _select_newest(self._fetch(result, [*indexes.values(), -1]))
                    for fetched in parts:
                        values = dict(zip(indexes, fetched, strict=True))
                        batch = {
                            name: _take_fields(values[root], name, root)
                            for name, root in roots.items()
                        }
                        total += len(batch[columns[0]])
                        if total > self._max_rows:
                            raise SourceError(
                                f"{self.where} gives more than {self._max_rows} rows: select "
                                "fewer rows, or raise max_rows"
                            )
                        deadline.require_time()
                        yield batch

    def roots_of(
        self,
        options: SqlOptions,
        columns: Sequence[str],
        deadline: Deadline,
    ) -> list[str]:
        """The columns of the table to read for these names. A name may be a field in a column.

        For a query, the names are returned unchanged.
        """
        if options.table is None or not any("." in name for name in columns):
            return list(columns)
        statement = sa.select(sa.text("*")).select_from(table_of(options.table)).limit(0)
        with self._connection(deadline, str(statement)) as connection:
            present = list(connection.execute(statement).keys())
        roots = list(dict.fromkeys(root_of(name, present) for name in columns))
        require_columns(roots, present, f"table {options.table} of {self.where}")
        return roots

    def require_times(self, column: sa.ColumnElement[Any], deadline: Deadline) -> None:
        """Raise SourceError if the type of the column is none of the database's types for times.

        A database compares a text with a time letter by letter. SQLite has no type for times.
        """
        dbapi = self._engine.dialect.loaded_dbapi
        kinds = [getattr(dbapi, name) for name in ("DATETIME", "DATE") if hasattr(dbapi, name)]
        if self.dialect == "sqlite" or not kinds:
            return
        statement = sa.select(column).limit(0)
        with (
            self._connection(deadline, str(statement)) as connection,
            connection.execute(statement) as result,
        ):
            kind = result.cursor.description[0][1]
        if kind not in kinds:
            raise SourceError(
                f"column {column.key!r} of {self.where} has no type for times: name a view that "
                "casts the column to such a type, for example to timestamptz"
            )

    def _fetch(
        self, result: sa.CursorResult[Any], indexes: Sequence[int]
    ) -> Iterator[list[list[Any]]]:
        """Yield the columns with these indexes in parts. Each part needs little memory."""
        # The first part is one row, because the length of the values is not known yet. SQLAlchemy
        # returns it, because it may have fetched it already. Further rows come from the driver's
        # cursor: SQLAlchemy would make an object of each row, which takes as long as the driver.
        size = 1
        rows: Sequence[Sequence[Any]] = result.fetchmany(size)
        while rows:
            # This takes a third of the time of ``zip(*rows)``.
            columns = [list(map(itemgetter(index), rows)) for index in indexes]
            longest = max(map(_longest, columns))
            if longest > _LONGEST_VALUE:
                raise SourceError(
                    f"{self.where} gives a value of length {longest}: select no value longer than "
                    f"{_LONGEST_VALUE}"
                )
            yield columns
            size = min(10 * size, _FETCH, _FETCH_LENGTH // (longest + 1))
            rows = result.cursor.fetchmany(size)

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
                _limit_statements(connection, deadline)
                driver = connection.connection.driver_connection
                try:
                    with interrupt_when_given_up(getattr(driver, self._interrupt, do_nothing)):
                        yield connection
                except self._engine.dialect.loaded_dbapi.Error:
                    # The error of the driver's cursor is unknown to SQLAlchemy. A rollback of a
                    # lost connection would raise another error and hide this one.
                    connection.invalidate()
                    raise

    @contextmanager
    def _translated(self, deadline: Deadline, statement: str) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, self._engine.dialect.loaded_dbapi.Error) as error:
            driver_error = getattr(error, "orig", None) or error
            if deadline.is_past or getattr(driver_error, "sqlstate", None) == _CANCELLED:
                raise OverdueError from None
            cause = sql_cause(driver_error, statement, self._url.query)
            raise SourceError(
                f"{self.where} cannot be read: {cause}", permanent=cause.permanent
            ) from None
        except SQLAlchemyError as error:
            log_error(error)
            raise SourceError(
                f"{self.where} cannot be read ({type(error).__name__}): check url, query and table"
            ) from None


def _select_newest(parts: Iterator[list[list[Any]]]) -> Iterator[list[list[Any]]]:
    """Yield each user's newest rows, without the last column, which is `REQUEST`.

    The rows are sorted: by user, and then the newest first. The first column has the users. A null
    in the last column is no value, so such a row is not yielded.
    """
    last_user = object()  # no user is equal to it
    newest = None
    for columns in parts:
        is_newest = []
        for user, request in zip(columns[0], columns[-1], strict=True):
            if user != last_user:
                last_user = user
                newest = request
            is_newest.append(request is not None and request == newest)
        if all(is_newest):
            yield columns[:-1]
        elif any(is_newest):
            yield [list(compress(column, is_newest)) for column in columns[:-1]]


def _longest(values: Sequence[Any]) -> int:
    """The greatest length of a text, of bytes or of a list in a column. It is 0 if there is none."""
    kinds = set(map(type, values))
    if kinds.isdisjoint((str, bytes, list)):
        return 0
    if not {str, bytes, list} >= kinds:
        values = [value for value in values if isinstance(value, str | bytes | list)]
    return max(map(len, values), default=0)


def _take_fields(values: Sequence[object], name: str, root: str) -> Sequence[object]:
    """Return the values of a column, or of a field of its objects if the name has dots."""
    fields = name.removeprefix(root).split(".")[1:]
    return [_take_field(value, fields) for value in values] if fields else values


def _take_field(value: object, fields: Sequence[str]) -> object:
    """Return the field of an object, or of each object in a list.

    Text is read as JSON. The result is None if there is no such field.
    """
    value = parse_cell(value)
    for field in fields:
        if isinstance(value, list):
            value = [element.get(field) if isinstance(element, dict) else None for element in value]
        else:
            value = value.get(field) if isinstance(value, dict) else None
    return value


def table_of(name: str, columns: Sequence[str] = ()) -> sa.TableClause:
    """Return the table of this name, which may begin with a schema."""
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


def _limit_statements(connection: sa.Connection, deadline: Deadline) -> None:
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
    # Even with `query_only`, ATTACH, VACUUM INTO and pragmas can change files. VACUUM INTO needs no
    # test of its own, because it attaches a file.
    if action == sqlite3.SQLITE_ATTACH:
        return sqlite3.SQLITE_DENY
    is_harmless = first in _HARMLESS_PRAGMAS and second is None
    if action == sqlite3.SQLITE_PRAGMA and not is_harmless:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK
