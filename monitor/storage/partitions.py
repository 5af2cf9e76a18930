"""The partitions of ``scores`` on PostgreSQL: ranges of runs, made before they are needed, dropped once all in them is old.

Nothing here holds up a run that is being stored. A partition is attached under a lock that readers and writers do not mind.
It is detached CONCURRENTLY: that waits for whoever uses the table at the moment, and nobody waits for it. PostgreSQL does it in
two steps; where the second is not reached in time it is made up for (FINALIZE) the next time. What is detached and not
dropped yet is dropped then too. No statement needs a session of its own, so poolers do no harm.

Elsewhere (SQLite) ``scores`` is one table, and there is nothing to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, exists, func, select, text

from monitor.errors import DatabaseError, DatabaseTrouble, LeaseLostError
from monitor.storage.claiming import is_settled_before
from monitor.storage.connecting import Database
from monitor.storage.dialects import is_sqlite
from monitor.storage.tables import runs

GRACE = timedelta(days=2)
"""A partition is dropped as a whole: scores may stay for so long beyond their age. What is older still is deleted by rows."""
PATIENCE_S = 10.0
"""How long detaching waits for others before it is put off."""
_SHORT_S = 2.0
"""How long what does make others wait may itself wait."""

_IN_USE = (DatabaseTrouble.LOCKED, DatabaseTrouble.CONFLICT, DatabaseTrouble.SCHEMA)
_LOCK = 0x72616E6B73  # "ranks": the key of the advisory lock under which partitions are made
_OURS = re.compile(r"scores_from_\d{1,19}")
_BOUNDS = re.compile(r"FROM \((?:MINVALUE|'?(-?\d+)'?)\) TO \('?(\d+)'?\)")
_ATTACHED = text(
    "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), i.inhdetachpending"
    " FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = CAST('scores' AS regclass)"
)
_DETACHED = text(
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition AND relname ~ '^scores_from_[0-9]+$'"
    " AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('scores'))"
)
_COUNTED_BYTES = 1 << 26
"""Up to this size the rows of a partition are counted, beyond it the server's own estimate is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Scores of runs from ``low`` up to and without ``high``. ``is_leaving``: it was begun to detach it."""

    name: str
    low: int
    high: int
    is_leaving: bool


def read(connection: Connection) -> list[Partition]:
    """The partitions in order, those that are being detached too."""
    found = []
    for name, bounds, is_leaving in connection.execute(_ATTACHED):
        if match := _BOUNDS.search(bounds):
            low = int(match[1]) if match[1] else 0
            found.append(Partition(name=name, low=low, high=int(match[2]), is_leaving=is_leaving))
    return sorted(found, key=lambda each: each.low)


def make_room(database: Database, run_id: int, now: datetime) -> None:
    """See to it that the scores of this run can be stored; several may do so at once."""
    if database.is_sqlite:
        return
    with database.read() as connection:
        if _holds(read(connection), run_id):
            return
    _is_finished(database)
    _attach(database, run_id, now)


def make_room_ahead(database: Database, now: datetime) -> None:
    """See to it that half of the runs of the next day will find room without asking for it."""
    if database.is_sqlite:
        return
    with database.read() as connection:
        wanted = _newest(connection) + max(1, _runs_a_day(connection, now) // 2)
    make_room(database, wanted, now)


def _attach(database: Database, run_id: int, now: datetime) -> None:
    with database.write() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        found = read(connection)
        if _holds(found, run_id):
            return
        low = max((each.high for each in found if each.high <= run_id), default=0)
        high = min((each.low for each in found if each.low > run_id), default=run_id + _runs_a_day(connection, now))
        name = f"scores_from_{low:d}"
        connection.execute(text(f"CREATE TABLE {name} (LIKE scores INCLUDING ALL)"))
        connection.execute(text(f"ALTER TABLE scores ATTACH PARTITION {name} FOR VALUES FROM ({low:d}) TO ({high:d})"))


def _holds(found: Sequence[Partition], run_id: int) -> bool:
    return any(each.low <= run_id < each.high and not each.is_leaving for each in found)


def _runs_a_day(connection: Connection, now: datetime) -> int:
    """Numbers given to runs within the last day, 1 at least: numbers that no run got are among them."""
    before = select(runs.c.id).where(runs.c.started_at <= now - timedelta(days=1)).order_by(runs.c.id.desc()).limit(1)
    first = connection.scalar(before) or (connection.scalar(select(func.min(runs.c.id))) or 1) - 1
    return max(1, _newest(connection) - int(first))


def _newest(connection: Connection) -> int:
    return int(connection.scalar(select(func.max(runs.c.id))) or 0)


def past(connection: Connection, before: datetime) -> list[Partition]:
    """Partitions whose runs are all over and of older slots; never the one that the next run belongs to, or a later one."""
    newest = _newest(connection)
    found = [each for each in read(connection) if each.high <= newest and _OURS.fullmatch(each.name) and not each.is_leaving]
    return [each for each in found if _is_past(connection, each, before)]


def _is_past(connection: Connection, partition: Partition, before: datetime) -> bool:
    of_it = and_(runs.c.id >= partition.low, runs.c.id < partition.high)
    return not connection.scalar(select(exists().where(of_it, ~is_settled_before(before))))


def first_run(connection: Connection) -> int:
    """The lowest number of a run that may have scores."""
    return 0 if is_sqlite(connection) else min((each.low for each in read(connection)), default=0)


def bytes_of(connection: Connection, partition: Partition) -> int:
    """What the partition takes on disk, with its key."""
    return int(connection.scalar(text("SELECT pg_total_relation_size(to_regclass(:name))"), {"name": partition.name}) or 0)


def rows_of(connection: Connection, partition: Partition) -> int:
    """Rows of the partition; of a large one as many as the server believes there are."""
    if (used := bytes_of(connection, partition)) <= _COUNTED_BYTES:
        return int(connection.scalar(text(f"SELECT count(*) FROM {partition.name}")) or 0)  # noqa: S608 - a name of ours
    known = text("SELECT CAST(reltuples AS bigint) FROM pg_class WHERE oid = to_regclass(:name)")
    believed = int(connection.scalar(known, {"name": partition.name}) or 0)
    return believed if believed > 0 else used // _BYTES_A_ROW


def is_estimated(connection: Connection, found: Sequence[Partition]) -> bool:
    """Whether the rows of one of them are only estimated."""
    return any(bytes_of(connection, each) > _COUNTED_BYTES for each in found)


_BYTES_A_ROW = 110
"""With the key, of a user's name of 10 characters; measured. For what the server has not analysed yet."""


def drop(database: Database, partition: Partition) -> bool:
    """Take the partition away; False where others would not let go of it: then the next time."""
    with database.write():
        pass  # what follows permits no transaction around it, so the lease is asked for here
    detach = f"ALTER TABLE scores DETACH PARTITION {partition.name} CONCURRENTLY"
    with _in_use_passed_over():
        database.alone(detach, patience_s=PATIENCE_S)
    return clear(database)


def clear(database: Database) -> bool:
    """Finish what was begun to take away, here or by another process; False where that is not possible now."""
    if database.is_sqlite:
        return True
    is_done = _is_finished(database)
    with database.read() as connection:
        left = list(connection.scalars(_DETACHED))
    for name in left:
        is_done = _is_tried(database, f"DROP TABLE IF EXISTS {name}") and is_done
    return is_done


def _is_finished(database: Database) -> bool:
    with database.read() as connection:
        leaving = [each.name for each in read(connection) if each.is_leaving]
    return all(_is_tried(database, f"ALTER TABLE scores DETACH PARTITION {name} FINALIZE") for name in leaving)


def _is_tried(database: Database, statement: str) -> bool:
    """Whether this succeeded without waiting for long."""
    with _in_use_passed_over() as passed, database.write() as connection:
        connection.execute(text(f"SET LOCAL lock_timeout = {_SHORT_S * 1000:.0f}"))
        connection.execute(text(statement))
    return not passed


@contextmanager
def _in_use_passed_over() -> Iterator[list[DatabaseError]]:
    """Pass over that others use the table, or are about the same; what was passed over."""
    passed: list[DatabaseError] = []
    try:
        yield passed
    except LeaseLostError:
        raise
    except DatabaseError as error:
        if error.trouble not in _IN_USE:
            raise
        passed.append(error)


def without_partitions(connection: Connection) -> Callable[[str | None, str, Any], bool]:
    """For Alembic: names but those of partitions, which come and go and are declared nowhere."""
    hidden: set[str] = set()
    if not is_sqlite(connection):
        is_one = "SELECT relname FROM pg_class WHERE relispartition AND relnamespace = CAST(current_schema() AS regnamespace)"
        hidden = {*connection.scalars(text(is_one)), *connection.scalars(_DETACHED)}
    return lambda name, kind, _: not (kind == "table" and name in hidden)
