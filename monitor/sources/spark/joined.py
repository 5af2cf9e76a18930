"""Both arms' tables joined by user in Spark and measured there: any number of users, of which only sums come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime

import pandas as pd
import pyarrow as pa

from monitor.deadline import Deadline
from monitor.errors import SourceError
from monitor.model.rankings import ALL, AskedUsers, Pull, UserTable
from monitor.model.runs import JoinRequest, PullRequest
from monitor.model.unreadable import Need, Unreadable, require_readable
from monitor.ports import Measurer
from monitor.reading.ids import EXACT, MAX_ID_LENGTH, id_column
from monitor.sources.columns import one_array, require_columns
from monitor.sources.lookup_tables import SegmentValues, segment_labels
from monitor.sources.spark import SparkOptions, SparkSourceOptions, SparkUsersOptions
from monitor.sources.spark import connect_session as spark
from monitor.sources.spark.connect_session import functions as F  # noqa: N812 - its usual name
from monitor.sources.spark.partition import PARTS, MeasuredPartition, MergedPartition
from monitor.sources.table_lists import ListColumns, TableLists

PARTS_HERE = 64
"""Most parts that come back as they are.

More of them are merged on the cluster first, `_TOGETHER` in one task.
"""
_TOGETHER = 32

_WHOLE = frozenset({"byte", "short", "integer", "long"})

_NOT_PULLED = (
    "spark measures where the lists are: baseline, candidate, users and noise_floor.retrain must "
    "all be spark, of one server"
)


def join_in_spark(
    lists: Mapping[str, SparkSourceOptions], users: SparkUsersOptions, dimensions: Sequence[str]
) -> JoinedTables | None:
    """These tables joined, None where they are not of one server."""
    if any((each.remote, each.conf) != (users.remote, users.conf) for each in lists.values()):
        return None
    return JoinedTables(lists, users, dimensions)


class OnlyJoined:
    """What is asked of tables that are not joined. Ports: Source, UserSource."""

    def __init__(self, _: SparkOptions) -> None:
        pass

    def pull(self, request: PullRequest) -> Pull:  # noqa: ARG002 - the port's signature
        """SourceError."""
        raise SourceError(_NOT_PULLED)

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:  # noqa: ARG002 - the port's signature
        """SourceError."""
        raise SourceError(_NOT_PULLED)


class JoinedTables:
    """Tables of lists by name, see `SourceKind`, and a table of users. Port: JoinedSource."""

    def __init__(
        self,
        lists: Mapping[str, SparkSourceOptions],
        users: SparkUsersOptions,
        dimensions: Sequence[str],
    ) -> None:
        self._lists, self._users, self._dimensions = lists, users, tuple(dimensions)

    @contextmanager
    def read(self, request: JoinRequest) -> Iterator[_MeasuredThere]:
        """Begin to read."""
        with spark.open_session(self._users, Deadline.after(request.timeout_s)) as session:
            users = _AskedUsers(session, self._users, self._dimensions, request)
            lists, unread = dict[str, _Lists](), dict[str, str]()
            for name, options in self._lists.items():
                try:
                    lists[name] = _Lists(session, name, options, request)
                except SourceError as error:
                    unread[name] = error.shown if request.shows_examples else str(error)
            spark.ship_program(session)
            yield _MeasuredThere(users, lists, request, unread)


class _MeasuredThere:
    """The join of one slot. Port: RemoteAnswers."""

    def __init__(
        self,
        users: _AskedUsers,
        lists: Mapping[str, _Lists],
        request: JoinRequest,
        unread: Mapping[str, str],
    ) -> None:
        # A run can do without second lists, and says so.
        self.unreadable = users.unreadable
        self.lacks = tuple(
            f"{name}: {text}" for name, text in unread.items() if name == "noise_floor"
        )
        self.asked = users.asked
        self._users, self._lists, self._request, self._unread = users, lists, request, unread

    def measured(self, measurer: Measurer, size: int) -> Iterator[bytes]:
        """What is found of all users."""
        count = -(-self.asked.count // size)
        partition = MeasuredPartition(
            measurer=measurer,
            values=self._users.values,
            columns={name: lists.columns for name, lists in self._lists.items()},
            where={name: lists.where for name, lists in self._lists.items()},
            unread=self._unread,
            k=self._request.k,
        )
        # All rows of a user meet in one partition, where pairing joins them: no row is sorted, and
        # none is sent twice.
        rows = self._users.rows
        for lists in self._lists.values():
            rows = rows.unionByName(lists.rows, allowMissingColumns=True)
        parts = rows.repartition(count, "key").mapInArrow(partition, PARTS)
        while count > PARTS_HERE:
            count = -(-count // _TOGETHER)
            placed = (
                parts.withColumn("place", F.spark_partition_id())
                .repartition(count, "place")
                .select("asked", "part")
            )
            parts = placed.mapInArrow(MergedPartition(measurer=measurer), PARTS)
        asked = 0
        for row in parts.toLocalIterator():
            asked += row["asked"]
            yield bytes(row["part"])
        if asked != self.asked.count:
            msg = (
                f"{self._users.where} was written anew while it was read: run the slot again, "
                "and replace tables as a whole"
            )
            raise SourceError(msg, permanent=False)


class _Table:
    """One slot's table: its rows, their columns, and keys of users."""

    def __init__(
        self,
        session: spark.SparkSession,
        options: SparkOptions,
        slot: datetime,
        columns: Sequence[str],
    ) -> None:
        self.frame, self.where = spark.open_table(session, options, slot)
        require_columns(columns, self.frame.columns, self.where)
        self._kinds = {each.name: each.dataType.typeName() for each in self.frame.schema.fields}
        self.empty: pa.Table = self.frame.select(*map(spark.column_of, columns)).limit(0).toArrow()

    def key(self, name: str) -> spark.Column:
        """A column of users as text, null where there is none.

        SourceError when it cannot hold users.
        """
        id_column(one_array(self.empty[name]), name, self.where)
        kind, column = self._kinds[name], spark.column_of(name)
        if kind in _WHOLE:
            return column.cast("string")
        if kind in {"float", "double"}:
            is_whole = (column == F.floor(column)) & (
                F.abs(column) < EXACT[32 if kind == "float" else 64]
            )
            return F.when(is_whole, column.cast("long").cast("string"))
        return self.label(name).cast("string")

    def label(self, name: str) -> spark.Column:
        """A column of segment values: text that may be a value, and other values as they are."""
        column = spark.column_of(name)
        if self._kinds[name] != "string":
            return column
        return F.when(
            F.length(column).between(1, MAX_ID_LENGTH) & ~F.contains(column, F.lit("\0")), column
        )


class _AskedUsers(_Table):
    """Everybody in the users' table, each once."""

    def __init__(
        self,
        session: spark.SparkSession,
        options: SparkUsersOptions,
        dimensions: Sequence[str],
        request: JoinRequest,
    ) -> None:
        super().__init__(
            session, options, request.slot, tuple(dict.fromkeys((options.user, *dimensions)))
        )
        names = {f"segment_{place}": name for place, name in enumerate(dimensions)}
        labels = (self.label(name).alias(column) for column, name in names.items())
        users = self.frame.select(self.key(options.user).alias("key"), *labels)
        ((total, rows, count),) = users.agg(
            F.count(F.lit(1)), F.count("key"), F.count_distinct("key")
        ).collect()
        self.unreadable = self._without_user(options.user, total - rows, total)
        require_readable(self.unreadable, options.max_unreadable)
        users = users.where("key IS NOT NULL")
        if not count:
            raise SourceError(
                (
                    f"{self.where} holds no user: check the path or table and the name of the user "
                    "column"
                )
            )
        if rows > count:
            # A table has no first row: the least segments of a user listed twice count, in any
            # order.
            least = [F.min(column).alias(column) for column in names]
            users = users.groupBy("key").agg(*least) if least else users.distinct()
        self.values = {
            column: self._values(users, column, name, request) for column, name in names.items()
        }
        self.asked = AskedUsers(
            count=count,
            segments=(ALL, *(name for each in self.values.values() for name in each.names)),
        )
        self.rows = users.withColumns({"side": F.lit("users"), "asked": F.expr("true")})

    def _without_user(self, column: str, count: int, rows: int) -> tuple[Unreadable, ...]:
        lost = Unreadable(
            where=self.where,
            column=column,
            need=Need.IDS,
            count=count,
            rows=rows,
            found="null, or no ids",
        )
        return (lost,) if count else ()

    def _values(
        self, users: spark.DataFrame, column: str, name: str, request: JoinRequest
    ) -> SegmentValues:
        most, value = request.max_segment_values, F.col(column)
        counted = users.groupBy(column).agg(F.count(F.lit(1)).alias("users"))
        ranked = counted.orderBy(
            value.isNull().desc(), F.col("users").desc(), value.cast("string")
        ).limit(most + 2)
        labels = segment_labels(one_array(ranked.toArrow()[column]), name, self.where).to_pylist()
        return SegmentValues(
            list(filter(None, labels)), most, name, self.where, has_unknown=None in labels
        )


class _Lists(_Table):
    def __init__(
        self,
        session: spark.SparkSession,
        side: str,
        options: SparkSourceOptions,
        request: JoinRequest,
    ) -> None:
        super().__init__(session, options, request.slot, options.columns)
        self.columns = ListColumns(
            **{each.name: getattr(options, each.name) for each in fields(ListColumns)}
        )
        key = self.key(options.user)
        # Without a row: columns that cannot hold lists are refused before anything is joined.
        nobody = pd.Index([], dtype="str")
        empty = {name: one_array(self.empty[name]) for name in options.columns}
        TableLists(options=options, users=nobody, k=request.k, where=self.where).pull([empty])
        taken = (
            spark.column_of(name).alias(f"{side}_{name}")
            for name in options.columns
            if name != options.user
        )
        marks = {"side": F.lit(side), "asked": F.expr("false")}
        self.rows = (
            self.frame.select(key.alias("key"), *taken).where("key IS NOT NULL").withColumns(marks)
        )
