"""Joins the tables of both arms by user in Spark and measures them there.

Only sums are sent back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime

import pandas as pd
import pyarrow as pa

from monitor.boundary.deadline import Deadline
from monitor.measures.reading.ids import MAX_ID_LENGTH, id_column, one_array
from monitor.measures.reading.unreadable_values import unreadable_of
from monitor.model.errors import SourceError
from monitor.model.ports import Measurer
from monitor.model.rankings import ALL, AskedUsers, Pull, UserTable
from monitor.model.runs import JoinRequest, PullRequest
from monitor.model.unreadable import (
    ColumnKind,
    Unreadable,
    require_readable,
    require_readable_lists,
)
from monitor.sources.columns import require_columns
from monitor.sources.lookup_tables import SegmentValues, segment_labels
from monitor.sources.spark import (
    SparkOptions,
    SparkSourceOptions,
    SparkUsersOptions,
    connect_session as spark,
)
from monitor.sources.spark.connect_session import functions as F  # noqa: N812 - its usual name
from monitor.sources.spark.partition import (
    PARTITION_COLUMNS,
    MeasuredPartition,
    MergedPartition,
    UnreadableLists,
    user_keys,
)
from monitor.sources.table_lists import ListColumns, TableLists

PARTS_HERE = 64
"""The largest number of parts that are sent back.

If there are more, the cluster merges them first, `_TOGETHER` parts in each task.
"""
_TOGETHER = 32

_NOT_PULLED = (
    "spark measures the lists on its own server: baseline, candidate, users and "
    "noise_floor.retrain must all be spark with the same server"
)


def join_in_spark(
    lists: Mapping[str, SparkSourceOptions],
    users: SparkUsersOptions,
    dimensions: Sequence[str],
) -> JoinedTables | None:
    """These tables as one joined source. None if they are on different servers."""
    for options in lists.values():
        if (options.remote, options.conf) != (users.remote, users.conf):
            return None
    return JoinedTables(lists, users, dimensions)


class OnlyJoined:
    """Refuses to read tables without a join. Ports: Source, UserSource."""

    def __init__(self, _: SparkOptions) -> None:
        pass

    def pull(self, request: PullRequest) -> Pull:  # noqa: ARG002
        """Raise SourceError."""
        raise SourceError(_NOT_PULLED)

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:  # noqa: ARG002
        """Raise SourceError."""
        raise SourceError(_NOT_PULLED)


@dataclass(frozen=True)
class JoinedTables:
    """Tables of lists and a table of users.

    Port: JoinedSource. ``lists`` has the options of the tables by name, as `SourceKind` describes.
    """

    lists: Mapping[str, SparkSourceOptions]
    user_table: SparkUsersOptions
    dimensions: Sequence[str]

    @contextmanager
    def read(self, request: JoinRequest) -> Iterator[_MeasuredThere]:
        """Open the tables.

        Raises SourceError if the users cannot be read. If lists cannot be read, the run continues,
        and a note says why.
        """
        with spark.open_session(self.user_table, Deadline.after(request.timeout_s)) as session:
            spark.ship_program(session)
            users = _AskedUsers(session, self.user_table, self.dimensions, request)
            lists = dict[str, _Lists]()
            unread = dict[str, str]()
            for name, options in self.lists.items():
                try:
                    lists[name] = _Lists(session, name, options, request)
                except SourceError as error:
                    unread[name] = error.shown if request.shows_examples else str(error)
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
        self._unread = dict(unread)
        self.unread_inputs: tuple[str, ...] = ()
        if "noise_floor" in unread:
            # The run continues without these lists and reports that they are missing.
            self.unread_inputs = (f"noise_floor: {self._unread.pop('noise_floor')}",)
        self.unreadable: list[Unreadable] = [*users.unreadable]
        self.asked = users.asked
        self._users = users
        self._lists = lists
        self._request = request

    def measure(self, measurer: Measurer, size: int) -> Iterator[bytes]:
        """Yield the measured parts of all users, in partitions of about this size.

        Raises UnreadableError if too many rows of an arm's table are unreadable.
        """
        limits = {}
        unreadable = UnreadableLists()
        columns = {}
        where = {}
        for name, lists in self._lists.items():
            limits[name] = lists.max_unreadable
            unreadable.add(name, lists.unreadable)
            columns[name] = lists.columns
            where[name] = lists.where
        require_readable_lists(unreadable, limits)
        count = -(-self.asked.count // size)
        partition = MeasuredPartition(
            measurer=measurer,
            values=self._users.values,
            columns=columns,
            where=where,
            unread=self._unread,
            k=self._request.k,
        )
        # All rows of a user are in one partition, which pairs them. So no row is sorted or sent
        # twice.
        rows = self._users.rows
        for lists in self._lists.values():
            rows = rows.unionByName(lists.rows, allowMissingColumns=True)
        parts = rows.repartition(count, "key").mapInArrow(partition, PARTITION_COLUMNS)
        while count > PARTS_HERE:
            count = -(-count // _TOGETHER)
            numbered = parts.withColumn("number", F.spark_partition_id()).repartition(
                count, "number"
            )
            parts = numbered.drop("number").mapInArrow(
                MergedPartition(measurer=measurer), PARTITION_COLUMNS
            )
        measured_users = 0
        for row in parts.toLocalIterator():
            measured_users += row["asked"]
            unreadable.add_packed(row["unreadable"])
            yield bytes(row["part"])
        if measured_users != self.asked.count:
            raise SourceError(
                f"{self._users.where} was replaced while it was read: repeat the run of this "
                "slot, and from now on replace the whole table in one transaction",
                permanent=False,
            )
        require_readable_lists(unreadable, limits)
        for parts_of_lists in unreadable.values():
            self.unreadable += parts_of_lists


class _Table:
    """The rows and columns of one slot's table."""

    def __init__(
        self,
        session: spark.SparkSession,
        options: SparkOptions,
        slot: datetime,
        columns: Sequence[str],
    ) -> None:
        self.frame, self.where = spark.open_table(session, options, slot)
        require_columns(columns, self.frame.columns, self.where)
        fields_of_table = self.frame.schema.fields
        self._kinds = {field.name: field.dataType.typeName() for field in fields_of_table}
        self.empty: pa.Table = self.frame.select(*map(spark.column_of, columns)).limit(0).toArrow()

    def key(self, name: str) -> spark.Column:
        """Return a column of users as text. It is null if a row has no user.

        Raises SourceError if values of the column's type cannot be users.
        """
        id_column(one_array(self.empty[name]), name, self.where)
        return spark.text_of(name, user_keys(name, self.where))

    def count_unreadable(
        self, checks: Sequence[tuple[str, ColumnKind, spark.Column]]
    ) -> tuple[Unreadable, ...]:
        """Count the unreadable values.

        Each check names a column, says what its values must be, and has a condition. The condition
        is true for unreadable values.
        """
        counts = [F.count(F.when(is_unreadable, 1)) for _, _, is_unreadable in checks]
        ((total, *results),) = self.frame.agg(F.count(F.lit(1)), *counts).collect()
        unreadable = []
        for (name, need, is_unreadable), count in zip(checks, results, strict=True):
            if count:
                first = self.frame.where(is_unreadable).select(spark.column_of(name)).limit(1)
                example = first.toArrow().column(0)[0].as_py()
                unreadable.append(unreadable_of(self.where, name, need, count, total, example))
        return tuple(unreadable)

    def label(self, name: str) -> spark.Column:
        """Return a column of segment values. Text that cannot be a segment value is null."""
        column = spark.column_of(name)
        if self._kinds[name] != "string":
            return column
        has_length = F.length(column).between(1, MAX_ID_LENGTH)
        return F.when(has_length & ~F.contains(column, F.lit("\0")), column)


class _AskedUsers(_Table):
    """All users of the users' table. Each user occurs once."""

    def __init__(
        self,
        session: spark.SparkSession,
        options: SparkUsersOptions,
        dimensions: Sequence[str],
        request: JoinRequest,
    ) -> None:
        super().__init__(
            session,
            options,
            request.slot,
            tuple(dict.fromkeys((options.user, *dimensions))),
        )
        key = self.key(options.user)
        names = {f"segment_{number}": name for number, name in enumerate(dimensions)}
        selected = [key.alias("key")]
        checks = [(options.user, ColumnKind.IDS, key.isNull())]
        for column, name in names.items():
            label = self.label(name)
            selected.append(label.alias(column))
            is_given = spark.column_of(name).cast("string") != ""
            checks.append((name, ColumnKind.LABELS, label.isNull() & is_given))
        self.unreadable = self.count_unreadable(checks)
        require_readable(self.unreadable, options.max_unreadable)
        users = self.frame.select(*selected).where("key IS NOT NULL")
        ((rows, count),) = users.agg(F.count("key"), F.count_distinct("key")).collect()
        if not count:
            raise SourceError(
                f"{self.where} has no user: check the path or table, and the name of the user "
                "column"
            )
        if rows > count and not names:
            users = users.distinct()
        elif rows > count:
            # A table has no first row. So the smallest segment value of a user is used.
            users = users.groupBy("key").agg(*(F.min(column).alias(column) for column in names))
        self.values = {}
        segments = [ALL]
        for column, name in names.items():
            self.values[column] = self._values(users, column, name, request.max_segment_values)
            segments += self.values[column].names
        self.asked = AskedUsers(count=count, segments=tuple(segments))
        self.rows = users.withColumns({"side": F.lit("users"), "asked": F.expr("true")})

    def _values(
        self,
        users: spark.DataFrame,
        column: str,
        name: str,
        most: int,
    ) -> SegmentValues:
        value = F.col(column)
        counted = users.groupBy(column).agg(F.count(F.lit(1)).alias("users"))
        ranked = counted.orderBy(
            value.isNull().desc(), F.col("users").desc(), value.cast("string")
        ).limit(most + 2)
        labels = segment_labels(one_array(ranked.toArrow()[column]), name, self.where)
        known_labels = labels.drop_null().to_pylist()
        has_unknown = labels.null_count > 0
        return SegmentValues(known_labels, most, name, self.where, has_unknown=has_unknown)


class _Lists(_Table):
    def __init__(
        self,
        session: spark.SparkSession,
        side: str,
        options: SparkSourceOptions,
        request: JoinRequest,
    ) -> None:
        super().__init__(session, options, request.slot, options.columns)
        names = {field.name: getattr(options, field.name) for field in fields(ListColumns)}
        self.columns = ListColumns(**names)
        key = self.key(options.user)
        self._require_lists(options, request.k)
        self.unreadable = self.count_unreadable([(options.user, ColumnKind.IDS, key.isNull())])
        self.max_unreadable = options.max_unreadable
        items = options.items
        columns = {name: spark.column_of(name) for name in options.columns if name != options.user}
        if items is not None and self._kinds[items] == "array" and not options.no_item:
            columns |= _cut_lists(request.k, items, options.scores)
        selected = [key.alias("key")]
        selected += [column.alias(f"{side}_{name}") for name, column in columns.items()]
        rows = self.frame.select(*selected).where("key IS NOT NULL")
        self.rows = rows.withColumns({"side": F.lit(side), "asked": F.expr("false")})

    def _require_lists(self, options: SparkSourceOptions, k: int) -> None:
        """Raise SourceError, before the join, if a column cannot contain lists. Reads no rows."""
        empty = {name: one_array(self.empty[name]) for name in options.columns}
        nobody = pd.Index([], dtype="str")
        TableLists(options=options, users=nobody, k=k, where=self.where).pull([empty])


def _cut_lists(k: int, items: str, scores: str | None) -> dict[str, spark.Column]:
    """Return the columns of items and scores, cut to k items.

    If a list has more or fewer scores than items, the scores become null, and the list is reported.
    """
    lists = spark.column_of(items)
    cut = {items: F.slice(lists, 1, k)}
    if scores is not None:
        numbers = spark.column_of(scores)
        cut[scores] = F.when(F.size(numbers) == F.size(lists), F.slice(numbers, 1, k))
    return cut
