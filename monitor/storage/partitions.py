"""The partitions of ``scores`` on PostgreSQL: ranges of runs, and which of them may go.

How they come stands in `monitor.storage.room`, how they go in `monitor.storage.leaving`. Nothing there holds up a run that is
being stored, and no statement needs a session of its own, so poolers do no harm. What is on its way out still counts: should
one of its runs be stored again, it is put back as it is, so that no two tables ever hold scores of the same runs.

Elsewhere (SQLite) ``scores`` is one table, and there is nothing to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, TableClause, and_, column, exists, func, select, table, text, values

from monitor.storage.claims import is_newest, is_settled_before
from monitor.storage.dialects import is_sqlite, quoted
from monitor.storage.tables import runs

GRACE = timedelta(days=2)
"""A partition is dropped as a whole: scores may stay for so long beyond their age. What is older still is deleted by rows."""
EVER = timedelta(days=36500)
"""Runs of any slot are older than this from now on."""

TAKE_TURNS = f"SELECT pg_advisory_xact_lock({0x72616E6B73})"  # "ranks"
"""Partitions are made, put back and dropped by one transaction at a time, which begins with this."""

_OURS = re.compile(r"scores_from_\d{1,19}(_\d{1,9})?")
_BOUNDS = re.compile(r"FROM \((?:MINVALUE|'?(-?\d+)'?)\) TO \('?(\d+)'?\)")
_ATTACHED = text(
    "SELECT c.relname, n.nspname, pg_get_expr(c.relpartbound, c.oid), i.inhdetachpending"
    " FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE i.inhparent = CAST('scores' AS regclass)"
)
_DETACHED = text(
    "SELECT c.relname, n.nspname, obj_description(c.oid, 'pg_class')"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND NOT c.relispartition"
    " AND c.relname ~ '^scores_from_[0-9]+(_[0-9]+)?$'"
    " AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('scores')) ORDER BY c.oid"
)
_MARK = re.compile(r"rankwatch: leaves scores, runs from (\d+) to before (\d+), of slots before (\S+)( but the newest)?")
_COUNTED_BYTES = 1 << 26
"""Up to this size the rows of a partition are counted, beyond it the server's own estimate is taken."""
_BYTES_A_ROW = 110
"""With the key, of a user's name of 10 characters; measured. For what the server has not analysed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Scores of runs from ``low`` up to and without ``high``. ``is_leaving``: it was begun to detach it."""

    name: str
    schema: str
    low: int
    high: int
    is_leaving: bool = False

    @property
    def spelled(self) -> str:
        """The table as statements name it."""
        return quoted(self.schema, self.name)

    @property
    def rows(self) -> TableClause:
        """The table by itself."""
        return table(self.name, column("run_id", BigInteger), schema=self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A table that was detached to be dropped, and why it may be: all its runs are of slots ``before``.

    ``is_early``: it goes for want of room, so not while it holds the newest run of a comparison.
    """

    partition: Partition
    before: datetime
    is_early: bool

    @property
    def mark(self) -> str:
        """What its comment says, so that whoever goes on can judge it anew. Tables without it are none of ours to drop."""
        which = f"runs from {self.partition.low:d} to before {self.partition.high:d}"
        spared = " but the newest" if self.is_early else ""
        return f"rankwatch: leaves scores, {which}, of slots before {self.before.isoformat()}{spared}"


def read(connection: Connection) -> list[Partition]:
    """The partitions in order, those that are being detached too."""
    found = []
    for name, schema, bounds, is_leaving in connection.execute(_ATTACHED):
        if match := _BOUNDS.search(bounds):
            low = int(match[1]) if match[1] else 0
            found.append(Partition(name=name, schema=schema, low=low, high=int(match[2]), is_leaving=is_leaving))
    return sorted(found, key=lambda each: each.low)


def leavers(connection: Connection) -> list[Leaver]:
    """Tables that were detached to be dropped, here or by another process, and were not dropped yet."""
    found = []
    for name, schema, comment in connection.execute(_DETACHED):
        if match := _MARK.fullmatch(comment or ""):
            partition = Partition(name=name, schema=schema, low=int(match[1]), high=int(match[2]))
            found.append(Leaver(partition=partition, before=datetime.fromisoformat(match[3]), is_early=bool(match[4])))
    return found


def put_back(connection: Connection, partition: Partition) -> None:
    """Attach what was detached; the constraint that detaching left on it spares reading it."""
    bounds = f"FROM ({partition.low:d}) TO ({partition.high:d})"
    connection.execute(text(f"ALTER TABLE scores ATTACH PARTITION {partition.spelled} FOR VALUES {bounds}"))
    connection.execute(text(f"COMMENT ON TABLE {partition.spelled} IS NULL"))


def newest_run(connection: Connection) -> int:
    """The highest number that a run has got; 0 before the first."""
    return int(connection.scalar(select(func.max(runs.c.id))) or 0)


def past(connection: Connection, before: datetime) -> list[Partition]:
    """Partitions whose runs are all over and of older slots; never the one that the next run belongs to, or a later one."""
    newest = newest_run(connection)
    found = [each for each in read(connection) if each.high <= newest and _OURS.fullmatch(each.name) and not each.is_leaving]
    if not found:
        return []
    bounds = values(column("low", BigInteger), column("high", BigInteger), name="bounds")
    bounds = bounds.data([(each.low, each.high) for each in found])
    of_it = and_(runs.c.id >= bounds.c.low, runs.c.id < bounds.c.high)
    needed = set(connection.scalars(select(bounds.c.low).where(exists().where(of_it, ~is_settled_before(before)))))
    return [each for each in found if each.low not in needed]


def is_past(connection: Connection, leaver: Leaver) -> bool:
    """Whether the partition may go, by what is stored now."""
    partition = leaver.partition
    of_it = and_(runs.c.id >= partition.low, runs.c.id < partition.high)
    if connection.scalar(select(exists().where(of_it, ~is_settled_before(leaver.before)))):
        return False
    rows = partition.rows
    has_rows = exists(select(rows.c.run_id).where(rows.c.run_id == runs.c.id))
    return not (leaver.is_early and connection.scalar(select(exists().where(of_it, is_newest(), has_rows))))


def lasting_bytes(connection: Connection, now: datetime) -> int:
    """What partitions take that no want of room takes away: those in use, and of the newest run of a comparison."""
    if is_sqlite(connection):
        return 0
    before = now + EVER
    early = [Leaver(partition=each, before=before, is_early=True) for each in past(connection, before)]
    going = {each.partition for each in early if is_past(connection, each)}
    return sum(bytes_of(connection, each) for each in read(connection) if each not in going and not each.is_leaving)


def first_run(connection: Connection) -> int:
    """The lowest number of a run that may have scores."""
    return 0 if is_sqlite(connection) else min((each.low for each in read(connection)), default=0)


def bytes_of(connection: Connection, partition: Partition) -> int:
    """What the partition takes on disk, with its key."""
    size = text("SELECT pg_total_relation_size(to_regclass(:name))")
    return int(connection.scalar(size, {"name": partition.spelled}) or 0)


def rows_of(connection: Connection, partition: Partition) -> int:
    """Rows of the partition; of a large one as many as the server believes there are."""
    if (used := bytes_of(connection, partition)) <= _COUNTED_BYTES:
        return int(connection.scalar(select(func.count()).select_from(partition.rows)) or 0)
    known = text("SELECT CAST(reltuples AS bigint) FROM pg_class WHERE oid = to_regclass(:name)")
    believed = int(connection.scalar(known, {"name": partition.spelled}) or 0)
    return believed if believed > 0 else used // _BYTES_A_ROW


def is_estimated(connection: Connection, found: Sequence[Partition]) -> bool:
    """Whether the rows of one of them are only estimated."""
    return any(bytes_of(connection, each) > _COUNTED_BYTES for each in found)


def without_partitions(connection: Connection) -> Callable[[str | None, str, Any], bool]:
    """For Alembic: names but those of partitions, which come and go and are declared nowhere."""
    hidden: set[str] = set()
    if not is_sqlite(connection):
        is_one = "SELECT relname FROM pg_class WHERE relispartition AND relnamespace = CAST(current_schema() AS regnamespace)"
        hidden = {*connection.scalars(text(is_one)), *connection.scalars(_DETACHED)}
    return lambda name, kind, _: not (kind == "table" and name in hidden)
