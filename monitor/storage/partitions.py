"""Creates and drops the partitions of the table ``scores`` on PostgreSQL.

There is one partition for each UTC day of slots, and a default partition. A partition is dropped
when all its runs are too old. If a day's partition cannot be created in time, the default partition
stores the day's rows. These rows are deleted run by run. On SQLite ``scores`` is one table.
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Date,
    FromClause,
    Select,
    and_,
    cast,
    column,
    exists,
    func,
    select,
    table,
    text,
)
from sqlalchemy.exc import DBAPIError

from monitor.model.errors import DatabaseError
from monitor.model.immutable import immutable
from monitor.model.runs import RunStatus
from monitor.storage.database_errors import translate
from monitor.storage.rows import is_sqlite
from monitor.storage.tables.run_tables import runs, scores
from monitor.storage.transactions import Database

PARTITION_LOCK_WAIT_S = 2.0
"""The longest wait for the lock that is needed to create or drop a partition.

All other users of the table wait meanwhile.
"""

_Result = TypeVar("_Result")
_DAY = timedelta(days=1)
# Lets only one transaction at a time create partitions. The key of the lock is "ranks" in ASCII.
_LOCK_CREATION = text(f"SELECT pg_advisory_xact_lock({0x72616E6B73})")
DEFAULT_PARTITION = table("scores_default", column("run_id", BigInteger))
_BOUNDS = re.compile(r"FROM \('(\d{4}-\d\d-\d\d)'\) TO \('(\d{4}-\d\d-\d\d)'\)")
_ATTACHED = text(
    "SELECT CAST(CAST(c.oid AS regclass) AS text) AS name, pg_get_expr(c.relpartbound, c.oid) AS "
    "bounds FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = "
    "CAST('scores' AS regclass)"
)
_BYTES = text(
    "SELECT pg_total_relation_size(to_regclass(:name)) + "
    "coalesce(sum(pg_total_relation_size(relid)), 0) FROM pg_partition_tree(to_regclass(:name)) "
    "WHERE isleaf"
)


@immutable
class Partition:
    """A partition with the scores of slots from the UTC day ``first`` to the day before ``end``."""

    name: str  # quoted as SQL statements need it
    first: date
    end: date


def is_settled_before(before: datetime) -> ColumnElement[bool]:
    """Return the condition that a run is settled, and that its slot is before ``before``.

    A run is settled if it has finished and no process has claimed its slot.
    """
    return and_(
        runs.c.slot < before,
        runs.c.status != RunStatus.RUNNING,
        runs.c.claimed_until.is_(None),
    )


def day_of_slot(slot: datetime) -> date:
    """Return the UTC day of the slot."""
    return slot.astimezone(UTC).date()


def of_run(connection: Connection, run_id: int, rows: FromClause = scores) -> ColumnElement[bool]:
    """Return the condition that a row of the table ``rows`` belongs to the run."""
    if rows is runs:
        return runs.c.id == run_id
    if rows is not scores or is_sqlite(connection):
        return rows.c.run_id == run_id
    # Without the day, PostgreSQL would search all partitions of ``scores``.
    slot_day = select(utc_day(runs.c.slot)).where(runs.c.id == run_id).scalar_subquery()
    return and_(scores.c.run_id == run_id, scores.c.day == slot_day)


def read_partitions(connection: Connection) -> list[Partition]:
    """Return the partitions of single days, oldest first. The default partition is left out."""
    partitions = []
    for row in connection.execute(_ATTACHED):
        # The bounds are NULL while somebody is dropping the partition.
        bounds = _BOUNDS.search(row.bounds or "")
        if bounds is not None:
            first, end = map(date.fromisoformat, bounds.groups())
            partitions.append(Partition(name=row.name, first=first, end=end))
    return sorted(partitions, key=attrgetter("first"))


def ensure_partitions(database: Database, days: Iterable[date]) -> None:
    """Create missing partitions of these days.

    If a partition cannot be created now, the default partition stores the scores of the day.
    """
    if database.is_sqlite:
        return
    with database.read() as connection:
        attached = read_partitions(connection)
    for day in days:
        has_partition = any(partition.first <= day < partition.end for partition in attached)
        if not has_partition:
            _try_step(database, partial(_create_partition, day=day))


def drop_past(database: Database, before: datetime) -> tuple[int, tuple[str, ...]]:
    """Drop the partitions of slots before ``before``, oldest first.

    Returns the estimated number of deleted rows, and the reasons why partitions were not dropped.
    """
    past = []
    with database.read() as connection:
        for partition in read_partitions(connection):
            if _is_past(connection, partition, before):
                past.append(partition)
    dropped_rows = 0
    reasons: list[str] = []
    for partition in past:
        drop = partial(_drop_partition, partition=partition, before=before)
        rows_or_error = _try_step(database, drop)
        if not isinstance(rows_or_error, DatabaseError):
            dropped_rows += rows_or_error
            continue
        reasons.append(f"{partition.name} was not dropped: {rows_or_error}")
        # After a temporary error, such as a lock of another process, later partitions would have
        # the same error.
        if not rows_or_error.permanent:
            break
    return dropped_rows, tuple(reasons)


def settled_runs_with(rows: FromClause, before: datetime) -> Select[tuple[int]]:
    """Select settled runs with slots before ``before`` and with rows in the table ``rows``.

    A run is settled if it has finished and no process has claimed its slot.
    """
    has_rows = exists().where(rows.c.run_id == runs.c.id)
    return select(runs.c.id).where(is_settled_before(before), has_rows)


def bytes_of(connection: Connection, name: str) -> int:
    """Return bytes on disk of a PostgreSQL table with its partitions, indexes and TOAST."""
    return int(connection.scalar(_BYTES, {"name": name}) or 0)


def rows_of(connection: Connection, name: str) -> int:
    """Return how many rows a PostgreSQL table has.

    The server's estimate is returned if there is one. Otherwise the rows are counted.
    """
    estimate = text("SELECT CAST(reltuples AS bigint) FROM pg_class WHERE oid = to_regclass(:name)")
    rows = int(connection.scalar(estimate, {"name": name}) or 0)
    if rows > 0:
        return rows
    return int(connection.scalar(text(f"SELECT count(*) FROM {name}")) or 0)  # noqa: S608 - quoted


def filter_of_dialect(connection: Connection) -> Callable[..., bool]:
    """Return Alembic's filter for the parts of the schema that exist on this kind of database.

    For example, only PostgreSQL has the column by which ``scores`` is partitioned. The ``info`` of
    this column names the database as ``only``.
    """
    dialect = connection.dialect.name

    def is_included(schema_item: Any, *_: object) -> bool:  # noqa: ANN401 - any part of a schema
        info = getattr(schema_item, "info", {})
        return bool(info.get("only", dialect) == dialect)

    return is_included


def is_no_partition(name: str | None, kind: str, _: object) -> bool:
    """Return False for partitions, because no code declares these tables to Alembic."""
    return kind != "table" or name is None or not name.startswith("scores_")


def utc_day(instant: ColumnElement[datetime]) -> ColumnElement[date]:
    """Return PostgreSQL's expression for the UTC day of an instant."""
    return cast(func.timezone("UTC", instant), Date)


def _create_partition(connection: Connection, day: date) -> None:
    """Create the partition of this day, unless another process has created it."""
    name = f"scores_{day:%Y_%m_%d}"
    # Another process that creates partitions waits until this transaction ends.
    connection.execute(_LOCK_CREATION)
    if any(partition.name == name for partition in read_partitions(connection)):
        return
    # Creating the table as a partition would lock out all users of ``scores``. Attaching a table
    # afterwards locks only the default partition.
    connection.execute(text(f"CREATE TABLE {name} (LIKE scores INCLUDING ALL)"))
    bounds = f"FROM ('{day}') TO ('{day + _DAY}')"
    connection.execute(text(f"ALTER TABLE scores ATTACH PARTITION {name} FOR VALUES {bounds}"))


def _is_past(connection: Connection, partition: Partition, before: datetime) -> bool:
    """Return whether the partition's days are before ``before``, and all their runs are settled."""
    begin = datetime.combine(partition.first, time(), UTC)
    end = datetime.combine(partition.end, time(), UTC)
    if end > before:
        return False
    is_inside = and_(runs.c.slot >= begin, runs.c.slot < end)
    has_unsettled = select(exists().where(is_inside, ~is_settled_before(before)))
    return not connection.scalar(has_unsettled)


def _drop_partition(connection: Connection, partition: Partition, before: datetime) -> int:
    """Drop the partition if it still `_is_past`. Return the estimated number of deleted rows."""
    # Readers lock the table first and then its partitions. The same order here prevents a deadlock.
    connection.execute(text("LOCK TABLE ONLY scores IN ACCESS EXCLUSIVE MODE"))
    if partition not in read_partitions(connection):
        return 0  # another process has dropped it
    if not _is_past(connection, partition, before):
        return 0
    rows = rows_of(connection, partition.name)
    connection.execute(text(f"DROP TABLE {partition.name}"))
    return rows


def _try_step(database: Database, step: Callable[[Connection], _Result]) -> _Result | DatabaseError:
    """Try the step without waiting long for a lock. Return its result, or the error if it failed.

    The error is returned and not raised, because `Database` would report it as an outage.
    """
    with database.write() as connection:
        connection.execute(text(f"SET LOCAL lock_timeout = {PARTITION_LOCK_WAIT_S * 1000:.0f}"))
        try:
            with connection.begin_nested():
                return step(connection)
        except DBAPIError as error:
            return translate(error.orig, database.url)
