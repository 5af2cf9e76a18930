"""Reads lists and tables from a database: queries, whole tables, and logs of served lists."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain

import pandas as pd
import sqlalchemy as sa

from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
from monitor.boundary.options import format_duration
from monitor.measures.reading.unreadable_values import Tally, unreadable_of
from monitor.model.errors import SourceError
from monitor.model.rankings import Arm, CoverageReason, Pull
from monitor.model.runs import PullRequest
from monitor.model.unpaired import ARM_COLUMN, AssignedUsers
from monitor.model.unreadable import Unreadable, require_readable
from monitor.sources.columns import root_of
from monitor.sources.list_collector import pull_without
from monitor.sources.lookup_tables import ROW_COUNT
from monitor.sources.sql import SqlOptions, SqlSourceOptions, SqlTableOptions, SqlUsersOptions
from monitor.sources.sql.database import ReadOnlyDatabase, table_of
from monitor.sources.sql.log_statements import ARM_USERS, IS_COUNT, LogStatements
from monitor.sources.table_lists import TableBatch, TableLists
from monitor.sources.tables import Table


def log_statements_of(options: SqlOptions, dialect: str) -> LogStatements | None:
    """Return the statements for the log in these options. None if they name no log."""
    if isinstance(options, SqlSourceOptions | SqlUsersOptions) and options.served is not None:
        return LogStatements(options, dialect)
    return None


def select_all(options: SqlOptions, columns: Sequence[str]) -> sa.Executable:
    """Return the query in the options, or a SELECT of the columns from all rows of the table."""
    if options.parsed_query is not None:
        return options.parsed_query.statement()
    return sa.select(*table_of(str(options.table), columns).c)


def count_unserved(
    database: ReadOnlyDatabase,
    log: LogStatements | None,
    deadline: Deadline,
) -> tuple[Unreadable, ...]:
    """Count the rows of the log that have no time or no request id. Without a log, there are none.

    Rows need a request id only if the options name its column. Raises SourceError if the column of
    times has another type.
    """
    if log is None:
        return ()
    database.require_times(log.time, deadline)
    unreadable = []
    selected = ("rows", "example")
    for column, need in log.required:
        (answer,) = database.read(log.count(column, is_unreadable=True), [{}], selected, deadline)
        count = int(answer["rows"][0])
        if not count:
            continue
        (answer_all,) = database.read(log.count(column), [{}], selected, deadline)
        total = int(answer_all["rows"][0])
        shown = answer["example"][0]
        unreadable.append(unreadable_of(database.where, column, need, count, total, shown))
    return tuple(unreadable)


class SqlTable(Table):
    """One query or table of a database. One statement reads it."""

    def __init__(self, options: SqlTableOptions | SqlSourceOptions) -> None:
        super().__init__(options)
        self._database = ReadOnlyDatabase(options)
        self._log = log_statements_of(options, self._database.dialect)

    def where(self, slot: datetime) -> str:  # noqa: ARG002 - the base's signature
        """Return the database. It is the same for all slots."""
        return self._database.where

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """Batches of some thousand rows. A table without rows has no batch.

        Raises SourceError if the rows cannot be read within the timeout.
        """
        return self._in_time(partial(self._read, slot, columns))

    def _in_time(self, read: Callable[[Deadline], Iterator[TableBatch]]) -> Iterator[TableBatch]:
        """Read the rows. Raises SourceError if this takes longer than the timeout."""
        timeout = self._options.timeout
        try:
            yield from read(Deadline.after(timeout.total_seconds()))
        except OverdueError:
            limit = format_duration(timeout)
            raise SourceError(
                f"{self._database.where} did not send all rows within {limit}: raise timeout, or "
                "select fewer rows",
                permanent=False,
            ) from None

    def _read(
        self, slot: datetime, columns: Sequence[str], deadline: Deadline
    ) -> Iterator[TableBatch]:
        self._require_served(deadline)
        return self._read_rows(slot, columns, deadline)

    def _require_served(self, deadline: Deadline) -> None:
        """Raise SourceError if too many rows of a log have no time or no request id."""
        unserved = count_unserved(self._database, self._log, deadline)
        require_readable(unserved, self._max_unreadable)

    def _read_rows(
        self, slot: datetime, columns: Sequence[str], deadline: Deadline
    ) -> Iterator[TableBatch]:
        options = self._options
        database = self._database
        parameters = {"slot": slot} if options.bound_names else {}
        in_table = [name for name in columns if name != ARM_COLUMN]
        roots = database.roots_of(options, in_table, deadline)
        if ARM_COLUMN in columns:
            roots.append(ARM_COLUMN)
        if self._log is None:
            statement = select_all(options, roots)
        elif {*roots} <= {root_of(options.user, roots), ARM_COLUMN}:
            statement = self._log.distinct_users(roots, slot)
        else:
            statement = self._log.newest_lists(roots, slot)
        return database.read(statement, [parameters], columns, deadline)


class SqlOutcomes(SqlTable):
    """Outcomes in a log. Equal rows of a user are one row. Port: OutcomeSource."""

    _log: LogStatements  # outcomes are always in a log

    def _read(
        self, slot: datetime, columns: Sequence[str], deadline: Deadline
    ) -> Iterator[TableBatch]:
        database = self._database
        roots = database.roots_of(self._options, columns, deadline)
        statement = self._log.count_equal(roots, slot)
        return database.read(statement, [{}], (*columns, ROW_COUNT), deadline)


class SqlUsers(SqlTable):
    """The users in a query or table. Ports: UserSource and AssignmentSource."""

    def assigned(self, slot: datetime) -> AssignedUsers:
        """Return the users that were assigned to the arms.

        Raises SourceError if the rows cannot be read, or if an arm has no user.
        """
        tally = Tally(self.where(slot))
        count = dict.fromkeys(Arm, 0)
        listed: dict[Arm, set[str]] = {arm: set() for arm in Arm}
        for batch in self._in_time(partial(self._read_assigned, slot)):
            keys = self._users(batch, tally).to_pylist()
            for arm, name in ARM_USERS.items():
                for key, is_count, users in zip(keys, batch[IS_COUNT], batch[name], strict=True):
                    if is_count:
                        count[arm] += users or 0
                    elif users and key is not None:  # None is a value that is no id
                        listed[arm].add(key)
        switched = listed[Arm.BASELINE] & listed[Arm.CANDIDATE]
        for arm in Arm:
            count[arm] += len(listed[arm] - switched)
        served = self._options.served
        served.require_unswitched(tally.where, count, len(switched))
        for arm in Arm:
            if not count[arm]:
                problem = served.describe_unserved(arm, slot, self._newest_of(arm))
                raise SourceError(f"{tally.where} {problem}", permanent=False)
        return AssignedUsers(count=count, switched=pd.Index(sorted(switched), dtype="str"))

    def _read_assigned(self, slot: datetime, deadline: Deadline) -> Iterator[TableBatch]:
        self._require_served(deadline)
        user = self._options.user
        log = self._log
        assert log is not None  # noqa: S101 - the users of an unpaired comparison are in a log
        (root,) = self._database.roots_of(self._options, [user], deadline)
        statement = log.assigned_users(root, slot)
        columns = (user, IS_COUNT, *ARM_USERS.values())
        return self._database.read(statement, [{}], columns, deadline)

    def _newest_of(self, arm: Arm) -> str | None:
        """Return the time of the arm's newest row as text. None if the arm has no row."""
        assert self._log is not None  # noqa: S101 - as above
        deadline = Deadline.after(self._options.timeout.total_seconds())
        (answer,) = self._database.read(self._log.newest_time(arm), [{}], ("newest",), deadline)
        at: str | None = answer["newest"][0]
        return at


class SqlSource:
    """One arm's lists from a database. Port: Source.

    If a statement does not end before the deadline, its users are ``timeout``.
    """

    def __init__(self, options: SqlSourceOptions) -> None:
        self._options = options
        self._database = ReadOnlyDatabase(options)
        self._log = log_statements_of(options, self._database.dialect)
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
            unserved = count_unserved(self._database, self._log, deadline)
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
            if self._log is None:
                statement = select_all(options, roots)
            else:
                statement = self._log.newest_lists(roots, request.slot)
            columns = options.columns
            yield from self._database.read(statement, parameter_sets(), columns, deadline)
