"""Room for scores on PostgreSQL: partitions are made, or put back, before they are needed.

A partition is attached under a lock that readers and writers do not mind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select, text

from monitor.errors import DatabaseError, DatabaseTrouble
from monitor.storage import leaving
from monitor.storage.database_url import describe
from monitor.storage.partitions import TAKE_TURNS, Partition, leavers, newest_run, put_back, read
from monitor.storage.tables import runs
from monitor.storage.transactions import Database


def make_room(database: Database, run_id: int, now: datetime) -> None:
    """See to it that the scores of this run can be stored; several may do so at once.

    DatabaseError, not permanent, while the run's partition is on its way out and somebody uses it.
    """
    if database.is_sqlite:
        return
    with database.read() as connection:
        if _holds(read(connection), run_id):
            return
    leaving.finish(database)
    with database.write() as connection:
        connection.execute(text(TAKE_TURNS))
        _provide(connection, run_id, now)


def make_room_ahead(database: Database, now: datetime) -> None:
    """See to it that half of the runs of the next day will find room without asking for it."""
    if database.is_sqlite:
        return
    with database.read() as connection:
        wanted = newest_run(connection) + max(1, _runs_a_day(connection, now) // 2)
    make_room(database, wanted, now)


def _provide(connection: Connection, run_id: int, now: datetime) -> None:
    attached, detached = read(connection), [each.partition for each in leavers(connection)]
    if _holds(attached, run_id):
        return
    if any(_has(each, run_id) for each in attached):
        raise _in_use(connection, run_id)
    if (old := next((each for each in detached if _has(each, run_id)), None)) is not None:
        put_back(connection, old)
    else:
        _make(connection, run_id, [*attached, *detached], now)


def _make(connection: Connection, run_id: int, taken: Sequence[Partition], now: datetime) -> None:
    low = max((each.high for each in taken if each.high <= run_id), default=0)
    high = min((each.low for each in taken if each.low > run_id), default=run_id + _runs_a_day(connection, now))
    name = _free_name(connection, f"scores_from_{low:d}")
    connection.execute(text(f"CREATE TABLE {name} (LIKE scores INCLUDING ALL)"))
    connection.execute(text(f"ALTER TABLE scores ATTACH PARTITION {name} FOR VALUES FROM ({low:d}) TO ({high:d})"))


def _free_name(connection: Connection, wanted: str) -> str:
    """The name, with a number where a table has it that somebody detached to keep."""
    known = text(
        "SELECT relname FROM pg_class"
        " WHERE relnamespace = CAST(current_schema() AS regnamespace) AND starts_with(CAST(relname AS text), :name)"
    )
    taken = set(connection.scalars(known, {"name": wanted}))
    candidates = [wanted, *(f"{wanted}_{number}" for number in range(2, len(taken) + 2))]
    return next(name for name in candidates if name not in taken)


def _holds(found: Iterable[Partition], run_id: int) -> bool:
    return any(_has(each, run_id) and not each.is_leaving for each in found)


def _has(partition: Partition, run_id: int) -> bool:
    return partition.low <= run_id < partition.high


def _in_use(connection: Connection, run_id: int) -> DatabaseError:
    place = describe(connection.engine.url)
    msg = f"{place} takes the old scores beside those of run {run_id} away, and waits for who reads them: try again"
    return DatabaseError(msg, permanent=False, trouble=DatabaseTrouble.CONFLICT)


def _runs_a_day(connection: Connection, now: datetime) -> int:
    """Numbers given to runs within the last day, 1 at least: numbers that no run got are among them."""
    before = select(runs.c.id).where(runs.c.started_at <= now - timedelta(days=1)).order_by(runs.c.id.desc()).limit(1)
    first = connection.scalar(before) or (connection.scalar(select(func.min(runs.c.id))) or 1) - 1
    return max(1, newest_run(connection) - int(first))
