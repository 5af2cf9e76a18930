"""Reads the log of an unpaired comparison with few statements."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any

import pyarrow.compute as pc

from monitor.boundary.deadline import BackgroundCall, Deadline
from monitor.measures.reading.lists import parse_numbers
from monitor.measures.reading.numbers import value_array
from monitor.model.ports import LogRows
from monitor.model.rankings import Arm, Pull
from monitor.model.runs import PullRequest
from monitor.model.unpaired import ARM_COLUMN, AssignedUsers
from monitor.model.unreadable import ColumnKind, Unreadable, require_readable
from monitor.sources.sql import SqlSourceOptions, SqlUsersOptions
from monitor.sources.sql.source import SqlTable, SqlUsers, count_unserved
from monitor.sources.table_lists import TableBatch, TableLists, filter_rows


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

    def read(self, slot: datetime, dimensions: Sequence[str], timeout_s: float) -> LogRows:
        """Begin to read all rows of the log that a run needs, with all statements at once."""
        deadline = Deadline.after(timeout_s)
        turn = Lock()
        before = _LoggedLists(self._before, slot, (), deadline, turn)
        current = _LoggedLists(self._current, slot, dimensions, deadline, turn, before.call)
        assigned = BackgroundCall(
            partial(self._assigned.assigned, slot), name="sql", later=(current.call, before.call)
        )
        return LogRows(
            assigned=_BegunAssignments(assigned, deadline),
            users=current,
            lists={arm: _ArmLists(current, arm) for arm in Arm},
            before=before,
        )


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

    All methods wait for the statement, and raise OverdueError at the deadline. If the statement
    fails, the calls ``later`` are abandoned.
    """

    def __init__(
        self,
        options: SqlSourceOptions,
        slot: datetime,
        dimensions: Sequence[str],
        deadline: Deadline,
        turn: Lock,
        *later: BackgroundCall[Any],
    ) -> None:
        super().__init__(options)
        self._deadline = deadline
        columns = tuple(dict.fromkeys((*options.columns, *dimensions)))
        read = partial(self._read_all, slot, columns, turn)
        self.call = BackgroundCall(read, name="sql", later=later)

    def _read_all(
        self, slot: datetime, columns: Sequence[str], turn: Lock
    ) -> tuple[list[TableBatch], tuple[Unreadable, ...]]:
        unserved: tuple[Unreadable, ...] = ()
        if self._options.served.arms is None:
            # The rows of all arms are counted once.
            unserved = count_unserved(self._database, self._log, self._deadline)
        # SQLite runs in this process. Two threads that fetch rows at the same time hinder each other:
        # reading 8 million rows took 17.3 s instead of 14.8 s.
        with turn if self._database.dialect == "sqlite" else nullcontext():
            rows = self._read_rows(slot, columns, self._deadline)
            batches = list(map(self._pack, rows))
        return batches, unserved

    def _pack(self, batch: TableBatch) -> TableBatch:
        """Return texts as Arrow arrays, which take much less memory. Lists of numbers are parsed.

        Other values are unchanged.
        """
        packed = dict(batch)
        for name, values in batch.items():
            if set(map(type, values)) <= {str, type(None)}:
                packed[name] = value_array(values)
            if name == self._options.items and not self._options.scores:
                packed[name] = parse_numbers(packed[name]) or packed[name]
        return packed

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:  # noqa: ARG002 - only one slot is read
        """The rows of the slot for which the log is read, with these columns."""
        batches, _ = self.call.wait(self._deadline)
        for batch in batches:
            yield {name: batch[name] for name in columns}

    def pull(self, request: PullRequest, arm: Arm | None = None) -> Pull:
        """Return the lists of the requested users. Only lists of this arm, unless it is None."""
        batches, unserved = self.call.wait(self._deadline)
        lists = TableLists(
            options=self._options,
            users=request.users,
            k=request.k,
            where=self._database.where,
            column_kind=ColumnKind.LISTS,
        )
        pull = lists.pull(batches if arm is None else _rows_of(arm, batches))
        pull = replace(pull, unreadable=(*unserved, *pull.unreadable))
        require_readable(pull.unreadable, self._options.max_unreadable)
        return pull


def _rows_of(arm: Arm, batches: Iterable[TableBatch]) -> Iterator[TableBatch]:
    for batch in batches:
        is_of_arm = pc.equal(batch[ARM_COLUMN], arm.value)
        yield filter_rows(batch, is_of_arm.to_numpy(zero_copy_only=False))


class _ArmLists:
    """The lists of one arm. Port: Source."""

    def __init__(self, lists: _LoggedLists, arm: Arm) -> None:
        self._lists = lists
        self._arm = arm

    def pull(self, request: PullRequest) -> Pull:
        """Return the arm's lists of the requested users."""
        return self._lists.pull(request, self._arm)
