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
from monitor.measures.reading.ids import MAX_ID_LENGTH
from monitor.measures.reading.unreadable_values import Tally, unreadable_of
from monitor.model.errors import SourceError
from monitor.model.rankings import Arm, CoverageReason, Pull
from monitor.model.runs import PullRequest
from monitor.model.unpaired import ARM_COLUMN, AssignedUsers
from monitor.model.unreadable import ColumnKind, Unreadable, require_readable
from monitor.sources.list_collector import pull_without
from monitor.sources.lookup_tables import ROW_COUNT
from monitor.sources.sql import SqlOptions, SqlSourceOptions, SqlTableOptions
from monitor.sources.sql.database import REQUEST, ReadOnlyDatabase, table_of
from monitor.sources.table_lists import TableBatch, TableLists
from monitor.sources.table_options import (
    MICROSECONDS,
    MILLISECONDS,
    SECONDS,
    ArmColumn,
    ServedOptions,
)
from monitor.sources.tables import Table

_ARM_USERS = {f"rankwatch_{arm}": arm for arm in Arm}
"""The arm of each column with numbers of users."""
_COMPUTED = (ARM_COLUMN, *_ARM_USERS)


def statement_of(
    options: SqlOptions,
    columns: Sequence[str],
    slot: datetime,
    dialect: str,
) -> sa.Executable:
    """The query in the options. Without one, a SELECT of the columns from the table or log.

    The user is the first of the columns of a log.
    """
    if options.table is None:
        assert options.parsed_query is not None  # noqa: S101 - options have a query or a table
        return options.parsed_query.statement()
    served: ServedOptions | None = getattr(options, "served", None)
    log = _log_of(options, columns)
    if served is None:
        return sa.select(*(log.c[name] for name in columns))
    rows = _select_rows(served, log, columns, dialect)
    in_log: list[sa.ColumnElement[Any]] = list(rows.subquery().c)
    selected = in_log[: len(columns)]
    order = in_log[len(columns) :]
    is_in_time = _in_period(order[0], served, slot, dialect)
    user = selected[0]
    if dialect == "sqlite":
        # In SQLite, a column may ignore upper and lower case.
        user = user.collate("BINARY")
        order[-1] = order[-1].collate("BINARY")
    if not _ARM_USERS.keys().isdisjoint(columns):
        is_of_arm = [
            sa.func.max(number).label(name)
            for number, name in zip(selected[1:], columns[1:], strict=True)
        ]
        users = sa.select(selected[0], *is_of_arm).where(is_in_time, user.is_not(None))
        # With these options, values that differ in the database may be the same user.
        log_options: Any = options
        names_users = bool(log_options.user_ids) or columns[0] != log_options.user
        return _count_users(users.group_by(user).cte(), names_users=names_users)
    if {*columns} <= {columns[0], ARM_COLUMN}:  # users, and perhaps their arms, but no lists
        # The result has each user and arm once. SQLite sorts rows to group them, which takes half
        # the time of DISTINCT.
        return sa.select(*selected).where(is_in_time).group_by(*selected)
    return _newest_rows(selected, user, order, is_in_time, dialect)


def _select_rows(
    served: ServedOptions, log: sa.TableClause, columns: Sequence[str], dialect: str
) -> sa.Select[Any]:
    """Select the columns from the arm's rows. Adds what orders the rows.

    This is the time, and the request id if the options name its column.
    """
    rows = sa.select(*(_column_of(name, served.arms, log) for name in columns))
    rows = rows.add_columns(_instant_of_row(served, log, dialect).label("rankwatch_at"))
    if served.request is not None:
        rows = rows.add_columns(log.c[served.request].label("rankwatch_request"))
    rows = rows.where(*_of_arm(served, log))
    if dialect == "sqlite":
        # Without a limit, SQLite computes the time of a row several times.
        rows = rows.limit(-1)
    return rows


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


def _count_users(users: sa.CTE, *, names_users: bool) -> sa.Executable:
    """Return the number of users of each arm, in a row whose user is null.

    A user with rows of both arms has a row instead, with -1 for each arm. So has a value that may
    be no id, and any user if ``names_users``.
    """
    user, baseline, candidate = users.c
    length = sa.func.length(sa.cast(user, sa.types.Text))
    is_named = sa.or_(baseline == candidate, sa.not_(length.between(1, MAX_ID_LENGTH)))
    if names_users:
        is_named = sa.true()
    named = sa.select(user, (-baseline).label(baseline.name), (-candidate).label(candidate.name))
    counts = sa.select(sa.null(), sa.func.sum(baseline), sa.func.sum(candidate))
    return named.where(is_named).union_all(counts.where(sa.not_(is_named)))


def _newest_rows(
    selected: Sequence[sa.ColumnElement[Any]],
    user: sa.ColumnElement[Any],
    order: Sequence[sa.ColumnElement[Any]],
    is_in_time: sa.ColumnElement[bool],
    dialect: str,
) -> sa.Executable:
    """Return the rows of each user's newest list of the slot.

    If two lists of a user have the same time, the list with the greater request id is selected. In
    SQLite, `ReadOnlyDatabase.read` selects the lists from all rows, because window functions take
    longer: 5.0 s of CPU time for 2 million rows, and not 3.1 s.
    """
    newest_first = [column.desc() for column in order]
    if dialect == "sqlite":
        rows = sa.select(*selected, order[-1].label(REQUEST)).where(is_in_time)
        return rows.order_by(user, *newest_first)
    window: Any = {"partition_by": user, "order_by": newest_first}
    is_newest = sa.func.rank().over(**window) == 1
    if len(order) > 1:  # one list may have several times
        is_newest = order[-1] == sa.func.first_value(order[-1]).over(**window)
    is_newest = is_newest.label("rankwatch_is_newest")
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


def _column_of(name: str, arms: ArmColumn | None, log: sa.TableClause) -> sa.ColumnElement[Any]:
    """Return a column of the log, the arm of a row, or 1 for rows of an arm and 0 for others."""
    if arms is None or name not in _COMPUTED:
        return log.c[name]
    is_of_arm = {}
    for arm, value in arms.value_of.items():
        is_of_arm[arm] = log.c[arms.name] == _untyped(value)
    if name == ARM_COLUMN:
        cases = [(condition, sa.literal(arm.value)) for arm, condition in is_of_arm.items()]
        return sa.case(*cases).label(name)
    return sa.case((is_of_arm[_ARM_USERS[name]], 1), else_=0).label(name)


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
        computed = [name for name in columns if name in _COMPUTED]
        in_table = [name for name in columns if name not in _COMPUTED]
        roots = database.roots_of(options, in_table, deadline) + computed
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
        count = dict.fromkeys(Arm, 0)
        arms_of_user: dict[str, set[Arm]] = {}
        for batch in self.batches(slot, (user, *_ARM_USERS)):
            keys = self._users(batch, tally).to_pylist()
            for name, arm in _ARM_USERS.items():
                for key, users in zip(keys, batch[name], strict=True):
                    if key is None:  # the number of users, or a value that is no id
                        count[arm] += max(users or 0, 0)
                    elif users:
                        arms_of_user.setdefault(key, set()).add(arm)
        switched = []
        for key, arms in arms_of_user.items():
            if len(arms) > 1:
                switched.append(key)
            else:
                count[arms.pop()] += 1
        served = self._options.served
        served.require_unswitched(tally.where, count, len(switched))
        for arm in Arm:
            if not count[arm]:
                problem = served.describe_unserved(arm, slot, self._newest_of(arm))
                raise SourceError(f"{tally.where} {problem}", permanent=False)
        return AssignedUsers(count=count, switched=pd.Index(switched, dtype="str"))

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
