"""Joins the files of both arms by user in DuckDB.

The memory does not grow with the number of users, because DuckDB writes excess data to disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
from monitor.boundary.slot_templates import fill_slot
from monitor.measures.reading.ids import user_index
from monitor.model.errors import SourceError
from monitor.model.rankings import ALL, Arm, AskedUsers, Panel, Pull, UserBatch
from monitor.model.runs import JoinRequest
from monitor.model.unpaired import ARM_COLUMN
from monitor.model.unreadable import Unreadable, add_up, require_readable_lists
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.database import KEY, has_repeated, open_database
from monitor.sources.file.file_set import FileSet, end_of_period, held_files
from monitor.sources.file.formats import sql_name
from monitor.sources.file.source import GIVEN, ListView, UserView, key_of_rows, needs_order
from monitor.sources.lookup_tables import SegmentValues, split_by_values

_BATCH_BYTES = 1 << 27
_T = TypeVar("_T")


@dataclass(frozen=True)
class JoinedFiles:
    """Files of lists and files of users.

    Port: JoinedSource. ``lists`` has the options of the files by name, as `SourceKind` describes.
    """

    lists: Mapping[str, FileSourceOptions]
    users: FileUsersOptions
    dimensions: Sequence[str]

    @contextmanager
    def read(self, request: JoinRequest) -> Iterator[_JoinedAnswers]:
        """Open and join the files.

        Raises SourceError if the users cannot be read. If lists cannot be read, the run continues,
        and a note says why.
        """
        options_of_users = self.users
        dimensions = [*self.dimensions]
        if options_of_users.served is not None and options_of_users.served.arms is not None:
            dimensions.append(ARM_COLUMN)
        deadline = Deadline.after(request.timeout_s)
        timely = partial(_call_timely, deadline)
        with _late_is_an_error(), ExitStack() as stack:
            opened = dict[tuple[str, bool], FileSet]()  # both arms may read one log at two times

            def open_once(options: FileSourceOptions | FileUsersOptions) -> FileSet:
                slot = end_of_period(options, request.slot)
                key = (fill_slot(options.path, slot), options.served is None)
                if key not in opened:
                    opened[key] = stack.enter_context(held_files(options, slot))
                return replace(opened[key], slot=slot)

            user_files = timely(open_once, options_of_users)
            list_files = dict[str, FileSet]()
            unread = dict[str, str]()
            for name, options in self.lists.items():
                with _noted(unread, name, request):
                    list_files[name] = timely(open_once, options)
            all_files = [user_files, *list_files.values()]
            in_order = needs_order(options_of_users) or any(map(needs_order, self.lists.values()))
            with open_database(all_files, deadline, k=request.k, in_order=in_order) as database:
                lists = dict[str, ListView]()
                for name, files in list_files.items():
                    options = self.lists[name]
                    with _noted(unread, name, request):
                        lists[name] = timely(ListView, database, name, options, files, request.k)
                rows_key = key_of_rows(user_files, options_of_users)
                # If users and lists come from the same rows, these rows are read only once.
                list_columns = list[str]()
                same_rows = None
                for view in lists.values():
                    if view.rows_key == rows_key:
                        list_columns += view.options.columns
                        same_rows = view.file
                users = timely(
                    UserView,
                    database,
                    user_files,
                    options_of_users,
                    dimensions,
                    list_columns,
                    same_rows,
                )
                for view in lists.values():
                    timely(view.leave_out_others, users)
                segments = users.read_segments(request.max_segment_values)
                yield _JoinedAnswers(database, users, segments, lists, unread, deadline)
                for files in all_files:
                    files.require_unchanged()


@contextmanager
def _late_is_an_error() -> Iterator[None]:
    try:
        yield
    except OverdueError:
        raise SourceError(
            "the run's deadline passed before all files were read: raise deadline, or sample "
            "fewer users",
            permanent=False,
        ) from None


def _call_timely(deadline: Deadline, call: Callable[..., _T], *arguments: Any) -> _T:  # noqa: ANN401
    return BackgroundCall(partial(call, *arguments), name="files").wait(deadline)


@contextmanager
def _noted(unread: dict[str, str], name: str, request: JoinRequest) -> Iterator[None]:
    try:
        yield
    except SourceError as error:
        unread[name] = error.shown if request.shows_examples else str(error)


class _JoinedAnswers:
    """The join of one slot. Port: JoinedAnswers."""

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        users: UserView,
        segments: Mapping[str, SegmentValues],
        lists: Mapping[str, ListView],
        unread: Mapping[str, str],
        deadline: Deadline,
    ) -> None:
        self._unread = dict(unread)
        self.unread_inputs: tuple[str, ...] = ()
        if "noise_floor" in unread:
            # The run continues without these lists and reports that they are missing.
            self.unread_inputs = (f"noise_floor: {self._unread.pop('noise_floor')}",)
        names = chain.from_iterable(values.names for values in segments.values())
        self.asked = AskedUsers(count=users.count, segments=(ALL, *names))
        self.unreadable: list[Unreadable] = [*users.unreadable]
        self._users = users
        self._segments = segments
        self._lists = lists
        self._database = database
        self._deadline = deadline

    def batches(self, size: int) -> Iterator[UserBatch]:
        """Yield all users in batches of this size. Users with several rows in a file come last.

        Raises UnreadableError if too many rows of an arm's file are unreadable.
        """
        unreadable: dict[str, list[Unreadable]] = {}
        limits = {}
        for name, lists in self._lists.items():
            unreadable[name] = list(lists.unreadable)
            limits[name] = lists.options.max_unreadable
        has_repeated = self._find_repeated(unreadable)
        require_readable_lists(unreadable, limits)
        for batch, pulls in self._pulls(size, has_repeated=has_repeated):
            for name, pull in pulls.items():
                # Rows without a user have been counted already.
                user = self._lists[name].options.user
                parts = [part for part in pull.unreadable if part.column != user]
                unreadable[name] = list(add_up(unreadable[name] + parts))
            yield batch
        require_readable_lists(unreadable, limits)
        for parts in unreadable.values():
            self.unreadable += parts

    def _pulls(
        self, size: int, *, has_repeated: bool
    ) -> Iterator[tuple[UserBatch, dict[str, Pull]]]:
        """Users, and their lists by the name of the lists."""
        for record in self._records(self._join(has_repeated=has_repeated), size):
            yield from self._pull_users(record, is_joined=True)
        if has_repeated:
            columns = ", ".join((KEY, *self._users.columns))
            query = f"SELECT {columns} FROM asked SEMI JOIN repeated USING ({KEY}) ORDER BY {KEY}"
            for record in self._database.sql(query).to_arrow_table().to_batches(size):
                yield from self._pull_users(record, is_joined=False)

    def _pull_users(
        self, record: pa.RecordBatch, *, is_joined: bool
    ) -> Iterator[tuple[UserBatch, dict[str, Pull]]]:
        """The users in this record. If it is of the join, it also has their lists."""
        for arm, part in self._divide(record):
            users = user_index(part[KEY])
            pulls = {}
            for name, lists in self._lists.items():
                if is_joined:
                    pulls[name] = lists.pull_joined(part, users, f"{name}_")
                else:
                    pulls[name] = lists.pull_rows(users, users, self._deadline, arm=arm)
            yield self._batch(part, users, pulls, arm), pulls

    def _divide(self, record: pa.RecordBatch) -> Iterator[tuple[Arm | None, pa.RecordBatch]]:
        """Yield the users of each arm, if each user is served by one arm only."""
        if ARM_COLUMN not in self._users.columns:
            yield None, record
            return
        for arm in Arm:
            part = record.filter(pc.equal(record[ARM_COLUMN], arm.value))
            if part.num_rows:
                yield arm, part

    def _records(self, query: str, size: int) -> Iterator[pa.RecordBatch]:
        """The rows of a query in batches of this size. If rows are large, batches are smaller."""
        rows = min([size, *(lists.batch_rows for lists in self._lists.values())])
        waiting: list[pa.RecordBatch] = []
        count = nbytes = 0
        for record in self._database.sql(query).to_arrow_reader(rows):
            self._deadline.require_time()
            waiting.append(record)
            count += record.num_rows
            nbytes += record.nbytes
            if count + rows > size or nbytes > _BATCH_BYTES:
                yield pa.concat_batches(waiting)
                waiting = []
                count = nbytes = 0
        if count:
            yield pa.concat_batches(waiting)

    def _shares_rows(self, lists: ListView) -> bool:
        """Return whether each row has a user and this user's list, so that no join is needed."""
        return (
            self._users.rows_key == lists.rows_key and self._users.is_distinct and not lists.is_long
        )

    def _find_repeated(self, unreadable: Mapping[str, list[Unreadable]]) -> bool:
        """Fill the table ``repeated`` with users that are in several rows of a file of lists.

        Returns whether there are such users. The number of rows without a user is added to
        ``unreadable``.
        """
        execute = self._database.execute
        execute(f"CREATE TEMP TABLE repeated ({KEY} VARCHAR)")
        for name, lists in self._lists.items():
            if lists.is_long:
                unreadable[name] += lists.count_unreadable()
                if lists.options.user_ids:
                    execute(
                        f"INSERT INTO repeated SELECT {KEY} FROM {lists.rows} GROUP BY {KEY} "
                        f"HAVING min({GIVEN}) < max({GIVEN})"
                    )
            elif not lists.file.has_one_row and not self._shares_rows(lists):
                # Hashes are compared first, because they need much less memory than keys. The hash
                # of null is added, so that it is repeated if a row has no user.
                key = " || ' ' || ".join(lists.keys)
                hashes = (
                    f"SELECT hash({key}) AS h FROM {lists.all_rows} UNION ALL "
                    "SELECT hash(NULL::VARCHAR)"
                )
                if not has_repeated(self._database, hashes):
                    continue
                execute(
                    f"CREATE OR REPLACE TEMP TABLE repeated_hashes AS SELECT h FROM ({hashes}) "
                    "GROUP BY h HAVING count(*) > 1"
                )
                execute(
                    f"INSERT INTO repeated SELECT {KEY} FROM {lists.all_rows} "
                    f"WHERE hash({key}) IN (FROM repeated_hashes) "
                    f"GROUP BY {', '.join(lists.keys)} HAVING count(*) > 1 OR {KEY} IS NULL"
                )
                without_user = f"DELETE FROM repeated WHERE {KEY} IS NULL RETURNING 1"
                if execute(without_user).fetchall():
                    unreadable[name] += lists.count_unreadable()
        return bool(execute("SELECT 1 FROM repeated LIMIT 1").fetchall())

    def _join(self, *, has_repeated: bool) -> str:
        """The query that joins. It selects the users, the segments, and the columns of all lists.

        For the lists with the name NAME, ``NAME_rankwatch_key`` says whether the user has a list.
        """
        columns = ["u." + column for column in (KEY, *self._users.columns)]
        user_columns = ["*"]
        joins = []
        for name, lists in self._lists.items():
            aliases = {column: sql_name(f"{name}_{column}") for column in lists.names}
            if self._shares_rows(lists):
                columns.append(f"TRUE AS {name}_{KEY}")
                for column, alias in aliases.items():
                    user_columns.append(f"{lists.taken(column)} AS {alias}")
                    columns.append(f"u.{alias}")
            else:
                keys = " AND ".join(f"{name}.{key} = u.{key}" for key in lists.keys)
                joins.append(f"LEFT JOIN {lists.joined} AS {name} ON {keys}")
                columns.append(f"{name}.{KEY} IS NOT NULL AS {name}_{KEY}")
                for column, alias in aliases.items():
                    columns.append(f"{name}.{sql_name(column)} AS {alias}")
        users = f"SELECT {', '.join(user_columns)} FROM asked"
        if has_repeated:
            users += f" ANTI JOIN repeated USING ({KEY})"
        return f"SELECT {', '.join(columns)} FROM ({users}) AS u {' '.join(joins)}"

    def _batch(
        self,
        record: pa.RecordBatch,
        users: pd.Index[str],
        pulls: Mapping[str, Pull],
        arm: Arm | None,
    ) -> UserBatch:
        failed = {name: Pull.failed(users, note=why) for name, why in self._unread.items()}
        pulls = {**failed, **pulls}
        labels = {column: record[column] for column in self._segments}
        segments = split_by_values(record.num_rows, labels, self._segments)
        return UserBatch(
            panel=Panel(users=users, segments=segments),
            baseline=pulls["baseline"],
            candidate=pulls["candidate"],
            second_baseline=pulls.get("noise_floor"),
            arm=arm,
        )
