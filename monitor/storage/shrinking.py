"""Deleting before its age what the database has no room for: scores first, runs and alerts never."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from sqlalchemy import Select, Table, true

from monitor.model import ALL, Cutoffs, DataKind, Pruned
from monitor.storage import daily_rollup as days
from monitor.storage import database_size, leaving, partitions
from monitor.storage import prune as pruning
from monitor.storage.claims import is_newest
from monitor.storage.tables import evidence, explanations, kept_lists, runs, scores
from monitor.storage.transactions import Database

FILL = 0.9
"""Room is made down to this part of the largest size, so that what is stored until the next time does not go beyond it."""

_Delete: TypeAlias = Callable[[Database, int, Select[tuple[int]]], Counter[str]]
"""Deletes of a run if a query finds it still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Rows deleted by table, and about how many bytes that freed; or what stood in the way."""

    rows: Counter[str]
    freed: int
    obstacle: str | None = None
    is_put_off: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """Rows deleted for want of room by table, what was put off, and the bytes used then."""

    rows: Counter[str]
    obstacles: list[str]
    used: int


def prune(database: Database, cutoffs: Cutoffs, now: datetime, told: pruning.Told = str) -> Pruned:
    """Delete what its age lets go, then what there is no room for."""
    aged, outcomes = pruning.prune(database, cutoffs, now, told)
    obstacles = [each.obstacle for each in outcomes if each.obstacle]
    if cutoffs.max_bytes is None:
        return Pruned(rows=dict(aged), aged=_by_kind(aged), put_off=tuple(obstacles))
    told("size")
    room = _Room(rows=Counter(), obstacles=[], used=_used(database))
    if not any(each.is_put_off for each in outcomes):
        room = _make_room(database, cutoffs.max_bytes, now, aged)
    return Pruned(
        rows=dict(aged + room.rows),
        aged=_by_kind(aged),
        early=_by_kind(room.rows),
        used_bytes=room.used,
        excess_bytes=max(0, room.used - cutoffs.max_bytes),
        lasting_bytes=_lasting(database, now) if room.used > cutoffs.max_bytes else 0,
        put_off=tuple(dict.fromkeys([*obstacles, *room.obstacles])),
    )


def _by_kind(rows: Counter[str]) -> dict[DataKind, int]:
    found: Counter[DataKind] = Counter()
    for table, number in rows.items():
        found[database_size.KIND_OF[table]] += number
    return dict(found)


def _make_room(database: Database, max_bytes: int, now: datetime, aged: Counter[str]) -> _Room:
    """Delete the oldest scores, then lists and evidence, then summaries of segments, until the database is small enough.

    The newest ok run of each comparison keeps all it has. How much was freed is estimated on the way and measured at the end,
    so that right after this nothing is left to do.
    """
    early, obstacles, used = Counter[str](), database_size.refresh(database, aged), _used(database)
    while used > FILL * max_bytes and not obstacles:
        rows, obstacles = _free(database, used - FILL * max_bytes, now)
        if not rows:
            break
        early += rows
        obstacles += database_size.refresh(database, rows)
        used = _used(database)
    return _Room(rows=early, obstacles=obstacles, used=used)


def _free(database: Database, excess: float, now: datetime) -> tuple[Counter[str], list[str]]:
    """Free about so many bytes; stops where a partition is used, rather than to delete what should go after it."""
    rows: Counter[str] = Counter()
    obstacles: list[str] = []
    for kind in (_scores, _lists, _evidence, _details):
        for step in kind(database, now):
            rows += step.rows
            excess -= step.freed
            obstacles += [step.obstacle] if step.obstacle else []
            if excess <= 0 or step.is_put_off:
                return rows, obstacles
    return rows, obstacles


def foresee(database: Database, cutoffs: Cutoffs, now: datetime) -> Pruned:
    """What would be deleted for its age, and by how much the database is too large now; nothing is changed."""
    used = _used(database)
    excess = 0 if cutoffs.max_bytes is None else max(0, used - cutoffs.max_bytes)
    aged = pruning.count(database, cutoffs, now)
    return Pruned(rows=dict(aged), aged=_by_kind(aged), used_bytes=used, excess_bytes=excess)


def _used(database: Database) -> int:
    with database.read() as connection:
        return database_size.used_bytes(connection)


def _lasting(database: Database, now: datetime) -> int:
    with database.read() as connection:
        return partitions.lasting_bytes(connection, now)


def _scores(database: Database, now: datetime) -> Iterator[_Step]:
    """On PostgreSQL whole partitions, the oldest first: deleting rows would free no room of the file."""
    if database.is_sqlite:
        yield from _by_run(database, pruning.settled_with(scores, now), (scores,), pruning.delete_scores)
        return
    for outcome in leaving.drop_past(database, now + partitions.EVER, is_early=True):
        rows = Counter(scores=outcome.rows)
        yield _Step(rows=+rows, freed=outcome.freed, obstacle=outcome.obstacle, is_put_off=outcome.is_put_off)


def _lists(database: Database, now: datetime) -> Iterator[_Step]:
    yield from _by_run(database, pruning.settled_with(kept_lists, now), (kept_lists,), _deleting(kept_lists))


def _evidence(database: Database, now: datetime) -> Iterator[_Step]:
    for table in (evidence, explanations):
        yield from _by_run(database, pruning.settled_with(table, now), (table,), _deleting(table))


def _details(database: Database, now: datetime) -> Iterator[_Step]:
    """Of days that were added up."""
    found = pruning.with_details(days.midnight(now))
    yield from _by_run(database, found, pruning.DETAILS, pruning.delete_details)


def _deleting(table: Table) -> _Delete:
    return lambda database, run_id, query: pruning.delete_of_run(database, table, run_id, query)


def _by_run(database: Database, found: Select[tuple[int]], tables: Sequence[Table], delete: _Delete) -> Iterator[_Step]:
    """Run by run, the oldest slot first, without the newest ok run of each comparison."""
    query = found.where(~is_newest())
    for run_id in pruning.read_ids(database, query.order_by(runs.c.scheduled_for)):
        before = _used(database) if database.is_sqlite else 0
        freed = sum(_bytes_of(database, table, run_id) for table in tables)
        rows = delete(database, run_id, query)
        yield _Step(rows=rows, freed=before - _used(database) if database.is_sqlite else freed)


def _bytes_of(database: Database, table: Table, run_id: int) -> int:
    """About what goes with the run's rows on PostgreSQL; SQLite tells by itself what is free."""
    if database.is_sqlite:
        return 0
    with database.read() as connection:
        condition = table.c.segment != ALL if table in pruning.DETAILS else true()
        return database_size.bytes_of_run(connection, table, run_id, condition)
