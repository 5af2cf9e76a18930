"""How a partition of ``scores`` goes: marked, detached, dropped, each step looking first whether it still may.

It is detached CONCURRENTLY: that waits for whoever uses the table at the moment, and nobody waits for it. PostgreSQL does it in
two steps; where the second is not reached in time it is made up for (FINALIZE) the next time. Detaching permits no transaction
around it, so no lease guards it; but it does no harm that cannot be undone. What leads to the loss of rows, the mark and the
drop, are transactions that must pass the fence, and judge the partition by what is stored then: should a run of it have begun
again, it is put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from monitor.errors import DatabaseError
from monitor.storage.partitions import (
    TAKE_TURNS,
    Leaver,
    Partition,
    bytes_of,
    is_past,
    leavers,
    past,
    put_back,
    read,
    rows_of,
)
from monitor.storage.transactions import Database

PATIENCE_S = 10.0
"""How long detaching waits for others before it is put off."""
SHORT_S = 2.0
"""How long what does make others wait may itself wait."""

_Step: TypeAlias = Callable[[Connection], object]
_PASSING = frozenset({"55P03", "55000", "57014", "40P01"})
"""Locked, being altered, told to end, in each other's way."""
_GONE_MEANWHILE, _DEPENDED_ON = "42P01", "2BP01"
_HOLDERS = text(
    "SELECT a.pid, coalesce(nullif(a.application_name, ''), a.backend_type, 'unnamed'), coalesce(a.state, 'at work'),"
    " round(extract(epoch FROM clock_timestamp() - a.xact_start))"
    " FROM pg_stat_activity a LEFT JOIN (SELECT DISTINCT pid FROM pg_locks WHERE granted AND database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND relation IN (to_regclass('scores'), to_regclass(:name))) l ON l.pid = a.pid"
    " WHERE a.pid <> pg_backend_pid()"
    " AND (l.pid IS NOT NULL OR (a.datname = current_database() AND a.backend_xmin IS NOT NULL))"
    " ORDER BY l.pid IS NULL, a.xact_start NULLS LAST LIMIT 1"
)
"""Who uses the table, else who might still see what was in it: the longest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropOutcome:
    """What became of a partition that was to go. ``rows`` (about) and ``freed`` bytes went with it.

    ``obstacle``: why it is there still, in words; None where it went, or is needed again. ``is_passing``: the next time may do.
    """

    is_gone: bool = False
    rows: int = 0
    freed: int = 0
    obstacle: str | None = None
    is_passing: bool = True

    @property
    def is_put_off(self) -> bool:
        """Whether somebody uses it, so that the next time may do."""
        return self.obstacle is not None and self.is_passing


def drop_past(database: Database, before: datetime, *, is_early: bool = False) -> Iterator[DropOutcome]:
    """Take the partitions away that are past (see `partitions.past`), oldest first, as far as nobody uses them for long.

    ``is_early``: but those that hold the newest ok run of a comparison.
    """
    with database.read() as connection:
        found = past(connection, before)
    for partition in found:
        outcome = _drop(database, Leaver(partition=partition, before=before, is_early=is_early))
        yield outcome
        if outcome.is_put_off:
            return


def clear(database: Database) -> list[DropOutcome]:
    """Finish what was begun to take away, here or by another process; what became of each."""
    halves = finish(database)
    with database.read() as connection:
        left = leavers(connection)
    return [*halves, *(_dropped(database, each) for each in left)]


def finish(database: Database) -> list[DropOutcome]:
    """Detach wholly what was detached by half."""
    with database.read() as connection:
        found = [each for each in read(connection) if each.is_leaving]
    return [_detached(database, each) for each in found]


_GONE, _STAYS = DropOutcome(is_gone=True), DropOutcome()


def _drop(database: Database, leaver: Leaver) -> DropOutcome:
    if (refused := _marked(database, leaver)) is not None:
        return refused
    _detach(database, leaver.partition)
    with database.read() as connection:
        attached = {each.name: each for each in read(connection)}
    if (found := attached.get(leaver.partition.name)) is not None:
        outcome = _detached(database, found)
        if not outcome.is_gone:
            return outcome
    return _dropped(database, leaver)


def _marked(database: Database, leaver: Leaver) -> DropOutcome | None:
    """Write down that and why it goes, after a last look whether it may; None if so."""
    partition = leaver.partition
    with database.write() as connection:
        _be_short(connection)
        if partition not in read(connection) or not is_past(connection, leaver):
            return _STAYS
        return _tried(connection, partition, _saying(f"COMMENT ON TABLE {partition.spelled} IS '{leaver.mark}'"))


def _detach(database: Database, partition: Partition) -> None:
    """Whether it came about is looked up afterwards."""
    try:
        database.alone(f"ALTER TABLE scores DETACH PARTITION {partition.spelled} CONCURRENTLY", patience_s=PATIENCE_S)
    except DatabaseError as error:
        if error.permanent:
            raise


def _detached(database: Database, partition: Partition) -> DropOutcome:
    with database.write() as connection:
        _be_short(connection)
        if not partition.is_leaving:
            return _in_use(connection, partition)
        statement = f"ALTER TABLE scores DETACH PARTITION {partition.spelled} FINALIZE"
        return _tried(connection, partition, _saying(statement)) or _GONE


def _dropped(database: Database, leaver: Leaver) -> DropOutcome:
    """Drop what is detached, unless it is needed again."""
    partition = leaver.partition
    with database.write() as connection:
        _be_short(connection)
        if (refused := _tried(connection, partition, _saying(TAKE_TURNS))) is not None:
            return refused
        if leaver not in leavers(connection):
            return _GONE
        rows, freed = rows_of(connection, partition), bytes_of(connection, partition)
        if not is_past(connection, leaver):
            return _tried(connection, partition, partial(put_back, partition=partition)) or _STAYS
        gone = DropOutcome(is_gone=True, rows=rows, freed=freed)
        return _tried(connection, partition, _saying(f"DROP TABLE {partition.spelled}")) or gone


def _be_short(connection: Connection) -> None:
    connection.execute(text(f"SET LOCAL lock_timeout = {SHORT_S * 1000:.0f}"))


def _saying(statement: str) -> _Step:
    return lambda connection: connection.execute(text(statement))


def _tried(connection: Connection, partition: Partition, step: _Step) -> DropOutcome | None:
    """None where the step succeeded without waiting for long."""
    try:
        with connection.begin_nested():
            step(connection)
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None)
        if state == _DEPENDED_ON:
            return _obstacle(partition, "a view or another object is made of it: drop that first", is_passing=False)
        if state == _GONE_MEANWHILE:
            return _STAYS
        if state not in _PASSING:
            raise
        return _in_use(connection, partition)
    return None


def _in_use(connection: Connection, partition: Partition) -> DropOutcome:
    holder = connection.execute(_HOLDERS, {"name": partition.spelled}).one_or_none()
    if holder is None:
        return _obstacle(partition, "somebody used it: tried again the next time")
    pid, name, state, seconds = holder
    lasts = "" if seconds is None else f" for {int(seconds)} s"
    return _obstacle(partition, f"process {pid} ({name}, {state}{lasts}) holds it: tried again the next time")


def _obstacle(partition: Partition, why: str, *, is_passing: bool = True) -> DropOutcome:
    return DropOutcome(obstacle=f"{partition.name} was not dropped: {why}", is_passing=is_passing)
