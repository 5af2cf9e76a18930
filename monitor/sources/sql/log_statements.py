"""The statements that read a log of served lists."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from monitor.measures.reading.ids import MAX_ID_LENGTH
from monitor.model.rankings import Arm
from monitor.model.unpaired import ARM_COLUMN
from monitor.model.unreadable import ColumnKind
from monitor.sources.columns import root_of
from monitor.sources.lookup_tables import ROW_COUNT
from monitor.sources.sql import SqlSourceOptions, SqlUsersOptions
from monitor.sources.sql.database import REQUEST, table_of
from monitor.sources.table_options import MICROSECONDS, MILLISECONDS, SECONDS

ARM_USERS = {arm: f"rankwatch_{arm}" for arm in Arm}
"""The columns with numbers of users of each arm in `LogStatements.assigned_users`."""
IS_COUNT = "rankwatch_is_count"
"""The column that says whether a row of `LogStatements.assigned_users` counts many users."""
_AT = "rankwatch_at"
_REQUEST_ID = "rankwatch_request"


class LogStatements:
    """Makes the statements that read a log.

    All statements read only rows of the options' arms. If a statement has a slot, it reads only
    rows of the slot's period.
    """

    def __init__(self, options: SqlSourceOptions | SqlUsersOptions, dialect: str) -> None:
        assert options.served is not None  # noqa: S101 - options of a log
        self._options = options
        self._served = options.served
        self._dialect = dialect

    def newest_lists(self, columns: Sequence[str], slot: datetime) -> sa.Executable:
        """Select these columns from the rows of each user's newest list.

        If two lists of a user have the same time, the list with the greater request id is selected.
        In SQLite, `ReadOnlyDatabase.read` selects the lists from all rows, because window functions
        take longer: 5.0 s of CPU time for 2 million rows, and not 3.1 s.
        """
        rows = self._rows(columns)
        selected = [rows[name] for name in columns]
        user = self._exact(rows[root_of(self._options.user, columns)])
        is_in_time = self._is_in_period(rows[_AT], slot)
        newest_first = [rows[_AT].desc()]
        # Rows with the same value belong to the same list. A list without an id has only one time.
        list_id: sa.ColumnElement[Any] = rows[_AT]
        if self._served.request is not None:  # one list may have several times
            list_id = self._exact(rows[_REQUEST_ID])
            newest_first.append(list_id.desc())
        if self._dialect == "sqlite":
            every = sa.select(*selected, list_id.label(REQUEST)).where(is_in_time)
            return every.order_by(user, *newest_first)
        window: Any = {"partition_by": user, "order_by": newest_first}
        is_newest: sa.ColumnElement[bool] = sa.func.rank().over(**window) == 1
        if self._served.request is not None:
            is_newest = list_id == sa.func.first_value(list_id).over(**window)
        is_newest = is_newest.label("rankwatch_is_newest")
        marked = sa.select(*selected, is_newest).where(is_in_time).subquery().c
        return sa.select(*(marked[name] for name in columns)).where(marked["rankwatch_is_newest"])

    def distinct_users(self, columns: Sequence[str], slot: datetime) -> sa.Executable:
        """Select each user once, or each user and arm if `ARM_COLUMN` is one of the columns."""
        rows = self._rows(columns)
        selected = [rows[name] for name in columns]
        # SQLite sorts rows to group them, which takes half the time of DISTINCT.
        is_in_time = self._is_in_period(rows[_AT], slot)
        return sa.select(*selected).where(is_in_time).group_by(*selected)

    def assigned_users(self, column: str, slot: datetime) -> sa.Executable:
        """Count the users of each arm. ``column`` has the users, or objects that contain the user.

        The columns are the user, `IS_COUNT`, and `ARM_USERS`. There are two kinds of rows:

        - One row counts the users with rows of one arm alone. `IS_COUNT` is 1, and the user is
          null. `ARM_USERS` have the number of users of each arm, or null if there is no such user.
        - One row is for each other user. `IS_COUNT` is 0. `ARM_USERS` are 1 or 0. The user has rows
          of both arms, or the database cannot count the user: the value may be no id, or different
          values may be the same user.
        """
        rows = self._rows([column, *ARM_USERS.values()])
        has_arm = [sa.func.max(rows[name]).label(name) for name in ARM_USERS.values()]
        user = self._exact(rows[column])
        users = sa.select(rows[column], *has_arm)
        users = users.where(self._is_in_period(rows[_AT], slot), user.is_not(None))
        user, baseline, candidate = users.group_by(user).cte().c
        is_listed: sa.ColumnElement[bool] = sa.true()
        if not self._options.user_ids and column == self._options.user:
            length = sa.func.length(sa.cast(user, sa.types.Text))
            is_listed = sa.or_(baseline == candidate, sa.not_(length.between(1, MAX_ID_LENGTH)))
        listed = sa.select(user, sa.literal(0).label(IS_COUNT), baseline, candidate)
        count = sa.select(sa.null(), sa.literal(1), sa.func.sum(baseline), sa.func.sum(candidate))
        return listed.where(is_listed).union_all(count.where(sa.not_(is_listed)))

    def count_equal(self, columns: Sequence[str], slot: datetime) -> sa.Executable:
        """Select these columns. Equal rows are one row, and `ROW_COUNT` is their number."""
        log = self._log(*columns)
        values = [log.c[name] for name in columns]
        is_in_time = self._is_in_period(self._instant(log), slot)
        statement = sa.select(*values, sa.func.count().label(ROW_COUNT)).group_by(*values)
        return statement.where(is_in_time, *self._is_read(log))

    def newest_time(self, arm: Arm) -> sa.Executable:
        """Select the time of the arm's newest row, as the text ``newest``."""
        log = self._log()
        newest: sa.ColumnElement[Any] = sa.func.max(self._instant(log))
        if self._dialect == "sqlite":
            newest = sa.func.datetime(newest)  # of a Julian day
        statement = sa.select(sa.cast(newest, sa.types.Text).label("newest"))
        return statement.where(*self._is_read(log), self._arms(log)[arm])

    @property
    def time(self) -> sa.ColumnElement[Any]:
        """The column of times."""
        return self._log().c[self._served.time]

    @property
    def required(self) -> list[tuple[str, ColumnKind]]:
        """The columns without which a row is unreadable."""
        columns = [(self._served.time, ColumnKind.TIMES)]
        if self._served.request is not None:
            columns.append((self._served.request, ColumnKind.IDS))
        return columns

    def count(self, column: str, *, is_unreadable: bool = False) -> sa.Executable:
        """Count the ``rows``, and select an ``example`` of the column's values.

        With ``is_unreadable``, these are the rows without a value in this required column.
        """
        log = self._log()
        value = log.c[column]
        conditions = self._is_read(log)
        if is_unreadable and column == self._served.time:
            conditions.append(self._instant(log).is_(None))
            if self._dialect == "sqlite":
                # A time without a Julian day is rare. This test takes half the time of the other.
                conditions.insert(0, sa.func.julianday(value).is_(None))
        elif is_unreadable:
            conditions.append(value.is_(None))
        example = sa.func.min(sa.cast(value, sa.types.Text)).label("example")
        query = sa.select(sa.func.count().label("rows"), example).select_from(log)
        return query.where(*conditions)

    def _log(self, *columns: str) -> sa.TableClause:
        """Return the table with these columns, and the columns that select its rows.

        Statements name the table of a column too, because SQLite reads a quoted name that is no
        column as text.
        """
        names = dict.fromkeys([*columns, *self._served.columns])
        return table_of(str(self._options.table), tuple(names))

    def _rows(self, columns: Sequence[str]) -> Any:  # noqa: ANN401 - columns by name
        """Return these columns of the rows, their times, and their request ids.

        There are request ids only if the options name the column.
        """
        log = self._log(*columns)
        rows = sa.select(*(self._column(name, log) for name in columns))
        rows = rows.add_columns(self._instant(log).label(_AT))
        if self._served.request is not None:
            rows = rows.add_columns(log.c[self._served.request].label(_REQUEST_ID))
        rows = rows.where(*self._is_read(log))
        if self._dialect == "sqlite":
            # Without a limit, SQLite computes the time of a row several times.
            rows = rows.limit(-1)
        return rows.subquery().c

    def _column(self, name: str, log: sa.TableClause) -> sa.ColumnElement[Any]:
        """Return a column of the log. `ARM_COLUMN` and `ARM_USERS` are computed from the arm."""
        if self._served.arms is None:
            return log.c[name]
        is_of_arm = self._arms(log)
        if name == ARM_COLUMN:
            cases = [(condition, sa.literal(arm.value)) for arm, condition in is_of_arm.items()]
            return sa.case(*cases).label(name)
        for arm, column in ARM_USERS.items():
            if name == column:
                return sa.case((is_of_arm[arm], 1), else_=0).label(name)
        return log.c[name]

    def _exact(self, column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """Return the column. In SQLite, a column may ignore upper and lower case."""
        return column.collate("BINARY") if self._dialect == "sqlite" else column

    def _is_read(self, log: sa.TableClause) -> list[sa.ColumnElement[bool]]:
        """Return the conditions for rows of the options' arms."""
        conditions = [log.c[name] == _untyped(value) for name, value in self._served.arm.items()]
        if self._served.arms is not None:
            conditions.append(sa.or_(*self._arms(log).values()))
        return conditions

    def _arms(self, log: sa.TableClause) -> dict[Arm, sa.ColumnElement[bool]]:
        """Return the condition for rows of each arm."""
        arms = self._served.arms
        assert arms is not None  # noqa: S101 - of an unpaired comparison
        return {arm: log.c[arms.name] == _untyped(value) for arm, value in arms.value_of.items()}

    def _is_in_period(self, at: sa.ColumnElement[Any], slot: datetime) -> sa.ColumnElement[bool]:
        """Return the condition for a time in the period. ``at`` is the result of `_instant`."""
        start, end = self._served.period(slot)
        is_in_time = at <= self._bind_instant(end)
        if start is not None:
            is_in_time &= at > self._bind_instant(start)
        return is_in_time

    def _instant(self, log: sa.TableClause) -> sa.ColumnElement[Any]:
        """Return the time of a row.

        SQLite has no type for times. There a time is text in ISO 8601, or a number in any unit. The
        result is a Julian day then, because SQLite computes it in a quarter of the time of a text.
        """
        time = log.c[self._served.time]
        if self._dialect != "sqlite":
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

    def _bind_instant(self, instant: datetime) -> sa.ColumnElement[Any]:
        """Return a time, in the form of `_instant`."""
        # PostgreSQL ignores the time zone if the column has none.
        zone = "+00" if self._dialect == "postgresql" else ""
        text = _untyped(f"{instant:%Y-%m-%d %H:%M:%S.%f}{zone}")
        return sa.func.julianday(text) if self._dialect == "sqlite" else text


def _untyped(value: str) -> sa.BindParameter[Any]:
    """Return a value without a type. The database uses the type of the column."""
    return sa.literal(value, type_=sa.types.NullType())
