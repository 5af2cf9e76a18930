"""Reads lists and tables from a database: queries, whole tables, and logs of served lists."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

import pandas as pd
import sqlalchemy as sa

from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
from monitor.boundary.options import format_duration
from monitor.measures.reading.ids import user_index
from monitor.measures.reading.unreadable_values import Tally, unreadable_of
from monitor.model.errors import SourceError
from monitor.model.rankings import Arm, CoverageReason, Pull
from monitor.model.runs import PullRequest
from monitor.model.unpaired import ARM_COLUMN, AssignedUsers
from monitor.model.unreadable import ColumnKind, Unreadable, require_readable
from monitor.sources.list_collector import pull_without
from monitor.sources.lookup_tables import ROW_COUNT
from monitor.sources.sql import SqlOptions, SqlSourceOptions, SqlTableOptions
from monitor.sources.sql.database import ReadOnlyDatabase, table_of
from monitor.sources.table_lists import TableBatch, TableLists
from monitor.sources.table_options import (
    MICROSECONDS,
    MILLISECONDS,
    SECONDS,
    ArmColumn,
    ServedOptions,
)
from monitor.sources.tables import Table


def statement_of(
    options: SqlOptions,
    columns: Sequence[str],
    slot: datetime,
    dialect: str,
) -> sa.Executable:
    """The query in the options. Without one, a SELECT of the columns from the table or log."""
    if options.table is None:
        assert options.parsed_query is not None  # noqa: S101 - options have a query or a table
        return options.parsed_query.statement()
    in_table = [name for name in columns if name != ARM_COLUMN]
    served = getattr(options, "served", None)
    log = _log_of(options, in_table)
    rows: sa.Select[*tuple[Any, ...]] = sa.select(*(log.c[name] for name in in_table))
    if served is None:
        return rows
    if len(in_table) < len(columns):
        rows = rows.add_columns(_arm_of_row(served.arms, log).label(ARM_COLUMN))
    return _newest_rows(rows, served, log, slot, dialect, has_users_only=len(in_table) == 1)


def _log_of(options: SqlOptions, columns: Sequence[str] = ()) -> sa.TableClause:
    """Return the table with these columns. A log also has the columns that select its rows.

    Statements name the table of a column too, because SQLite reads a quoted name that is no column
    as text.
    """
    served: ServedOptions | None = getattr(options, "served", None)
    names = [*columns]
    if served is not None:
        names += [served.time, *served.arm]
        if served.request is not None:
            names.append(served.request)
        if served.arms is not None:
            names.append(served.arms.name)
    return table_of(str(options.table), tuple(dict.fromkeys(names)))


def _newest_rows(
    rows: sa.Select[*tuple[Any, ...]],
    served: ServedOptions,
    log: sa.TableClause,
    slot: datetime,
    dialect: str,
    *,
    has_users_only: bool,
) -> sa.Executable:
    """Return the rows of each user's newest list of the slot.

    If two lists of a user have the same time, the list with the greater request id is selected. If
    only users are read, the result has each user and arm once.
    """
    rows_of_arm = rows.add_columns(_instant_of_row(served, log, dialect).label("rankwatch_at"))
    if served.request is not None:
        rows_of_arm = rows_of_arm.add_columns(log.c[served.request].label("rankwatch_request"))
    rows_of_arm = rows_of_arm.where(*_of_arm(served, log))
    if dialect == "sqlite":
        # Without a limit, SQLite computes the time of a row several times.
        rows_of_arm = rows_of_arm.limit(-1)
    in_log = list(rows_of_arm.subquery().c)
    count = len(rows.selected_columns)
    selected = in_log[:count]
    order = in_log[count:]  # the time, and the request if its column is named
    at = order[0]
    is_in_time = _in_period(at, served, slot, dialect)
    if has_users_only:
        # SQLite sorts rows to group them, which takes half the time of DISTINCT.
        return sa.select(*selected).where(is_in_time).group_by(*selected)
    user: sa.ColumnElement[Any] = selected[0]
    request: sa.ColumnElement[Any] = order[-1]
    if dialect == "sqlite":
        # In SQLite, a column may ignore upper and lower case.
        user = user.collate("BINARY")
        request = request.collate("BINARY")
    newest = sa.func.first_value(request).over(
        partition_by=user, order_by=[column.desc() for column in order]
    )
    is_newest = (request == newest).label("rankwatch_is_newest")
    newest_rows = sa.select(*selected, is_newest).where(is_in_time).subquery().c
    return sa.select(*list(newest_rows)[:-1]).where(newest_rows["rankwatch_is_newest"])


def _in_period(
    at: sa.ColumnElement[Any], served: ServedOptions, slot: datetime, dialect: str
) -> sa.ColumnElement[bool]:
    """The condition for a time in the slot's period. ``at`` is the result of `_instant_of_row`."""
    start, end = served.period(slot)
    is_in_time = at <= _bind_instant(end, dialect)
    if start is not None:
        is_in_time &= at > _bind_instant(start, dialect)
    return is_in_time


def _of_arm(served: ServedOptions, log: sa.TableClause) -> list[sa.ColumnElement[bool]]:
    conditions = [log.c[name] == _untyped(value) for name, value in served.arm.items()]
    if served.arms is not None:
        column = log.c[served.arms.name]
        values = served.arms.value_of.values()
        conditions.append(sa.or_(*(column == _untyped(value) for value in values)))
    return conditions


def _arm_of_row(arms: ArmColumn, log: sa.TableClause) -> sa.ColumnElement[Any]:
    """Return the arm of a row."""
    column = log.c[arms.name]
    cases = []
    for arm, value in arms.value_of.items():
        cases.append((column == _untyped(value), sa.literal(arm.value)))
    return sa.case(*cases)


def _untyped(value: str) -> sa.BindParameter[Any]:
    """Return a value without a type. The database uses the type of the column."""
    return sa.literal(value, type_=sa.types.NullType())


def _instant_of_row(
    served: ServedOptions, log: sa.TableClause, dialect: str
) -> sa.ColumnElement[Any]:
    """Return the time of a row.

    SQLite has no type for times. There a time is text in ISO 8601, or a number in any unit. The
    result is a Julian day then, because SQLite computes it in a quarter of the time of a text.
    """
    time = log.c[served.time]
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
    # This test is the fastest one, and decides for most texts.
    is_date = sa.and_(sa.func.typeof(time) == "text", sa.func.instr(time, "-") > 1)
    return sa.case(
        (is_date, sa.func.julianday(time)),
        (sa.or_(is_number, is_digits), sa.func.julianday(seconds, "unixepoch")),
        else_=sa.func.julianday(time),
    )


def _bind_instant(instant: datetime, dialect: str) -> sa.ColumnElement[Any]:
    """Return a time, in the form of `_instant_of_row`."""
    # PostgreSQL ignores the time zone if the column has none.
    zone = "+00" if dialect == "postgresql" else ""
    text = _untyped(f"{instant:%Y-%m-%d %H:%M:%S.%f}{zone}")
    return sa.func.julianday(text) if dialect == "sqlite" else text


def count_unserved(
    database: ReadOnlyDatabase,
    options: SqlOptions,
    deadline: Deadline,
) -> tuple[Unreadable, ...]:
    """Count the rows of this arm in a log that have no time or no request id.

    Rows need a request id only if the options name its column. Raises SourceError if the column of
    times has another type.
    """
    served: ServedOptions | None = getattr(options, "served", None)
    if served is None:
        return ()
    log = _log_of(options)
    database.require_times(log.c[served.time], deadline)
    checks = [(served.time, ColumnKind.TIMES, _instant_of_row(served, log, database.dialect))]
    if served.request is not None:
        checks.append((served.request, ColumnKind.IDS, log.c[served.request]))
    rows = sa.func.count().label("rows")
    unreadable = []
    for column, need, value in checks:
        example = sa.func.min(sa.cast(log.c[column], sa.types.Text)).label("example")
        query = sa.select(rows, example).select_from(log)
        if column == served.time and database.dialect == "sqlite":
            # A time without a Julian day is rare. This test takes half the time of the next one.
            query = query.where(sa.func.julianday(log.c[column]).is_(None))
        query = query.where(value.is_(None), *_of_arm(served, log))
        (answer,) = database.read(query, [{}], ("rows", "example"), deadline)
        count = int(answer["rows"][0])
        if not count:
            continue
        query_all = sa.select(rows).select_from(log).where(*_of_arm(served, log))
        (answer_all,) = database.read(query_all, [{}], ("rows",), deadline)
        total = int(answer_all["rows"][0])
        shown = answer["example"][0]
        unreadable.append(unreadable_of(database.where, column, need, count, total, shown))
    return tuple(unreadable)


class SqlTable(Table):
    """One query or table of a database. One statement reads it."""

    def __init__(self, options: SqlTableOptions | SqlSourceOptions) -> None:
        super().__init__(options)
        self._database = ReadOnlyDatabase(options)

    def where(self, slot: datetime) -> str:  # noqa: ARG002 - the base's signature
        """Return the database. It is the same for all slots."""
        return self._database.where

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """Batches of some thousand rows. A table without rows has no batch.

        Raises SourceError if the rows cannot be read within the timeout.
        """
        options = self._options
        database = self._database
        deadline = Deadline.after(options.timeout.total_seconds())
        try:
            yield from self._read(slot, columns, deadline)
        except OverdueError:
            limit = format_duration(options.timeout)
            raise SourceError(
                f"{database.where} did not send all rows within {limit}: raise timeout, or "
                "select fewer rows",
                permanent=False,
            ) from None

    def _read(
        self, slot: datetime, columns: Sequence[str], deadline: Deadline
    ) -> Iterator[TableBatch]:
        unserved = count_unserved(self._database, self._options, deadline)
        require_readable(unserved, self._max_unreadable)
        return self._read_rows(slot, columns, deadline)

    def _read_rows(
        self, slot: datetime, columns: Sequence[str], deadline: Deadline
    ) -> Iterator[TableBatch]:
        options = self._options
        database = self._database
        parameters = {"slot": slot} if options.bound_names else {}
        in_table = [name for name in columns if name != ARM_COLUMN]
        roots = database.roots_of(options, in_table, deadline)
        roots += [ARM_COLUMN] * (len(columns) - len(in_table))
        statement = statement_of(options, roots, slot, database.dialect)
        return database.read(statement, [parameters], columns, deadline)


class SqlOutcomes(SqlTable):
    """Outcomes in a log. Equal rows of a user are one row. Port: OutcomeSource."""

    def _read(
        self, slot: datetime, columns: Sequence[str], deadline: Deadline
    ) -> Iterator[TableBatch]:
        options = self._options
        served = options.served
        database = self._database
        dialect = database.dialect
        roots = database.roots_of(options, columns, deadline)
        log = _log_of(options, roots)
        in_period = _in_period(_instant_of_row(served, log, dialect), served, slot, dialect)
        values = [log.c[name] for name in roots]
        statement = sa.select(*values, sa.func.count().label(ROW_COUNT)).group_by(*values)
        statement = statement.where(in_period, *_of_arm(served, log))
        return database.read(statement, [{}], (*columns, ROW_COUNT), deadline)


class SqlUsers(SqlTable):
    """The users in a query or table. Ports: UserSource and AssignmentSource."""

    def assigned(self, slot: datetime) -> AssignedUsers:
        """Return the users that were assigned to the arms.

        Raises SourceError if the rows cannot be read, or if an arm has no user.
        """
        user = self._options.user
        tally = Tally(self.where(slot))
        parts = [pd.DataFrame({"user": [], "arm": []}, dtype="str")]
        for batch in self.batches(slot, (user, ARM_COLUMN)):
            users = user_index(self._users(batch, tally))
            parts.append(pd.DataFrame({"user": users, "arm": batch[ARM_COLUMN]}))
        require_readable(tally.unreadable, self._max_unreadable)
        rows = pd.concat(parts).dropna()
        # Few users have several rows. To find equal rows among all rows takes three times as long.
        is_repeated = rows["user"].duplicated(keep=False)
        repeated = rows[is_repeated].drop_duplicates()
        is_switched = repeated["user"].duplicated(keep=False)
        arm_of_user = pd.concat([rows["arm"][~is_repeated], repeated["arm"][~is_switched]])
        count = {arm: int((arm_of_user == arm).sum()) for arm in Arm}
        switched = pd.Index(repeated["user"][is_switched].unique(), dtype="str")
        served = self._options.served
        served.require_unswitched(tally.where, count, len(switched))
        for arm in Arm:
            if not count[arm]:
                problem = served.describe_unserved(arm, slot, self._newest_of(arm))
                raise SourceError(f"{tally.where} {problem}", permanent=False)
        return AssignedUsers(count=count, switched=switched)

    def _newest_of(self, arm: Arm) -> str | None:
        """Return the time of the arm's newest row as text. None if the arm has no row."""
        options = self._options
        served = options.served
        log = _log_of(options)
        dialect = self._database.dialect
        newest: sa.ColumnElement[Any] = sa.func.max(_instant_of_row(served, log, dialect))
        if dialect == "sqlite":
            newest = sa.func.datetime(newest)  # of a Julian day
        value = _untyped(served.arms.value_of[arm])
        statement = sa.select(sa.cast(newest, sa.types.Text).label("newest"))
        statement = statement.where(*_of_arm(served, log), log.c[served.arms.name] == value)
        deadline = Deadline.after(options.timeout.total_seconds())
        (answer,) = self._database.read(statement, [{}], ("newest",), deadline)
        at: str | None = answer["newest"][0]
        return at


class SqlSource:
    """One arm's lists from a database. Port: Source.

    If a statement does not end before the deadline, its users are ``timeout``.
    """

    def __init__(self, options: SqlSourceOptions) -> None:
        self._options = options
        self._database = ReadOnlyDatabase(options)
        self._names = options.bound_names
        self._late = f"{self._database.where} had not answered when the run's deadline passed"

    def pull(self, request: PullRequest) -> Pull:
        """Return the lists of the requested users."""
        # A thread asks, because a thread can be abandoned if DNS or a driver hangs.
        call = BackgroundCall(partial(self._pull, request), name="sql")
        try:
            return call.wait(Deadline.after(request.timeout_s + 1))
        except OverdueError:
            return Pull.failed(request.users, CoverageReason.TIMEOUT, self._late)

    def _pull(self, request: PullRequest) -> Pull:
        options = self._options
        users = request.users
        size = options.batch if "users" in self._names else max(1, len(users))
        # The users of each statement that has not ended.
        waiting = deque(users[start : start + size] for start in range(0, len(users), size))
        batches = self._batches(request, waiting)
        unserved: tuple[Unreadable, ...] = ()
        deadline = Deadline.after(request.timeout_s)
        with suppress(OverdueError):  # the deadline was reported for the lists already
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

    def _batches(
        self, request: PullRequest, waiting: "deque[pd.Index[str]]"
    ) -> Iterator[TableBatch]:
        """Run all statements and return their rows. Stop at the deadline.

        When a statement ends, its users are removed from ``waiting``.
        """
        options = self._options
        deadline = Deadline.after(request.timeout_s)

        def parameter_sets() -> Iterator[dict[str, object]]:
            while waiting:
                values = {"k": request.k, "slot": request.slot}
                if "users" in self._names:
                    values["users"] = waiting[0].tolist()
                yield {name: values[name] for name in self._names}
                waiting.popleft()

        with suppress(OverdueError):
            roots = self._database.roots_of(options, options.columns, deadline)
            statement = statement_of(options, roots, request.slot, self._database.dialect)
            columns = options.columns
            yield from self._database.read(statement, parameter_sets(), columns, deadline)
