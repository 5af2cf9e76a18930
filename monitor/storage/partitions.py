"""The partitions of ``scores`` on PostgreSQL: one for each UTC day of slots, and a default partition for every other day.

A partition is dropped once all its runs are too old. Rows whose day has none, as making it would have had to wait for long,
lie in the default one and are deleted one by one. On SQLite ``scores`` is one table.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Date,
    Select,
    Table,
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

from monitor.model.runs import RunStatus
from monitor.storage.database_errors import translate
from monitor.storage.rows import is_sqlite
from monitor.storage.tables.run_tables import runs, scores
from monitor.storage.transactions import Database

LOCK_WAIT_S = 2.0
"""How long making or dropping a partition waits for those who use the table: everybody else queues behind it meanwhile."""

_DAY = timedelta(days=1)
_TAKE_TURNS = text(
    f"SELECT pg_advisory_xact_lock({0x72616E6B73})"
)  # "ranks": partitions are made one at a time
_DEFAULT = table("scores_default", column("run_id", BigInteger))
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
_LOCKED, _DEADLOCK, _IN_ALTERATION = "55P03", "40P01", "55000"
_GONE, _DEPENDED_ON, _ALREADY_THERE, _DAY_IN_DEFAULT = "42P01", "2BP01", "42P07", "23514"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Scores of the slots from midnight of ``first`` (UTC) up to and without midnight of ``end``."""

    name: str  # as statements spell it
    first: date
    end: date


def is_settled_before(before: datetime) -> ColumnElement[bool]:
    """Runs of older slots that nobody has claimed."""
    return and_(
        runs.c.scheduled_for < before,
        runs.c.status != RunStatus.RUNNING,
        runs.c.claimed_until.is_(None),
    )


def day_of_slot(slot: datetime) -> date:
    """The UTC day that the slot belongs to."""
    return slot.astimezone(UTC).date()


def of_run(connection: Connection, run_id: int, of: Table = scores) -> ColumnElement[bool]:
    """The run's rows of the table."""
    if of is not scores or is_sqlite(connection):
        return (of.c.id if of is runs else of.c.run_id) == run_id
    # With the day PostgreSQL looks into one partition, without it into the key of each.
    slot_day = select(utc_day(runs.c.scheduled_for)).where(runs.c.id == run_id).scalar_subquery()
    return and_(scores.c.run_id == run_id, scores.c.day == slot_day)


def read_partitions(connection: Connection) -> list[Partition]:
    """The partitions of days, oldest first; the default partition is not among them."""
    found = [
        Partition(
            name=row.name, first=date.fromisoformat(match[1]), end=date.fromisoformat(match[2])
        )
        for row in connection.execute(_ATTACHED)
        if (
            match := _BOUNDS.search(row.bounds or "")
        )  # NULL for a partition that somebody drops at this moment
    ]
    return sorted(found, key=lambda each: each.first)


def ensure_partitions(database: Database, days: Iterable[date]) -> None:
    """Make the partitions of these days.

    Where that would have to wait for long, the default partition takes their scores.
    """
    if database.is_sqlite:
        return
    with database.read() as connection:
        attached = read_partitions(connection)
    for day in [day for day in days if not any(each.first <= day < each.end for each in attached)]:
        with database.write() as connection:
            _try(connection, partial(_make, day=day))


def drop_past(database: Database, before: datetime) -> tuple[int, tuple[str, ...]]:
    """Drop partitions of slots before, oldest first, until one is in use: about how many rows went, and what stayed."""
    with database.read() as connection:
        found = [each for each in read_partitions(connection) if _is_past(connection, each, before)]
    rows: list[int] = []
    obstacles: list[str] = []
    for partition in found:
        with database.write() as connection:
            state, error = _try(
                connection, partial(_drop, partition=partition, before=before, rows=rows)
            )
        if error is not None and state != _GONE:
            obstacles.append(f"{partition.name} was not dropped: {translate(error, database.url)}")
            if state != _DEPENDED_ON:
                break
    return sum(rows), tuple(obstacles)


def runs_in_default(before: datetime) -> Select[tuple[int]]:
    """Settled runs of older slots that have scores in the default partition, oldest slot first."""
    has_rows = exists(select(_DEFAULT.c.run_id).where(_DEFAULT.c.run_id == runs.c.id))
    return (
        select(runs.c.id).where(is_settled_before(before), has_rows).order_by(runs.c.scheduled_for)
    )


def bytes_of(connection: Connection, name: str) -> int:
    """Bytes on disk of a table of PostgreSQL and its partitions, with indexes and what is stored out of line."""
    return int(connection.scalar(_BYTES, {"name": name}) or 0)


def rows_of(connection: Connection, name: str) -> int:
    """Rows of a table of PostgreSQL: as the server estimates, counted where it does not."""
    estimate = text("SELECT CAST(reltuples AS bigint) FROM pg_class WHERE oid = to_regclass(:name)")
    if (rows := int(connection.scalar(estimate, {"name": name}) or 0)) > 0:
        return rows
    return int(connection.scalar(text(f"SELECT count(*) FROM {name}")) or 0)  # noqa: S608 - quoted


def is_of_dialect(connection: Connection) -> Callable[..., bool]:
    """For Alembic: whether a column exists on this database.

    Those of partitions do on PostgreSQL only.
    """
    return lambda item, *_: (
        getattr(item, "info", {}).get("only", connection.dialect.name) == connection.dialect.name
    )


def without_partitions(connection: Connection) -> Callable[[str | None, str, Any], bool]:
    """For Alembic: every name but those of partitions, which come and go and are declared nowhere."""
    hidden: set[str] = set()
    if not is_sqlite(connection):
        is_one = (
            "SELECT relname FROM pg_class WHERE relispartition AND relnamespace = "
            "CAST(current_schema() AS regnamespace)"
        )
        hidden = set(connection.scalars(text(is_one)))
    return lambda name, kind, _: not (kind == "table" and name in hidden)


def utc_day(instant: ColumnElement[datetime]) -> ColumnElement[date]:
    """The UTC day of an instant, as PostgreSQL computes it."""
    return cast(func.timezone("UTC", instant), Date)


def _make(connection: Connection, day: date) -> None:
    name = f"scores_{day.isoformat().replace('-', '_')}"
    connection.execute(_TAKE_TURNS)
    if any(each.name == name for each in read_partitions(connection)):
        return
    # Attached rather than made as a part: that locks the default partition only, and not those who
    # use any other.
    connection.execute(text(f"CREATE TABLE {name} (LIKE scores INCLUDING ALL)"))
    bounds = f"FROM ('{day.isoformat()}') TO ('{(day + _DAY).isoformat()}')"
    connection.execute(text(f"ALTER TABLE scores ATTACH PARTITION {name} FOR VALUES {bounds}"))


def _is_past(connection: Connection, partition: Partition, before: datetime) -> bool:
    begin, end = (datetime.combine(day, time(), UTC) for day in (partition.first, partition.end))
    is_of_it = and_(runs.c.scheduled_for >= begin, runs.c.scheduled_for < end)
    return end <= before and not connection.scalar(
        select(exists().where(is_of_it, ~is_settled_before(before)))
    )


def _drop(connection: Connection, partition: Partition, before: datetime, rows: list[int]) -> None:
    # The table first and then its partition, in the order in which those who read it lock.
    connection.execute(text("LOCK TABLE ONLY scores IN ACCESS EXCLUSIVE MODE"))
    if partition in read_partitions(connection) and _is_past(connection, partition, before):
        count = rows_of(connection, partition.name)
        connection.execute(text(f"DROP TABLE {partition.name}"))
        rows.append(count)


def _try(
    connection: Connection, step: Callable[[Connection], None]
) -> tuple[str, BaseException | None]:
    """Take the step without waiting for long.

    SQLSTATE and error of what kept it from succeeding, None where it succeeded.
    """
    connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_WAIT_S * 1000:.0f}"))
    try:
        with connection.begin_nested():
            step(connection)
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None)
        if state not in {
            _LOCKED,
            _DEADLOCK,
            _IN_ALTERATION,
            _GONE,
            _DEPENDED_ON,
            _ALREADY_THERE,
            _DAY_IN_DEFAULT,
        }:
            raise
        return str(state), error.orig
    return "", None
