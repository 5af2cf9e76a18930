"""Both arms' Parquet files joined by user in DuckDB: any number of users in bounded memory, spilling to disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.deadline import Deadline
from monitor.errors import SourceError
from monitor.model import ALL, AskedUsers, CoverageReason, JoinRequest, Panel, Pull, PullRequest, RankingTable, UserBatch
from monitor.model.arrays import Rows
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.parquet_views import ParquetFile, can_join, open_database, sql_name
from monitor.sources.id_columns import one_array
from monitor.sources.lookup_tables import SegmentValues, segment_labels, split_by_values
from monitor.sources.table_readers import TableLists


def join_files(
    baseline: FileSourceOptions,
    candidate: FileSourceOptions,
    users: FileUsersOptions,
    dimensions: Sequence[str],
    again: FileSourceOptions | None,
) -> JoinedFiles | None:
    """These files joined, None where one of them is no Parquet file."""
    files = [each for each in (baseline, candidate, users, again) if each is not None]
    if not all(can_join(each.path, each.format) for each in files):
        return None
    return JoinedFiles(baseline, candidate, users, dimensions, again)


class JoinedFiles:
    """Two arms' files, a file of users, and where there are any the baseline's second lists. Port: JoinedSource."""

    def __init__(
        self,
        baseline: FileSourceOptions,
        candidate: FileSourceOptions,
        users: FileUsersOptions,
        dimensions: Sequence[str],
        again: FileSourceOptions | None = None,
    ) -> None:
        lists = {"baseline": baseline, "candidate": candidate, "noise_floor": again}
        self._lists = {name: options for name, options in lists.items() if options is not None}
        self._users = users
        self._dimensions = tuple(dimensions)

    def read(self, request: JoinRequest) -> AbstractContextManager[_JoinedAnswers]:
        """Begin to read."""
        return self._read(request)

    def close(self) -> None:
        """Nothing is held between reads."""

    @contextmanager
    def _read(self, request: JoinRequest) -> Iterator[_JoinedAnswers]:
        users = ParquetFile(self._users.path, request.slot)
        files = {name: ParquetFile(options.path, request.slot) for name, options in self._lists.items()}
        deadline = Deadline.after(request.timeout_s)
        with open_database([users.path, *(file.path for file in files.values())], deadline) as database:
            columns = (self._users.user, *self._dimensions)
            users.open(database, columns, "asked_rows")
            asked = _AskedUsers(database, users, self._users.user, self._dimensions, request.max_segment_values)
            lists, troubles, lacks = dict[str, _Lists](), list[str](), list[str]()
            for name, options in self._lists.items():
                try:
                    lists[name] = _Lists(database, name, options, files[name], request)
                except SourceError as error:
                    # A run can do without second lists, and says so.
                    (lacks if name == "noise_floor" else troubles).append(f"{name}: {error}")
            yield _JoinedAnswers(database, asked, lists, (tuple(troubles), tuple(lacks)), deadline)
            for file in (users, *files.values()):
                file.require_unchanged()


class _JoinedAnswers:
    """The join of one slot. Port: JoinedAnswers."""

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        users: _AskedUsers,
        lists: Mapping[str, _Lists],
        unread: tuple[tuple[str, ...], tuple[str, ...]],
        deadline: Deadline,
    ) -> None:
        self.troubles, self.lacks = unread
        self._database = database
        self._users = users
        self._lists = lists
        self._deadline = deadline

    @property
    def asked(self) -> AskedUsers:
        """Who is asked."""
        return self._users.asked

    def batches(self, size: int) -> Iterator[UserBatch]:
        """All users; those who stand anywhere twice come last."""
        repeated = self._find_repeated()
        for record in self._database.sql(self._join(has_repeated=repeated)).to_arrow_reader(size):
            self._deadline.require_time()
            if record.num_rows:
                pulls = {name: lists.pull_joined(record, f"{name}_") for name, lists in self._lists.items()}
                yield self._batch(record, pulls)
        if repeated:
            yield from self._repeated_batches(size)

    def _find_repeated(self) -> bool:
        """Whether any user stands twice in a file of lists; the table ``repeated`` then holds them."""
        self._database.execute("CREATE TEMP TABLE repeated (key VARCHAR)")
        for lists in self._lists.values():
            if not lists.is_long and not self._users.holds(lists):
                # Hashes are grouped first: they take a fraction of the memory that all keys would take.
                hashes = f"SELECT h FROM (SELECT hash(key) AS h FROM {lists.view}) GROUP BY h HAVING count(*) > 1"  # noqa: S608
                some = f"SELECT key FROM {lists.view} WHERE hash(key) IN ({hashes}) GROUP BY key HAVING count(*) > 1"  # noqa: S608
                self._database.execute(f"INSERT INTO repeated {some}")
        return bool(self._database.execute("SELECT 1 FROM repeated LIMIT 1").fetchall())

    def _join(self, *, has_repeated: bool) -> str:
        columns, joins = ["u.key", *(f"u.{name}" for name in self._users.columns)], []
        for name, lists in self._lists.items():
            if is_held := self._users.holds(lists):
                here = "TRUE"
            else:
                here = f"{name}.key IS NOT NULL"
                joins.append(f"LEFT JOIN {lists.view} AS {name} ON {name}.key = u.key")
            columns.append(f"{here} AS {name}_here")
            columns += [f"{'u' if is_held else name}.{sql_name(each)} AS {sql_name(f'{name}_{each}')}" for each in lists.names]
        once = "ANTI JOIN repeated USING (key)" if has_repeated else ""
        return f"SELECT {', '.join(columns)} FROM (SELECT * FROM {self._users.view} {once}) AS u {' '.join(joins)}"  # noqa: S608

    def _repeated_batches(self, size: int) -> Iterator[UserBatch]:
        columns = ", ".join(("key", *self._users.columns))
        query = f"SELECT {columns} FROM {self._users.view} SEMI JOIN repeated USING (key) ORDER BY key"  # noqa: S608
        for record in self._database.sql(query).to_arrow_table().to_batches(size):
            self._deadline.require_time()
            self._database.register("wanted_keys", pa.table({"key": record["key"]}))
            pulls = {name: lists.pull_rows(record["key"]) for name, lists in self._lists.items()}
            self._database.unregister("wanted_keys")
            yield self._batch(record, pulls)

    def _batch(self, record: pa.RecordBatch, pulls: Mapping[str, Pull]) -> UserBatch:
        users = _index(record["key"])
        nothing = partial(_unavailable, users)
        return UserBatch(
            panel=Panel(users=users, segments=self._users.segments(record)),
            baseline=pulls.get("baseline") or nothing(),
            candidate=pulls.get("candidate") or nothing(),
            again=pulls.get("noise_floor"),
        )


class _AskedUsers:
    """Everybody in the users' file, each once, as a view with a column for each segment dimension."""

    view = "asked"

    def __init__(
        self, database: duckdb.DuckDBPyConnection, file: ParquetFile, user: str, dimensions: Sequence[str], most: int
    ) -> None:
        self.columns = tuple(f"segment_{place}" for place in range(len(dimensions)))
        self._file, self._user = file, user
        labels = (f"{file.label(name)} AS {column}" for column, name in zip(self.columns, dimensions, strict=True))
        keys = ", ".join([f"{file.key(user)} AS key", *labels, "*"])
        database.execute(f"CREATE TEMP VIEW asked_keys AS SELECT {keys} FROM {file.view}")  # noqa: S608 - quoted names
        (counted,) = database.execute("SELECT count(key), count(DISTINCT hash(key)) FROM asked_keys").fetchall()
        if not counted[0]:
            msg = f"{file.where} holds no user: check the path and the name of the user column"
            raise SourceError(msg)
        self.is_distinct = counted[0] == counted[1]
        # Of a user listed twice the first row counts.
        firsts = "".join(f", arg_min_null({each}, file_row_number) AS {each}" for each in self.columns)
        rows = "*" if self.is_distinct else f"key{firsts}"
        together = "" if self.is_distinct else " GROUP BY key"
        database.execute(
            f"CREATE TEMP VIEW {self.view} AS SELECT {rows} FROM asked_keys WHERE key IS NOT NULL{together}"  # noqa: S608
        )
        ((count,),) = database.execute(f"SELECT count(*) FROM {self.view}").fetchall()  # noqa: S608
        named = zip(self.columns, dimensions, strict=True)
        self._values = {column: self._segment_values(database, column, name, most) for column, name in named}
        names = [name for values in self._values.values() for name in values.names]
        self.asked = AskedUsers(count=count, segments=(ALL, *names))

    def holds(self, lists: _Lists) -> bool:
        """Whether a row of these users is a row of the lists, so that nothing need be joined."""
        is_same = (self._file.path, self._user) == (lists.file.path, lists.options.user)
        return is_same and self.is_distinct and not lists.is_long

    def segments(self, record: pa.RecordBatch) -> dict[str, Rows]:
        """Positions by segment of the users of a batch."""
        return split_by_values(record.num_rows, {column: record[column] for column in self.columns}, self._values)

    def _segment_values(self, database: duckdb.DuckDBPyConnection, column: str, name: str, most: int) -> SegmentValues:
        counted = f"SELECT {column} AS value, count(*) AS n FROM asked GROUP BY value"  # noqa: S608 - a name of ours
        ranked = (
            f"SELECT value FROM ({counted}) WHERE value IS NOT NULL ORDER BY n DESC, CAST(value AS VARCHAR) LIMIT {most + 1}"  # noqa: S608
        )
        labels = segment_labels(_one_column(database.sql(ranked)), name, self._file.where).to_pylist()
        ((has_unknown,),) = database.execute(f"SELECT count(*) > 0 FROM asked WHERE {column} IS NULL").fetchall()  # noqa: S608
        return SegmentValues(list(filter(None, labels)), most, name, self._file.where, has_unknown=has_unknown)


class _Lists:
    """One file of lists as a view: a key, and a row's list, or in the long form what all rows of a user hold."""

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        name: str,
        options: FileSourceOptions,
        file: ParquetFile,
        request: JoinRequest,
    ) -> None:
        self.options, self.file, self.view = options, file, f"lists_{name}"
        self.is_long = options.item is not None
        self._request = request
        self.names = tuple(each for each in options.columns if each != options.user)
        self.columns = tuple(map(sql_name, self.names))
        file.open(database, options.columns, f"rows_{name}")
        self._database = database
        # Read without a row: columns that cannot hold lists are refused before anything is joined.
        empty = file.empty(options.columns)
        self._pull(pd.Index([], dtype="str"), {each: empty[each] for each in options.columns})
        taken = (f"list({each}) AS {each}" for each in self.columns) if self.is_long else self.columns
        together = " GROUP BY key" if self.is_long else ""
        key = file.key(options.user)
        database.execute(
            f"CREATE TEMP VIEW {self.view} AS SELECT {key} AS key, {', '.join(taken)} FROM {file.view} "  # noqa: S608
            f"WHERE key IS NOT NULL{together}"
        )

    def pull_joined(self, record: pa.RecordBatch, prefix: str) -> Pull:
        """The lists of a batch of the join, in which every user stands once."""
        here = record[f"{prefix}here"]
        columns = {name: record[f"{prefix}{name}"].filter(here) for name in self.names}
        return self._pull(_index(record["key"]), self._flat({self.options.user: record["key"].filter(here), **columns}))

    def pull_rows(self, keys: pa.Array) -> Pull:
        """The lists of the users in the view ``wanted_keys``, who may stand in several rows."""
        query = f"SELECT key, {', '.join(self.columns)} FROM {self.view} SEMI JOIN wanted_keys USING (key)"  # noqa: S608
        table = self._database.sql(query).to_arrow_table().combine_chunks()
        columns = {name: one_array(table[name]) for name in self.names}
        return self._pull(_index(keys), self._flat({self.options.user: one_array(table["key"]), **columns}))

    def _pull(self, users: pd.Index[str], batch: Mapping[str, pa.Array]) -> Pull:
        request = PullRequest(users=users, k=self._request.k, slot=self._request.slot, timeout_s=self._request.timeout_s)
        return TableLists(options=self.options, request=request, where=self.file.where).pull([batch])

    def _flat(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """In the long form one row an item again."""
        if not self.is_long:
            return columns
        lists = columns[self.names[0]]
        users = columns[self.options.user].take(pc.list_parent_indices(lists))
        return {self.options.user: users, **{name: columns[name].flatten() for name in self.names}}


def _one_column(relation: duckdb.DuckDBPyRelation) -> pa.Array:
    return one_array(relation.to_arrow_table().column(0))


def _index(keys: pa.Array) -> pd.Index[str]:
    users: pd.Index[str] = pd.Index(pd.array(keys.cast(pa.large_string()), dtype="str"))
    return users


def _unavailable(users: pd.Index[str]) -> Pull:
    table = RankingTable(users=users[:0], offsets=np.zeros(1, dtype=np.int64), items=np.empty(0, dtype=np.int64))
    return Pull(rankings=table, failures=dict.fromkeys(users, CoverageReason.UNAVAILABLE))
