"""Both arms' files joined by user in DuckDB: any number of users in bounded memory, spilling to disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

import duckdb
import pandas as pd
import pyarrow as pa

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import SourceError
from monitor.model.rankings import Panel, Pull, UserBatch
from monitor.model.runs import JoinRequest
from monitor.model.unreadable import Unreadable, add_up, require_readable
from monitor.sources.columns import user_index
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.database import KEY, open_database, sql_name
from monitor.sources.file.file_set import FileSet, held_files
from monitor.sources.file.views import GIVEN, ListView, SegmentColumns, UserView

_BATCH_BYTES = 1 << 27
_T = TypeVar("_T")


class JoinedFiles:
    """Files of lists by name, see `SourceKind`, and files of users. Port: JoinedSource."""

    def __init__(
        self,
        lists: Mapping[str, FileSourceOptions],
        users: FileUsersOptions,
        dimensions: Sequence[str],
    ) -> None:
        self._lists, self._users, self._dimensions = lists, users, tuple(dimensions)

    @contextmanager
    def read(self, request: JoinRequest) -> Iterator[_JoinedAnswers]:
        """Begin to read."""
        deadline, unread = Deadline.after(request.timeout_s), dict[str, str]()
        timely = partial(_timely, deadline)
        with _late_is_an_error(), ExitStack() as reading:
            held = dict[tuple[str, bool], FileSet]()

            def hold(options: FileSourceOptions | FileUsersOptions) -> FileSet:
                key = (options.path, options.served is None)
                if key not in held:
                    held[key] = reading.enter_context(held_files(options, request.slot))
                return held[key]

            users, found = timely(hold, self._users), dict[str, FileSet]()
            for name, options in self._lists.items():
                with _noted(unread, name, request):
                    found[name] = timely(hold, options)
            files = [users, *found.values()]
            in_order = any(each.in_order for each in self._lists.values())
            with open_database(files, deadline, k=request.k, in_order=in_order) as database:
                lists = dict[str, ListView]()
                for name, each in found.items():
                    with _noted(unread, name, request):
                        lists[name] = timely(
                            ListView, database, name, self._lists[name], each, request.k
                        )
                asked_of = (users.paths, self._users.user, self._users.user_ids, self._users.served)
                same = (each for each in lists.values() if each.read == asked_of)
                also = [column for each in same for column in each.options.columns]
                asked = timely(UserView, database, users, self._users, self._dimensions, also)
                segments = SegmentColumns(
                    database, asked, self._dimensions, request.max_segment_values
                )
                yield _JoinedAnswers(database, asked, segments, lists, unread, deadline)
                for each in files:
                    each.require_unchanged()


@contextmanager
def _late_is_an_error() -> Iterator[None]:
    try:
        yield
    except OverdueError:
        msg = (
            "the files were not read when the run's deadline passed: raise deadline, or sample "
            "fewer users"
        )
        raise SourceError(msg, permanent=False) from None


def _timely(deadline: Deadline, call: Callable[..., _T], *given: Any) -> _T:  # noqa: ANN401 - what it takes
    return BackgroundCall(partial(call, *given), name="files").wait(deadline)


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
        segments: SegmentColumns,
        lists: Mapping[str, ListView],
        unread: Mapping[str, str],
        deadline: Deadline,
    ) -> None:
        # A run can do without second lists, and says so.
        self.lacks = tuple(
            f"{name}: {text}" for name, text in unread.items() if name == "noise_floor"
        )
        self._unread = {name: text for name, text in unread.items() if name != "noise_floor"}
        self.asked = segments.asked
        self.unreadable: list[Unreadable] = [*users.unreadable]
        self._users, self._segments, self._lists = users, segments, lists
        self._database, self._deadline = database, deadline

    def batches(self, size: int) -> Iterator[UserBatch]:
        """All users; those who stand anywhere twice come last.

        UnreadableError where too much of an arm's file is.
        """
        found = {name: [*lists.unreadable] for name, lists in self._lists.items()}
        repeated = self._find_repeated(found)
        self._require_readable(found)
        for users, record, pulls in self._pulls(size, has_repeated=repeated):
            for name, pull in pulls.items():
                of_lists = (
                    each
                    for each in pull.unreadable
                    if each.column != self._lists[name].options.user
                )
                found[name] = list(add_up([*found[name], *of_lists]))
            yield self._batch(users, record, pulls)
        self._require_readable(found)
        for parts in found.values():
            self.unreadable += parts

    def _pulls(
        self, size: int, *, has_repeated: bool
    ) -> Iterator[tuple[pd.Index[str], pa.RecordBatch, dict[str, Pull]]]:
        for record in self._records(self._join(has_repeated=has_repeated), size):
            users = user_index(record[KEY])
            yield (
                users,
                record,
                {
                    name: lists.pull_joined(record, f"{name}_")
                    for name, lists in self._lists.items()
                },
            )
        if has_repeated:
            columns = ", ".join((KEY, *self._users.columns))
            query = f"SELECT {columns} FROM asked SEMI JOIN repeated USING ({KEY}) ORDER BY {KEY}"  # noqa: S608 - names of ours
            for record in self._database.sql(query).to_arrow_table().to_batches(size):
                users = user_index(record[KEY])
                pulls = {
                    name: lists.pull_rows(users, users, self._deadline)
                    for name, lists in self._lists.items()
                }
                yield users, record, pulls

    def _require_readable(self, found: Mapping[str, Sequence[Unreadable]]) -> None:
        for name, parts in found.items():
            if name != "noise_floor":  # a run can do without second lists, and says what they lack
                require_readable(parts, self._lists[name].options.max_unreadable)

    def _records(self, query: str, size: int) -> Iterator[pa.RecordBatch]:
        """The rows of a query, so many at once, or fewer where they are large."""
        rows = min([size, *(lists.batch_rows for lists in self._lists.values())])
        waiting: list[pa.RecordBatch] = []
        count = nbytes = 0
        for record in self._database.sql(query).to_arrow_reader(rows):
            self._deadline.require_time()
            waiting.append(record)
            count, nbytes = count + record.num_rows, nbytes + record.nbytes
            if count + rows > size or nbytes > _BATCH_BYTES:
                yield pa.concat_batches(waiting)
                waiting, count, nbytes = [], 0, 0
        if count:
            yield pa.concat_batches(waiting)

    def _holds(self, lists: ListView) -> bool:
        """Whether a row of the users is a row of these lists, so that nothing need be joined."""
        return self._users.read == lists.read and self._users.is_distinct and not lists.is_long

    def _find_repeated(self, found: Mapping[str, list[Unreadable]]) -> bool:
        """Whether any user stands twice in a file of lists.

        The table ``repeated`` then holds them. Counts rows without one.
        """
        self._database.execute(f"CREATE TEMP TABLE repeated ({KEY} VARCHAR)")
        for name, lists in self._lists.items():
            if not lists.is_long and not self._holds(lists):
                # Hashes are grouped first: they take a fraction of the memory that all keys would
                # take.
                hashes = f"SELECT h FROM (SELECT hash({KEY}) AS h FROM {lists.all_rows}) GROUP BY h"  # noqa: S608
                hashes += " HAVING count(*) > 1 OR h = hash(NULL::VARCHAR)"
                some = (
                    f"SELECT {KEY} FROM {lists.all_rows} WHERE hash({KEY}) IN ({hashes}) "
                    f"GROUP BY {KEY}"
                )  # noqa: S608
                self._database.execute(
                    f"INSERT INTO repeated {some} HAVING count(*) > 1 OR {KEY} IS NULL"
                )
                if self._database.execute(
                    f"DELETE FROM repeated WHERE {KEY} IS NULL RETURNING 1"
                ).fetchall():  # noqa: S608
                    found[name] += lists.count_unreadable()
            elif lists.is_long:
                found[name] += lists.count_unreadable()
                if lists.options.user_ids:
                    merged = (
                        f"SELECT {KEY} FROM {lists.rows} GROUP BY {KEY} HAVING min({GIVEN}) < "
                        f"max({GIVEN})"
                    )  # noqa: S608
                    self._database.execute(f"INSERT INTO repeated {merged}")
        return bool(self._database.execute("SELECT 1 FROM repeated LIMIT 1").fetchall())

    def _join(self, *, has_repeated: bool) -> str:
        columns, joins, held = [f"u.{KEY}", *(f"u.{name}" for name in self._users.columns)], [], []
        for name, lists in self._lists.items():
            if is_held := self._holds(lists):
                here = "TRUE"
                held += [
                    f"{lists.taken(each)} AS {sql_name(f'{name}_{each}')}" for each in lists.names
                ]
            else:
                here = f"{name}.{KEY} IS NOT NULL"
                joins.append(f"LEFT JOIN {lists.joined} AS {name} ON {name}.{KEY} = u.{KEY}")
            columns.append(f"{here} AS {name}_{KEY}")
            for each in lists.names:
                named = sql_name(f"{name}_{each}")
                columns.append(f"u.{named}" if is_held else f"{name}.{sql_name(each)} AS {named}")
        once = f"ANTI JOIN repeated USING ({KEY})" if has_repeated else ""
        users = f"SELECT {', '.join(['*', *held])} FROM asked {once}"  # noqa: S608 - quoted names
        return f"SELECT {', '.join(columns)} FROM ({users}) AS u {' '.join(joins)}"  # noqa: S608

    def _batch(
        self, users: pd.Index[str], record: pa.RecordBatch, pulls: Mapping[str, Pull]
    ) -> UserBatch:
        pulls = {
            **{name: Pull.failed(users, note=why) for name, why in self._unread.items()},
            **pulls,
        }
        return UserBatch(
            panel=Panel(users=users, segments=self._segments.of(record)),
            baseline=pulls["baseline"],
            candidate=pulls["candidate"],
            again=pulls.get("noise_floor"),
        )
