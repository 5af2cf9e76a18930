"""Reads lists, users and tables from files. The memory is limited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from monitor.boundary.deadline import Deadline, OverdueError
from monitor.boundary.slot_templates import fill_slot
from monitor.boundary.temporary_database import sql_text
from monitor.measures.reading.ids import one_array, user_index
from monitor.measures.reading.unreadable_values import Tally
from monitor.model.errors import SourceError
from monitor.model.model_versions import LONGEST_VERSION
from monitor.model.rankings import Arm, CoverageReason, Pull, UserTable
from monitor.model.runs import PullRequest
from monitor.model.unpaired import ARM_COLUMN, AssignedUsers
from monitor.model.unreadable import ColumnKind, Unreadable, require_readable
from monitor.sources.file import FileOptions, FileSourceOptions, FileUsersOptions
from monitor.sources.file.database import (
    KEY,
    ROW_NUMBER,
    FileView,
    cut_lists,
    has_repeated,
    open_database,
)
from monitor.sources.file.file_set import FileSet, find_files, held_files, read_files
from monitor.sources.file.formats import sql_name
from monitor.sources.file.log_view import LogView, open_view
from monitor.sources.lookup_tables import ROW_COUNT, SegmentValues, build_user_table, segment_labels
from monitor.sources.table_lists import TableBatch, TableLists, check_size
from monitor.sources.tables import Table

GIVEN = "rankwatch_user"
"""The column of users as the file writes them. `KEY` has the users as ``user_ids`` rewrites
them."""
_BATCH_ITEMS = 40_000  # an id may be long
_BATCH_ROWS = 8192
_OUTCOME_ROWS = 100_000
_USER_BYTES = 64  # the number of bytes that one user takes at least
_CACHED_USERS = 100_000  # the largest number of users that are cached


def key_of_rows(
    files: FileSet, options: FileSourceOptions | FileUsersOptions
) -> tuple[object, ...]:
    """Return a key that is equal for two readers if they read the same rows and the same users."""
    return files.paths, options.user, options.user_ids, options.served


def needs_order(options: FileSourceOptions | FileUsersOptions) -> bool:
    """Return whether the order of the rows matters, as in a log."""
    return options.served is not None or bool(getattr(options, "in_order", None))


class ListView:
    """The lists of one arm as three views.

    ``rows`` has the rows of the files. ``joined`` has one row for each user. For the long form,
    this row has lists of the values in the user's rows. ``all_rows`` has the same rows as ``rows``,
    and also the rows without a user. If the options of the log name arms, a user has a row in
    ``joined`` for each arm, and all views have `ARM_COLUMN`.
    """

    def __init__(
        self,
        database: DuckDBPyConnection,
        name: str,
        options: FileSourceOptions,
        files: FileSet,
        k: int,
    ) -> None:
        if options.in_order:
            options = options.model_copy(update={"rank": ROW_NUMBER})
        self.options = options
        self.is_long = options.item is not None
        self.rows_key = key_of_rows(files, options)
        self.names = tuple(name for name in options.columns if name != options.user)
        self.rows = f"lists_{name}"
        self.all_rows = f"all_{self.rows}"
        self.joined = f"joined_{name}"
        self._database = database
        self._k = k
        self._where = files.where
        self.file = open_view(database, files, options.columns, f"rows_{name}", options)
        # This reads no rows. It raises an error before the join if a column cannot contain lists.
        self._pull(options, pd.Index([], dtype="str"), [self.file.empty(options.columns)])
        selected = [
            f"{self.file.ids(options.user, options.user_ids)} AS {KEY}",
            f"{self.file.ids(options.user)} AS {GIVEN}",
        ]
        for column in self.names:
            selected.append(f"{self.taken(column)} AS {sql_name(column)}")
        self.keys = [KEY]
        if self.file.has_arms:
            self.keys.append(ARM_COLUMN)
            selected.append(ARM_COLUMN)
        create = "CREATE TEMP VIEW"
        database.execute(
            f"{create} {self.all_rows} AS SELECT {', '.join(selected)} FROM {self.file.name}"
        )
        database.execute(
            f"{create} {self.rows} AS SELECT * FROM {self.all_rows} WHERE {KEY} IS NOT NULL"
        )
        # This needs no condition against null, because a null key joins nothing. With one, DuckDB
        # would read each key twice.
        joined = f"SELECT * FROM {self.all_rows}"
        if self.is_long:
            quoted = map(sql_name, self.names)
            lists = ", ".join(f"list({column}) AS {column}" for column in quoted)
            keys = ", ".join(self.keys)
            joined = f"SELECT {keys}, {lists} FROM {self.rows} GROUP BY {keys}"
        database.execute(f"{create} {self.joined} AS {joined}")

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """The rows of a log that were skipped when the log was opened."""
        return self.file.unreadable

    def taken(self, column: str) -> str:
        """Return the SQL expression for any column except the column of users."""
        options = self.options
        file = self.file
        value = sql_name(column)
        most = None if options.no_item else self._k
        items = options.items
        if items and column == options.scores and file.is_list(column) and file.is_list(items):
            # Items and scores of different lengths are an error. Cutting must not hide it.
            cut = value if most is None else cut_lists(value, most)
            return f"CASE WHEN len({value}) = len({sql_name(items)}) THEN {cut} END"
        if column == options.model_version and not file.is_json:
            return f"left(CAST({value} AS VARCHAR), {LONGEST_VERSION + 1})"
        if column in {options.rank, options.scores, options.model_version}:
            return value
        if self.is_long:
            return file.item(column)
        return file.items(column, most)

    def leave_out_others(self, users: UserView) -> None:
        """Leave out rows of a log whose users are not asked."""
        options = self.options
        if isinstance(self.file, LogView):
            key = self.file.ids(options.user, options.user_ids)
            self.file.leave_out_others(key, users.name, users.count)

    @property
    def batch_rows(self) -> int:
        """How many rows a batch may have, so that it is small even if all ids are long."""
        return max(256, min(8192, _BATCH_ITEMS // self._k))

    def pull_joined(self, record: pa.RecordBatch, asked: pd.Index[str], prefix: str) -> Pull:
        """Return the lists of the ``asked`` users in a batch of the join, one row for each user."""
        has_list = record[f"{prefix}{KEY}"]
        users = record[KEY]
        columns = {name: record[f"{prefix}{name}"] for name in self.names}
        if has_list.true_count < len(has_list):
            users = users.filter(has_list)
            columns = {name: column.filter(has_list) for name, column in columns.items()}
        if self.is_long:
            # The lists are converted back to one row for each item.
            users = users.take(pc.list_parent_indices(columns[self.names[0]]))
            columns = {name: column.flatten() for name, column in columns.items()}
        spelled = self.options.model_copy(update={"user_ids": None})
        return self._pull(spelled, asked, [self._batch(users, columns)])

    def pull_asked(self, users: pd.Index[str], deadline: Deadline, max_bytes: int) -> Pull:
        """Return the lists of these users. Also counts all rows without a user."""
        # The key null selects the rows without a user.
        pull = self.pull_rows([*users, None], users, deadline, max_bytes)
        unreadable = list(self.unreadable)
        if any(part.count for part in pull.unreadable if part.column == self.options.user):
            unreadable += self.count_unreadable()
        unreadable += [part for part in pull.unreadable if part.column != self.options.user]
        return replace(pull, unreadable=tuple(unreadable))

    def pull_rows(
        self,
        keys: Iterable[str | None],
        users: pd.Index[str],
        deadline: Deadline,
        max_bytes: int | None = None,
        arm: Arm | None = None,
    ) -> Pull:
        """Return the lists of these users, from all rows of the arm that have one of the keys.

        Without an arm, the rows of all arms are read. Without ``max_bytes``, the size of the rows
        has no limit.
        """
        self._database.register("wanted", pa.table({KEY: pa.array(keys, pa.large_string())}))
        pull = self._pull(self.options, users, self._wanted(deadline, arm), max_bytes)
        self._database.unregister("wanted")
        return pull

    def count_unreadable(self) -> tuple[Unreadable, ...]:
        """Return the number of rows without a user."""
        user = self.options.user
        checks = [(user, ColumnKind.IDS, f"{self.file.ids(user)} IS NULL")]
        return self.file.count(self.file.name, checks)[0]

    def _wanted(self, deadline: Deadline, arm: Arm | None) -> Iterator[Mapping[str, Any]]:
        names = ", ".join(map(sql_name, (GIVEN, *self.names)))
        query = (
            f"SELECT {names} FROM {self.all_rows} AS r SEMI JOIN wanted ON r.{KEY} IS NOT "
            f"DISTINCT FROM wanted.{KEY}"
        )
        if arm is not None and self.file.has_arms:
            query += f" WHERE r.{ARM_COLUMN} = {sql_text(arm)}"
        for record in self._database.sql(query).to_arrow_reader(self.batch_rows):
            deadline.require_time()
            yield self._batch(record[GIVEN], {name: record[name] for name in self.names})
        yield self.file.empty(self.options.columns)

    def _batch(self, users: pa.Array, columns: Mapping[str, pa.Array]) -> Mapping[str, Any]:
        values = {
            name: self.file.values(name, one_array(column)) for name, column in columns.items()
        }
        values[self.options.user] = users
        return values

    def _pull(
        self,
        options: FileSourceOptions,
        users: pd.Index[str],
        batches: list[Mapping[str, Any]] | Iterator[Mapping[str, Any]],
        max_bytes: int | None = None,
    ) -> Pull:
        lists = TableLists(
            options=options,
            users=users,
            k=self._k,
            where=self._where,
            max_bytes=max_bytes,
        )
        return lists.pull(batches)


class UserView:
    """The users of files as the view ``asked``, with one row for each user.

    ``columns`` are the names of the columns with the values of each dimension. If a user has
    several rows, the smallest value of each dimension is used. ``also`` names further columns
    of the view. The view has them only if no user has several rows. ``same_rows`` is a view of the
    same rows of a log.
    """

    name = "asked"

    def __init__(
        self,
        database: DuckDBPyConnection,
        files: FileSet,
        options: FileUsersOptions,
        dimensions: Sequence[str],
        also: Sequence[str] = (),
        same_rows: FileView | None = None,
    ) -> None:
        user = options.user
        self._database = database
        self._segments = {
            f"rankwatch_segment_{number}": name
            for number, name in enumerate(dimensions)
            if name != ARM_COLUMN
        }
        self.columns = (*self._segments,)
        if ARM_COLUMN in dimensions:
            self.columns += (ARM_COLUMN,)
        self.where = files.where
        self.rows_key = key_of_rows(files, options)
        names = tuple(dict.fromkeys((user, *self._segments.values(), *also)))
        rows = open_view(database, files, names, "asked_rows", options, same_rows)
        selected = [f"{rows.ids(user, options.user_ids)} AS {KEY}"]
        checks = [(user, ColumnKind.IDS, f"{KEY} IS NULL")]
        for column, name in self._segments.items():
            selected.append(f"{rows.label(name)} AS {column}")
            checks.append(
                (name, ColumnKind.LABELS, f"{column} IS NULL AND {rows.raw_text(name)} <> ''")
            )
        database.execute(
            f"CREATE TEMP VIEW asked_keys AS SELECT {', '.join(selected)}, * FROM {rows.name}"
        )
        unreadable, (count,) = rows.count("asked_keys", checks, [f"count({KEY})"])
        self.unreadable = (*rows.unreadable, *unreadable)
        require_readable(self.unreadable, options.max_unreadable)
        if not count:
            raise SourceError(
                f"{self.where} has no user: check the path, and check the name of the user column"
            )
        hashes = f"SELECT hash({KEY}) FROM asked_keys WHERE {KEY} IS NOT NULL"
        self.is_distinct = rows.has_one_row or not has_repeated(database, hashes)
        users_of = "*"
        rest = ""
        if any(part.column == user for part in unreadable):
            rest = f" WHERE {KEY} IS NOT NULL"
        if not self.is_distinct:
            users_of = ", ".join([KEY, *(f"min({column}) AS {column}" for column in self.columns)])
            rest += f" GROUP BY {KEY}"
        database.execute(f"CREATE TEMP VIEW {self.name} AS SELECT {users_of} FROM asked_keys{rest}")
        self.count: int = count
        if not self.is_distinct:
            ((self.count,),) = database.execute(f"SELECT count(*) FROM {self.name}").fetchall()

    def read_segments(self, most: int) -> dict[str, SegmentValues]:
        """Return the most frequent values of each column of segments, at most ``most`` values."""
        segments = {}
        for column, name in self._segments.items():
            ranked = self._database.sql(
                f"SELECT {column} FROM asked WHERE {column} IS NOT NULL GROUP BY {column} "
                f"ORDER BY count(*) DESC, CAST({column} AS VARCHAR) LIMIT {most + 1}"
            )
            values = one_array(ranked.to_arrow_table().column(0))
            labels = segment_labels(values, name, self.where).drop_null().to_pylist()
            unknown = self._database.execute(
                f"SELECT 1 FROM asked WHERE {column} IS NULL LIMIT 1"
            ).fetchall()
            segments[column] = SegmentValues(
                labels, most, name, self.where, has_unknown=bool(unknown)
            )
        return segments


class FileLists:
    """One arm's lists in files. Port: Source.

    If the deadline passes, all users get the reason ``timeout``, because half a file is no answer.
    """

    def __init__(self, options: FileSourceOptions) -> None:
        self._options = options

    def pull(self, request: PullRequest) -> Pull:
        """Return the lists of the requested users."""
        deadline = Deadline.after(request.timeout_s)
        return read_files(self._options, request.slot, partial(self._pull, request, deadline))

    def _pull(self, request: PullRequest, deadline: Deadline, files: FileSet) -> Pull:
        options = self._options
        try:
            deadline.require_time()
            with open_database([files], deadline, in_order=needs_order(options)) as database:
                lists = ListView(database, "asked", options, files, request.k)
                pull = lists.pull_asked(request.users, deadline, options.max_bytes)
        except OverdueError:
            note = f"the run's deadline passed before {files.where} was read"
            return Pull.failed(request.users, CoverageReason.TIMEOUT, note)
        require_readable(pull.unreadable, options.max_unreadable)
        return pull


class FileUsers:
    """Users in files. Port: UserSource."""

    def __init__(self, options: FileUsersOptions) -> None:
        self._options = options
        self._cached: tuple[tuple[object, ...], UserTable] | None = None

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """Return all users of the files, with these columns as segments.

        Small files are read again only if they changed.
        """
        return read_files(self._options, slot, partial(self._users, dimensions))

    def _users(self, dimensions: Sequence[str], files: FileSet) -> UserTable:
        # Only the users of a log depend on the slot.
        log_slot = self._options.served and files.slot
        cache_key = (files.paths, files.signatures, tuple(dimensions), log_slot)
        if self._cached is not None and self._cached[0] == cache_key:
            return self._cached[1]
        with open_database([files], in_order=needs_order(self._options)) as database:
            view = UserView(database, files, self._options, dimensions)
            # The size is checked before any user is read, because reading takes much memory.
            check_size(view.count * _USER_BYTES, self._options.max_bytes, files.where)
            rows = []
            query = f"SELECT {', '.join((KEY, *view.columns))} FROM {view.name}"
            for record in database.sql(query).to_arrow_reader(_BATCH_ROWS):
                segments = dict(zip(dimensions, record.columns[1:], strict=True))
                rows.append((record[KEY], segments))
        table = replace(build_user_table(rows, Tally(files.where)), unreadable=view.unreadable)
        files.require_unchanged()
        self._cached = (cache_key, table) if view.count <= _CACHED_USERS else None
        return table

    def assigned(self, slot: datetime) -> AssignedUsers:
        """Return the users that were assigned to the arms.

        Raises SourceError if the files cannot be read, or if an arm has no user.
        """
        return read_files(self._options, slot, self._assigned)

    def _assigned(self, files: FileSet) -> AssignedUsers:
        # A user with rows of both arms has switched, and is counted for neither arm.
        options = self._options
        served = options.served
        assert served is not None and served.arms is not None  # noqa: PT018, S101 - of a log
        names = (options.user, served.time, served.arms.name, *served.arm)
        with open_database([files]) as database:
            rows = FileView(database, files, tuple(dict.fromkeys(names)), "rows")
            key = rows.ids(options.user, options.user_ids)
            arm_sql, conditions = rows.arm_sql(served)
            conditions.append(rows.time_sql(None, served, files.slot))
            of_arms = (
                f"SELECT {key} AS {KEY}, {arm_sql} AS {ARM_COLUMN} FROM {rows.name} "
                f"WHERE {' AND '.join(conditions)}"
            )
            database.execute(
                f"CREATE TEMP TABLE assigned AS SELECT {KEY}, min({ARM_COLUMN}) AS {ARM_COLUMN}, "
                f"min({ARM_COLUMN}) < max({ARM_COLUMN}) AS is_switched FROM ({of_arms}) "
                f"WHERE {KEY} IS NOT NULL GROUP BY {KEY}"
            )
            counts = database.execute(
                f"SELECT {ARM_COLUMN}, count(*) FROM assigned WHERE NOT is_switched GROUP BY ALL"
            ).fetchall()
            switched = database.sql(f"SELECT {KEY} FROM assigned WHERE is_switched")
            users = user_index(switched.to_arrow_table().column(0))
            count = dict.fromkeys(Arm, 0) | dict(counts)
            served.require_unswitched(files.where, count, len(users))
            if not all(count.values()):
                # This raises an error with the cause, such as times that cannot be read.
                LogView(database, files, (options.user,), "unserved", options)
        return AssignedUsers(count=count, switched=users)


class FileTable(Table):
    """The files of a slot as a table."""

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options)
        self.max_bytes = options.max_bytes

    def where(self, slot: datetime) -> str:
        """Return the path of the slot's files."""
        return fill_slot(self._options.path, slot)

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """The rows of the slot's files, in the order of the files. The last batch has no rows."""
        files = find_files(self._options, slot)
        with open_database([files], in_order=True) as database:
            rows = FileView(database, files, columns, "rows")
            for record in database.sql(f"SELECT * FROM {rows.name}").to_arrow_reader(_BATCH_ROWS):
                yield {name: rows.values(name, record[name]) for name in columns}
            yield rows.empty(columns)
        files.require_unchanged()


class FileOutcomes(FileTable):
    """Outcomes in a log of files. Equal rows of a user are one row. Port: OutcomeSource.

    Without ``served``, all rows are read.
    """

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """Yield the rows of the log's period, and how often each of them occurs.

        Raises SourceError if the files cannot be read.
        """
        served = self._options.served
        names = list(columns)
        if served is not None:
            names += [served.time, *served.arm]
        chosen = ", ".join(map(sql_name, columns))
        with held_files(self._options, slot) as files, open_database([files]) as database:
            rows = FileView(database, files, tuple(dict.fromkeys(names)), "rows")
            conditions = ["TRUE"]
            if served is not None:
                conditions = [*rows.arm_sql(served)[1], rows.time_sql(None, served, files.slot)]
            query = (
                f"SELECT {chosen}, count(*) AS {ROW_COUNT} FROM {rows.name} "
                f"WHERE {' AND '.join(conditions)} GROUP BY {chosen}"
            )
            for record in database.sql(query).to_arrow_reader(_OUTCOME_ROWS):
                batch = {name: rows.values(name, record[name]) for name in columns}
                yield {**batch, ROW_COUNT: record[ROW_COUNT]}
            files.require_unchanged()
