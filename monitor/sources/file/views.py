"""Lists and users of files as views of a DuckDB: a key, and the columns that make a list, or a user's segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.deadline import Deadline
from monitor.errors import SourceError
from monitor.model.arrays import Rows
from monitor.model.model_versions import LONGEST_VERSION
from monitor.model.rankings import ALL, AskedUsers, Pull
from monitor.model.unreadable import Need, Unreadable, require_readable
from monitor.sources.columns import one_array, user_index
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.database import KEY, PLACE, FileView, sql_name
from monitor.sources.file.file_set import FileSet
from monitor.sources.lookup_tables import SegmentValues, segment_labels, split_by_values
from monitor.sources.table_lists import TableLists

GIVEN = "rankwatch_user"
"""Beside `KEY` the user as the file spells it."""
_BATCH_ITEMS = 40_000  # in one batch; each may be as long as an id can be


class ListView:
    """One arm's lists as two views: rows as they stand, and ``joined``, in which long rows of a user are one row of lists."""

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        name: str,
        options: FileSourceOptions,
        files: FileSet,
        k: int,
    ) -> None:
        options = options.model_copy(update={"rank": PLACE}) if options.in_order else options
        self.options, self.is_long = options, options.item is not None
        self.read = (files.paths, options.user, options.user_ids, options.served)
        self.names = tuple(each for each in options.columns if each != options.user)
        self.rows, self.joined = f"lists_{name}", f"joined_{name}"
        self._database, self._k, self._where = database, k, files.where
        self._file = FileView(database, files, options.columns, f"rows_{name}", options)
        # Read without a row: columns that cannot hold lists are refused before anything is joined.
        self._pull(options, pd.Index([], dtype="str"), [self._file.empty(options.columns)])
        taken = ", ".join(f"{self.taken(each)} AS {sql_name(each)}" for each in self.names)
        users = (
            f"{self._file.key(options.user, options.user_ids)} AS {KEY}, "
            f"{self._file.text(options.user)} AS {GIVEN}"
        )
        rows = f"SELECT {users}, {taken} FROM {self._file.name}"  # noqa: S608 - quoted
        self.all_rows = f"all_{self.rows}"
        database.execute(f"CREATE TEMP VIEW {self.all_rows} AS {rows}")
        database.execute(
            f"CREATE TEMP VIEW {self.rows} AS SELECT * FROM {self.all_rows} WHERE {KEY} IS NOT NULL"
        )  # noqa: S608
        gathered = ", ".join(f"list({sql_name(each)}) AS {sql_name(each)}" for each in self.names)
        whole = (
            f"SELECT {KEY}, {gathered} FROM {self.rows} GROUP BY {KEY}"
            if self.is_long
            else f"SELECT * FROM {self.rows}"
        )  # noqa: S608
        database.execute(f"CREATE TEMP VIEW {self.joined} AS {whole}")

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Rows of a log that were left out when it was opened."""
        return self._file.unreadable

    def taken(self, column: str) -> str:
        """The expression for a column besides that of the users."""
        options = self.options
        if (
            column == options.scores
            and not self.is_long
            and self._file.is_list(column)
            and self._file.is_list(str(options.items))
        ):
            # Scores that are not as many as the items shall not fit them when both are cut.
            scores, items = sql_name(column), sql_name(str(options.items))
            cut = scores if options.no_item else f"{scores}[:{self._k}]"
            return f"CASE WHEN len({scores}) = len({items}) THEN {cut} END"
        if column == options.model_version and not self._file.is_json:
            return f"left(CAST({sql_name(column)} AS VARCHAR), {LONGEST_VERSION + 1})"
        if column in {options.rank, options.scores, options.model_version}:
            return sql_name(column)
        return (
            self._file.item(column)
            if self.is_long
            else self._file.items(column, None if options.no_item else self._k)
        )

    @property
    def batch_rows(self) -> int:
        """Rows of a batch that takes little memory whatever stands in them."""
        return max(256, min(8192, _BATCH_ITEMS // self._k))

    def pull_joined(self, record: pa.RecordBatch, prefix: str) -> Pull:
        """The lists of a batch of the join, in which every user stands once."""
        here = record[f"{prefix}{KEY}"]
        columns = {name: record[f"{prefix}{name}"] for name in self.names} | {KEY: record[KEY]}
        if here.true_count < len(here):
            columns = {name: column.filter(here) for name, column in columns.items()}
        users = columns.pop(KEY)
        if self.is_long:
            # One row an item again.
            lists = columns[self.names[0]]
            users = users.take(pc.list_parent_indices(lists))
            columns = {name: column.flatten() for name, column in columns.items()}
        spelled = self.options.model_copy(update={"user_ids": None})
        return self._pull(spelled, user_index(record[KEY]), [self._batch(users, columns)])

    def pull_asked(self, users: pd.Index[str], deadline: Deadline, max_bytes: int) -> Pull:
        """The lists of these users. Counts all rows without a user."""
        # With null for a user, so that rows without one come along.
        pull = self.pull_rows([*users, None], users, deadline, max_bytes)
        of_lists = [each for each in pull.unreadable if each.column != self.options.user]
        has_no_user = any(
            each.count for each in pull.unreadable if each.column == self.options.user
        )
        of_users = self.count_unreadable() if has_no_user else ()
        return replace(pull, unreadable=(*self.unreadable, *of_users, *of_lists))

    def pull_rows(
        self,
        keys: Iterable[str | None],
        users: pd.Index[str],
        deadline: Deadline,
        max_bytes: int | None = None,
    ) -> Pull:
        """The lists of these users, who may stand in several rows, from rows with one of the keys."""
        self._database.register("wanted", pa.table({KEY: pa.array(keys, pa.large_string())}))
        pull = self._pull(self.options, users, self._wanted(deadline), max_bytes)
        self._database.unregister("wanted")
        return pull

    def count_unreadable(self) -> tuple[Unreadable, ...]:
        """How many rows have no user."""
        user = self.options.user
        return self._file.count_unreadable(
            self._file.name, [(user, Need.IDS, f"{self._file.text(user)} IS NULL")]
        )

    def _wanted(self, deadline: Deadline) -> Iterator[Mapping[str, Any]]:
        names = ", ".join(map(sql_name, (GIVEN, *self.names)))
        query = (
            f"SELECT {names} FROM {self.all_rows} AS r SEMI JOIN wanted ON r.{KEY} IS NOT "
            f"DISTINCT FROM wanted.{KEY}"
        )  # noqa: S608
        for record in self._database.sql(query).to_arrow_reader(self.batch_rows):
            deadline.require_time()
            yield self._batch(record[GIVEN], {name: record[name] for name in self.names})
        yield self._file.empty(self.options.columns)

    def _batch(self, users: pa.Array, columns: Mapping[str, pa.Array]) -> Mapping[str, Any]:
        keys = users.to_pylist() if self._file.is_json else users
        return {
            self.options.user: keys,
            **{name: self._file.values(one_array(column)) for name, column in columns.items()},
        }

    def _pull(
        self,
        options: FileSourceOptions,
        users: pd.Index[str],
        batches: Any,
        max_bytes: int | None = None,
    ) -> Pull:  # noqa: ANN401
        return TableLists(
            options=options, users=users, k=self._k, where=self._where, max_bytes=max_bytes
        ).pull(batches)


class UserView:
    """The users of files as the view ``asked``: a column `KEY`, and in ``columns`` a value for each segment dimension.

    Of a user in several rows each dimension's smallest value counts, in any order. Rows of distinct users keep ``also``.
    """

    name = "asked"

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        files: FileSet,
        options: FileUsersOptions,
        dimensions: Sequence[str],
        also: Sequence[str] = (),
    ) -> None:
        user = options.user
        self.columns = tuple(f"rankwatch_segment_{place}" for place in range(len(dimensions)))
        self.where, self.read = files.where, (files.paths, user, options.user_ids, options.served)
        rows = FileView(
            database, files, tuple(dict.fromkeys((user, *dimensions, *also))), "asked_rows", options
        )
        labels = (
            f"{rows.label(name)} AS {column}"
            for column, name in zip(self.columns, dimensions, strict=True)
        )
        keys = ", ".join([f"{rows.key(user, options.user_ids)} AS {KEY}", *labels, "*"])
        database.execute(f"CREATE TEMP VIEW asked_keys AS SELECT {keys} FROM {rows.name}")  # noqa: S608 - quoted names
        checks = [(user, Need.IDS, f"{KEY} IS NULL")]
        for column, name in zip(self.columns, dimensions, strict=True):
            checks.append((name, Need.LABELS, f"{column} IS NULL AND {rows.raw_text(name)} <> ''"))
        self.unreadable = (*rows.unreadable, *rows.count_unreadable("asked_keys", checks))
        require_readable(self.unreadable, options.max_unreadable)
        (counted,) = database.execute(
            (
                f"SELECT count({KEY}), count(DISTINCT hash({KEY})) FILTER ({KEY} IS NOT NULL) FROM "
                "asked_keys"  # noqa: S608 - a name of ours
            )
        ).fetchall()
        if not counted[0]:
            raise SourceError(
                f"{self.where} holds no user: check the path and the name of the user column"
            )
        self.is_distinct = counted[0] == counted[1]
        least = "".join(f", min({each}) AS {each}" for each in self.columns)
        taken, together = ("*", "") if self.is_distinct else (f"{KEY}{least}", f" GROUP BY {KEY}")
        database.execute(
            (
                f"CREATE TEMP VIEW asked AS SELECT {taken} FROM asked_keys WHERE {KEY} IS NOT "
                f"NULL{together}"
            )
        )  # noqa: S608


class SegmentColumns:
    """Which values of the dimensions of a `UserView` are segments of their own: the ``most`` most frequent of each."""

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        users: UserView,
        dimensions: Sequence[str],
        most: int,
    ) -> None:
        ((count,),) = database.execute("SELECT count(*) FROM asked").fetchall()
        named = zip(users.columns, dimensions, strict=True)
        self._values = {
            column: _segment_values(database, column, name, users.where, most)
            for column, name in named
        }
        names = [name for values in self._values.values() for name in values.names]
        self.asked = AskedUsers(count=count, segments=(ALL, *names))

    def of(self, record: pa.RecordBatch) -> dict[str, Rows]:
        """Positions by segment of the users of a batch."""
        return split_by_values(
            record.num_rows, {column: record[column] for column in self._values}, self._values
        )


def _segment_values(
    database: duckdb.DuckDBPyConnection, column: str, name: str, where: str, most: int
) -> SegmentValues:
    counted = f"SELECT {column} AS value, count(*) AS n FROM asked GROUP BY value"  # noqa: S608 - a name of ours
    ranked = (
        f"SELECT value FROM ({counted}) WHERE value IS NOT NULL ORDER BY n DESC, CAST(value "
        f"AS VARCHAR) LIMIT {most + 1}"
    )  # noqa: S608
    labels = segment_labels(
        one_array(database.sql(ranked).to_arrow_table().column(0)), name, where
    ).to_pylist()
    ((has_unknown,),) = database.execute(
        f"SELECT count(*) > 0 FROM asked WHERE {column} IS NULL"
    ).fetchall()  # noqa: S608
    return SegmentValues(list(filter(None, labels)), most, name, where, has_unknown=has_unknown)
