"""Reads the log of an unpaired comparison with few statements."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from monitor.boundary.deadline import BackgroundCall, Deadline
from monitor.measures.reading.numbers import value_array
from monitor.model.ports import LogRows
from monitor.model.rankings import Pull
from monitor.model.runs import PullRequest
from monitor.model.unpaired import AssignedUsers
from monitor.model.unreadable import Unreadable, require_readable
from monitor.sources.sql import SqlSourceOptions, SqlUsersOptions
from monitor.sources.sql.source import SqlTable, SqlUsers, count_unserved
from monitor.sources.table_lists import TableBatch, TableLists


class SqlLog:
    """A log in a database. Port: LogSource.

    ``before`` has the options of the pre-test lists, ``current`` those of the current lists, and
    ``assigned`` those of the users that were assigned to the arms.
    """

    def __init__(
        self, before: SqlSourceOptions, current: SqlSourceOptions, assigned: SqlUsersOptions
    ) -> None:
        self._before = before
        self._current = current
        self._assigned = SqlUsers(assigned)
        url = sa.make_url(current.url.get_secret_value())
        # SQLite runs in this process, where two statements at a time hinder each other. With 10^6
        # users in each arm, a run took 78 s of CPU time instead of 52 s.
        self._is_in_process = url.get_backend_name() == "sqlite"

    def read(self, slot: datetime, dimensions: Sequence[str], timeout_s: float) -> LogRows:
        """Begin to read all rows of the log that a run needs."""
        deadline = Deadline.after(timeout_s)
        assigned = BackgroundCall(partial(self._assigned.assigned, slot), name="sql")
        begun = _BegunAssignments(assigned, deadline)
        if self._is_in_process:
            current = _LoggedLists(self._current, slot, dimensions, deadline, after=assigned)
            before = _LoggedLists(self._before, slot, (), deadline, after=current.call)
        else:
            # The current lists take about as long as the users and the pre-test lists together.
            current = _LoggedLists(self._current, slot, dimensions, deadline)
            before = _LoggedLists(self._before, slot, (), deadline, after=assigned)
        return LogRows(assigned=begun, users=current, current=current, before=before)


class _BegunAssignments:
    """The assigned users, which are being read. Port: AssignmentSource."""

    def __init__(self, call: BackgroundCall[AssignedUsers], deadline: Deadline) -> None:
        self._call = call
        self._deadline = deadline

    def assigned(self, slot: datetime) -> AssignedUsers:  # noqa: ARG002 - the port's signature
        """Wait for the users. Raises OverdueError at the deadline."""
        return self._call.wait(self._deadline)


class _LoggedLists(SqlTable):
    """Each user's newest list, and segments. One statement reads both. Ports: Source, UserSource.

    The statement begins when the call ``after`` has ended. All methods wait for the statement, and
    raise OverdueError at the deadline.
    """

    def __init__(
        self,
        options: SqlSourceOptions,
        slot: datetime,
        dimensions: Sequence[str],
        deadline: Deadline,
        after: BackgroundCall[Any] | None = None,
    ) -> None:
        super().__init__(options)
        self._deadline = deadline
        self._after = after
        columns = tuple(dict.fromkeys((*options.columns, *dimensions)))
        self.call = BackgroundCall(partial(self._read_all, slot, columns), name="sql")

    def _read_all(
        self, slot: datetime, columns: Sequence[str]
    ) -> tuple[list[TableBatch], tuple[Unreadable, ...]]:
        if self._after is not None:
            self._after.wait(self._deadline)
        unserved: tuple[Unreadable, ...] = ()
        if self._options.served.arms is None:
            # The rows of all arms are counted once.
            unserved = count_unserved(self._database, self._options, self._deadline)
        batches: list[TableBatch] = []
        for batch in self._read_rows(slot, columns, self._deadline):
            batches.append({name: _pack(values) for name, values in batch.items()})
        return batches, unserved

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:  # noqa: ARG002
        """Return the rows, with all columns."""
        return iter(self.call.wait(self._deadline)[0])

    def pull(self, request: PullRequest) -> Pull:
        """Return the lists of the requested users."""
        batches, unserved = self.call.wait(self._deadline)
        lists = TableLists(
            options=self._options,
            users=request.users,
            k=request.k,
            where=self._database.where,
        )
        pull = lists.pull(batches)
        pull = replace(pull, unreadable=(*unserved, *pull.unreadable))
        require_readable(pull.unreadable, self._options.max_unreadable)
        return pull


def _pack(values: Sequence[object]) -> object:
    """Return texts as an Arrow array, which takes much less memory. Other values are unchanged."""
    if set(map(type, values)) <= {str, type(None)}:
        return value_array(values)
    return values
